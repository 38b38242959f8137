/* chat/anthropic/fields.c - the fields of POST /v1/messages, and how they are handled.
 *
 * The table is the only place that knows the fields. docs/messages.md contains the list
 * generated from it; a test compares the two.
 */
#include "chat/anthropic/anthropic.h"
#include "chat/template/object.h"

static lr_code parse_system(struct chat_parse *p, const char *name, const struct lr_json *value)
{
    if (value->type != LR_JSON_STRING && value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "a string or an array of blocks", value);
    chat_anthropic_parse_of(p)->system = value;
    return LR_OK;
}

static lr_code parse_messages(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of messages", value);
    chat_anthropic_parse_of(p)->messages = value;
    return LR_OK;
}

static lr_code anthropic_fields_parse_max(struct chat_parse *p, const char *name,
                                          const struct lr_json *value)
{
    return chat_parse_u32(p, name, value, 1, INT32_MAX, &p->req->max_tokens);
}

static lr_code parse_metadata(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    (void)name;
    (void)lr_json_str(lr_json_get(value, "user_id"), &p->req->user);
    return LR_OK;
}

static lr_code anthropic_fields_parse_format(struct chat_parse *p, const char *name,
                                             const struct lr_json *value)
{
    struct chat_object about;
    const struct lr_json *schema = lr_json_get(value, "schema");
    bool wants_schema;
    lr_code code = chat_parse_format_type(p, name, value, &wants_schema);
    if (code != LR_OK || !wants_schema)
        return code;
    if (!chat_object_begin(&about, p->arena, NULL, 2))
        return chat_parse_fail(p, name, NULL, LR_OUT_OF_RAM, "no memory for '%s'", name);
    /* The API has no name for a schema, but the prompts of models do. */
    chat_object_set(&about, "name", chat_string_json(LR_STR_LIT("answer")));
    if (schema != NULL)
        chat_object_set(&about, "schema", *schema);
    struct lr_json built = chat_object_json(&about);
    return chat_parse_schema(p, name, &built);
}

static lr_code parse_output_config(struct chat_parse *p, const char *name,
                                   const struct lr_json *value)
{
    const struct lr_json *effort = lr_json_get(value, "effort");
    const struct lr_json *format = lr_json_get(value, "format");
    lr_code code = LR_OK;
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    if (effort != NULL && effort->type != LR_JSON_NULL) {
        code = chat_parse_effort(p, "output_config.effort", effort);
        chat_anthropic_parse_of(p)->has_effort = true;
    }
    if (code == LR_OK && format != NULL && format->type != LR_JSON_NULL)
        code = anthropic_fields_parse_format(p, "output_config.format", format);
    return code;
}

/* The token budgets that people give for a little, some and much thinking. */
enum { BUDGET_LOW = 4096, BUDGET_MEDIUM = 16384 };

static const char *effort_of_budget(const struct lr_json *value)
{
    uint64_t tokens;
    if (!lr_json_u64(lr_json_get(value, "budget_tokens"), &tokens))
        return "";
    return tokens < BUDGET_LOW ? "low" : tokens < BUDGET_MEDIUM ? "medium" : "high";
}

static lr_code parse_thinking(struct chat_parse *p, const char *name,
                              const struct lr_json *value)
{
    struct lr_str type, display = {0};
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    if (!lr_json_str(lr_json_get(value, "type"), &type))
        return chat_parse_missing(p, "thinking.type");
    (void)lr_json_str(lr_json_get(value, "display"), &display);
    bool is_off = lr_str_eq_z(type, "disabled");
    uint64_t budget;
    if (!is_off && lr_json_u64(lr_json_get(value, "budget_tokens"), &budget) &&
        budget <= UINT32_MAX)
        p->req->thinking_budget = (uint32_t)budget;
    if (!is_off && !lr_str_eq_z(display, "omitted"))
        p->req->reasoning = CHAT_REASONING_CONTENT;
    if (!chat_anthropic_parse_of(p)->has_effort)
        p->req->reasoning_effort = lr_str_z(is_off ? "low" : effort_of_budget(value));
    p->req->thinking = is_off ? CHAT_THINKING_OFF : CHAT_THINKING_ON;
    return LR_OK;
}

#define YES(name, note)  name, CHAT_FIELD_HONOURED, 1, note
#define NONE(name, note) name, CHAT_FIELD_NO_EFFECT, 1, note

/* clang-format off */
static const struct chat_field fields[] = {
    {{YES("model", "id or alias of a registered model; required")}, chat_parse_model},
    {{YES("messages", "1 or more, of role `user`, `assistant` or `system`; required. See below")}, parse_messages},
    {{YES("system", "a string or blocks of type `text`. See below")}, parse_system},
    {{YES("max_tokens", "1 or more; default: up to the end of the context. Thinking counts, too")}, anthropic_fields_parse_max},
    {{YES("stream", "boolean")}, chat_parse_flag},
    {{YES("stop_sequences", "strings; matched on the text of the answer, not on thinking or tool input")}, chat_parse_stop},
    {{YES("temperature", "0 to 2; 0 is greedy; default the model's, else 1")}, chat_parse_sampling},
    {{YES("top_p", "0 to 1; default the model's, else 1")}, chat_parse_sampling},
    {{YES("top_k", "integer; 0 or -1 is off")}, chat_parse_sampling},
    {{YES("tools", "up to 256 with `name`, `description`, `input_schema`; `strict: true` enforces the schema (docs/structured-output.md). Tools of another `type` than `custom` run on Anthropic's servers or have no schema: they are left out, and the header `X-LLM-Router-Ignored` names them")}, chat_anthropic_tools},
    {{YES("tool_choice", "`auto`, `any`, `tool` with `name`, or `none`; `disable_parallel_tool_use` ends the answer after its first call")}, chat_anthropic_tool_choice},
    {{YES("output_config", "`effort`: `low`, `medium`, `high`, `xhigh`, `max`; `format`: `json_schema` with `schema`, always enforced (docs/structured-output.md)")}, parse_output_config},
    {{YES("output_format", "older name of `output_config.format`")}, anthropic_fields_parse_format},
    {{YES("thinking", "`enabled`, `adaptive` and `between_tools` show the reasoning as `thinking` blocks; `disabled`, no `thinking` and `display: omitted` hide it. `budget_tokens` bounds the reasoning of models other than gpt-oss; below 4096 it is the effort `low`, below 16384 `medium`, else `high`; `disabled` is `low`; `output_config.effort` comes first")}, parse_thinking},
    {{YES("metadata", "`user_id`, for logs")}, parse_metadata},

    {{NONE("cache_control", "here and in blocks; the prefix cache works without it")}, NULL},
    {{NONE("context_management", "shorten `messages` yourself")}, NULL},
    {{NONE("service_tier", "")}, NULL},
    {{NONE("container", "this server runs no code")}, NULL},
    {{NONE("mcp_servers", "this server runs no tools itself")}, NULL},
    {{NONE("inference_geo", "")}, NULL},
    {{NONE("speed", "")}, NULL},
    {{NONE("safeguards", "")}, NULL},
    {{NONE("betas", "")}, NULL},
};
/* clang-format on */

const struct chat_fields chat_anthropic_fields = {fields, sizeof(fields) / sizeof(fields[0]), 1,
                                                  "messages.md"};

static void anthropic_fields_print_list(struct lr_buf *out, enum chat_field_list list)
{
    lr_buf_add_z(out, "| field | values |\n|---|---|\n");
    for (size_t i = 0; i < chat_anthropic_fields.count; i++)
        if (fields[i].row.list == list)
            lr_buf_addf(out, "| `%s` | %s |\n", fields[i].row.name, fields[i].row.note);
}

void chat_anthropic_fields_markdown(struct lr_buf *out)
{
    lr_buf_add_z(out, "### Honoured\n\n");
    anthropic_fields_print_list(out, CHAT_FIELD_HONOURED);
    lr_buf_add_z(out, "\n### Ignored\n\n");
    anthropic_fields_print_list(out, CHAT_FIELD_NO_EFFECT);
}
