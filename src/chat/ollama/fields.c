/* chat/ollama/fields.c - the fields of POST /api/chat and POST /api/generate.
 *
 * The table is the only place that knows the fields. docs/ollama.md contains the lists
 * generated from it; a test compares the two.
 */
#include "chat/ollama/ollama.h"
#include "chat/openai/openai.h"

static lr_code parse_messages(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of messages", value);
    chat_ollama_parse_of(p)->messages = value;
    return LR_OK;
}

static lr_code parse_text(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    struct chat_ollama_parse *o = chat_ollama_parse_of(p);
    bool is_prompt = strcmp(name, "prompt") == 0;
    return lr_json_str(value, is_prompt ? &o->prompt : &o->system)
               ? LR_OK
               : chat_parse_type(p, name, "a string", value);
}

static lr_code parse_raw(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    return chat_parse_bool(p, name, value, &chat_ollama_parse_of(p)->is_raw);
}

static lr_code parse_logprobs(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    return chat_parse_bool(p, name, value, &p->logprobs);
}

/* "json", or a schema. */
static lr_code ollama_fields_parse_format(struct chat_parse *p, const char *name,
                                          const struct lr_json *value)
{
    struct lr_str word;
    if (!lr_json_str(value, &word)) {
        if (value->type != LR_JSON_OBJECT)
            return chat_parse_type(p, name, "\"json\" or a JSON Schema", value);
        return chat_set_constraint(p, name, GRAMMAR_ANSWER_SCHEMA, value);
    }
    if (word.len == 0)
        return LR_OK;
    if (!lr_str_eq_z(word, "json"))
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "Invalid value for 'format': expected \"json\" or a JSON "
                               "Schema.");
    return chat_set_constraint(p, name, GRAMMAR_ANSWER_OBJECT, NULL);
}

/* Models that always think do so as little as they can. */
static lr_code parse_think(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    bool wanted;
    if (value->type == LR_JSON_STRING)
        return chat_parse_effort(p, name, value);
    if (!lr_json_bool(value, &wanted))
        return chat_parse_type(p, name, "a boolean or a string", value);
    p->req->thinking = wanted ? CHAT_THINKING_ON : CHAT_THINKING_OFF;
    if (!wanted)
        p->req->reasoning_effort = LR_STR_LIT("low");
    return LR_OK;
}

/* Clients in Go send "" for a text that is not set. */
static lr_code parse_no_text(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    if (value->type == LR_JSON_STRING && value->text.len == 0)
        return LR_OK;
    return chat_parse_fail(p, name, "unsupported_parameter", LR_UNSUPPORTED,
                           strcmp(name, "suffix") == 0
                               ? "Unsupported parameter: 'suffix'. Fill-in-the-middle is not "
                                 "supported."
                               : "Unsupported parameter: 'template'. A template belongs to a "
                                 "model; set it at registration, or use 'raw'.");
}

static lr_code parse_context(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    if (value->type == LR_JSON_ARRAY && value->count == 0)
        return LR_OK;
    return chat_parse_fail(p, name, "unsupported_parameter", LR_UNSUPPORTED,
                           "Unsupported parameter: 'context'. Answers have no context to send "
                           "back; use POST /api/chat with the earlier messages.");
}

static lr_code parse_images(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array", value);
    if (value->count == 0)
        return LR_OK;
    chat_ollama_parse_of(p)->has_images = true;
    return chat_parse_fail(p, name, "unsupported_value", LR_UNSUPPORTED,
                           "Invalid 'images': this model cannot see images; it takes text.");
}

/* "0", "0s" */
static bool is_zero(struct lr_str text)
{
    while (text.len > 0 && text.ptr[text.len - 1] >= 'a' && text.ptr[text.len - 1] <= 'z')
        text.len--;
    return lr_str_eq_z(text, "0");
}

/* A number of seconds, or a text with a unit. */
static lr_code parse_keep_alive(struct chat_parse *p, const char *name,
                                const struct lr_json *value)
{
    struct lr_str text;
    double seconds = 1;
    bool is_text = lr_json_str(value, &text);
    if (!is_text && !lr_json_double(value, &seconds))
        return chat_parse_type(p, name, "a number or a string", value);
    chat_ollama_parse_of(p)->unloads = is_text ? is_zero(text) : seconds == 0;
    return LR_OK;
}

#define YES      CHAT_FIELD_HONOURED
#define NONE     CHAT_FIELD_NO_EFFECT
#define CHAT     CHAT_OLLAMA_CHAT
#define GENERATE CHAT_OLLAMA_GENERATE
#define BOTH     (CHAT | GENERATE)

/* clang-format off */
static const struct chat_field fields[] = {
    {{"model", YES, BOTH, "id or alias of a registered model; `name:latest` means `name`; required"}, chat_parse_model},
    {{"messages", YES, CHAT, "of role `system`, `user`, `assistant` or `tool`. Without messages the model is only loaded. See below"}, parse_messages},
    {{"prompt", YES, GENERATE, "a string. Without a prompt the model is only loaded"}, parse_text},
    {{"system", YES, GENERATE, "a string"}, parse_text},
    {{"raw", YES, GENERATE, "boolean; `true`: the prompt is used without the model's template, and control tokens in it are recognised"}, parse_raw},
    {{"stream", YES, BOTH, "boolean; default `true`"}, chat_parse_flag},
    {{"format", YES, BOTH, "`json`, or a JSON Schema; always enforced (docs/structured-output.md)"}, ollama_fields_parse_format},
    {{"options", YES, BOTH, "`temperature`, `top_p`, `top_k`, `min_p`, `seed`, `stop`, `num_predict` (0, -1 and -2: no limit), `repeat_penalty`, `presence_penalty`, `frequency_penalty`, with the ranges of docs/api-fields.md. Other members are ignored: the context and the use of the GPU are settings of the node"}, chat_parse_runner_options},
    {{"think", YES, BOTH, "`true` and `false` for templates that can turn thinking off; `low`, `medium`, `high`, `max`: the effort. `false` also hides the thinking, and is the effort `low` for models that always think"}, parse_think},
    {{"tools", YES, CHAT, "up to 256 of type `function`; `function.strict: true` enforces the schema (docs/structured-output.md)"}, chat_openai_tools},
    {{"tool_choice", YES, CHAT, "extension: as in `/v1/chat/completions`"}, chat_openai_tool_choice},
    {{"logprobs", YES, BOTH, "boolean"}, parse_logprobs},
    {{"top_logprobs", YES, BOTH, "0 to 20; needs `logprobs: true`"}, chat_parse_top_logprobs},
    {{"images", YES, GENERATE, "an empty list; images are refused: the models here read text only"}, parse_images},
    {{"suffix", YES, GENERATE, "an empty string; fill-in-the-middle is refused"}, parse_no_text},
    {{"template", YES, GENERATE, "an empty string; another template is refused: a template belongs to a model"}, parse_no_text},
    {{"context", YES, GENERATE, "an empty list; answers have no `context`. Use `/api/chat` with the earlier messages"}, parse_context},

    {{"keep_alive", NONE, BOTH, "a number or a string; operators pin and unload models. `0` without messages or prompt, which would unload the model, is refused"}, parse_keep_alive},
    {{"truncate", NONE, BOTH, "boolean; a prompt beyond the context gets 400"}, chat_parse_any_bool},
    {{"shift", NONE, BOTH, "boolean; an answer ends where the context ends"}, chat_parse_any_bool},
};
/* clang-format on */

enum { FIELD_COUNT = sizeof(fields) / sizeof(fields[0]) };

const struct chat_fields chat_ollama_chat_fields = {fields, FIELD_COUNT, CHAT, "ollama.md"};
const struct chat_fields chat_ollama_generate_fields = {fields, FIELD_COUNT, GENERATE,
                                                        "ollama.md"};

void chat_ollama_print_fields(struct lr_buf *out, const struct chat_fields *table,
                              const char *first, const char *second)
{
    static const struct {
        enum chat_field_list list;
        const char *title;
    } lists[] = {{YES, "### Honoured"}, {NONE, "\n### Ignored"}};
    for (size_t k = 0; k < sizeof(lists) / sizeof(lists[0]); k++) {
        lr_buf_addf(out, "%s\n\n| field | %s | %s | values |\n|---|---|---|---|\n",
                    lists[k].title, first, second);
        for (size_t i = 0; i < table->count; i++) {
            const struct chat_field_row *row = &table->rows[i].row;
            if (row->list == lists[k].list)
                lr_buf_addf(out, "| `%s` | %s | %s | %s |\n", row->name,
                            (row->in & 1) != 0 ? "yes" : "", (row->in & 2) != 0 ? "yes" : "",
                            row->note);
        }
    }
}

void chat_ollama_fields_markdown(struct lr_buf *out)
{
    chat_ollama_print_fields(out, &chat_ollama_chat_fields, "chat", "generate");
}
