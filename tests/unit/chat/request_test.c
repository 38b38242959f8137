/* Parsing requests: every field is honoured, accepted without effect or refused by name, and an
 * error names the field. */
#include "base/errors.h"
#include "chat/openai/openai.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

struct parsed {
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    lr_code code;
};

static struct parsed parse_as(const struct chat_codec *codec, const char *body, bool is_strict)
{
    struct parsed p = {0};
    const struct lr_json *root;
    struct lr_str model;
    lr_arena_init(&p.arena, 8 << 20);
    p.code = chat_request_read(&p.arena, lr_str_z(body), &root, &model, &p.e);
    if (p.code == LR_OK)
        p.code = chat_request_check(&p.arena, codec, root,
                                    &(struct chat_terms){.is_strict = is_strict}, &p.req, &p.e);
    assert_int_equal(p.req != NULL, p.code == LR_OK);
    return p;
}

static struct parsed parse(const struct chat_codec *codec, const char *body)
{
    return parse_as(codec, body, false);
}

#define MESSAGES "\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]"

/* A chat body with one more member; *out lives until free_parsed. */
static struct parsed chat(const char *members)
{
    static char body[65536];
    snprintf(body, sizeof(body), "{" MESSAGES "%s%s}", members[0] != '\0' ? "," : "", members);
    return parse(&chat_openai_chat, body);
}

static void free_parsed(struct parsed *p)
{
    lr_arena_free(&p->arena);
}

static void accept_chat(const char *members)
{
    struct parsed p = chat(members);
    if (p.code != LR_OK)
        fail_msg("%s: %s", members, p.e.error.text);
    free_parsed(&p);
}

static void refuse_as(const struct chat_codec *codec, const char *body, bool is_strict,
                      const char *param, const char *code)
{
    struct parsed p = parse_as(codec, body, is_strict);
    if (p.code == LR_OK)
        fail_msg("accepted: %s", body);
    assert_int_equal(lr_code_http(p.code), 400);
    assert_string_equal(p.e.param, param);
    assert_string_equal(p.e.code, code);
    assert_int_equal(p.e.error.code, p.code);
    assert_true(p.e.error.text[0] != '\0');
    free_parsed(&p);
}

/* Refused whether the request is strict or not. */
static void refuse_body(const struct chat_codec *codec, const char *body, const char *param,
                        const char *code)
{
    refuse_as(codec, body, false, param, code);
    refuse_as(codec, body, true, param, code);
}

static void refuse_chat(const char *members, const char *param, const char *code)
{
    static char body[65536];
    snprintf(body, sizeof(body), "{" MESSAGES ",%s}", members);
    refuse_body(&chat_openai_chat, body, param, code);
}

static void defaults_are_openais(void **state)
{
    (void)state;
    struct parsed p = chat("");
    const struct chat_request *r = p.req;
    assert_int_equal(p.code, LR_OK);
    assert_true(lr_str_eq_z(r->model, "m"));
    assert_int_equal(r->messages->count, 1);
    assert_int_equal(r->n, 1);
    assert_int_equal(chat_request_choices(r), 1);
    assert_int_equal(r->max_tokens, 0);
    assert_true(r->sampling.temperature == 1 && r->sampling.top_p == 1);
    assert_true(r->sampling.repetition_penalty == 1);
    assert_false(r->has_seed || r->stream || r->include_usage || r->ignore_stop);
    assert_true(r->parallel_tool_calls);
    assert_int_equal(r->reasoning, CHAT_REASONING_CONTENT);
    assert_int_equal(r->given, 0);
    assert_null(r->tools);
    free_parsed(&p);
}

static void honoured_fields_reach_the_request(void **state)
{
    (void)state;
    struct parsed p = chat(
        "\"stream\":true,\"stream_options\":{\"include_usage\":true},"
        "\"max_completion_tokens\":77,\"temperature\":0.5,\"top_p\":0.25,\"min_p\":0.125,"
        "\"top_k\":40,\"repetition_penalty\":1.5,\"presence_penalty\":-2,"
        "\"frequency_penalty\":2,\"seed\":-3,\"n\":4,\"stop\":[\"a\",\"b\"],\"logprobs\":true,"
        "\"top_logprobs\":5,\"logit_bias\":{\"17\":-100},\"reasoning_effort\":\"high\","
        "\"parallel_tool_calls\":false,\"chat_template_kwargs\":{\"x\":1},\"user\":\"u\","
        "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
        "\"tool_choice\":\"auto\",\"reasoning_format\":\"both\",\"ignore_eos\":true,"
        "\"response_format\":{\"type\":\"text\"}");
    if (p.code != LR_OK)
        fail_msg("%s", p.e.error.text);
    const struct chat_request *r = p.req;
    const struct lr_sampling *s = &r->sampling;
    assert_true(r->stream && r->include_usage && r->ignore_stop);
    assert_int_equal(r->max_tokens, 77);
    assert_true(s->temperature == 0.5F && s->top_p == 0.25F && s->min_p == 0.125F);
    assert_int_equal(s->top_k, 40);
    assert_true(s->repetition_penalty == 1.5F && s->presence_penalty == -2 &&
                s->frequency_penalty == 2);
    assert_true(r->has_seed && s->seed == (uint64_t)-3);
    assert_int_equal(r->n, 4);
    assert_int_equal(r->stop_count, 2);
    assert_true(lr_str_eq_z(r->stop[1], "b"));
    assert_int_equal(s->logprobs, 1);
    assert_int_equal(s->top_logprobs, 5);
    assert_int_equal(s->logit_bias_count, 1);
    assert_int_equal(s->logit_bias[0].token, 17);
    assert_true(s->logit_bias[0].bias == -100);
    assert_true(lr_str_eq_z(r->reasoning_effort, "high"));
    assert_false(r->parallel_tool_calls);
    assert_int_equal(r->template_kwargs->count, 1);
    assert_int_equal(r->tools->count, 1);
    assert_int_equal(r->reasoning, CHAT_REASONING_CONTENT | CHAT_REASONING_PLAIN);
    assert_true(lr_str_eq_z(r->user, "u"));
    assert_int_equal(r->given, 31);
    free_parsed(&p);
}

static void values_out_of_range_name_their_field(void **state)
{
    (void)state;
    static const struct {
        const char *members;
        const char *param;
        const char *code;
    } cases[] = {
        {"\"temperature\":2.5", "temperature", "invalid_value"},
        {"\"temperature\":\"1\"", "temperature", "invalid_type"},
        {"\"temperature\":1e400", "temperature", "invalid_value"},
        {"\"top_p\":-0.1", "top_p", "invalid_value"},
        {"\"min_p\":1.1", "min_p", "invalid_value"},
        {"\"top_k\":-2", "top_k", "invalid_value"},
        {"\"top_k\":1.5", "top_k", "invalid_value"},
        {"\"repetition_penalty\":0", "repetition_penalty", "invalid_value"},
        {"\"presence_penalty\":3", "presence_penalty", "invalid_value"},
        {"\"frequency_penalty\":-3", "frequency_penalty", "invalid_value"},
        {"\"max_tokens\":0", "max_tokens", "invalid_value"},
        {"\"max_tokens\":99999999999999999999", "max_tokens", "invalid_value"},
        {"\"max_completion_tokens\":1.5", "max_completion_tokens", "invalid_value"},
        {"\"max_tokens\":-2", "max_tokens", "invalid_value"},
        {"\"min_tokens\":3", "min_tokens", "unsupported_value"},
        {"\"min_tokens\":\"0\"", "min_tokens", "invalid_type"},
        {"\"enable_thinking\":1", "enable_thinking", "invalid_type"},
        {"\"think\":\"hard\"", "think", "unsupported_value"},
        {"\"thinking\":{\"type\":\"x\"}", "thinking.type", "unsupported_value"},
        {"\"reasoning\":{\"effort\":\"x\"}", "reasoning.effort", "unsupported_value"},
        {"\"reasoning\":\"high\"", "reasoning", "invalid_type"},
        {"\"repeat_penalty\":0", "repeat_penalty", "invalid_value"},
        {"\"options\":{\"top_p\":2}", "options.top_p", "invalid_value"},
        {"\"options\":{\"repeat_penalty\":0}", "options.repeat_penalty", "invalid_value"},
        {"\"options\":[]", "options", "invalid_type"},
        {"\"continue_final_message\":true", "continue_final_message", "unsupported_value"},
        {"\"add_generation_prompt\":false", "add_generation_prompt", "unsupported_value"},
        {"\"n\":0", "n", "invalid_value"},
        {"\"n\":129", "n", "invalid_value"},
        {"\"seed\":1.5", "seed", "invalid_type"},
        {"\"stop\":7", "stop", "invalid_type"},
        {"\"stop\":\"\"", "stop", "invalid_value"},
        {"\"stop\":[\"a\",1]", "stop[1]", "invalid_type"},
        {"\"logprobs\":1", "logprobs", "invalid_type"},
        {"\"logprobs\":true,\"top_logprobs\":21", "top_logprobs", "invalid_value"},
        {"\"top_logprobs\":2", "top_logprobs", "invalid_value"},
        {"\"logit_bias\":[]", "logit_bias", "invalid_type"},
        {"\"logit_bias\":{\"x\":1}", "logit_bias", "invalid_value"},
        {"\"logit_bias\":{\"5\":101}", "logit_bias.5", "invalid_value"},
        {"\"stream\":\"yes\"", "stream", "invalid_type"},
        {"\"stream_options\":{\"include_usage\":true}", "stream_options", "invalid_value"},
        {"\"reasoning_effort\":\"extreme\"", "reasoning_effort", "unsupported_value"},
        {"\"reasoning_effort\":3", "reasoning_effort", "invalid_type"},
        {"\"reasoning_format\":\"x\"", "reasoning_format", "invalid_value"},
        {"\"chat_template_kwargs\":{\"messages\":[]}", "chat_template_kwargs", "invalid_value"},
        {"\"chat_template_kwargs\":[]", "chat_template_kwargs", "invalid_type"},
        {"\"response_format\":{\"type\":\"xml\"}", "response_format.type", "unsupported_value"},
        {"\"response_format\":{\"type\":\"json_schema\"}", "response_format.json_schema",
         "missing_required_parameter"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{}}",
         "response_format.json_schema.name", "invalid_value"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a b\"}}",
         "response_format.json_schema.name", "invalid_value"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\"}}",
         "response_format.json_schema.schema", "missing_required_parameter"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
         "\"strict\":1,\"schema\":{}}}",
         "response_format.json_schema.strict", "invalid_type"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
         "\"schema\":{\"type\":\"string\",\"format\":\"regex\"}}}",
         "response_format.json_schema.schema", "unsupported_value"},
        {"\"response_format\":{\"type\":\"json_schema\",\"json_schema\":{\"name\":\"a\","
         "\"schema\":{\"type\":\"nothing\"}}}",
         "response_format.json_schema.schema", "invalid_value"},
        {"\"response_format\":{\"type\":\"json_object\"},\"ignore_eos\":true", "ignore_eos",
         "invalid_value"},
        {"\"response_format\":\"text\"", "response_format", "invalid_type"},
        {"\"response_format\":{\"type\":\"json_object\",\"schema\":{\"type\":\"nothing\"}}",
         "response_format.schema", "invalid_value"},
        {"\"guided_regex\":7", "guided_regex", "invalid_type"},
        {"\"guided_regex\":\"(a\"", "guided_regex", "invalid_value"},
        {"\"guided_regex\":\"\\\\bx\"", "guided_regex", "unsupported_value"},
        {"\"guided_choice\":\"a\"", "guided_choice", "invalid_type"},
        {"\"guided_choice\":[]", "guided_choice", "invalid_value"},
        {"\"guided_choice\":[\"a\",1]", "guided_choice[1]", "invalid_type"},
        {"\"guided_json\":\"{\"", "guided_json", "invalid_value"},
        {"\"guided_json\":[]", "guided_json", "invalid_type"},
        {"\"guided_json\":{\"type\":\"nothing\"}", "guided_json", "invalid_value"},
        {"\"json_schema\":7", "json_schema", "invalid_type"},
        {"\"guided_grammar\":{}", "guided_grammar", "invalid_type"},
        {"\"grammar\":\"root ::= x\"", "grammar", "invalid_value"},
        {"\"grammar\":\"root ::= root \\\"a\\\"\"", "grammar", "unsupported_value"},
        {"\"structured_outputs\":[]", "structured_outputs", "invalid_type"},
        {"\"structured_outputs\":{}", "structured_outputs", "invalid_value"},
        {"\"structured_outputs\":{\"xml\":1}", "structured_outputs.xml", "unknown_parameter"},
        {"\"structured_outputs\":{\"regex\":\"(\"}", "structured_outputs.regex",
         "invalid_value"},
        {"\"structured_outputs\":{\"json_object\":1}", "structured_outputs.json_object",
         "invalid_type"},
        {"\"structured_outputs\":{\"regex\":\"a\",\"whitespace_pattern\":\" \"}",
         "structured_outputs.whitespace_pattern", "unsupported_parameter"},
        {"\"structured_outputs\":{\"regex\":\"a\",\"disable_any_whitespace\":true}",
         "structured_outputs.disable_any_whitespace", "unsupported_parameter"},
        {"\"structured_outputs\":{\"regex\":\"a\",\"choice\":[\"a\"]}",
         "structured_outputs.choice", "invalid_value"},
        {"\"guided_regex\":\"a\",\"grammar\":\"root ::= \\\"a\\\"\"", "grammar",
         "invalid_value"},
        {"\"guided_json\":{},\"response_format\":{\"type\":\"json_object\"}", "response_format",
         "invalid_value"},
        {"\"guided_regex\":\"a\",\"ignore_eos\":true", "ignore_eos", "invalid_value"},
        {"\"tools\":{}", "tools", "invalid_type"},
        {"\"tools\":[1]", "tools[0]", "invalid_type"},
        {"\"tools\":[{\"type\":\"web_search\"}]", "tools[0].type", "unsupported_value"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a b\"}}]",
         "tools[0].function.name", "invalid_value"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}},"
         "{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]",
         "tools[1].function.name", "invalid_value"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"parameters\":1}}]",
         "tools[0].function.parameters", "invalid_type"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"strict\":1}}]",
         "tools[0].function.strict", "invalid_type"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\",\"strict\":true,"
         "\"parameters\":{\"format\":\"regex\"}}}]",
         "tools[0].function.parameters", "unsupported_value"},
        {"\"tool_choice\":\"required\"", "tool_choice", "invalid_value"},
        {"\"tool_choice\":\"required\",\"ignore_eos\":true,"
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]",
         "ignore_eos", "invalid_value"},
        {"\"tool_choice\":\"sometimes\"", "tool_choice", "invalid_value"},
        {"\"tool_choice\":{\"type\":\"custom\"}", "tool_choice.type", "unsupported_value"},
        {"\"tool_choice\":{\"type\":\"function\"}", "tool_choice.function.name",
         "missing_required_parameter"},
        {"\"tool_choice\":{\"type\":\"function\",\"function\":{\"name\":\"f\"}},"
         "\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"g\"}}]",
         "tool_choice.function.name", "invalid_value"},
        {"\"modalities\":[\"audio\"]", "modalities", "unsupported_value"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        refuse_chat(cases[i].members, cases[i].param, cases[i].code);
}

/* Members that a request may have, what X-LLM-Router-Ignored says of them, and the param of the
 * error if the request is strict. */
static void what_is_ignored_is_named_and_refused_if_the_request_is_strict(void **state)
{
    static const struct {
        const char *members, *ignored, *param; /* param NULL: accepted */
    } cases[] = {
        {"\"temprature\":1", "temprature", "temprature"},
        {"\"suffix\":\"x\"", "suffix", "suffix"},
        {"\"temprature\":null", "", "temprature"},
        {"\"temprature\":false", "", "temprature"},
        {"\"stream\":true,\"stream_options\":{\"x\":false,\"y\":null}", "", "stream_options.x"},
        {"\"options\":{\"numa\":false}", "", "options.numa"},
        {"\"stream\":true,\"stream_options\":{\"x\":1}", "stream_options.x",
         "stream_options.x"},
        {"\"a\\r\\nSet-Cookie: b\":1", "a??Set-Cookie??b", "a\r\nSet-Cookie: b"},
        {"\"\":1,\"a,b\":1", "?, a?b", ""},
        {"\"x\":1,\"y\":2", "x, y", "x"},
        {"\"store\":true", "store", NULL},
        {"\"store\":false,\"user\":\"u\"", "user", NULL},
        {"\"service_tier\":\"flex\"", "service_tier", "service_tier"},
        {"\"num_ctx\":4096,\"keep_alive\":\"5m\",\"provider\":{\"only\":[\"a\"]}",
         "num_ctx, keep_alive, provider", NULL},
        {"\"reasoning\":{\"effort\":\"high\",\"depth\":1}", "reasoning.depth",
         "reasoning.depth"},
        {"\"thinking\":{\"type\":\"enabled\",\"xyz\":1}", "thinking.xyz", "thinking.xyz"},
        {"\"options\":{\"num_ctx\":9,\"numa\":true}", "options.num_ctx, options.numa",
         "options.numa"},
        {"\"max_tokens\":-1", "", "max_tokens"},
        {"\"max_tokens\":1,\"max_completion_tokens\":2", "", "max_tokens"},
        {"\"stop\":[\"a\",\"b\",\"c\",\"d\",\"e\"]", "", "stop"},
        {"\"tools\":[{\"type\":\"function\",\"function\":{\"name\":"
         "\"a234567890123456789012345678901234567890123456789012345678901234567890\"}}]",
         "", "tools[0].function.name"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[1024];
        struct parsed p = chat(cases[i].members);
        if (p.code != LR_OK)
            fail_msg("%s: %s", cases[i].members, p.e.error.text);
        assert_string_equal(p.req->ignored, cases[i].ignored);
        free_parsed(&p);
        snprintf(body, sizeof(body), "{" MESSAGES ",%s}", cases[i].members);
        p = parse_as(&chat_openai_chat, body, true);
        assert_int_equal(p.code == LR_OK, cases[i].param == NULL);
        if (cases[i].param != NULL)
            assert_string_equal(p.e.param, cases[i].param);
        free_parsed(&p);
    }
}

static void the_list_of_ignored_fields_has_a_limit(void **state)
{
    static char members[65536];
    int len = 0;
    (void)state;
    for (int i = 0; i < 1000; i++)
        len += snprintf(members + len, sizeof(members) - (size_t)len, "%s\"field_%d\":1",
                        i > 0 ? "," : "", i);
    struct parsed p = chat(members);
    assert_int_equal(p.code, LR_OK);
    assert_true(strlen(p.req->ignored) < CHAT_IGNORED_MAX);
    assert_non_null(strstr(p.req->ignored, "field_0, field_1, "));
    assert_string_equal(p.req->ignored + strlen(p.req->ignored) - 5, ", ...");
    free_parsed(&p);
}

static void fields_of_other_servers_have_their_obvious_meaning(void **state)
{
    (void)state;
    static const struct {
        const char *members, *effort;
        enum chat_thinking thinking;
        uint32_t reasoning;
    } cases[] = {
        {"\"enable_thinking\":false", "low", CHAT_THINKING_OFF, CHAT_REASONING_CONTENT},
        {"\"enable_thinking\":true", "", CHAT_THINKING_ON, CHAT_REASONING_CONTENT},
        {"\"think\":false", "low", CHAT_THINKING_OFF, CHAT_REASONING_CONTENT},
        {"\"think\":\"high\"", "high", CHAT_THINKING_DEFAULT, CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"disabled\"}", "low", CHAT_THINKING_OFF,
         CHAT_REASONING_CONTENT},
        {"\"thinking\":{\"type\":\"adaptive\"}", "", CHAT_THINKING_DEFAULT,
         CHAT_REASONING_CONTENT},
        {"\"thinking\":true", "", CHAT_THINKING_ON, CHAT_REASONING_CONTENT},
        {"\"reasoning\":{\"effort\":\"high\",\"exclude\":true}", "high", CHAT_THINKING_DEFAULT,
         CHAT_REASONING_HIDDEN},
        {"\"reasoning\":{\"enabled\":false}", "low", CHAT_THINKING_OFF, CHAT_REASONING_CONTENT},
        {"\"reasoning_effort\":\"none\"", "low", CHAT_THINKING_OFF, CHAT_REASONING_CONTENT},
        {"\"think\":false,\"reasoning_effort\":\"high\"", "high", CHAT_THINKING_DEFAULT,
         CHAT_REASONING_CONTENT},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct parsed p = chat(cases[i].members);
        if (p.code != LR_OK)
            fail_msg("%s: %s", cases[i].members, p.e.error.text);
        assert_true(lr_str_eq_z(p.req->reasoning_effort, cases[i].effort));
        assert_int_equal(p.req->thinking, cases[i].thinking);
        assert_int_equal(p.req->reasoning, cases[i].reasoning);
        free_parsed(&p);
    }
    struct parsed p = chat(
        "\"options\":{\"temperature\":0.5,\"top_k\":3,\"repeat_penalty\":1.5,\"seed\":7,"
        "\"num_predict\":9,\"stop\":[\"a\"]},\"usage\":{\"include\":true},\"min_tokens\":0,"
        "\"stop\":[\"b\",\"c\"],\"max_completion_tokens\":12");
    assert_int_equal(p.code, LR_OK);
    const struct lr_sampling *s = &p.req->sampling;
    assert_true(s->temperature == 0.5F && s->top_k == 3 && s->repetition_penalty == 1.5F);
    assert_true(p.req->has_seed && s->seed == 7 && p.req->include_usage);
    assert_int_equal(p.req->max_tokens, 9);
    assert_int_equal(p.req->stop_count, 2);
    assert_string_equal(p.req->ignored, "");
    free_parsed(&p);
    p = chat("\"max_tokens\":-1,\"repeat_penalty\":1.25");
    assert_int_equal(p.req->max_tokens, INT32_MAX);
    assert_true(p.req->sampling.repetition_penalty == 1.25F);
    free_parsed(&p);
}

static void null_means_not_set(void **state)
{
    (void)state;
    for (size_t i = 0; i < chat_openai_chat_fields.count; i++) {
        struct chat_field_row row = chat_field_row(&chat_openai_chat_fields, i);
        char members[128];
        if ((row.in & CHAT_OPENAI_CHAT) == 0 || strcmp(row.name, "model") == 0 ||
            strcmp(row.name, "messages") == 0)
            continue;
        snprintf(members, sizeof(members), "\"%s\":null", row.name);
        accept_chat(members);
    }
}

static void every_refused_field_is_refused_by_name(void **state)
{
    (void)state;
    for (size_t i = 0; i < chat_openai_chat_fields.count; i++) {
        struct chat_field_row row = chat_field_row(&chat_openai_chat_fields, i);
        char members[128];
        if (row.list != CHAT_FIELD_REFUSED || (row.in & CHAT_OPENAI_CHAT) == 0)
            continue;
        snprintf(members, sizeof(members), "\"%s\":{}", row.name);
        refuse_chat(members, row.name, "unsupported_parameter");
    }
}

static void fields_without_effect_are_taken(void **state)
{
    (void)state;
    accept_chat("\"user\":\"u\",\"metadata\":{\"a\":\"b\"},\"store\":false,"
                "\"service_tier\":\"auto\",\"prompt_cache_key\":\"k\","
                "\"safety_identifier\":\"s\",\"modalities\":[\"text\"],\"verbosity\":\"low\"");
}

#define USER(content) "{\"role\":\"user\",\"content\":[" content "]}"
#define IMAGE         "{\"type\":\"image_url\",\"image_url\":{\"url\":\"data:,\"}}"

static void an_image_is_refused_only_where_the_client_asks_about_it(void **state)
{
    (void)state;
    static const char head[] = "{\"model\":\"m\",\"messages\":[";
    static const struct {
        const char *messages, *ignored, *param;
    } cases[] = {
        {USER(IMAGE) ",{\"role\":\"assistant\",\"content\":\"?\"}," USER("\"why\""),
         "messages[0].content[0]", NULL},
        {USER("\"x\"") ",{\"role\":\"tool\",\"tool_call_id\":\"c\",\"content\":[" IMAGE "]}",
         "messages[1].content[0]", NULL},
        {USER("\"x\"") "," USER("\"see\"," IMAGE), "", "messages[1].content[1]"},
        {USER(IMAGE) ",{\"role\":\"assistant\",\"content\":\"?\"}", "",
         "messages[0].content[0]"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[1024];
        snprintf(body, sizeof(body), "%s%s]}", head, cases[i].messages);
        struct parsed p = parse(&chat_openai_chat, body);
        assert_int_equal(p.code == LR_OK, cases[i].param == NULL);
        if (p.code == LR_OK) {
            assert_string_equal(p.req->ignored, cases[i].ignored);
        } else {
            assert_string_equal(p.e.param, cases[i].param);
            assert_non_null(strstr(p.e.error.text, "this model cannot see images"));
        }
        free_parsed(&p);
        p = parse_as(&chat_openai_chat, body, true);
        assert_int_equal(p.code, LR_UNSUPPORTED);
        free_parsed(&p);
    }
}

static void required_fields_are_required(void **state)
{
    (void)state;
    refuse_body(&chat_openai_chat, "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"}]}",
                "model", "missing_required_parameter");
    refuse_body(&chat_openai_chat, "{\"model\":\"m\"}", "messages",
                "missing_required_parameter");
    refuse_body(&chat_openai_chat, "{\"model\":\"m\",\"messages\":[]}", "messages",
                "invalid_value");
    refuse_body(&chat_openai_completions, "{\"model\":\"m\"}", "prompt",
                "missing_required_parameter");
    refuse_body(&chat_openai_chat, "[]", "", "invalid_type");
    refuse_body(&chat_openai_chat, "{\"model\":", "", "invalid_json");
    refuse_body(&chat_openai_chat, "", "", "invalid_json");
    refuse_body(&chat_openai_chat, "{\"model\":\"a\",\"model\":\"b\"}", "", "invalid_json");
}

static void messages_are_checked_one_by_one(void **state)
{
    (void)state;
    static const struct {
        const char *message;
        const char *param; /* NULL: accepted */
        const char *code;
    } cases[] = {
        {"{\"role\":\"system\",\"content\":\"x\"}", NULL, NULL},
        {"{\"role\":\"developer\",\"content\":\"x\"}", NULL, NULL},
        {"{\"role\":\"user\",\"content\":\"\",\"name\":\"bob\"}", NULL, NULL},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"x\"}]}", NULL, NULL},
        {"{\"role\":\"assistant\",\"content\":null,\"reasoning_content\":\"r\",\"tool_calls\":"
         "[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":"
         "\"{}\"}}]}",
         NULL, NULL},
        {"{\"role\":\"assistant\",\"refusal\":null,\"annotations\":[]}", NULL, NULL},
        {"{\"role\":\"tool\",\"content\":\"x\",\"tool_call_id\":\"c\"}", NULL, NULL},
        {"{\"role\":\"tool\",\"content\":null,\"tool_call_id\":\"c\"}", NULL, NULL},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"input_text\",\"text\":\"x\"}]}", NULL,
         NULL},
        {"{\"role\":\"assistant\",\"content\":[{\"type\":\"refusal\",\"refusal\":\"no\"},"
         "{\"type\":\"thinking\",\"thinking\":\"t\"}]}",
         NULL, NULL},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"refusal\",\"refusal\":1}]}",
         "messages[1].content[0]", "invalid_type"},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"hologram\"}]}", "messages[1].content[0]",
         "unsupported_value"},
        {"1", "messages[1]", "invalid_type"},
        {"{}", "messages[1].role", "missing_required_parameter"},
        {"{\"role\":1}", "messages[1].role", "invalid_type"},
        {"{\"role\":\"robot\",\"content\":\"x\"}", "messages[1].role", "invalid_value"},
        {"{\"role\":\"function\",\"content\":\"x\"}", "messages[1].role", "invalid_value"},
        {"{\"role\":\"user\"}", "messages[1].content", "missing_required_parameter"},
        {"{\"role\":\"user\",\"content\":1}", "messages[1].content", "invalid_type"},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"image_url\",\"image_url\":{}}]}",
         "messages[1].content[0]", "unsupported_value"},
        {"{\"role\":\"user\",\"content\":[{\"text\":\"x\"}]}", "messages[1].content[0]",
         "missing_required_parameter"},
        {"{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":1}]}",
         "messages[1].content[0]", "invalid_type"},
        {"{\"role\":\"user\",\"content\":\"x\",\"name\":1}", "messages[1].name",
         "invalid_value"},
        {"{\"role\":\"tool\",\"content\":\"x\"}", "messages[1].tool_call_id",
         "missing_required_parameter"},
        {"{\"role\":\"assistant\",\"tool_calls\":1}", "messages[1].tool_calls", "invalid_type"},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{}}]}",
         "messages[1].tool_calls[0]", "missing_required_parameter"},
        {"{\"role\":\"assistant\",\"tool_calls\":[{\"function\":{\"name\":\"f\","
         "\"arguments\":1}}]}",
         "messages[1].tool_calls[0]", "invalid_type"},
        {"{\"role\":\"assistant\",\"function_call\":{\"name\":\"f\"}}",
         "messages[1].function_call", "unsupported_parameter"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char body[1024];
        snprintf(body, sizeof(body),
                 "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"x\"},%s]}",
                 cases[i].message);
        if (cases[i].param != NULL) {
            refuse_as(&chat_openai_chat, body, false, cases[i].param, cases[i].code);
            continue;
        }
        struct parsed p = parse(&chat_openai_chat, body);
        if (p.code != LR_OK)
            fail_msg("%s: %s", cases[i].message, p.e.error.text);
        free_parsed(&p);
    }
}

static void tool_choice_none_hides_the_tools(void **state)
{
    (void)state;
    struct parsed p = chat("\"tools\":[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}],"
                           "\"tool_choice\":\"none\"");
    assert_int_equal(p.code, LR_OK);
    assert_null(p.req->tools);
    assert_true(p.req->forbids_tool_calls);
    free_parsed(&p);
}

static void prompts_come_as_text_or_ids_one_or_many(void **state)
{
    (void)state;
    struct parsed p =
        parse(&chat_openai_completions, "{\"model\":\"m\",\"prompt\":\"x\",\"best_of\":1}");
    assert_int_equal(p.code, LR_OK);
    assert_int_equal(p.req->prompt_count, 1);
    assert_int_equal(p.req->max_tokens, 16);
    assert_true(lr_str_eq_z(p.req->prompts[0].text, "x"));
    free_parsed(&p);

    p = parse(&chat_openai_completions,
              "{\"model\":\"m\",\"prompt\":[\"x\",\"yz\"],\"n\":3,\"logprobs\":0}");
    assert_int_equal(p.code, LR_OK);
    assert_int_equal(chat_request_choices(p.req), 6);
    assert_int_equal(p.req->sampling.logprobs, 1);
    free_parsed(&p);

    p = parse(&chat_openai_completions, "{\"model\":\"m\",\"prompt\":[1,2,3]}");
    assert_int_equal(p.code, LR_OK);
    assert_int_equal(p.req->prompt_count, 1);
    assert_int_equal(p.req->prompts[0].id_count, 3);
    assert_int_equal(p.req->prompts[0].ids[2], 3);
    free_parsed(&p);

    p = parse(&chat_openai_completions, "{\"model\":\"m\",\"prompt\":[[1],[2,3]]}");
    assert_int_equal(p.code, LR_OK);
    assert_int_equal(p.req->prompt_count, 2);
    assert_int_equal(p.req->prompts[1].ids[1], 3);
    free_parsed(&p);

#define PROMPT(v) "{\"model\":\"m\",\"prompt\":" v "}"
    refuse_body(&chat_openai_completions, PROMPT("\"\""), "prompt", "invalid_value");
    refuse_body(&chat_openai_completions, PROMPT("[]"), "prompt", "invalid_value");
    refuse_body(&chat_openai_completions, PROMPT("7"), "prompt", "invalid_type");
    refuse_body(&chat_openai_completions, PROMPT("[\"a\",7]"), "prompt[1]", "invalid_type");
    refuse_body(&chat_openai_completions, PROMPT("[1,-2]"), "prompt", "invalid_value");
    refuse_body(&chat_openai_completions, PROMPT("\"a\",\"echo\":true"), "echo",
                "unsupported_value");
    refuse_body(&chat_openai_completions, PROMPT("\"a\",\"best_of\":2"), "best_of",
                "unsupported_value");
    refuse_body(&chat_openai_completions, PROMPT("\"a\",\"suffix\":\"b\""), "suffix",
                "unsupported_parameter");
    refuse_body(&chat_openai_completions, PROMPT("[\"a\",\"b\"],\"n\":100"), "n",
                "invalid_value");
    refuse_as(&chat_openai_completions, PROMPT("\"a\",\"messages\":[]"), true, "messages",
              "unknown_parameter");
}

static void an_error_body_has_openais_four_members(void **state)
{
    (void)state;
    struct parsed p = parse_as(&chat_openai_chat, "{" MESSAGES ",\"temprature\":1}", true);
    struct lr_buf out;
    lr_buf_init(&out, 4096);
    chat_error_write(&out, &chat_openai_chat, &p.e);
    assert_string_equal(
        lr_buf_z(&out),
        "{\"error\":{\"message\":\"Unrecognized request argument supplied: temprature. "
        "docs/api-fields.md lists what is understood.\",\"type\":\"invalid_request_error\","
        "\"param\":\"temprature\",\"code\":\"unknown_parameter\"}}");
    lr_buf_free(&out);
    free_parsed(&p);
}

static void errors_are_told_in_the_words_that_clients_look_for(void **state)
{
    (void)state;
    struct lr_error err, told;
    (void)lr_fail_as(&err, prompt_too_long, 70, "tokens", 50);
    told = chat_openai_error_told(&err);
    assert_string_equal(told.text,
                        "This model's maximum context length is 50 tokens. However, the prompt "
                        "has 70 tokens, and at least one token must be left for the answer: "
                        "shorten the conversation.");
    (void)lr_fail(&err, LR_RATE_LIMITED,
                  "key k has used its 1 requests per minute; try again "
                  "in 9 s");
    told = chat_openai_error_told(&err);
    assert_string_equal(told.text, "Rate limit reached: key k has used its 1 requests per "
                                   "minute; try again in 9 s");
    (void)lr_fail(&err, LR_INVALID_ARGUMENT, "another");
    assert_string_equal(chat_openai_error_told(&err).text, "another");
}

static void a_field_is_in_one_list_only(void **state)
{
    (void)state;
    for (size_t c = 0; c < chat_codec_count(); c++) {
        const struct chat_fields *fields = chat_codec_at(c)->fields;
        for (size_t i = 0; i < fields->count; i++)
            for (size_t k = 0; k < i; k++)
                assert_string_not_equal(chat_field_row(fields, i).name,
                                        chat_field_row(fields, k).name);
    }
}

/* LR_UPDATE=1 writes the page instead. */
static void the_documented_lists_are_the_table(void **state)
{
    (void)state;
    const char *path = LR_SOURCE_DIR "/docs/api-fields.md";
    struct lr_buf wanted;
    lr_buf_init(&wanted, 1 << 20);
    chat_openai_fields_markdown(&wanted);
    if (getenv("LR_UPDATE") != NULL) {
        FILE *f = fopen(path, "w");
        assert_non_null(f);
        fwrite(wanted.data, 1, wanted.len, f);
        fclose(f);
    }
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char *page = calloc(1, 1 << 20);
    assert_non_null(page);
    size_t n = fread(page, 1, (1 << 20) - 1, f);
    fclose(f);
    assert_int_equal(n, wanted.len);
    assert_string_equal(page, lr_buf_z(&wanted));
    free(page);
    lr_buf_free(&wanted);
}

static void a_request_that_does_not_fit_the_arena_is_an_error(void **state)
{
    (void)state;
    const char *body = "{" MESSAGES ",\"logit_bias\":{\"1\":1,\"2\":2},\"stop\":[\"a\"]}";
    struct lr_arena arena;
    const struct chat_request *req;
    struct chat_error e;
    for (size_t limit = 0; limit < 4096; limit += 64) {
        lr_arena_init(&arena, limit);
        lr_code code = chat_request_parse(&arena, &chat_openai_chat, lr_str_z(body), &req, &e);
        if (code != LR_OK)
            assert_int_equal(code, LR_OUT_OF_RAM);
        lr_arena_free(&arena);
    }
}

static void the_choices_of_a_request_have_seeds_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(chat_request_seed(5, 0), 5);
    assert_int_not_equal(chat_request_seed(5, 1), chat_request_seed(5, 2));
    assert_int_equal(chat_request_seed(5, 1), chat_request_seed(5, 1));
    assert_int_not_equal(chat_request_seed(6, 1), chat_request_seed(5, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_openais),
        cmocka_unit_test(honoured_fields_reach_the_request),
        cmocka_unit_test(values_out_of_range_name_their_field),
        cmocka_unit_test(what_is_ignored_is_named_and_refused_if_the_request_is_strict),
        cmocka_unit_test(the_list_of_ignored_fields_has_a_limit),
        cmocka_unit_test(fields_of_other_servers_have_their_obvious_meaning),
        cmocka_unit_test(an_image_is_refused_only_where_the_client_asks_about_it),
        cmocka_unit_test(errors_are_told_in_the_words_that_clients_look_for),
        cmocka_unit_test(null_means_not_set),
        cmocka_unit_test(every_refused_field_is_refused_by_name),
        cmocka_unit_test(fields_without_effect_are_taken),
        cmocka_unit_test(required_fields_are_required),
        cmocka_unit_test(messages_are_checked_one_by_one),
        cmocka_unit_test(tool_choice_none_hides_the_tools),
        cmocka_unit_test(prompts_come_as_text_or_ids_one_or_many),
        cmocka_unit_test(an_error_body_has_openais_four_members),
        cmocka_unit_test(a_field_is_in_one_list_only),
        cmocka_unit_test(the_documented_lists_are_the_table),
        cmocka_unit_test(a_request_that_does_not_fit_the_arena_is_an_error),
        cmocka_unit_test(the_choices_of_a_request_have_seeds_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
