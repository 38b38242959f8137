/* chat/parse_format.c - fields that define the output format, and their checks together with
 * tools: see chat/parse.h. */
#include <stdio.h>

#include "chat/parse.h"
#include "grammar/grammar.h"

enum { FORMAT_NAME_MAX = 64, FORMAT_ABOUT_MAX = 4096 };

bool chat_is_tool_name(struct lr_str name)
{
    if (name.len == 0 || name.len > CHAT_TOOL_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-' || c == '.'))
            return false;
    }
    return true;
}

static bool is_format_name(struct lr_str name)
{
    for (size_t i = 0; i < name.len; i++) {
        char c = name.ptr[i];
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '_' || c == '-'))
            return false;
    }
    return name.len > 0 && name.len <= FORMAT_NAME_MAX;
}

lr_code chat_parse_schema(struct chat_parse *p, const char *at, const struct lr_json *about)
{
    struct chat_request *req = p->req;
    char param[64];
    const struct lr_json *text = lr_json_get(about, "description");
    const struct lr_json *flag = lr_json_get(about, "strict");
    (void)snprintf(param, sizeof(param), "%s.name", at);
    if (!lr_json_str(lr_json_get(about, "name"), &req->schema_name) ||
        !is_format_name(req->schema_name))
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' has 1 to %d letters, digits, '_' or '-'.", param,
                               FORMAT_NAME_MAX);
    (void)snprintf(param, sizeof(param), "%s.description", at);
    if (text != NULL && text->type != LR_JSON_NULL &&
        (!lr_json_str(text, &req->schema_about) || req->schema_about.len > FORMAT_ABOUT_MAX))
        return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'%s' is a string of at most %d bytes.", param,
                               FORMAT_ABOUT_MAX);
    (void)snprintf(param, sizeof(param), "%s.strict", at);
    if (flag != NULL && flag->type != LR_JSON_NULL && !lr_json_bool(flag, &req->schema_strict))
        return chat_parse_type(p, param, "a boolean", flag);
    (void)snprintf(param, sizeof(param), "%s.schema", at);
    const struct lr_json *schema = lr_json_get(about, "schema");
    if (schema == NULL)
        return chat_parse_fail(p, param, "missing_required_parameter", LR_INVALID_ARGUMENT,
                               "'%s' needs a 'schema'.", at);
    return chat_set_constraint(p, param, GRAMMAR_ANSWER_SCHEMA, schema);
}

/* A schema beside "json_object", as some servers take it: {} says no more than the type does.
 */
static lr_code parse_object(struct chat_parse *p, const char *at, const struct lr_json *value)
{
    const struct lr_json *schema = lr_json_get(value, "schema");
    char param[40];
    if (schema == NULL || schema->type == LR_JSON_NULL ||
        (schema->type == LR_JSON_OBJECT && schema->count == 0))
        return chat_set_constraint(p, at, GRAMMAR_ANSWER_OBJECT, NULL);
    (void)snprintf(param, sizeof(param), "%s.schema", at);
    return chat_set_constraint(p, param, GRAMMAR_ANSWER_SCHEMA, schema);
}

lr_code chat_parse_format_type(struct chat_parse *p, const char *at,
                               const struct lr_json *value, bool *wants_schema)
{
    struct lr_str type;
    char param[40];
    *wants_schema = false;
    (void)snprintf(param, sizeof(param), "%s.type", at);
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, at, "an object", value);
    if (!lr_json_str(lr_json_get(value, "type"), &type))
        return chat_parse_fail(p, param, "missing_required_parameter", LR_INVALID_ARGUMENT,
                               "'%s' needs a 'type'.", at);
    if (lr_str_eq_z(type, "json_object"))
        return parse_object(p, at, value);
    *wants_schema = lr_str_eq_z(type, "json_schema");
    if (!*wants_schema && !lr_str_eq_z(type, "text"))
        return chat_parse_fail(p, param, "unsupported_value", LR_UNSUPPORTED,
                               "'%s' of type '%.*s' is not supported; use 'text', "
                               "'json_object' or 'json_schema'.",
                               at, type.len < 40 ? (int)type.len : 40, type.ptr);
    return LR_OK;
}

static bool is_declared(const struct chat_request *req, struct lr_str name)
{
    struct lr_str other;
    for (uint32_t i = 0; req->tools != NULL && i < req->tools->count; i++) {
        const struct lr_json *function = lr_json_get(&req->tools->items[i], "function");
        if (lr_json_str(lr_json_get(function, "name"), &other) && lr_str_eq(name, other))
            return true;
    }
    return false;
}

static lr_code check_strict_tools(struct chat_parse *p, bool *any)
{
    const struct lr_json *tools = p->req->tools;
    *any = false;
    for (uint32_t i = 0; tools != NULL && i < tools->count; i++) {
        const struct lr_json *function = lr_json_get(&tools->items[i], "function");
        const struct lr_json *flag = lr_json_get(function, "strict");
        const struct lr_json *schema = lr_json_get(function, "parameters");
        char param[64], at[CHAT_TOOL_AT_MAX];
        bool strict = false;
        (void)snprintf(at, sizeof(at), "tools[%u].function", i);
        const char *where = p->req->origins != NULL ? p->req->origins[i].at : at;
        (void)snprintf(param, sizeof(param), "%s.strict", where);
        if (flag != NULL && flag->type != LR_JSON_NULL && !lr_json_bool(flag, &strict))
            return chat_parse_type(p, param, "a boolean", flag);
        *any = *any || strict;
        if (!strict || !lr_json_is(schema, LR_JSON_OBJECT))
            continue;
        (void)snprintf(param, sizeof(param), "%s.parameters", where);
        lr_code code = chat_check_constraint(p, param, GRAMMAR_ANSWER_SCHEMA, schema);
        if (code != LR_OK)
            return code;
    }
    return LR_OK;
}

lr_code chat_check_format(struct chat_parse *p, const char *tool_param)
{
    struct chat_request *req = p->req;
    bool any_strict;
    req->forbids_tool_calls = p->tool_choice_none;
    if (p->tool_choice_none)
        req->tools = NULL;
    if (req->requires_tool_call && req->tools == NULL)
        return chat_parse_fail(p, "tool_choice", "invalid_value", LR_INVALID_ARGUMENT,
                               "'tool_choice' demands a call, but 'tools' declares nothing.");
    if (req->required_tool.len != 0 && !is_declared(req, req->required_tool))
        return chat_parse_fail(p, tool_param, "invalid_value", LR_INVALID_ARGUMENT,
                               "'tool_choice' names '%.*s', which 'tools' does not declare.",
                               req->required_tool.len < 64 ? (int)req->required_tool.len : 64,
                               req->required_tool.ptr);
    lr_code code = check_strict_tools(p, &any_strict);
    if (code == LR_OK && req->ignore_stop &&
        (req->requires_tool_call || req->format != GRAMMAR_ANSWER_TEXT || any_strict))
        return chat_parse_fail(p, "ignore_eos", "invalid_value", LR_INVALID_ARGUMENT,
                               "'ignore_eos' goes on after the end of the answer, which "
                               "'%s', 'tool_choice' or strict tools settle; send only one of "
                               "them.",
                               p->constrained_by[0] != '\0' ? p->constrained_by
                                                            : "response_format");
    return code;
}
