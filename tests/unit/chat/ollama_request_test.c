/* Requests of POST /api/chat and POST /api/generate: what becomes of every message and field.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/file.h"
#include "chat/ollama/ollama.h"
#include "wire/error.h"

struct parsed {
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    lr_code code;
};

/* {"model":"m",MEMBERS} */
static struct parsed parse(const struct chat_codec *codec, const char *members)
{
    static char body[1 << 16];
    struct parsed p;
    snprintf(body, sizeof(body), "{\"model\":\"m\",%s}", members);
    /* The limit that chat/codec.h documents as enough. */
    lr_arena_init(&p.arena, 16 * strlen(body) + (64 << 10));
    p.code = chat_request_parse(&p.arena, codec, lr_str_z(body), &p.req, &p.e);
    assert_int_equal(p.req != NULL, p.code == LR_OK);
    return p;
}

static struct parsed accept(const struct chat_codec *codec, const char *members)
{
    struct parsed p = parse(codec, members);
    if (p.code != LR_OK)
        fail_msg("%s: %s", members, p.e.error.text);
    return p;
}

static void expect_json(const struct lr_json *value, const char *wanted)
{
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, 1 << 20);
    lr_json_writer_init(&w, &text);
    lr_json_put_value(&w, value);
    assert_string_equal(lr_buf_z(&text), wanted);
    lr_buf_free(&text);
}

#define HI   "\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]"
#define USER "{\"role\":\"user\",\"content\":"
#define BOT  "{\"role\":\"assistant\",\"content\":"
#define CALL(id, name)                                                                         \
    "{\"id\":\"" id "\",\"type\":\"function\",\"function\":{\"name\":\"" name                  \
    "\",\"arguments\":{\"a\":1}}}"
#define MADE(name) "{\"function\":{\"name\":\"" name "\",\"arguments\":{\"a\":1}}}"
#define RESULT(id, text)                                                                       \
    "{\"role\":\"tool\",\"content\":\"" text "\",\"tool_call_id\":\"" id "\"}"

static void messages_become_those_that_templates_expect(void **state)
{
    (void)state;
    static const struct {
        const char *members, *messages;
    } rows[] = {
        {HI, "[" USER "\"hi\"}]"},
        /* roles in any case; missing and null content is empty */
        {"\"messages\":[{\"role\":\"System\"},{\"role\":\"user\",\"content\":null}]",
         "[{\"role\":\"system\",\"content\":\"\"}," USER "\"\"}]"},
        /* thinking, and calls that are numbered over all messages; results find their calls by
         * name, else in order */
        {"\"messages\":[" USER "\"a\"}," BOT "\"b\",\"thinking\":\"T\",\"tool_calls\":[" MADE(
             "f") "," MADE("g") "]},{\"role\":\"tool\",\"tool_name\":\"g\",\"content\":\"1\"},"
                                "{\"role\":\"tool\",\"content\":\"2\"}," BOT
                                "\"\",\"tool_calls\":[" MADE("f") "," MADE(
                                    "f") "]},{\"role\":\"tool\",\"name\":\"f\",\"content\":"
                                         "\"3\"},{\"role\":\"tool\",\"name\":\"f\","
                                         "\"content\":\"4\"}]",
         "[" USER "\"a\"}," BOT
         "\"b\",\"reasoning_content\":\"T\",\"tool_calls\":[" CALL("call_1", "f") "," CALL(
             "call_2",
             "g") "]}," RESULT("call_2",
                               "1") "," RESULT("call_1",
                                               "2") "," BOT
                                                    "\"\",\"tool_calls\":[" CALL("call_3", "f") "," CALL(
                                                        "call_4",
                                                        "f") "]}," RESULT("call_3",
                                                                          "3") "," RESULT("call"
                                                                                          "_4",
                                                                                          "4") "]"},
        /* newer clients send ids; a result without a call keeps what it has */
        {"\"messages\":[" USER "\"a\"}," BOT
         "\"\",\"tool_calls\":[{\"id\":\"x\",\"function\":{\"name\":\"f\"}}]},"
         "{\"role\":\"tool\",\"tool_call_id\":\"x\",\"content\":\"1\"},"
         "{\"role\":\"tool\",\"tool_call_id\":\"y\",\"content\":\"2\"}]",
         "[" USER "\"a\"}," BOT
         "\"\",\"tool_calls\":[{\"id\":\"x\",\"type\":\"function\",\"function\":{\"name\":"
         "\"f\",\"arguments\":{}}}]}," RESULT("x", "1") "," RESULT("y", "2") "]"},
        /* images in the history are a note */
        {"\"messages\":[" USER "\"a\",\"images\":[\"AA\",\"BB\"]}," USER
         "\"\",\"images\":[\"AA\"]}," BOT "\"b\"}," USER "\"c\",\"images\":[]}]",
         "[" USER "\"a\\n[An image. This model reads text only.]\"}," USER
         "\"[An image. This model reads text only.]\"}," BOT "\"b\"}," USER "\"c\"}]"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct parsed p = accept(&chat_ollama_chat, rows[i].members);
        expect_json(p.req->messages, rows[i].messages);
        lr_arena_free(&p.arena);
    }
}

static void a_prompt_is_a_message_or_raw_text(void **state)
{
    (void)state;
    struct parsed p = accept(&chat_ollama_generate,
                             "\"prompt\":\"a\",\"system\":\"S\",\"suffix\":\"\",\"template\":"
                             "\"\",\"context\":[],\"images\":[],\"options\":null");
    expect_json(p.req->messages, "[{\"role\":\"system\",\"content\":\"S\"}," USER "\"a\"}]");
    assert_true(p.req->forbids_tool_calls && p.req->stream);
    lr_arena_free(&p.arena);
    p = accept(&chat_ollama_generate, "\"prompt\":\"a\",\"raw\":true,\"stream\":false");
    assert_null(p.req->messages);
    assert_true(lr_str_eq_z(p.req->prompts[0].text, "a") && !p.req->stream);
    assert_int_equal(p.req->max_tokens, 0);
    lr_arena_free(&p.arena);
}

static void a_request_without_words_only_loads_the_model(void **state)
{
    (void)state;
    static const struct {
        const struct chat_codec *codec;
        const char *members;
    } rows[] = {
        {&chat_ollama_chat, "\"messages\":[]"},
        {&chat_ollama_chat, "\"keep_alive\":\"10m\",\"format\":\"json\",\"logprobs\":true"},
        {&chat_ollama_generate, "\"prompt\":\"\",\"raw\":true"},
        {&chat_ollama_generate, "\"keep_alive\":-1"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct parsed p = accept(rows[i].codec, rows[i].members);
        assert_true(p.req->loads_only);
        assert_int_equal(p.req->max_tokens, 1);
        assert_int_equal(p.req->format, GRAMMAR_ANSWER_TEXT);
        lr_arena_free(&p.arena);
    }
    static const char *const unloads[] = {"0", "\"0\"", "\"0s\"", "0.0"};
    for (size_t i = 0; i < sizeof(unloads) / sizeof(unloads[0]); i++) {
        char members[64];
        snprintf(members, sizeof(members), "\"keep_alive\":%s", unloads[i]);
        struct parsed p = parse(&chat_ollama_chat, members);
        assert_int_equal(p.code, LR_UNSUPPORTED);
        lr_arena_free(&p.arena);
        snprintf(members, sizeof(members), "\"keep_alive\":%s,\"prompt\":\"a\"", unloads[i]);
        p = accept(&chat_ollama_generate, members);
        lr_arena_free(&p.arena);
    }
}

static void thinking_is_shown_unless_the_client_turns_it_off(void **state)
{
    (void)state;
    static const struct {
        const char *think, *effort;
        enum chat_thinking thinking;
        uint32_t reasoning;
    } rows[] = {
        {"null", "", CHAT_THINKING_DEFAULT, CHAT_REASONING_CONTENT},
        {"true", "", CHAT_THINKING_ON, CHAT_REASONING_CONTENT},
        {"false", "low", CHAT_THINKING_OFF, CHAT_REASONING_HIDDEN},
        {"\"medium\"", "medium", CHAT_THINKING_DEFAULT, CHAT_REASONING_CONTENT},
        {"\"max\"", "high", CHAT_THINKING_DEFAULT, CHAT_REASONING_CONTENT},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char members[128];
        snprintf(members, sizeof(members), HI ",\"think\":%s", rows[i].think);
        struct parsed p = accept(&chat_ollama_chat, members);
        assert_true(lr_str_eq_z(p.req->reasoning_effort, rows[i].effort));
        assert_int_equal(p.req->thinking, rows[i].thinking);
        assert_int_equal(p.req->reasoning, rows[i].reasoning);
        lr_arena_free(&p.arena);
    }
}

static void options_and_formats_reach_the_request(void **state)
{
    (void)state;
    struct parsed p = accept(
        &chat_ollama_chat,
        HI ",\"options\":{\"temperature\":0.5,\"top_p\":0.25,\"top_k\":3,\"min_p\":0.125,"
           "\"seed\":42,\"stop\":[\"A\",\"B\"],\"num_predict\":7,\"repeat_penalty\":1.5,"
           "\"presence_penalty\":1,\"frequency_penalty\":-1,\"num_ctx\":4096,\"num_gpu\":1},"
           "\"format\":\"json\",\"keep_alive\":\"5m\",\"truncate\":true,\"shift\":false");
    const struct chat_request *req = p.req;
    assert_true(req->sampling.temperature == 0.5F && req->sampling.top_p == 0.25F);
    assert_true(req->sampling.min_p == 0.125F && req->sampling.repetition_penalty == 1.5F);
    assert_true(req->sampling.presence_penalty == 1 && req->sampling.frequency_penalty == -1);
    assert_int_equal(req->sampling.top_k, 3);
    assert_true(req->has_seed && req->sampling.seed == 42);
    assert_int_equal(req->max_tokens, 7);
    assert_int_equal(req->stop_count, 2);
    assert_int_equal(req->format, GRAMMAR_ANSWER_OBJECT);
    assert_true(req->stream);
    assert_string_equal(req->ignored, "options.num_ctx, options.num_gpu, keep_alive, truncate");
    lr_arena_free(&p.arena);
    p = accept(&chat_ollama_chat, HI ",\"format\":{\"type\":\"object\"},\"options\":{"
                                     "\"num_predict\":-2},\"stream\":false");
    assert_int_equal(p.req->format, GRAMMAR_ANSWER_SCHEMA);
    assert_int_equal(p.req->max_tokens, 0);
    assert_false(p.req->stream);
    lr_arena_free(&p.arena);
}

static void what_cannot_be_served_is_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const struct chat_codec *codec;
        const char *members, *says;
    } rows[] = {
        {&chat_ollama_chat, "\"messages\":\"hi\"", "an array of messages"},
        {&chat_ollama_chat, "\"messages\":[7]", "messages[0]"},
        {&chat_ollama_chat, "\"messages\":[{\"role\":\"nurse\"}]", "messages[0].role"},
        {&chat_ollama_chat, "\"messages\":[" USER "[]}]", "messages[0].content"},
        {&chat_ollama_chat, "\"messages\":[" USER "\"\",\"images\":[\"AA\"]}]",
         "cannot see images"},
        {&chat_ollama_chat, "\"messages\":[" BOT "\"\",\"tool_calls\":7}]", "tool_calls"},
        {&chat_ollama_chat, "\"messages\":[" BOT "\"\",\"tool_calls\":[{}]}]", "'name'"},
        {&chat_ollama_chat,
         "\"messages\":[" BOT
         "\"\",\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":7}}]}]",
         "'function.arguments'"},
        {&chat_ollama_chat, HI ",\"format\":\"xml\"", "'format'"},
        {&chat_ollama_chat, HI ",\"format\":7", "'format'"},
        {&chat_ollama_chat, HI ",\"think\":7", "'think'"},
        {&chat_ollama_chat, HI ",\"options\":{\"temperature\":\"hot\"}", "temperature"},
        {&chat_ollama_chat, HI ",\"keep_alive\":[]", "'keep_alive'"},
        {&chat_ollama_chat, HI ",\"tools\":[{\"type\":\"x\"}]", "tools[0]"},
        {&chat_ollama_generate, "\"prompt\":7", "'prompt'"},
        {&chat_ollama_generate, "\"prompt\":\"a\",\"raw\":true,\"system\":\"S\"", "'raw'"},
        {&chat_ollama_generate, "\"prompt\":\"a\",\"suffix\":\"b\"", "'suffix'"},
        {&chat_ollama_generate, "\"prompt\":\"a\",\"template\":\"b\"", "'template'"},
        {&chat_ollama_generate, "\"prompt\":\"a\",\"context\":[1]", "'context'"},
        {&chat_ollama_generate, "\"prompt\":\"a\",\"images\":[\"A\"]", "cannot see images"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct parsed p = parse(rows[i].codec, rows[i].members);
        if (p.code == LR_OK)
            fail_msg("accepted: %s", rows[i].members);
        assert_int_equal(lr_code_http(p.code), 400);
        if (strstr(p.e.error.text, rows[i].says) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", p.e.error.text, rows[i].says);
        lr_arena_free(&p.arena);
    }
}

static void errors_are_one_text_with_the_words_of_the_api(void **state)
{
    (void)state;
    static const struct {
        lr_code code;
        const char *text, *body;
    } rows[] = {
        {LR_INVALID_ARGUMENT, "x", "x"},
        {LR_NOT_FOUND, "there is no model \"m\"; GET /v1/models lists them",
         "model not found: there is no model \\\"m\\\"; GET /v1/models lists them"},
        {LR_NOT_FOUND, "there is nothing at /api/x", "there is nothing at /api/x"},
        {LR_INVALID_ARGUMENT, "the prompt has 300 tokens; the context holds 128 tokens",
         "the input length exceeds the context length: the prompt has 300 tokens; the context "
         "holds 128 tokens"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct chat_error e = {0};
        struct lr_buf out;
        char wanted[256];
        wire_error_heard(&e.error, rows[i].code, lr_str_z(rows[i].text), (struct lr_str){0});
        lr_buf_init(&out, 4096);
        chat_error_write(&out, &chat_ollama_chat, &e);
        snprintf(wanted, sizeof(wanted), "{\"error\":\"%s\"}", rows[i].body);
        assert_string_equal(lr_buf_z(&out), wanted);
        lr_buf_free(&out);
    }
}

static void names_of_other_registries_are_made_plain(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"a:latest", "a"},          {"hf.co/o/n", "o/n"}, {"huggingface.co/o/n:latest", "o/n"},
        {"hf.co/o/n:Q4", "o/n:Q4"}, {"a", NULL},          {"a:7b", NULL},
        {":latest", NULL},          {"", NULL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lr_str plain;
        bool is_longer = chat_model_plain(lr_str_z(rows[i][0]), &plain);
        assert_int_equal(is_longer, rows[i][1] != NULL);
        if (is_longer)
            assert_true(lr_str_eq_z(plain, rows[i][1]));
    }
}

static void the_page_lists_the_fields_of_the_table(void **state)
{
    (void)state;
    struct lr_buf wanted, page;
    lr_buf_init(&wanted, 1 << 20);
    lr_buf_init(&page, 1 << 20);
    assert_int_equal(lr_file_read_buf(LR_SOURCE_DIR "/docs/ollama.md", &page, NULL), LR_OK);
    for (int i = 0; i < 2; i++) {
        lr_buf_clear(&wanted);
        if (i == 0)
            chat_ollama_fields_markdown(&wanted);
        else
            chat_ollama_embed_markdown(&wanted);
        if (strstr(lr_buf_z(&page), lr_buf_z(&wanted)) == NULL)
            fail_msg("docs/ollama.md lacks these lists:\n%s", lr_buf_z(&wanted));
    }
    lr_buf_free(&wanted);
    lr_buf_free(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_become_those_that_templates_expect),
        cmocka_unit_test(a_prompt_is_a_message_or_raw_text),
        cmocka_unit_test(a_request_without_words_only_loads_the_model),
        cmocka_unit_test(thinking_is_shown_unless_the_client_turns_it_off),
        cmocka_unit_test(options_and_formats_reach_the_request),
        cmocka_unit_test(what_cannot_be_served_is_refused_by_name),
        cmocka_unit_test(errors_are_one_text_with_the_words_of_the_api),
        cmocka_unit_test(names_of_other_registries_are_made_plain),
        cmocka_unit_test(the_page_lists_the_fields_of_the_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
