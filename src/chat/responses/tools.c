/* chat/responses/tools.c - tools and tool_choice of the Responses API.
 *
 * This API's tools are flat where the chat API's are nested, so they are rebuilt in the shape
 * that templates and grammars expect.  Tools of a namespace are named "namespace.name"; the
 * request's origins say where the name begins, so that the answer can separate them again.
 */
#include <stdio.h>

#include "chat/openai/openai.h"
#include "chat/responses/tool.h"

static int shown(struct lr_str s)
{
    return s.len < 40 ? (int)s.len : 40;
}

/* The converted tools; allocated for all of them. */
struct tools {
    struct lr_json *list;
    struct chat_tool_origin *origins;
    uint32_t count;
};

lr_code chat_tool_no_memory(struct chat_parse *p)
{
    return chat_parse_fail(p, "tools", NULL, LR_OUT_OF_RAM,
                           "no memory for 'tools' (limit %zu bytes)", p->arena->limit);
}

lr_code chat_tool_bad(struct chat_parse *p, const struct chat_tool *t, const char *member,
                      const char *wanted)
{
    char param[64];
    (void)snprintf(param, sizeof(param), "%s.%s", t->at, member);
    return chat_parse_fail(p, param, "invalid_value", LR_INVALID_ARGUMENT,
                           "Invalid '%s': expected %s.", param, wanted);
}

static lr_code refuse_type(struct chat_parse *p, const struct chat_tool *t)
{
    char param[64];
    (void)snprintf(param, sizeof(param), "%s.type", t->at);
    return chat_parse_fail(p, param, "unsupported_value", LR_UNSUPPORTED,
                           "Invalid '%s': the tool '%.*s' is not supported, since this server "
                           "runs no tools itself; leave it out, or declare a 'function' or "
                           "'custom' tool and run it.",
                           param, shown(t->type), t->type.ptr);
}

/* Reads name and description, which namespaces have too. */
static lr_code read_label(struct chat_parse *p, struct chat_tool *t)
{
    const struct lr_json *about = lr_json_get(t->from, "description");
    if (!lr_json_str(lr_json_get(t->from, "name"), &t->name) || !chat_is_tool_name(t->name) ||
        (p->is_strict && t->name.len > CHAT_TOOL_NAME_STRICT))
        return chat_tool_bad(p, t, "name",
                             p->is_strict ? "1 to 64 letters, digits, '_', '-' or '.'"
                                          : "1 to 128 letters, digits, '_', '-' or '.'");
    t->about = (struct lr_json){.type = LR_JSON_NULL};
    if (about != NULL && about->type != LR_JSON_STRING && about->type != LR_JSON_NULL)
        return chat_tool_bad(p, t, "description", "a string");
    if (about != NULL)
        t->about = *about;
    return LR_OK;
}

/* A namespace's description is given once, with its first tool. */
static lr_code tell_space(struct chat_parse *p, struct chat_tool *t)
{
    struct lr_str own = {0};
    if (t->space_about.len == 0)
        return LR_OK;
    (void)lr_json_str(&t->about, &own);
    char *text = lr_arena_printf(p->arena, LR_STR_FMT ": " LR_STR_FMT "%s" LR_STR_FMT,
                                 LR_STR_ARG(t->space), LR_STR_ARG(t->space_about),
                                 own.len > 0 ? "\n\n" : "", LR_STR_ARG(own));
    if (text == NULL)
        return chat_tool_no_memory(p);
    t->about = chat_string_json(lr_str_z(text));
    return LR_OK;
}

struct lr_str chat_responses_tool_name(struct lr_arena *arena, struct lr_str space,
                                       struct lr_str name)
{
    if (space.len == 0)
        return name;
    const char *joined =
        lr_arena_printf(arena, LR_STR_FMT "." LR_STR_FMT, LR_STR_ARG(space), LR_STR_ARG(name));
    return lr_str(joined, joined != NULL ? space.len + 1 + name.len : 0);
}

static lr_code add_tool(struct chat_parse *p, struct chat_tool *t, struct tools *all)
{
    struct chat_tool_origin *origin = &all->origins[all->count];
    lr_code code = read_label(p, t);
    if (code != LR_OK || (code = tell_space(p, t)) != LR_OK)
        return code;
    struct lr_str name = chat_responses_tool_name(p->arena, t->space, t->name);
    if (name.ptr == NULL)
        return chat_tool_no_memory(p);
    code = chat_tool_make(p, t, name, &all->list[all->count]);
    for (uint32_t i = 0; code == LR_OK && i < all->count; i++)
        if (lr_str_eq(all->origins[i].name, name))
            code = chat_tool_bad(p, t, "name", "a name that is not declared twice");
    *origin = (struct chat_tool_origin){.name = name,
                                        .space_len = (uint32_t)t->space.len,
                                        .is_custom = lr_str_eq_z(t->type, "custom")};
    memcpy(origin->at, t->at, sizeof(t->at));
    all->count++;
    return code;
}

static lr_code read_type(struct chat_parse *p, struct chat_tool *t)
{
    if (t->from->type != LR_JSON_OBJECT)
        return chat_parse_type(p, t->at, "an object", t->from);
    if (!lr_json_str(lr_json_get(t->from, "type"), &t->type))
        return chat_tool_bad(p, t, "type", "'function', 'custom' or 'namespace'");
    return LR_OK;
}

static bool is_callable(const struct chat_tool *t)
{
    return lr_str_eq_z(t->type, "function") || lr_str_eq_z(t->type, "custom");
}

static lr_code add_space(struct chat_parse *p, struct chat_tool *space, struct tools *all)
{
    const struct lr_json *from = lr_json_get(space->from, "tools");
    lr_code code = read_label(p, space);
    if (code == LR_OK && !lr_json_is(from, LR_JSON_ARRAY))
        code = chat_tool_bad(p, space, "tools", "an array of 'function' and 'custom' tools");
    for (uint32_t i = 0; code == LR_OK && i < from->count; i++) {
        struct chat_tool t = {.from = &from->items[i], .space = space->name};
        (void)snprintf(t.at, sizeof(t.at), "%.13s.tools[%u]", space->at, i);
        if (i == 0)
            (void)lr_json_str(&space->about, &t.space_about);
        code = read_type(p, &t);
        if (code == LR_OK)
            code = is_callable(&t) ? add_tool(p, &t, all) : refuse_type(p, &t);
    }
    return code;
}

/* "web_search", "web_search_preview", and both with a date.  OpenAI's servers run this tool, so
 * clients declare it without asking whether a server has it: Codex always does. */
static bool is_search(const struct chat_tool *t)
{
    return lr_str_starts(t->type, "web_search");
}

/* The header X-LLM-Router-Ignored names the search, but for one without web access, which has
 * no effect anywhere. */
static lr_code leave_out(struct chat_parse *p, const struct chat_tool *t)
{
    char at[64];
    bool goes_out = true;
    if (lr_json_bool(lr_json_get(t->from, "external_web_access"), &goes_out) && !goes_out)
        return LR_OK;
    if (p->is_strict)
        return refuse_type(p, t);
    (void)snprintf(at, sizeof(at), "%.13s.%.*s", t->at, shown(t->type), t->type.ptr);
    chat_parse_note(p, at);
    return LR_OK;
}

static lr_code add_entry(struct chat_parse *p, struct chat_tool *t, struct tools *all)
{
    lr_code code = read_type(p, t);
    if (code != LR_OK)
        return code;
    if (is_search(t))
        return leave_out(p, t);
    if (lr_str_eq_z(t->type, "namespace"))
        return add_space(p, t, all);
    return is_callable(t) ? add_tool(p, t, all) : refuse_type(p, t);
}

/* Counts tools, including those of namespaces. */
static size_t count_tools(const struct lr_json *from)
{
    size_t count = from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        const struct lr_json *inner = lr_json_get(&from->items[i], "tools");
        count += lr_json_is(inner, LR_JSON_ARRAY) ? inner->count : 0;
    }
    return count;
}

lr_code chat_responses_tools(struct chat_parse *p)
{
    const struct lr_json *from = chat_responses_parse_of(p)->tools;
    lr_code code = LR_OK;
    if (from == NULL || from->count == 0)
        return LR_OK;
    size_t count = count_tools(from);
    if (count > CHAT_TOOLS_MAX)
        return chat_parse_fail(p, "tools", "invalid_value", LR_INVALID_ARGUMENT,
                               "'tools' has %zu entries, the limit is %d.", count,
                               CHAT_TOOLS_MAX);
    struct tools all = {.list = lr_arena_array(p->arena, count, sizeof(*all.list)),
                        .origins = lr_arena_array(p->arena, count, sizeof(*all.origins))};
    struct lr_json *list = lr_arena_alloc(p->arena, sizeof(*list));
    if (all.list == NULL || all.origins == NULL || list == NULL)
        return chat_tool_no_memory(p);
    for (uint32_t i = 0; code == LR_OK && i < from->count; i++) {
        struct chat_tool t = {.from = &from->items[i]};
        (void)snprintf(t.at, sizeof(t.at), "tools[%u]", i);
        code = add_entry(p, &t, &all);
    }
    *list = (struct lr_json){.type = LR_JSON_ARRAY, .count = all.count, .items = all.list};
    p->req->tools = all.count > 0 ? list : NULL;
    p->req->origins = all.origins;
    return code;
}

lr_code chat_responses_tool_choice(struct chat_parse *p, const char *name,
                                   const struct lr_json *value)
{
    struct lr_str type;
    if (value->type != LR_JSON_OBJECT)
        return chat_openai_tool_choice(p, name, value);
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
