/* chat/openai/fields.c - every field of the two OpenAI requests, and how it is handled.
 *
 * The table is the only place that knows the fields. docs/api-fields.md is generated from it; a
 * test compares the two.
 */
#include "chat/openai/openai.h"

static lr_code parse_n(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    return chat_parse_u32(p, name, value, 1, CHAT_CHOICES_MAX, &p->req->n);
}

static lr_code parse_best_of(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    return chat_parse_u32(p, name, value, 1, CHAT_CHOICES_MAX,
                          &chat_openai_parse_of(p)->best_of);
}

static lr_code openai_fields_parse_max(struct chat_parse *p, const char *name,
                                       const struct lr_json *value)
{
    struct chat_openai_parse *o = chat_openai_parse_of(p);
    bool is_new = strcmp(name, "max_completion_tokens") == 0;
    return chat_parse_max_tokens(p, name, value,
                                 is_new ? &o->max_completion_tokens : &p->max_tokens);
}

static lr_code parse_include_usage(struct chat_parse *p, const char *name,
                                   const struct lr_json *value)
{
    return chat_parse_bool(p, name, value, &p->req->include_usage);
}

static lr_code parse_stream_options(struct chat_parse *p, const char *name,
                                    const struct lr_json *value)
{
    static const struct chat_member members[] = {{"include_usage", parse_include_usage},
                                                 {"include_obfuscation", chat_parse_any_bool},
                                                 {NULL, NULL}};
    p->has_stream_options = true;
    return chat_parse_object(p, name, value, members);
}

static lr_code parse_logprobs(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    if (p->req->codec == &chat_openai_chat)
        return chat_parse_bool(p, name, value, &p->logprobs);
    uint32_t count;
    lr_code code = chat_parse_u32(p, name, value, 0, CHAT_TOP_LOGPROBS_MAX, &count);
    p->req->sampling.logprobs = 1;
    p->req->sampling.top_logprobs = code == LR_OK ? count : 0;
    return code;
}

static lr_code parse_reasoning_format(struct chat_parse *p, const char *name,
                                      const struct lr_json *value)
{
    static const char *const words[] = {
        "auto", "reasoning_content", "reasoning", "both", "hidden", "none", NULL};
    static const uint32_t bits[] = {
        CHAT_REASONING_CONTENT, CHAT_REASONING_CONTENT,
        CHAT_REASONING_PLAIN,   CHAT_REASONING_CONTENT | CHAT_REASONING_PLAIN,
        CHAT_REASONING_HIDDEN,  CHAT_REASONING_RAW};
    uint32_t index;
    lr_code code = chat_parse_word(p, name, value, words, LR_INVALID_ARGUMENT, &index);
    if (code == LR_OK)
        p->req->reasoning = bits[index];
    return code;
}

static lr_code parse_include_reasoning(struct chat_parse *p, const char *name,
                                       const struct lr_json *value)
{
    bool include;
    lr_code code = chat_parse_bool(p, name, value, &include);
    if (code == LR_OK)
        chat_openai_parse_of(p)->hide_reasoning = !include;
    return code;
}

static lr_code parse_kwargs(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    static const char *const ours[] = {"messages", "tools", "add_generation_prompt", NULL};
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    for (uint32_t i = 0; i < value->count; i++)
        for (size_t k = 0; ours[k] != NULL; k++)
            if (lr_str_eq_z(value->members[i].key, ours[k]))
                return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                                       "'%s' may not replace '%s'.", name, ours[k]);
    p->req->template_kwargs = value;
    return LR_OK;
}

static lr_code parse_modalities(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array", value);
    for (uint32_t i = 0; i < value->count; i++)
        if (!lr_json_is(&value->items[i], LR_JSON_STRING) ||
            !lr_str_eq_z(value->items[i].text, "text"))
            return chat_parse_fail(p, name, "unsupported_value", LR_UNSUPPORTED,
                                   "'modalities' takes [\"text\"] here.");
    return LR_OK;
}

static lr_code openai_fields_parse_format(struct chat_parse *p, const char *name,
                                          const struct lr_json *value)
{
    bool wants_schema;
    lr_code code = chat_parse_format_type(p, name, value, &wants_schema);
    if (code != LR_OK || !wants_schema)
        return code;
    const struct lr_json *about = lr_json_get(value, "json_schema");
    if (!lr_json_is(about, LR_JSON_OBJECT))
        return chat_parse_fail(
            p, "response_format.json_schema", "missing_required_parameter", LR_INVALID_ARGUMENT,
            "'response_format' of type 'json_schema' needs 'json_schema', an "
            "object with 'name' and 'schema'.");
    return chat_parse_schema(p, "response_format.json_schema", about);
}

#define YES         CHAT_FIELD_HONOURED
#define NONE        CHAT_FIELD_NO_EFFECT
#define NO          CHAT_FIELD_REFUSED
#define CHAT        CHAT_OPENAI_CHAT
#define COMPLETIONS CHAT_OPENAI_COMPLETIONS
#define BOTH        (CHAT | COMPLETIONS)

/* clang-format off */
static const struct chat_field fields[] = {
    {{"model", YES, BOTH, "id of a registered model; required"}, chat_parse_model},
    {{"messages", YES, CHAT, "1 or more; roles `system`, `developer`, `user`, `assistant`, `tool`; `content` a string, `null` (assistant, tool) or parts: `text`, `input_text`, `output_text`, `refusal`, `thinking` (assistant); images, audio and files become a note for the model, and in the last user message they are refused. `name`, `tool_calls`, `tool_call_id`, `reasoning_content`, `reasoning`; other members are passed to the template"}, chat_openai_messages},
    {{"prompt", YES, COMPLETIONS, "a string, an array of strings, token ids, or an array of arrays of token ids; required. Control tokens in it are recognised"}, chat_openai_prompt},
    {{"stream", YES, BOTH, "boolean"}, chat_parse_flag},
    {{"stream_options", YES, BOTH, "`include_usage`; `include_obfuscation` has no effect. Only with `stream: true`"}, parse_stream_options},
    {{"max_completion_tokens", YES, CHAT, "1 or more, or -1 for no limit; default: up to the end of the context. Reasoning tokens count, too"}, openai_fields_parse_max},
    {{"max_tokens", YES, BOTH, "older name of `max_completion_tokens`; of two different limits the smaller one holds. In completions the default is 16"}, openai_fields_parse_max},
    {{"temperature", YES, BOTH, "0 to 2; 0 is greedy; default the model's, else 1"}, chat_parse_sampling},
    {{"top_p", YES, BOTH, "0 to 1; default the model's, else 1"}, chat_parse_sampling},
    {{"presence_penalty", YES, BOTH, "-2 to 2"}, chat_parse_sampling},
    {{"frequency_penalty", YES, BOTH, "-2 to 2"}, chat_parse_sampling},
    {{"logit_bias", YES, BOTH, "object from id of a token of the model to a number from -100 to 100; up to 1024 entries"}, chat_openai_logit_bias},
    {{"seed", YES, BOTH, "64-bit integer; the same seed gives the same answer on the same build and device"}, chat_parse_seed},
    {{"n", YES, BOTH, "1 to 128 answers (prompts x n)"}, parse_n},
    {{"stop", YES, BOTH, "a string or up to 16 strings of 1 to 512 bytes (strict: 4); matched on the final content, not on reasoning or tool arguments"}, chat_parse_stop},
    {{"logprobs", YES, BOTH, "chat: boolean; completions: 0 to 20 alternatives"}, parse_logprobs},
    {{"top_logprobs", YES, CHAT, "0 to 20; needs `logprobs: true`"}, chat_parse_top_logprobs},
    {{"tools", YES, CHAT, "up to 256 of type `function`, with names of up to 128 letters (strict: 64); `function.strict`: true constrains the output, so that calls name a declared tool and arguments fit their schema (docs/structured-output.md)"}, chat_openai_tools},
    {{"tool_choice", YES, CHAT, "`auto`, `none`, `required`, or `{\"type\": \"function\", \"function\": {\"name\": ...}}`; the last two only for models whose calls are understood (docs/structured-output.md)"}, chat_openai_tool_choice},
    {{"parallel_tool_calls", YES, CHAT, "boolean; `false` ends the answer after its first call"}, chat_parse_flag},
    {{"reasoning_effort", YES, CHAT, "`low`, `medium`, `high`; passed to the template. `none` and `minimal` are `low`, `xhigh` and `max` are `high`"}, chat_parse_effort},
    {{"response_format", YES, CHAT, "`{\"type\": \"text\"}`, `json_object` (with `schema`: JSON that fits it), or `json_schema` with `name`, `schema`, `description`; always enforced; `strict: true` also closes objects (docs/structured-output.md)"}, openai_fields_parse_format},
    {{"structured_outputs", YES, BOTH, "extension, as in vLLM: `json`, `regex`, `choice`, `grammar` or `json_object` (docs/structured-output.md)"}, chat_parse_structured_outputs},
    {{"guided_json", YES, BOTH, "extension, vLLM's older name: a schema, or a string that has one"}, chat_parse_constraint},
    {{"guided_regex", YES, BOTH, "the same: a regular expression that the whole text matches"}, chat_parse_constraint},
    {{"guided_choice", YES, BOTH, "the same: 1 or more strings, of which the text is one"}, chat_parse_constraint},
    {{"guided_grammar", YES, BOTH, "the same: a grammar in GBNF"}, chat_parse_constraint},
    {{"grammar", YES, BOTH, "extension, as in llama.cpp: a grammar in GBNF"}, chat_parse_constraint},
    {{"json_schema", YES, BOTH, "extension, as in llama.cpp: a schema"}, chat_parse_constraint},
    {{"chat_template_kwargs", YES, CHAT, "extension: object of variables for the template"}, parse_kwargs},
    {{"top_k", YES, BOTH, "extension: integer; 0 or -1 is off"}, chat_parse_sampling},
    {{"min_p", YES, BOTH, "extension: 0 to 1"}, chat_parse_sampling},
    {{"repetition_penalty", YES, BOTH, "extension: 0.01 to 10; 1 is off"}, chat_parse_sampling},
    {{"reasoning_format", YES, CHAT, "extension: the member that gets the reasoning: `reasoning_content` (`auto`, the default), `reasoning`, `both`, `hidden`; `none`: it stays in the content, with its marks (not for gpt-oss)"}, parse_reasoning_format},
    {{"include_reasoning", YES, CHAT, "extension: `false` is `reasoning_format: hidden`"}, parse_include_reasoning},
    {{"enable_thinking", YES, CHAT, "extension, for templates that can turn thinking off; `false` is also `reasoning_effort: low`"}, chat_openai_enable_thinking},
    {{"think", YES, CHAT, "extension, as in Ollama: boolean as `enable_thinking`, or a word as `reasoning_effort`"}, chat_openai_think},
    {{"thinking", YES, CHAT, "extension: boolean, or `{\"type\": \"enabled\"}`, `disabled`, `adaptive`, `auto`; `budget_tokens` as `thinking_budget`"}, chat_openai_thinking},
    {{"thinking_budget", YES, CHAT, "extension, as in Qwen's API: tokens of reasoning, after which its end is forced; 0 switches it off. Not for gpt-oss"}, chat_parse_budget},
    {{"reasoning", YES, CHAT, "extension, as in OpenRouter: `effort` as `reasoning_effort`, `enabled` as `enable_thinking`, `exclude: true` as `include_reasoning: false`, `max_tokens` as `thinking_budget`; other members are ignored"}, chat_openai_reasoning},
    {{"repeat_penalty", YES, BOTH, "extension, as in llama.cpp and Ollama: `repetition_penalty`"}, chat_parse_repeat_penalty},
    {{"options", YES, BOTH, "extension, as in Ollama: `temperature`, `top_p`, `top_k`, `min_p`, `seed`, `stop`, `num_predict`, `repeat_penalty`, `presence_penalty`, `frequency_penalty`; other members are ignored"}, chat_parse_options},
    {{"usage", YES, BOTH, "extension, as in OpenRouter: `include` as `stream_options.include_usage`"}, chat_openai_usage_option},
    {{"min_tokens", YES, BOTH, "extension: `0`; a minimum length is refused"}, chat_openai_min_tokens},
    {{"add_generation_prompt", YES, CHAT, "extension: `true`; `false` is refused"}, chat_parse_must_be_true},
    {{"continue_final_message", YES, CHAT, "extension: `false`; `true` is refused"}, chat_parse_must_be_false},
    {{"modalities", YES, CHAT, "`[\"text\"]`; other values are refused"}, parse_modalities},
    {{"echo", YES, COMPLETIONS, "`false`; `true` is refused"}, chat_parse_must_be_false},
    {{"best_of", YES, COMPLETIONS, "equal to `n`; other values are refused"}, parse_best_of},
    {{"ignore_eos", YES, BOTH, "extension, for benchmarks: continue after the model's stop tokens"}, chat_parse_flag},

    {{"user", NONE, BOTH, "string"}, chat_parse_user},
    {{"metadata", NONE, CHAT, ""}, NULL},
    {{"store", NONE, CHAT, "boolean; nothing is stored"}, chat_parse_any_bool},
    {{"service_tier", NONE, CHAT, "string (strict: `auto` or `default`)"}, chat_parse_service_tier},
    {{"prompt_cache_key", NONE, CHAT, "the prefix cache works without it"}, NULL},
    {{"prompt_cache_retention", NONE, CHAT, ""}, NULL},
    {{"safety_identifier", NONE, CHAT, ""}, NULL},
    {{"prediction", NONE, CHAT, "a hint for speed; it does not change the answer"}, NULL},
    {{"guided_decoding_backend", NONE, BOTH, "there is one implementation"}, NULL},
    {{"num_ctx", NONE, BOTH, "extension, as in Ollama: the context is the node's setting"}, NULL},
    {{"keep_alive", NONE, BOTH, "extension, as in Ollama: operators pin a model"}, NULL},
    {{"provider", NONE, BOTH, "extension, as in OpenRouter"}, NULL},
    {{"typical_p", NONE, BOTH, "extension: the sampler has `top_p` and `min_p`"}, NULL},
    {{"mirostat", NONE, BOTH, "extension: the sampler has `top_p` and `min_p`"}, NULL},
    {{"cache_prompt", NONE, BOTH, "the prefix cache works without it"}, NULL},
    {{"verbosity", NONE, CHAT, "`low`, `medium`, `high`: models have no such setting"}, chat_parse_verbosity},

    {{"functions", NO, CHAT, "Use `tools`."}, NULL},
    {{"function_call", NO, CHAT, "Use `tool_choice`."}, NULL},
    {{"audio", NO, CHAT, "This server supports text only."}, NULL},
    {{"web_search_options", NO, CHAT, "This server has no web search."}, NULL},
    {{"suffix", NO, COMPLETIONS, "Fill-in-the-middle is not supported."}, NULL},
    {{"guided_whitespace_pattern", NO, BOTH, "White space is as docs/structured-output.md says."}, NULL},
    {{"stop_token_ids", NO, BOTH, "Use `stop`."}, NULL},
    {{"use_beam_search", NO, BOTH, "Use `n`."}, NULL},
    {{"chat_template", NO, CHAT, "A template belongs to a model; set it at registration."}, NULL},
    {{"documents", NO, CHAT, "Use `chat_template_kwargs`."}, NULL},
};
/* clang-format on */

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

const struct chat_fields chat_openai_chat_fields = {fields, FIELD_COUNT, CHAT, "api-fields.md"};
const struct chat_fields chat_openai_completions_fields = {fields, FIELD_COUNT, COMPLETIONS,
                                                           "api-fields.md"};

static void openai_fields_print_list(struct lr_buf *out, enum chat_field_list list)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        const struct chat_field_row *row = &fields[i].row;
        if (row->list != list)
            continue;
        lr_buf_addf(out, "| `%s` | %s | %s | %s |\n", row->name,
                    (row->in & CHAT) != 0 ? "yes" : "",
                    (row->in & COMPLETIONS) != 0 ? "yes" : "", row->note);
    }
}

static void print_head(struct lr_buf *out, const char *last)
{
    lr_buf_addf(out, "| field | chat | completions | %s |\n|---|---|---|---|\n", last);
}

void chat_openai_fields_markdown(struct lr_buf *out)
{
    lr_buf_add_z(out,
                 "# Fields of chat completions and completions\n\n"
                 "This page lists the fields of `POST /v1/chat/completions` and "
                 "`POST /v1/completions`. Every field is in one of three lists. A field "
                 "that is in\nnone of them is ignored. The header `X-LLM-Router-Ignored` of "
                 "the answer names every field that was ignored, except those that are "
                 "`null` (not set) or\n`false`. A strict request gets 400 "
                 "(`unknown_parameter`) for a field that is in no list: a request with the "
                 "header `Prefer: handling=strict`, and\nevery request to a router or node "
                 "with `--strict-fields`. Values of a wrong type and impossible values are "
                 "always 400. The lists come from the table\nin "
                 "`src/chat/openai/fields.c`, and tests check that they are equal and true."
                 "\n\n## Honoured\n\n");
    print_head(out, "values");
    openai_fields_print_list(out, CHAT_FIELD_HONOURED);
    lr_buf_add_z(out, "\n## Ignored\n\n");
    print_head(out, "values");
    openai_fields_print_list(out, CHAT_FIELD_NO_EFFECT);
    lr_buf_add_z(out, "\n## Refused fields\n\nThe answer is 400 with the name of the field in "
                      "`param`.\n\n");
    print_head(out, "alternative");
    openai_fields_print_list(out, CHAT_FIELD_REFUSED);
}
