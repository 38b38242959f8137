/* chat/anthropic/tools.c - tools and tool_choice of the Messages API.
 *
 * This API's tools are flat where the chat API's are nested, so they are rebuilt in the shape
 * that templates and grammars expect.
 */
#include <stdio.h>

#include "base/strmap.h"
#include "chat/anthropic/anthropic.h"
#include "chat/template/object.h"

struct tools {
    struct lr_json *list;
    struct chat_tool_origin *origins;
    uint32_t count;
    struct lr_strmap names;
};

static lr_code anthropic_tools_no_memory(struct chat_parse *p)
{
    return chat_parse_fail(p, "tools", NULL, LR_OUT_OF_RAM,
                           "no memory for 'tools' (limit %zu bytes)", p->arena->limit);
}

static lr_code anthropic_tools_bad(struct chat_parse *p, uint32_t index, const char *text)
{
    char at[32];
    (void)snprintf(at, sizeof(at), "tools.%u", index);
    return chat_parse_fail(p, at, "invalid_value", LR_INVALID_ARGUMENT, "%s: %s", at, text);
}

/* A tool of another type runs on Anthropic's servers, or its schema is known only to
 * Anthropic's models. */
static bool is_callable(const struct lr_json *tool)
{
    const struct lr_json *type = lr_json_get(tool, "type");
    return type == NULL || type->type == LR_JSON_NULL || chat_anthropic_is(tool, "custom");
}

/* The header X-LLM-Router-Ignored names a tool that was left out. */
static void note_tool(struct chat_parse *p, uint32_t index, const struct lr_json *tool)
{
    char at[64];
    struct lr_str type = {0};
    (void)lr_json_str(lr_json_get(tool, "type"), &type);
    (void)snprintf(at, sizeof(at), "tools.%u.%.*s", index, (int)lr_str_sub(type, 0, 40).len,
                   type.ptr != NULL ? type.ptr : "");
    chat_parse_note(p, at);
}

static lr_code make_tool(struct chat_parse *p, uint32_t index, const struct lr_json *from,
                         struct tools *all)
{
    static const char *const members[][2] = {
        {"description", "description"}, {"input_schema", "parameters"}, {"strict", "strict"}};
    const struct lr_json *schema = lr_json_get(from, "input_schema");
    struct chat_object tool, function;
    struct lr_str name;
    if (!lr_json_str(lr_json_get(from, "name"), &name) || !chat_is_tool_name(name))
        return anthropic_tools_bad(p, index,
                                   "'name' must have 1 to 64 letters, digits, '_', '-' or '.'");
    if (lr_strmap_has(&all->names, name))
        return anthropic_tools_bad(p, index, "tool names must be unique");
    if (schema != NULL && schema->type != LR_JSON_OBJECT && schema->type != LR_JSON_NULL)
        return anthropic_tools_bad(p, index, "'input_schema' must be an object");
    if (!chat_object_begin(&tool, p->arena, NULL, 2) ||
        !chat_object_begin(&function, p->arena, NULL, 4) ||
        !lr_strmap_put(&all->names, name, NULL, NULL))
        return anthropic_tools_no_memory(p);
    chat_object_set(&function, "name", chat_string_json(name));
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        const struct lr_json *value = lr_json_get(from, members[i][0]);
        if (value != NULL && value->type != LR_JSON_NULL)
            chat_object_set(&function, members[i][1], *value);
    }
    chat_object_set(&tool, "type", chat_string_json(LR_STR_LIT("function")));
    chat_object_set(&tool, "function", chat_object_json(&function));
    struct chat_tool_origin *origin = &all->origins[all->count];
    *origin = (struct chat_tool_origin){.name = name};
    (void)snprintf(origin->at, sizeof(origin->at), "tools.%u", index);
    all->list[all->count++] = chat_object_json(&tool);
    return LR_OK;
}

lr_code chat_anthropic_tools(struct chat_parse *p, const char *name,
                             const struct lr_json *value)
{
    lr_code code = LR_OK;
    if (value->type != LR_JSON_ARRAY)
        return chat_parse_type(p, name, "an array of tools", value);
    if (value->count > CHAT_TOOLS_MAX)
        return chat_parse_fail(p, name, "invalid_value", LR_INVALID_ARGUMENT,
                               "'tools' has %u entries, the limit is %d.", value->count,
                               CHAT_TOOLS_MAX);
    if (value->count == 0)
        return LR_OK;
    struct tools all = {.list = lr_arena_array(p->arena, value->count, sizeof(*all.list)),
                        .origins =
                            lr_arena_array(p->arena, value->count, sizeof(*all.origins))};
    struct lr_json *list = lr_arena_alloc(p->arena, sizeof(*list));
    if (all.list == NULL || all.origins == NULL || list == NULL)
        return anthropic_tools_no_memory(p);
    lr_strmap_init(&all.names);
    for (uint32_t i = 0; code == LR_OK && i < value->count; i++) {
        if (value->items[i].type != LR_JSON_OBJECT)
            code = anthropic_tools_bad(p, i, "a tool is an object");
        else if (is_callable(&value->items[i]))
            code = make_tool(p, i, &value->items[i], &all);
        else
            note_tool(p, i, &value->items[i]);
    }
    lr_strmap_free(&all.names);
    *list = (struct lr_json){.type = LR_JSON_ARRAY, .count = all.count, .items = all.list};
    p->req->tools = all.count > 0 ? list : NULL;
    p->req->origins = all.origins;
    return code;
}

lr_code chat_anthropic_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value)
{
    static const char *const words[] = {"auto", "any", "tool", "none", NULL};
    enum { AUTO, ANY, TOOL, NOTHING };
    uint32_t word = AUTO;
    bool is_serial = false;
    if (value->type != LR_JSON_OBJECT)
        return chat_parse_type(p, name, "an object", value);
    lr_code code = chat_parse_word(p, "tool_choice.type", lr_json_get(value, "type"), words,
                                   LR_INVALID_ARGUMENT, &word);
    if (code != LR_OK)
        return code;
    if (word == TOOL && (!lr_json_str(lr_json_get(value, "name"), &p->req->required_tool) ||
                         p->req->required_tool.len == 0))
        return chat_parse_missing(p, "tool_choice.name");
    p->tool_choice_none = word == NOTHING;
    p->req->requires_tool_call = word == ANY || word == TOOL;
    (void)lr_json_bool(lr_json_get(value, "disable_parallel_tool_use"), &is_serial);
    p->req->parallel_tool_calls = !is_serial;
    return LR_OK;
}
