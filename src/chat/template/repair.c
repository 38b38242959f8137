/* chat/template/repair.c - see chat/template/repair.h.
 *
 * An object is rebuilt only if something in it changes; everything else is shared with the
 * input.
 */
#include "chat/template/repair.h"

#include "chat/template/object.h"

static lr_code template_repair_no_memory(struct lr_error *err)
{
    return lr_fail(err, LR_OUT_OF_RAM, "no memory to repair the messages");
}

/* ---- building JSON ---- */

bool chat_object_begin(struct chat_object *o, struct lr_arena *arena,
                       const struct lr_json *from, uint32_t more)
{
    uint32_t count = from != NULL && from->type == LR_JSON_OBJECT ? from->count : 0;
    o->members = lr_arena_array(arena, count + more, sizeof(*o->members));
    o->count = 0;
    if (o->members == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        o->members[o->count++] = from->members[i];
    return true;
}

struct lr_json_member *chat_object_find(struct chat_object *o, const char *key)
{
    for (uint32_t i = 0; i < o->count; i++)
        if (lr_str_eq_z(o->members[i].key, key))
            return &o->members[i];
    return NULL;
}

void chat_object_set(struct chat_object *o, const char *key, struct lr_json value)
{
    struct lr_json_member *m = chat_object_find(o, key);
    if (m == NULL) {
        m = &o->members[o->count++];
        m->key = lr_str_z(key);
    }
    m->value = value;
}

void chat_object_remove(struct chat_object *o, const char *key)
{
    struct lr_json_member *m = chat_object_find(o, key);
    if (m == NULL)
        return;
    for (; m + 1 < o->members + o->count; m++)
        *m = m[1];
    o->count--;
}

struct lr_json chat_object_json(const struct chat_object *o)
{
    return (struct lr_json){.type = LR_JSON_OBJECT, .count = o->count, .members = o->members};
}

struct lr_json chat_string_json(struct lr_str s)
{
    return (struct lr_json){.type = LR_JSON_STRING, .text = s};
}

/* ---- content ---- */

struct lr_str chat_part_note(struct lr_str type, const char **what)
{
#define NOTE(what, text) what, "[" text ". This model reads text only.]"
    static const struct {
        const char *type, *what, *note;
    } notes[] = {
        {"image_url", NOTE("images", "An image")},
        {"input_image", NOTE("images", "An image")},
        {"image", NOTE("images", "An image")},
        {"video_url", NOTE("videos", "A video")},
        {"input_audio", NOTE("audio", "A recording")},
        {"audio", NOTE("audio", "A recording")},
        {"file", NOTE("files", "A file")},
        {"input_file", NOTE("files", "A file")},
        {"document", NOTE("files", "A file")},
    };
#undef NOTE
    for (size_t i = 0; i < sizeof(notes) / sizeof(notes[0]); i++)
        if (lr_str_eq_z(type, notes[i].type)) {
            *what = notes[i].what;
            return lr_str_z(notes[i].note);
        }
    return (struct lr_str){0};
}

static bool is_thinking(const struct lr_json *part)
{
    struct lr_str type;
    return lr_json_str(lr_json_get(part, "type"), &type) && lr_str_eq_z(type, "thinking");
}

static bool part_text(const struct lr_json *part, struct lr_str *out)
{
    struct lr_str type;
    const char *what;
    if (part->type == LR_JSON_STRING) {
        *out = part->text;
        return true;
    }
    if (lr_json_str(lr_json_get(part, "text"), out))
        return true;
    if (!lr_json_str(lr_json_get(part, "type"), &type))
        return false;
    *out = chat_part_note(type, &what);
    return out->len > 0 ||
           (lr_str_eq_z(type, "refusal") && lr_json_str(lr_json_get(part, "refusal"), out));
}

/* Joins a list of parts to one string.  Lists with parts of another type are left to the
 * template. */
static bool join_parts(struct lr_arena *arena, const struct lr_json *parts, struct lr_json *out,
                       bool *changed)
{
    size_t len = 0;
    struct lr_str text;
    *changed = false;
    for (uint32_t i = 0; i < parts->count; i++) {
        if (is_thinking(&parts->items[i]))
            continue;
        if (!part_text(&parts->items[i], &text))
            return true;
        len += text.len + 1;
    }
    char *joined = lr_arena_alloc(arena, len + 1);
    if (joined == NULL)
        return false;
    size_t at = 0;
    bool is_first = true;
    for (uint32_t i = 0; i < parts->count; i++) {
        if (is_thinking(&parts->items[i]))
            continue;
        (void)part_text(&parts->items[i], &text);
        if (!is_first)
            joined[at++] = '\n';
        is_first = false;
        if (text.len > 0)
            memcpy(joined + at, text.ptr, text.len);
        at += text.len;
    }
    *out = chat_string_json(lr_str(joined, at));
    *changed = true;
    return true;
}

/* The text of the first part of type thinking. */
static bool find_thinking(const struct lr_json *parts, struct lr_json *out)
{
    for (uint32_t i = 0; i < parts->count; i++) {
        const struct lr_json *text = lr_json_get(&parts->items[i], "thinking");
        if (!is_thinking(&parts->items[i]) || !lr_json_is(text, LR_JSON_STRING))
            continue;
        *out = *text;
        return true;
    }
    return false;
}

/* ---- tool calls ---- */

static bool repair_arguments(struct lr_arena *arena, const struct lr_json *function,
                             struct lr_json *out)
{
    static const struct lr_json nothing = {.type = LR_JSON_OBJECT};
    struct lr_str text;
    const struct lr_json *parsed = NULL;
    struct chat_object o;
    *out = *function;
    if (!lr_json_str(lr_json_get(function, "arguments"), &text))
        return true;
    struct lr_str trimmed = lr_str_trim(text);
    /* Empty arguments mean none; text that is not JSON is kept. */
    if (trimmed.len == 0)
        parsed = &nothing;
    else if (lr_json_parse(arena, trimmed, NULL, &parsed, NULL) != LR_OK)
        return true;
    if (!chat_object_begin(&o, arena, function, 0))
        return false;
    chat_object_set(&o, "arguments", *parsed);
    *out = chat_object_json(&o);
    return true;
}

static bool repair_call(struct lr_arena *arena, const struct lr_json *call, struct lr_json *out)
{
    const struct lr_json *function = lr_json_get(call, "function");
    struct lr_json repaired;
    struct chat_object o;
    if (!lr_json_is(function, LR_JSON_OBJECT))
        return repair_arguments(arena, call, out);
    if (!repair_arguments(arena, function, &repaired) || !chat_object_begin(&o, arena, call, 0))
        return false;
    chat_object_set(&o, "function", repaired);
    *out = chat_object_json(&o);
    return true;
}

static bool repair_calls(struct lr_arena *arena, struct chat_object *o)
{
    struct lr_json_member *m = chat_object_find(o, "tool_calls");
    if (m == NULL || m->value.type != LR_JSON_ARRAY)
        return true;
    struct lr_json *calls = lr_arena_array(arena, m->value.count + 1, sizeof(*calls));
    if (calls == NULL)
        return false;
    for (uint32_t i = 0; i < m->value.count; i++)
        if (!repair_call(arena, &m->value.items[i], &calls[i]))
            return false;
    m->value.items = calls;
    return true;
}

/* ---- messages ---- */

static bool is_tool_result(struct chat_object *o)
{
    const struct lr_json_member *role = chat_object_find(o, "role");
    return role != NULL && role->value.type == LR_JSON_STRING &&
           lr_str_eq_z(role->value.text, "tool");
}

static bool repair_message(struct lr_arena *arena, const struct lr_json *message,
                           struct chat_object *o)
{
    struct lr_json joined, thinking;
    bool changed;
    if (!chat_object_begin(o, arena, message, 3))
        return false;
    struct lr_json_member *content = chat_object_find(o, "content");
    if (content != NULL && content->value.type == LR_JSON_ARRAY) {
        const struct lr_json parts = content->value;
        if (!join_parts(arena, &parts, &joined, &changed))
            return false;
        if (changed)
            content->value = joined;
        if (find_thinking(&parts, &thinking) &&
            chat_object_find(o, "reasoning_content") == NULL)
            chat_object_set(o, "reasoning_content", thinking);
    }
    if (is_tool_result(o) && (content == NULL || content->value.type == LR_JSON_NULL))
        chat_object_set(o, "content", chat_string_json(LR_STR_LIT("")));
    struct lr_json_member *reasoning = chat_object_find(o, "reasoning");
    if (reasoning != NULL && reasoning->value.type == LR_JSON_STRING &&
        chat_object_find(o, "reasoning_content") == NULL)
        chat_object_set(o, "reasoning_content", reasoning->value);
    return repair_calls(arena, o);
}

static bool repair_messages(struct lr_arena *arena, const struct lr_json *messages,
                            struct lr_json *out)
{
    struct lr_json *items = lr_arena_array(arena, messages->count + 1, sizeof(*items));
    if (items == NULL)
        return false;
    for (uint32_t i = 0; i < messages->count; i++) {
        struct chat_object o;
        if (messages->items[i].type != LR_JSON_OBJECT) {
            items[i] = messages->items[i];
            continue;
        }
        if (!repair_message(arena, &messages->items[i], &o))
            return false;
        items[i] = chat_object_json(&o);
    }
    *out = (struct lr_json){.type = LR_JSON_ARRAY, .count = messages->count, .items = items};
    return true;
}

lr_code chat_repair(struct lr_arena *arena, const struct lr_json *context,
                    enum grammar_format format, const struct lr_json **out,
                    struct lr_error *err)
{
    bool is_channels = grammar_form_of(format)->shape == GRAMMAR_SHAPE_CHANNELS;
    struct chat_object o;
    struct lr_json *copy = lr_arena_alloc(arena, sizeof(*copy));
    *out = context;
    if (context->type != LR_JSON_OBJECT)
        return LR_OK;
    if (copy == NULL || !chat_object_begin(&o, arena, context, 0))
        return template_repair_no_memory(err);
    struct lr_json_member *messages = chat_object_find(&o, "messages");
    if (messages != NULL && messages->value.type == LR_JSON_ARRAY) {
        if (!repair_messages(arena, &messages->value, &messages->value))
            return template_repair_no_memory(err);
        if (is_channels && !chat_repair_harmony_messages(arena, &messages->value))
            return template_repair_no_memory(err);
        if (grammar_form_of(format)->one_by_one &&
            !chat_repair_split_calls(arena, &messages->value))
            return template_repair_no_memory(err);
    }
    struct lr_json_member *tools = chat_object_find(&o, "tools");
    if (is_channels && tools != NULL && tools->value.type == LR_JSON_ARRAY &&
        !chat_repair_harmony_tools(arena, &tools->value))
        return template_repair_no_memory(err);
    struct lr_json_member *effort = chat_object_find(&o, "reasoning_effort");
    if (is_channels && effort != NULL && effort->value.type == LR_JSON_NULL)
        chat_object_remove(&o, "reasoning_effort");
    *copy = chat_object_json(&o);
    *out = copy;
    return LR_OK;
}
