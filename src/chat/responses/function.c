/* chat/responses/function.c - converts a tool of the Responses API to a function.
 *
 * A custom tool takes free text, for which Harmony models have no format.  It becomes a
 * function with one string, `input`, and chat/responses/items.c extracts the text again.  That
 * function is strict, so that its arguments are always exactly that object.
 */
#include "chat/responses/tool.h"

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

static lr_code add_function(struct chat_parse *p, const struct chat_tool *t,
                            struct chat_object *f)
{
    const struct lr_json *schema = lr_json_get(t->from, "parameters");
    const struct lr_json *strict = lr_json_get(t->from, "strict");
    if (schema != NULL && schema->type != LR_JSON_OBJECT && schema->type != LR_JSON_NULL)
        return chat_tool_bad(p, t, "parameters", "an object");
    chat_object_set(f, "description", t->about);
    if (schema != NULL)
        chat_object_set(f, "parameters", *schema);
    if (strict != NULL)
        chat_object_set(f, "strict", *strict);
    return LR_OK;
}

/* The grammar of a custom tool's input is shown to the model but not enforced. */
static lr_code add_grammar(struct chat_parse *p, const struct chat_tool *t,
                           struct lr_json *about)
{
    const struct lr_json *format = lr_json_get(t->from, "format");
    struct lr_str type, syntax, definition, before = {0};
    if (format == NULL || format->type == LR_JSON_NULL)
        return LR_OK;
    if (!lr_json_str(lr_json_get(format, "type"), &type) ||
        (!lr_str_eq_z(type, "text") && !lr_str_eq_z(type, "grammar")))
        return chat_tool_bad(p, t, "format", "an object of type 'text' or 'grammar'");
    if (lr_str_eq_z(type, "text"))
        return LR_OK;
    if (!lr_json_str(lr_json_get(format, "syntax"), &syntax) ||
        !lr_json_str(lr_json_get(format, "definition"), &definition))
        return chat_tool_bad(p, t, "format", "'syntax' and 'definition'");
    (void)lr_json_str(about, &before);
    char *text = lr_arena_printf(
        p->arena, LR_STR_FMT "%sThe input follows this grammar (" LR_STR_FMT "):\n" LR_STR_FMT,
        LR_STR_ARG(before), before.len > 0 ? "\n\n" : "", LR_STR_ARG(syntax),
        LR_STR_ARG(definition));
    if (text == NULL)
        return chat_tool_no_memory(p);
    *about = chat_string_json(lr_str_z(text));
    return LR_OK;
}

static lr_code add_custom(struct chat_parse *p, const struct chat_tool *t,
                          struct chat_object *f)
{
    struct lr_json about = t->about;
    lr_code code = add_grammar(p, t, &about);
    chat_object_set(f, "description", about);
    chat_object_set(f, "parameters", input_schema());
    chat_object_set(f, "strict", (struct lr_json){.type = LR_JSON_BOOL, .boolean = true});
    return code;
}

lr_code chat_tool_make(struct chat_parse *p, const struct chat_tool *t, struct lr_str name,
                       struct lr_json *out)
{
    struct chat_object tool, function;
    if (!chat_object_begin(&tool, p->arena, NULL, 2) ||
        !chat_object_begin(&function, p->arena, NULL, 4))
        return chat_tool_no_memory(p);
    chat_object_set(&function, "name", chat_string_json(name));
    lr_code code = lr_str_eq_z(t->type, "custom") ? add_custom(p, t, &function)
                                                  : add_function(p, t, &function);
    chat_object_set(&tool, "type", chat_string_json(LR_STR_LIT("function")));
    chat_object_set(&tool, "function", chat_object_json(&function));
    *out = chat_object_json(&tool);
    return code;
}
