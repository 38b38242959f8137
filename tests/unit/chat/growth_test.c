/* The work of a request grows linearly with its size: every field of every API is grown, and
 * the cost per byte of parsing, compiling and rendering is compared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "chat/codec.h"
#include "chat/format.h"
#include "chat/prompt.h"
#include "chat/response.h"
#include "dialects.h"

enum {
    NOON = 1794744000,
    TRIES = 8,
    TIMES_WORSE = 2,
    FRESH_NS = 40, /* ns a byte: for memory that a large request touches first */
};

/* A body: `one` and then `two` are repeated until the size is reached, half of it each if both
 * are given. @ stands for the number of the repetition. */
struct grown {
    const char *name;
    const struct chat_codec *codec;
    const char *head, *one, *mid, *two, *tail;
};

#define CHAT(text)                                                                             \
    "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]," text
#define SCHEMA(text)                                                                           \
    CHAT("\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"x\","      \
         "\"schema\":" text)
#define TOOL(strict, text)                                                                     \
    CHAT("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\",\"strict\":" strict   \
         ",\"parameters\":" text)
#define ALTERNATIVE(def)                                                                       \
    "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/" def                      \
    "\"},\"b\":{\"$ref\":\"#/$defs/" def "\"},\"c\":{\"$ref\":\"#/$defs/" def                  \
    "\"}},\"required\":[\"a\",\"b\",\"c\"]}"
#define RESPONSE(text) "{\"model\":\"m\",\"input\":\"hi\"," text

static const struct grown cases[] = {
    {"messages", &chat_openai_chat, "{\"model\":\"m\",\"messages\":[",
     "{\"role\":\"user\",\"content\":\"@\"}", NULL, NULL, "]}"},
    {"parts", &chat_openai_chat,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":[",
     "{\"type\":\"text\",\"text\":\"@\"}", NULL, NULL, "]}]}"},
    {"members of a message", &chat_openai_chat,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\",", "\"k@\":1", NULL,
     NULL, "}]}"},
    {"calls and results", &chat_openai_chat,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"},{\"role\":"
     "\"assistant\",\"tool_calls\":[",
     "{\"id\":\"c@\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}", "]},",
     "{\"role\":\"tool\",\"tool_call_id\":\"r@\",\"content\":\"\"}", "]}"},
    {"calls of a message with many members", &chat_openai_chat,
     "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"\"},{\"role\":"
     "\"assistant\",\"tool_calls\":[",
     "{\"id\":\"c@\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}", "],", "\"k@\":1",
     "}]}"},
    {"template variables", &chat_openai_chat, CHAT("\"chat_template_kwargs\":{"), "\"k@\":1",
     NULL, NULL, "}}"},
    {"properties and required of a tool", &chat_openai_chat,
     TOOL("false", "{\"type\":\"object\",\"properties\":{"), "\"p@\":{\"type\":\"string\"}",
     "},\"required\":[", "\"r@\"", "]}}}]}"},
    {"properties and required within a tool", &chat_openai_chat,
     TOOL("false", "{\"properties\":{\"o\":{\"type\":\"object\",\"properties\":{"),
     "\"p@\":{\"type\":\"string\"}", "},\"required\":[", "\"r@\"", "]}}}}}]}"},
    {"properties and a required text", &chat_openai_chat,
     TOOL("false", "{\"type\":\"object\",\"properties\":{"), "\"p@\":{\"type\":\"string\"}",
     "},\"required\":\"", "r@", "\"}}}]}"},
    {"properties of a strict tool", &chat_openai_chat,
     TOOL("true", "{\"type\":\"object\",\"properties\":{"), "\"p@\":{\"type\":\"string\"}",
     "},\"required\":[", "\"r@\"", "]}}}]}"},
    {"variants of a parameter", &chat_openai_chat,
     TOOL("false", "{\"properties\":{\"o\":{\"oneOf\":["),
     "{\"type\":\"object\",\"properties\":{\"p@\":{\"type\":\"string\"}}}", NULL, NULL,
     "]}}}}}]}"},
    {"tools", &chat_openai_chat, CHAT("\"tools\":["),
     "{\"type\":\"function\",\"function\":{\"name\":\"f@\",\"parameters\":{\"type\":"
     "\"object\",\"properties\":{\"p\":{\"type\":\"string\",\"maxLength\":30000}}}}}",
     NULL, NULL, "],\"tool_choice\":\"required\"}"},
    {"strict tools", &chat_openai_chat, CHAT("\"tools\":["),
     "{\"type\":\"function\",\"function\":{\"name\":\"f@\",\"strict\":true,\"parameters\":{"
     "\"type\":\"object\",\"properties\":{\"p\":{\"type\":\"string\",\"maxLength\":30000}}}}}",
     NULL, NULL, "]}"},
    {"members of a tool", &chat_openai_chat, CHAT("\"tools\":[{\"type\":\"function\","),
     "\"k@\":1", NULL, NULL, ",\"function\":{\"name\":\"f\"}}]}"},
    {"values of a schema", &chat_openai_chat, SCHEMA("{\"enum\":["), "\"v@\"", NULL, NULL,
     "]}}}}"},
    {"properties of a schema", &chat_openai_chat,
     SCHEMA("{\"type\":\"object\",\"properties\":{"), "\"p@\":{\"type\":\"string\"}",
     "},\"required\":[", "\"r@\"", "]}}}}"},
    {"annotations of a schema", &chat_openai_chat, SCHEMA("{\"type\":\"object\","), "\"k@\":1",
     NULL, NULL, "}}}}"},
    {"definitions and references", &chat_openai_chat, SCHEMA("{\"$defs\":{"), "\"d@\":true",
     "},\"anyOf\":[", "{\"$ref\":\"#/$defs/d@\"}", "]}}}}"},
    {"references of objects", &chat_openai_chat,
     SCHEMA("{\"$defs\":{\"s\":{\"type\":\"string\"},"),
     "\"d@\":{\"type\":\"object\",\"properties\":{\"n\":{\"$ref\":\"#/$defs/s\"}}}",
     "},\"anyOf\":[", "{\"$ref\":\"#/$defs/d@\"}", "]}}}}"},
    {"constants of a oneOf", &chat_openai_chat, SCHEMA("{\"$defs\":{\"A\":{\"enum\":["),
     "\"a@\"", ",\"z\"]},\"B\":{\"enum\":[", "\"b@\"",
     ",\"z\"]}},\"oneOf\":[" ALTERNATIVE("A") "," ALTERNATIVE("B") "]}}}}"},
    {"properties of a oneOf", &chat_openai_chat,
     SCHEMA("{\"oneOf\":[{\"type\":\"object\",\"properties\":{"), "\"p@\":{\"const\":\"1\"}",
     "},\"required\":[\"p0\"]},{\"type\":\"object\",\"required\":[\"p0\"],\"properties\":{",
     "\"p@\":{\"const\":\"1\"}", "}}]}}}}"},
    {"alternatives", &chat_openai_chat, SCHEMA("{\"anyOf\":["),
     "{\"type\":\"object\",\"properties\":{\"p@\":{\"type\":\"string\",\"maxLength\":9}}}",
     NULL, NULL, "]}}}}"},
    {"choices", &chat_openai_chat, CHAT("\"guided_choice\":["), "\"c@ and more\"", NULL, NULL,
     "]}"},
    {"parts of a regular expression", &chat_openai_completions,
     "{\"model\":\"m\",\"prompt\":\"hi\",\"guided_regex\":\"a", "|x@[a-z]{2}", NULL, NULL,
     "\"}"},
    /* A comment takes the comma between two repetitions. */
    {"rules of a grammar", &chat_openai_chat, CHAT("\"grammar\":\"root ::= r0 #"),
     "#\\nr@ ::= \\\"x@\\\" [a-z]+ r0? #", NULL, NULL, "\"}"},
    {"alternatives of a grammar", &chat_openai_chat,
     CHAT("\"guided_grammar\":\"root ::= \\\"a\\\" #"),
     "#\\n | \\\"x@\\\" root [a-z]+ \\\"!\\\" #", NULL, NULL, "\"}"},
    {"parts of a grammar", &chat_openai_chat, CHAT("\"grammar\":\"root ::= (\\\"a\\\" #"),
     "#\\n \\\"x@\\\"? [^a] root? #", NULL, NULL, "\\n)\"}"},
    {"stop strings", &chat_openai_chat, CHAT("\"stop\":["), "\"s@\"", NULL, NULL, "]}"},
    {"biases", &chat_openai_chat, CHAT("\"logit_bias\":{"), "\"@\":1", NULL, NULL, "}}"},
    {"a prompt", &chat_openai_completions, "{\"model\":\"m\",\"prompt\":\"", "word@", NULL,
     NULL, "\"}"},
    {"prompts", &chat_openai_completions, "{\"model\":\"m\",\"prompt\":[", "\"p@\"", NULL, NULL,
     "]}"},
    {"token ids", &chat_openai_completions, "{\"model\":\"m\",\"prompt\":[", "@", NULL, NULL,
     "]}"},
    {"input messages", &chat_responses, "{\"model\":\"m\",\"input\":[",
     "{\"role\":\"user\",\"content\":\"@\"}", NULL, NULL, "]}"},
    {"input parts", &chat_responses,
     "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":[",
     "{\"type\":\"input_text\",\"text\":\"@\"}", NULL, NULL, "]}]}"},
    {"input calls and outputs", &chat_responses,
     "{\"model\":\"m\",\"input\":[{\"role\":\"user\",\"content\":\"\"},",
     "{\"type\":\"function_call\",\"call_id\":\"c@\",\"name\":\"f\",\"arguments\":\"{}\"}", ",",
     "{\"type\":\"function_call_output\",\"call_id\":\"c@\",\"output\":\"\"}", "]}"},
    {"input turns", &chat_responses, "{\"model\":\"m\",\"input\":[",
     "{\"type\":\"function_call\",\"call_id\":\"c@\",\"name\":\"f\",\"arguments\":\"{}\"},"
     "{\"role\":\"assistant\",\"content\":\"@\"}",
     NULL, NULL, "]}"},
    {"input reasoning", &chat_responses, "{\"model\":\"m\",\"input\":[",
     "{\"type\":\"reasoning\",\"summary\":[{\"type\":\"summary_text\",\"text\":\"@\"}]}", NULL,
     NULL, ",{\"role\":\"user\",\"content\":\"\"}]}"},
    {"tools of a response", &chat_responses, RESPONSE("\"tools\":["),
     "{\"type\":\"function\",\"name\":\"f@\",\"parameters\":{\"type\":\"object\"}}", NULL, NULL,
     "]}"},
    {"tools of a namespace", &chat_responses,
     RESPONSE("\"tools\":[{\"type\":\"namespace\",\"name\":\"n\",\"tools\":["),
     "{\"type\":\"function\",\"name\":\"f@\",\"parameters\":{\"type\":\"object\"}}", NULL, NULL,
     "]}]}"},
    {"schema of a response", &chat_responses,
     RESPONSE("\"text\":{\"format\":{\"type\":\"json_schema\",\"name\":\"x\",\"schema\":{"
              "\"$defs\":{"),
     "\"d@\":true", "},\"anyOf\":[", "{\"$ref\":\"#/$defs/d@\"}", "]}}}}"},
};

/* Values that any field is grown to; the field's name and a colon come before. */
static const struct grown shapes[] = {
    {"a text", &chat_openai_chat, "\"", "x@", NULL, NULL, "\"}"},
    {"a list", &chat_openai_chat, "[", "\"x@\"", NULL, NULL, "]}"},
    {"an object", &chat_openai_chat, "{", "\"k@\":[@]", NULL, NULL, "}}"},
    {"objects", &chat_openai_chat, "[", "{\"type\":\"x@\"}", NULL, NULL, "]}"},
};

static struct jinja_template *template_of_a_model;

/* ---- bodies ---- */

static void repeat(struct lr_buf *out, const char *one, size_t until)
{
    for (unsigned i = 0; i == 0 || out->len < until; i++) {
        if (i > 0)
            lr_buf_add_char(out, ',');
        for (const char *c = one; *c != '\0'; c++)
            if (*c == '@')
                lr_buf_addf(out, "%u", i);
            else
                lr_buf_add_char(out, *c);
    }
}

static void make_body(struct lr_buf *out, const char *before, const struct grown *g,
                      size_t size)
{
    lr_buf_clear(out);
    lr_buf_add_z(out, before);
    lr_buf_add_z(out, g->head);
    repeat(out, g->one, g->two != NULL ? size / 2 : size);
    if (g->two != NULL) {
        lr_buf_add_z(out, g->mid);
        repeat(out, g->two, size);
    }
    lr_buf_add_z(out, g->tail);
    assert_false(out->failed);
}

/* ---- the work of a router ---- */

static void answer(const struct chat_request *req, const struct chat_model *model,
                   struct lr_arena *arena)
{
    struct lr_str constraint;
    struct lr_error err;
    struct chat_prompt prompt = {0};
    struct chat_response *response;
    struct chat_response_options options = {
        .request = req, .id = LR_STR_LIT("id-1"), .dialect = &model->dialect};
    if (chat_format_constraint(arena, req, &model->dialect, false, &constraint, &err) ==
            LR_OK &&
        chat_prompt_render(req, model, 0, NOON, &prompt, &err) == LR_OK &&
        chat_response_create(&options, &response, &err) == LR_OK)
        chat_response_destroy(response);
    chat_prompt_free(&prompt);
}

static void serve(const struct chat_codec *codec, struct lr_str body)
{
    const struct chat_model models[] = {
        {.dialect = dialect_of(GRAMMAR_HARMONY)},
        {.dialect = dialect_of(GRAMMAR_LLAMA3)},
        {.chat_template = template_of_a_model, .dialect = dialect_of(GRAMMAR_PLAIN)}};
    const struct chat_request *req;
    struct lr_arena arena;
    struct chat_error e;
    lr_arena_init(&arena, 64 * body.len + (1 << 20));
    if (chat_request_parse(&arena, codec, body, &req, &e) == LR_OK)
        for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++)
            answer(req, &models[i], &arena);
    lr_arena_free(&arena);
}

static double cpu_ns(const struct chat_codec *codec, struct lr_str body)
{
    struct timespec a, b;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &a);
    serve(codec, body);
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &b);
    return (double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec);
}

/* ---- measuring ---- */

static size_t large_bytes(void)
{
    return getenv("LR_LONG") != NULL ? 1 << 20 : 64 << 10;
}

/* Takes the least of several runs, because other load on the machine only adds time. */
static bool grows_too_fast(const struct chat_codec *codec, const char *before,
                           const struct grown *g, double per_kb[2])
{
    struct lr_buf small, large;
    size_t size = large_bytes();
    bool too_fast = true;
    lr_buf_init(&small, 4 << 20);
    lr_buf_init(&large, 4 << 20);
    make_body(&small, before, g, size / 32);
    make_body(&large, before, g, size);
    per_kb[0] = per_kb[1] = 1e300;
    for (int i = 0; too_fast && i < TRIES; i++) {
        double a = cpu_ns(codec, lr_buf_str(&small)) / (double)small.len;
        double b = cpu_ns(codec, lr_buf_str(&large)) / (double)large.len;
        per_kb[0] = a < per_kb[0] ? a : per_kb[0];
        per_kb[1] = b < per_kb[1] ? b : per_kb[1];
        too_fast = per_kb[1] > TIMES_WORSE * per_kb[0] + FRESH_NS;
    }
    if (getenv("LR_VERBOSE") != NULL || too_fast)
        print_message("%s%s: %.0f ns a byte of %zu, %.0f of %zu\n", before, g->name, per_kb[0],
                      small.len, per_kb[1], large.len);
    lr_buf_free(&small);
    lr_buf_free(&large);
    return too_fast;
}

static void the_cost_of_a_byte_does_not_grow_with_the_request(void **state)
{
    double cost[2];
    unsigned bad = 0;
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        bad += grows_too_fast(cases[i].codec, "", &cases[i], cost);
    assert_int_equal(bad, 0);
}

static unsigned grow_field(const struct chat_codec *codec, const char *name)
{
    char before[256];
    double cost[2];
    unsigned bad = 0;
    const char *prompt = codec->prompt_field;
    const char *hi =
        strcmp(prompt, "messages") == 0 ? "[{\"role\":\"user\",\"content\":\"\"}]" : "\"hi\"";
    if (strcmp(name, "model") == 0 || strcmp(name, prompt) == 0)
        (void)snprintf(before, sizeof(before), "{\"%s\":", name);
    else
        (void)snprintf(before, sizeof(before), "{\"model\":\"m\",\"%s\":%s,\"%s\":", prompt, hi,
                       name);
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++)
        bad += grows_too_fast(codec, before, &shapes[i], cost);
    return bad;
}

static void no_field_of_any_api_costs_more_for_each_byte_when_it_grows(void **state)
{
    unsigned bad = 0, count = 0;
    (void)state;
    for (size_t c = 0; c < chat_codec_count(); c++) {
        const struct chat_codec *codec = chat_codec_at(c);
        for (size_t i = 0; i < codec->fields->count; i++) {
            struct chat_field_row row = chat_field_row(codec->fields, i);
            if ((row.in & codec->fields->in) == 0)
                continue;
            bad += grow_field(codec, row.name);
            count++;
        }
    }
    assert_true(count > 100);
    assert_int_equal(bad, 0);
}

int main(void)
{
    static const char source[] = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n"
                                 "{% endfor %}{{ tools | tojson }}";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_cost_of_a_byte_does_not_grow_with_the_request),
        cmocka_unit_test(no_field_of_any_api_costs_more_for_each_byte_when_it_grows),
    };
    struct lr_error err;
    if (jinja_compile(lr_str_z(source), &template_of_a_model, &err) != LR_OK)
        return 1;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    jinja_template_destroy(template_of_a_model);
    return failed;
}
