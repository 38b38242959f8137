/* chat/responses_tools.c - tools and tool_choice of the Responses API.
 *
 * Its tools are flat where chat's are nested, so they are rebuilt in the shape templates and
 * grammars know.  A custom tool takes free text, which Harmony models have no form for: it
 * becomes a function with one string, `input`, and chat/responses_items.c takes the text out
 * again.  That function is strict, so that what arrives there is that object and nothing else.
 */
#include <stdio.h>

#include "chat/openai_parse.h"
#include "chat/repair_internal.h"

static int shown(struct lr_str s)
{
    return s.len < 40 ? (int)s.len : 40;
}

static lr_code no_memory(struct chat_parse *p)
{
    return chat_parse_fail(p, "tools", NULL, LR_OUT_OF_RAM,
                           "no memory for 'tools' (limit %zu bytes)", p->arena->limit);
}

/* {"type":"object","properties":{"input":{"type":"string"}},"required":["input"],
 * "additionalProperties":false} */
static struct lr_json input_schema(void)
{
#define LIT(s)                                                                                 \
    {                                                                                          \
        s, sizeof(s) - 1                                                                       \
    }
#define TEXT(s)                                                                                \
    {                                                                                          \
        .type = LR_JSON_STRING, .text = LIT(s)                                                 \
    }
    static const struct lr_json_member string_type[] = {{LIT("type"), TEXT("string")}};
    static const struct lr_json_member properties[] = {
        {LIT("input"), {.type = LR_JSON_OBJECT, .count = 1, .members = string_type}}};
    static const struct lr_json required[] = {TEXT("input")};
    static const struct lr_json_member members[] = {
        {LIT("type"), TEXT("object")},
        {LIT("properties"), {.type = LR_JSON_OBJECT, .count = 1, .members = properties}},
        {LIT("required"), {.type = LR_JSON_ARRAY, .count = 1, .items = required}},
        {LIT("additionalProperties"), {.type = LR_JSON_BOOL, .boolean = false}},
    };
#undef TEXT
#undef LIT
    return (struct lr_json){.type = LR_JSON_OBJECT, .count = 4, .members = members};
}

struct tool {
    char at[32]; /* "tools[3]" */
    const struct lr_json *from;
    struct lr_str type, name;
    struct lr_json about; /* a string, or null */
};

static lr_code fail_at(struct chat_parse *p, const struct tool *t, const char *member,
                       const char *wanted)
{
    char param[64];
    (void)snprintf(param, sizeof(param), "%s.%s", t->at, member);
    return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                           "Invalid '%s': expected %s.", param, wanted);
}

static lr_code read_tool(struct chat_parse *p, struct tool *t)
{
    const struct lr_json *about = lr_json_get(t->from, "description");
    if (t->from->type != LR_JSON_OBJECT)
        return chat_parse_type(p, t->at, "an object", t->from);
    if (!lr_json_str(lr_json_get(t->from, "type"), &t->type))
        return fail_at(p, t, "type", "'function' or 'custom'");
    if (!lr_str_eq_z(t->type, "function") && !lr_str_eq_z(t->type, "custom")) {
        char param[64];
        (void)snprintf(param, sizeof(param), "%s.type", t->at);
        return chat_parse_fail(
            p, param, "unsupported_value", LR_UNSUPPORTED,
            "Invalid '%s': the tool '%.*s' is not offered, since this server "
            "runs no tools itself; leave it out, or declare a 'function' or "
            "'custom' tool and run it.",
            param, shown(t->type), t->type.ptr);
    }
    if (!lr_json_str(lr_json_get(t->from, "name"), &t->name) || !chat_is_tool_name(t->name))
        return fail_at(p, t, "name", "1 to 64 letters, digits, '_', '-' or '.'");
    t->about = (struct lr_json){.type = LR_JSON_NULL};
    if (about != NULL && about->type != LR_JSON_STRING && about->type != LR_JSON_NULL)
        return fail_at(p, t, "description", "a string");
    if (about != NULL)
        t->about = *about;
    return LR_OK;
}

static lr_code add_function(struct chat_parse *p, const struct tool *t, struct chat_object *f)
{
    const struct lr_json *schema = lr_json_get(t->from, "parameters");
    const struct lr_json *strict = lr_json_get(t->from, "strict");
    if (schema != NULL && schema->type != LR_JSON_OBJECT && schema->type != LR_JSON_NULL)
        return fail_at(p, t, "parameters", "an object");
    chat_object_set(f, "description", t->about);
    if (schema != NULL)
        chat_object_set(f, "parameters", *schema);
    if (strict != NULL)
        chat_object_set(f, "strict", *strict);
    return LR_OK;
}

/* The grammar of a custom tool's input is told to the model; it is not enforced. */
static lr_code add_grammar(struct chat_parse *p, const struct tool *t, struct lr_json *about)
{
    const struct lr_json *format = lr_json_get(t->from, "format");
    struct lr_str type, syntax, definition, before = {0};
    if (format == NULL || format->type == LR_JSON_NULL)
        return LR_OK;
    if (!lr_json_str(lr_json_get(format, "type"), &type) ||
        (!lr_str_eq_z(type, "text") && !lr_str_eq_z(type, "grammar")))
        return fail_at(p, t, "format", "an object of type 'text' or 'grammar'");
    if (lr_str_eq_z(type, "text"))
        return LR_OK;
    if (!lr_json_str(lr_json_get(format, "syntax"), &syntax) ||
        !lr_json_str(lr_json_get(format, "definition"), &definition))
        return fail_at(p, t, "format", "'syntax' and 'definition'");
    (void)lr_json_str(about, &before);
    char *text = lr_arena_printf(
        p->arena, LR_STR_FMT "%sThe input follows this grammar (" LR_STR_FMT "):\n" LR_STR_FMT,
        LR_STR_ARG(before), before.len > 0 ? "\n\n" : "", LR_STR_ARG(syntax),
        LR_STR_ARG(definition));
    if (text == NULL)
        return no_memory(p);
    *about = chat_string_json(lr_str_z(text));
    return LR_OK;
}

static lr_code add_custom(struct chat_parse *p, const struct tool *t, struct chat_object *f)
{
    struct lr_json about = t->about;
    lr_code code = add_grammar(p, t, &about);
    chat_object_set(f, "description", about);
    chat_object_set(f, "parameters", input_schema());
    chat_object_set(f, "strict", (struct lr_json){.type = LR_JSON_BOOL, .boolean = true});
    return code;
}

static lr_code make_tool(struct chat_parse *p, struct tool *t, struct lr_json *out)
{
    struct chat_object tool, function;
    lr_code code = read_tool(p, t);
    if (code != LR_OK)
        return code;
    if (!chat_object_begin(&tool, p->arena, NULL, 2) ||
        !chat_object_begin(&function, p->arena, NULL, 4))
        return no_memory(p);
    chat_object_set(&function, "name", chat_string_json(t->name));
    code = lr_str_eq_z(t->type, "custom") ? add_custom(p, t, &function)
                                          : add_function(p, t, &function);
    chat_object_set(&tool, "type", chat_string_json(LR_STR_LIT("function")));
    chat_object_set(&tool, "function", chat_object_json(&function));
    *out = chat_object_json(&tool);
    return code;
}

lr_code chat_responses_tools(struct chat_parse *p)
{
    const struct lr_json *from = p->tools;
    if (from == NULL || from->count == 0)
        return LR_OK;
    if (from->count > CHAT_TOOLS_MAX)
        return chat_parse_fail(p, "tools", "invalid_value", LR_INVALID_ARGUMENT,
                               "'tools' has %u entries, the limit is %d.", from->count,
                               CHAT_TOOLS_MAX);
    struct lr_json *list = lr_arena_array(p->arena, from->count, sizeof(*list));
    struct lr_json *all = lr_arena_alloc(p->arena, sizeof(*all));
    if (list == NULL || all == NULL)
        return no_memory(p);
    for (uint32_t i = 0; i < from->count; i++) {
        struct tool t = {.from = &from->items[i]};
        struct lr_str other;
        (void)snprintf(t.at, sizeof(t.at), "tools[%u]", i);
        lr_code code = make_tool(p, &t, &list[i]);
        for (uint32_t k = 0; code == LR_OK && k < i; k++)
            if (lr_json_str(lr_json_get(&from->items[k], "name"), &other) &&
                lr_str_eq(other, t.name))
                code = fail_at(p, &t, "name", "a name that is not declared twice");
        if (code != LR_OK)
            return code;
    }
    *all = (struct lr_json){.type = LR_JSON_ARRAY, .count = from->count, .items = list};
    p->req->tools = all;
    return LR_OK;
}

lr_code chat_responses_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value)
{
    struct lr_str type;
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_tool_choice(p, name, value);
    if (!lr_json_str(lr_json_get(value, "type"), &type) ||
        (!lr_str_eq_z(type, "function") && !lr_str_eq_z(type, "custom")))
        return chat_parse_fail(p, "tool_choice.type", "unsupported_value", LR_UNSUPPORTED,
                               "'tool_choice' as an object takes the type 'function' or "
                               "'custom'.");
    if (!lr_json_str(lr_json_get(value, "name"), &p->req->required_tool) ||
        p->req->required_tool.len == 0)
        return chat_parse_fail(p, "tool_choice.name", "missing_required_parameter",
                               LR_INVALID_ARGUMENT,
                               "'tool_choice' needs the 'name' of a tool.");
    p->req->requires_tool_call = true;
    return LR_OK;
}
