/* chat/responses/fields.c - every field of POST /v1/responses, and how it is handled.
 *
 * The table is the only place that knows the fields. docs/responses.md contains the list
 * generated from it; a test compares the two.
 */
#include "chat/responses/responses.h"

/* OpenAI's own limits for metadata. */
enum { METADATA_MAX = 16, METADATA_KEY_MAX = 64, METADATA_TEXT_MAX = 512 };

static lr_code parse_input(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (value->type != LR_JSON_STRING && value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "a string or an array of items", value);
    chat_responses_parse_of(p)->input = value;
    return LR_OK;
}

static lr_code parse_instructions(struct chat_parse *p, const char *name,
                                  const struct lr_json *value)
{
    if (!lr_json_str(value, &chat_responses_parse_of(p)->instructions))
        return chat_parse_type(p, name, "a string", value);
    return LR_OK;
}

static lr_code parse_tools(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of tools", value);
    chat_responses_parse_of(p)->tools = value;
    return LR_OK;
}

static lr_code responses_fields_parse_max(struct chat_parse *p, const char *name,
                                          const struct lr_json *value)
{
    return chat_parse_max_tokens(p, name, value, &p->req->max_tokens);
}

static lr_code parse_summary(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    static const char *const words[] = {"auto", "concise", "detailed", "none", NULL};
    uint32_t index;
    lr_code code = chat_parse_word(p, name, value, words, LR_INVALID_ARGUMENT, &index);
    if (code == LR_OK && words[index] != NULL)
        p->req->wants_summary = strcmp(words[index], "none") != 0;
    return code;
}

static lr_code parse_reasoning(struct chat_parse *p, const char *name,
                               const struct lr_json *value)
{
    static const struct chat_member members[] = {{"effort", chat_parse_effort},
                                                 {"summary", parse_summary},
                                                 {"generate_summary", parse_summary},
                                                 {NULL, NULL}};
    return chat_parse_object(p, name, value, members);
}

static lr_code responses_fields_parse_format(struct chat_parse *p, const char *name,
                                             const struct lr_json *value)
{
    bool wants_schema;
    lr_code code = chat_parse_format_type(p, name, value, &wants_schema);
    if (code != LR_OK || !wants_schema)
        return code;
    return chat_parse_schema(p, name, value);
}

static lr_code parse_text(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    static const struct chat_member members[] = {{"format", responses_fields_parse_format},
                                                 {"verbosity", chat_parse_verbosity},
                                                 {NULL, NULL}};
    return chat_parse_object(p, name, value, members);
}

/* A word that names a result of tools which this server does not have is ignored. */
static lr_code parse_include(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    static const char *const words[] = {"reasoning.encrypted_content",
                                        "message.output_text.logprobs", NULL};
    lr_code code = LR_OK;
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of strings", value);
    for (uint32_t i = 0; code == LR_OK && i < value->count; i++) {
        const struct lr_json *word = &value->items[i];
        bool is_known =
            lr_json_is(word, LR_JSON_STRING) &&
            (lr_str_eq_z(word->text, words[0]) || lr_str_eq_z(word->text, words[1]));
        uint32_t index = 0;
        if (word->type == LR_JSON_STRING && !is_known && !p->is_strict)
            chat_parse_note(p, name);
        else
            code = chat_parse_word(p, name, word, words, LR_UNSUPPORTED, &index);
        p->logprobs = p->logprobs || (code == LR_OK && index == 1);
        p->req->wants_sealed =
            p->req->wants_sealed || (code == LR_OK && is_known && index == 0);
    }
    return code;
}

static lr_code parse_metadata(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    bool fits = value->count <= METADATA_MAX;
    for (uint32_t i = 0; fits && i < value->count; i++) {
        const struct lr_json_member *m = &value->members[i];
        fits = m->key.len <= METADATA_KEY_MAX && m->value.type == LR_JSON_STRING &&
               m->value.text.len <= METADATA_TEXT_MAX;
    }
    if (fits)
        return LR_OK;
    return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                           "'metadata' has up to %d members, names of up to %d bytes and "
                           "strings of up to %d.",
                           METADATA_MAX, METADATA_KEY_MAX, METADATA_TEXT_MAX);
}

static lr_code parse_stream_options(struct chat_parse *p, const char *name,
                                    const struct lr_json *value)
{
    static const struct chat_member members[] = {{"include_obfuscation", chat_parse_any_bool},
                                                 {NULL, NULL}};
    p->has_stream_options = true;
    return chat_parse_object(p, name, value, members);
}

static lr_code parse_background(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    lr_code code = chat_parse_bool(p, name, value, &p->req->background);
    if (code == LR_OK && p->req->background && !p->can_keep && p->stored != NULL)
        return chat_parse_fail(
            p, NULL, NULL, LR_UNAVAILABLE,
            "a background request needs the database, which has trouble now");
    if (code == LR_OK && p->req->background && !p->can_keep)
        return chat_parse_fail(p, name, "unsupported_value", LR_UNSUPPORTED,
                               "'background': true is not supported, since this server stores "
                               "no responses now; keep the connection open, with 'stream': "
                               "true.");
    return code;
}

static lr_code parse_store(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    bool flag = true;
    lr_code code = chat_parse_bool(p, name, value, &flag);
    if (code == LR_OK && flag && !p->can_keep)
        chat_parse_note(p, name);
    p->req->keeps = flag && p->can_keep;
    return code;
}

static lr_code parse_previous(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    if (!lr_json_str(value, &p->req->previous) || p->req->previous.len == 0)
        return chat_parse_type(p, name, "the id of a response", value);
    return LR_OK;
}

static lr_code parse_truncation(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    static const char *const words[] = {"disabled", "auto", NULL};
    uint32_t index;
    lr_code code = chat_parse_word(p, name, value, words, LR_UNSUPPORTED, &index);
    if (code != LR_OK || index == 0)
        return code;
    return chat_parse_ignore(p, name, "unsupported_value", LR_UNSUPPORTED,
                             "'truncation' takes 'disabled' here, not 'auto': shorten 'input' "
                             "yourself.");
}

static lr_code parse_string(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (value->type != LR_JSON_STRING)
        return chat_parse_type(p, name, "a string", value);
    return LR_OK;
}

static lr_code parse_tool_calls(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    uint32_t ignored;
    return chat_parse_u32(p, name, value, 1, INT32_MAX, &ignored);
}

#define YES(name, note)  name, CHAT_FIELD_HONOURED, 1, note
#define NONE(name, note) name, CHAT_FIELD_NO_EFFECT, 1, note
#define NO(name, note)   name, CHAT_FIELD_REFUSED, 1, note

/* clang-format off */
static const struct chat_field fields[] = {
    {{YES("model", "id of a registered model; required")}, chat_parse_model},
    {{YES("input", "a string or 1 or more items; required. See below")}, parse_input},
    {{YES("instructions", "string; placed before the `system` and `developer` messages of `input`")}, parse_instructions},
    {{YES("tools", "up to 256 of type `function` or `custom`, including those in a `namespace`. See below")}, parse_tools},
    {{YES("tool_choice", "`auto`, `none`, `required`, `{\"type\": \"function\", \"name\": ...}` or the same with `custom`; values that require a call only for models whose calls are understood (docs/structured-output.md)")}, chat_responses_tool_choice},
    {{YES("parallel_tool_calls", "boolean; `false` ends the answer after its first call")}, chat_parse_flag},
    {{YES("reasoning", "`effort`: `low`, `medium`, `high`; `none` and `minimal` are `low`, `xhigh` and `max` are `high`. `summary` (and the older `generate_summary`) other than `none`: reasoning items have the reasoning itself as `summary`, because clients show that; without it they have it as `content`")}, parse_reasoning},
    {{YES("text", "`format`: `text`, `json_object`, or `json_schema` with `name`, `schema`, `description`, always enforced (docs/structured-output.md); `verbosity`: `low`, `medium`, `high`, without effect: models have no such setting")}, parse_text},
    {{YES("max_output_tokens", "1 or more, or -1 for no limit; default: up to the end of the context. Reasoning tokens count, too")}, responses_fields_parse_max},
    {{YES("max_tokens", "extension: `max_output_tokens`")}, responses_fields_parse_max},
    {{YES("max_completion_tokens", "extension: `max_output_tokens`")}, responses_fields_parse_max},
    {{YES("temperature", "0 to 2; 0 is greedy; default the model's, else 1")}, chat_parse_sampling},
    {{YES("top_p", "0 to 1; default the model's, else 1")}, chat_parse_sampling},
    {{YES("stream", "boolean")}, chat_parse_flag},
    {{YES("include", "`message.output_text.logprobs`; `reasoning.encrypted_content`: reasoning items have this member, a hash of their text, because clients send reasoning back only with it; the text itself is plain. Other words are ignored")}, parse_include},
    {{YES("top_logprobs", "0 to 20; needs `message.output_text.logprobs` in `include`")}, chat_parse_top_logprobs},
    {{YES("metadata", "up to 16 strings; repeated in the answer")}, parse_metadata},
    {{YES("seed", "extension: 64-bit integer; the same seed gives the same answer on the same build and device")}, chat_parse_seed},
    {{YES("top_k", "extension: integer; 0 or -1 is off")}, chat_parse_sampling},
    {{YES("min_p", "extension: 0 to 1")}, chat_parse_sampling},
    {{YES("structured_outputs", "extension, as in vLLM: `json`, `regex`, `choice`, `grammar` or `json_object` (docs/structured-output.md)")}, chat_parse_structured_outputs},
    {{YES("guided_json", "extension, vLLM's older name: a schema, or a string that has one")}, chat_parse_constraint},
    {{YES("guided_regex", "the same: a regular expression that the whole text matches")}, chat_parse_constraint},
    {{YES("guided_choice", "the same: 1 or more strings, of which the text is one")}, chat_parse_constraint},
    {{YES("guided_grammar", "the same: a grammar in GBNF")}, chat_parse_constraint},
    {{YES("grammar", "extension, as in llama.cpp: a grammar in GBNF")}, chat_parse_constraint},
    {{YES("json_schema", "extension, as in llama.cpp: a schema")}, chat_parse_constraint},
    {{YES("presence_penalty", "extension: -2 to 2")}, chat_parse_sampling},
    {{YES("frequency_penalty", "extension: -2 to 2")}, chat_parse_sampling},
    {{YES("repetition_penalty", "extension: 0.01 to 10; 1 is off")}, chat_parse_sampling},
    {{YES("reasoning_effort", "extension: `reasoning.effort`")}, chat_parse_effort},
    {{YES("background", "boolean; `true` answers at once and goes on without the client. Needs `store`. See \"Stored responses\"")}, parse_background},
    {{YES("store", "boolean, default `true`: the response can be retrieved and continued for a time. See \"Stored responses\"")}, parse_store},
    {{YES("previous_response_id", "id of a stored response: its conversation is placed before `input`. Its `instructions` are not. See \"Stored responses\"")}, parse_previous},
    {{YES("truncation", "`disabled`; `auto` is ignored: shorten `input` yourself")}, parse_truncation},
    {{YES("stream_options", "`include_obfuscation` has no effect. Only with `stream: true`")}, parse_stream_options},

    {{NONE("service_tier", "string (strict: `auto` or `default`)")}, chat_parse_service_tier},
    {{NONE("max_tool_calls", "limits calls of built-in tools, which this server does not have")}, parse_tool_calls},
    {{NONE("user", "string")}, chat_parse_user},
    {{NONE("safety_identifier", "string")}, parse_string},
    {{NONE("prompt_cache_key", "string; the prefix cache works without it")}, parse_string},
    {{NONE("prompt_cache_retention", "string")}, parse_string},
    {{NONE("prompt_cache_options", "")}, NULL},
    {{NONE("guided_decoding_backend", "there is one implementation")}, NULL},
    {{NONE("context_management", "shorten `input` yourself")}, NULL},
    {{NONE("moderation", "this server has no moderation")}, NULL},
    {{NONE("client_metadata", "information that some clients send about themselves")}, NULL},

    {{NO("conversation", "Use `previous_response_id`, or send the whole conversation in `input`.")}, NULL},
    {{NO("prompt", "Prompts are not stored here: send `instructions` and `input`.")}, NULL},
    {{NO("image", "This server supports text only.")}, NULL},
    {{NO("messages", "Use `input`, or POST /v1/chat/completions.")}, NULL},
    {{NO("response_format", "Use `text.format`.")}, NULL},
    {{NO("logprobs", "Use `include` with `message.output_text.logprobs`.")}, NULL},
    {{NO("stop", "This API has no stop strings; use POST /v1/chat/completions.")}, NULL},
    {{NO("guided_whitespace_pattern", "White space is as docs/structured-output.md says.")}, NULL},
    {{NO("n", "This API returns one answer; use POST /v1/chat/completions for several.")}, NULL},
};
/* clang-format on */

const struct chat_fields chat_responses_fields = {fields, sizeof(fields) / sizeof(fields[0]), 1,
                                                  "responses.md"};

static void responses_fields_print_list(struct lr_buf *out, enum chat_field_list list,
                                        const char *last)
{
    lr_buf_addf(out, "| field | %s |\n|---|---|\n", last);
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].row.list == list)
            lr_buf_addf(out, "| `%s` | %s |\n", fields[i].row.name, fields[i].row.note);
}

void chat_responses_fields_markdown(struct lr_buf *out)
{
    lr_buf_add_z(out, "### Honoured\n\n");
    responses_fields_print_list(out, CHAT_FIELD_HONOURED, "values");
    lr_buf_add_z(out, "\n### Ignored\n\n");
    responses_fields_print_list(out, CHAT_FIELD_NO_EFFECT, "values");
    lr_buf_add_z(out, "\n### Refused fields\n\n"
                      "The answer is 400 with the name of the field in `param`.\n\n");
    responses_fields_print_list(out, CHAT_FIELD_REFUSED, "alternative");
}
