/* chat/harmony/repair.c - repairs that only the gpt-oss template needs. */
#include "base/buf.h"
#include "base/strmap.h"
#include "chat/template/object.h"
#include "jinja/jinja.h"

static bool is_role(const struct lr_json *message, const char *role)
{
    struct lr_str text;
    return lr_json_str(lr_json_get(message, "role"), &text) && lr_str_eq_z(text, role);
}

static bool has_text(const struct lr_json_member *m)
{
    return m != NULL && m->value.type == LR_JSON_STRING && m->value.text.len > 0;
}

/* The template accepts reasoning or text beside a tool call, not both.  Both would become one
 * analysis message, so they are joined. */
static bool join_thinking(struct lr_arena *arena, struct chat_object *o)
{
    struct lr_json_member *content = chat_object_find(o, "content");
    struct lr_json_member *thinking = chat_object_find(o, "thinking");
    if (!has_text(content) || !has_text(thinking))
        return true;
    struct lr_str a = thinking->value.text, b = content->value.text;
    char *both = lr_arena_alloc(arena, a.len + b.len + 2);
    if (both == NULL)
        return false;
    memcpy(both, a.ptr, a.len);
    memcpy(both + a.len, "\n\n", 2);
    memcpy(both + a.len + 2, b.ptr, b.len);
    thinking->value = chat_string_json(lr_str(both, a.len + b.len + 2));
    content->value = chat_string_json(lr_str("", 0));
    return true;
}

static bool repair_assistant(struct lr_arena *arena, struct chat_object *o)
{
    struct lr_json_member *thinking = chat_object_find(o, "thinking");
    struct lr_json_member *reasoning = chat_object_find(o, "reasoning_content");
    if (!has_text(thinking)) {
        chat_object_remove(o, "thinking");
        reasoning = chat_object_find(o, "reasoning_content");
        if (has_text(reasoning))
            chat_object_set(o, "thinking", reasoning->value);
    }
    struct lr_json_member *calls = chat_object_find(o, "tool_calls");
    bool has_calls =
        calls != NULL && calls->value.type == LR_JSON_ARRAY && calls->value.count > 0;
    if (!has_calls)
        chat_object_remove(
            o, "tool_calls"); /* the template only checks whether the member exists */
    struct lr_json_member *content = chat_object_find(o, "content");
    if (content == NULL || content->value.type == LR_JSON_NULL)
        chat_object_set(o, "content", chat_string_json(lr_str("", 0)));
    return !has_calls || join_thinking(arena, o);
}

static bool repair_message(struct lr_arena *arena, const struct lr_json *message,
                           struct lr_json *out)
{
    struct chat_object o;
    *out = *message;
    if (message->type != LR_JSON_OBJECT)
        return true;
    if (!chat_object_begin(&o, arena, message, 3))
        return false;
    struct lr_json_member *content = chat_object_find(&o, "content");
    if (is_role(message, "assistant")) {
        if (!repair_assistant(arena, &o))
            return false;
    } else if (content == NULL || content->value.type == LR_JSON_NULL) {
        chat_object_set(&o, "content", chat_string_json(lr_str("", 0)));
    }
    *out = chat_object_json(&o);
    return true;
}

/* ---- several calls in one message ---- */

struct expansion {
    struct lr_arena *arena;
    const struct lr_json *from;
    struct lr_json *items;
    uint32_t count;
};

static uint32_t call_count(const struct lr_json *message)
{
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    return is_role(message, "assistant") && lr_json_is(calls, LR_JSON_ARRAY) ? calls->count : 0;
}

/* Adds one message for call i.  Only the first keeps the client's message; the others get just
 * their call, so that the message is not copied for each call. */
static bool push_call(struct expansion *x, const struct lr_json *message, uint32_t i)
{
    struct chat_object o;
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    if (!chat_object_begin(&o, x->arena, i == 0 ? message : NULL, i == 0 ? 0 : 3))
        return false;
    if (i > 0) {
        chat_object_set(&o, "role", chat_string_json(LR_STR_LIT("assistant")));
        chat_object_set(&o, "content", chat_string_json(lr_str("", 0)));
    }
    chat_object_set(
        &o, "tool_calls",
        (struct lr_json){.type = LR_JSON_ARRAY, .count = 1, .items = &calls->items[i]});
    x->items[x->count++] = chat_object_json(&o);
    return true;
}

/* Results by the id of their call: the first result of each id, and a list of the next ones. */
struct results {
    const struct lr_json *items;
    uint32_t count;
    struct lr_strmap first; /* id -> 1 + index, as a pointer */
    uint32_t *next;         /* 1 + index; 0: none */
};

static bool index_results(struct results *r)
{
    struct lr_str id;
    bool ok = true;
    /* From the last to the first, so that the first result of an id comes first in its list. */
    for (uint32_t i = r->count; ok && i-- > 0;) {
        void *behind = NULL;
        if (!lr_json_str(lr_json_get(&r->items[i], "tool_call_id"), &id))
            continue;
        ok = lr_strmap_put(&r->first, id, (void *)(uintptr_t)(i + 1), &behind);
        r->next[i] = (uint32_t)(uintptr_t)behind;
    }
    return ok;
}

/* The first result of a call's id that is not used yet; UINT32_MAX: none. */
static uint32_t take_result(struct results *r, const struct lr_json *call)
{
    struct lr_str id;
    if (!lr_json_str(lr_json_get(call, "id"), &id))
        return UINT32_MAX;
    uint32_t found = (uint32_t)(uintptr_t)lr_strmap_get(&r->first, id);
    if (found == 0)
        return UINT32_MAX;
    (void)lr_strmap_put(&r->first, id, (void *)(uintptr_t)r->next[found - 1], NULL);
    return found - 1;
}

/* result_of[i] is the result of call i: the one with its id, else the next unused one;
 * UINT32_MAX: none. used[r]: result r belongs to a call. */
static void match_results(const struct lr_json *calls, struct results *results,
                          uint32_t *result_of, bool *used)
{
    for (uint32_t i = 0; i < calls->count; i++) {
        result_of[i] = take_result(results, &calls->items[i]);
        if (result_of[i] != UINT32_MAX)
            used[result_of[i]] = true;
    }
    uint32_t next = 0;
    for (uint32_t i = 0; i < calls->count; i++) {
        while (next < results->count && used[next])
            next++;
        if (result_of[i] == UINT32_MAX && next < results->count) {
            result_of[i] = next;
            used[next] = true;
        }
    }
}

/* Adds the message at `at` and the results after it, call by call.  Returns how many messages
 * were consumed; 0: no memory. */
static uint32_t harmony_repair_expand(struct expansion *x, uint32_t at)
{
    const struct lr_json *message = &x->from->items[at];
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    struct results results = {.items = message + 1};
    while (at + 1 + results.count < x->from->count &&
           is_role(&results.items[results.count], "tool"))
        results.count++;
    bool *used = lr_arena_zalloc(x->arena, results.count + 1);
    uint32_t *result_of = lr_arena_array(x->arena, calls->count, sizeof(*result_of));
    results.next =
        lr_arena_zalloc(x->arena, ((size_t)results.count + 1) * sizeof(*results.next));
    if (used == NULL || result_of == NULL || results.next == NULL)
        return 0;
    lr_strmap_init(&results.first);
    bool ok = index_results(&results);
    if (ok)
        match_results(calls, &results, result_of, used);
    lr_strmap_free(&results.first);
    for (uint32_t i = 0; ok && i < calls->count; i++) {
        ok = push_call(x, message, i);
        if (ok && result_of[i] != UINT32_MAX)
            x->items[x->count++] = results.items[result_of[i]];
    }
    for (uint32_t r = 0; ok && r < results.count; r++)
        if (!used[r])
            x->items[x->count++] = results.items[r];
    return ok ? 1 + results.count : 0;
}

bool chat_repair_split_calls(struct lr_arena *arena, struct lr_json *messages)
{
    size_t room = 1;
    bool any = false;
    for (uint32_t i = 0; i < messages->count; i++) {
        uint32_t calls = call_count(&messages->items[i]);
        room += 1 + calls;
        any = any || calls > 1;
    }
    if (!any)
        return true;
    struct expansion x = {.arena = arena, .from = messages};
    x.items = lr_arena_array(arena, room, sizeof(*x.items));
    if (x.items == NULL)
        return false;
    for (uint32_t i = 0; i < messages->count;) {
        if (call_count(&messages->items[i]) <= 1) {
            x.items[x.count++] = messages->items[i++];
            continue;
        }
        uint32_t used = harmony_repair_expand(&x, i);
        if (used == 0)
            return false;
        i += used;
    }
    *messages = (struct lr_json){.type = LR_JSON_ARRAY, .count = x.count, .items = x.items};
    return true;
}

bool chat_repair_harmony_messages(struct lr_arena *arena, struct lr_json *messages)
{
    struct lr_json *items = lr_arena_array(arena, messages->count + 1, sizeof(*items));
    if (items == NULL)
        return false;
    for (uint32_t i = 0; i < messages->count; i++)
        if (!repair_message(arena, &messages->items[i], &items[i]))
            return false;
    messages->items = items;
    return chat_repair_split_calls(arena, messages);
}

/* ---- tools ---- */

/* The template appends these defaults to text, so they must be strings. */
static bool default_as_text(struct lr_arena *arena, const struct lr_json *property,
                            struct lr_json *out)
{
    const struct lr_json *value = lr_json_get(property, "default");
    bool choice =
        lr_json_get(property, "enum") != NULL || lr_json_get(property, "oneOf") != NULL;
    struct chat_object o;
    *out = *property;
    if (value == NULL || value->type == LR_JSON_STRING || !choice)
        return true;
    struct lr_buf text;
    lr_buf_init(&text, 1 << 20);
    jinja_dumps(&text, value);
    char *copy = text.failed ? NULL : lr_arena_copy(arena, lr_buf_str(&text));
    size_t len = text.len;
    lr_buf_free(&text);
    if (copy == NULL || !chat_object_begin(&o, arena, property, 0))
        return false;
    chat_object_set(&o, "default", chat_string_json(lr_str(copy, len)));
    *out = chat_object_json(&o);
    return true;
}

static bool repair_parameters(struct lr_arena *arena, struct chat_object *function)
{
    struct lr_json_member *parameters = chat_object_find(function, "parameters");
    const struct lr_json *properties =
        parameters != NULL ? lr_json_get(&parameters->value, "properties") : NULL;
    struct chat_object all, changed;
    if (!lr_json_is(properties, LR_JSON_OBJECT))
        return true;
    if (!chat_object_begin(&all, arena, properties, 0) ||
        !chat_object_begin(&changed, arena, &parameters->value, 0))
        return false;
    for (uint32_t i = 0; i < all.count; i++)
        if (!default_as_text(arena, &properties->members[i].value, &all.members[i].value))
            return false;
    chat_object_set(&changed, "properties", chat_object_json(&all));
    parameters->value = chat_object_json(&changed);
    return true;
}

bool chat_repair_harmony_tools(struct lr_arena *arena, struct lr_json *tools)
{
    struct lr_json *items = lr_arena_array(arena, tools->count + 1, sizeof(*items));
    if (items == NULL)
        return false;
    for (uint32_t i = 0; i < tools->count; i++) {
        const struct lr_json *function = lr_json_get(&tools->items[i], "function");
        struct chat_object tool, f;
        items[i] = tools->items[i];
        if (!lr_json_is(function, LR_JSON_OBJECT))
            continue;
        if (!chat_object_begin(&f, arena, function, 1) ||
            !chat_object_begin(&tool, arena, &tools->items[i], 0))
            return false;
        struct lr_json_member *description = chat_object_find(&f, "description");
        if (description == NULL || description->value.type != LR_JSON_STRING)
            chat_object_set(&f, "description", chat_string_json(lr_str("", 0)));
        if (!repair_parameters(arena, &f))
            return false;
        chat_object_set(&tool, "function", chat_object_json(&f));
        items[i] = chat_object_json(&tool);
    }
    tools->items = items;
    return true;
}
