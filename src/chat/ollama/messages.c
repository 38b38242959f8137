/* chat/ollama/messages.c - messages and prompts -> the request's messages.
 *
 * Calls have no ids in this API, and a result names the tool at most.  Templates want an id on
 * both sides: calls are numbered, and a result belongs to the first call of its name that has
 * no result yet, else to the first call without a result.
 */
#include <stdio.h>
#include <stdlib.h>

#include "chat/ollama/ollama.h"
#include "chat/template/object.h"
#include "chat/template/repair.h"

enum {
    ID_MAX = 24,
    LOOK_AHEAD = 64, /* calls among which the call of a result is looked for */
};

/* A call that may still get its result. */
struct pending {
    struct lr_str id, name;
    bool has_result;
};

struct build {
    struct chat_parse *p;
    const struct lr_json *message;
    uint32_t index;     /* of the message */
    uint32_t last_user; /* index of the last message of the user */
    struct lr_json *messages;
    struct pending *calls; /* owned; of all messages */
    uint32_t call_count;
    uint32_t first; /* the first call without a result */
};

static lr_code ollama_messages_no_memory(struct build *b)
{
    return chat_parse_fail(b->p, "messages", NULL, LR_OUT_OF_RAM,
                           "no memory for 'messages' (limit %zu bytes)", b->p->arena->limit);
}

static lr_code ollama_messages_fail_at(struct build *b, const char *member, lr_code status,
                                       const char *text)
{
    char at[64];
    (void)snprintf(at, sizeof(at), "messages[%u]%s", b->index, member);
    return chat_parse_fail(b->p, at,
                           status == LR_UNSUPPORTED ? "unsupported_value" : "invalid_value",
                           status, "Invalid '%s': %s", at, text);
}

/* The text of a member; "" where it is missing or null.  False: another type. */
static bool ollama_messages_text_of(const struct lr_json *message, const char *key,
                                    struct lr_str *out)
{
    const struct lr_json *value = lr_json_get(message, key);
    *out = lr_str("", 0);
    return value == NULL || value->type == LR_JSON_NULL || lr_json_str(value, out);
}

/* ---- content ---- */

/* Images of an earlier message become a note, because a refusal would end the conversation. */
static lr_code add_note(struct build *b, struct lr_str *content)
{
    const struct lr_json *images = lr_json_get(b->message, "images");
    const char *what;
    struct lr_str note = chat_part_note(LR_STR_LIT("image"), &what);
    char at[64];
    if (!lr_json_is(images, LR_JSON_ARRAY) || images->count == 0)
        return LR_OK;
    if (b->index == b->last_user)
        return ollama_messages_fail_at(b, ".images", LR_UNSUPPORTED,
                                       "this model cannot see images; it takes text.");
    (void)snprintf(at, sizeof(at), "messages[%u].images", b->index);
    lr_code code = chat_parse_ignore(b->p, at, "unsupported_value", LR_UNSUPPORTED,
                                     "Invalid '%s': this model cannot see images; it takes "
                                     "text.",
                                     at);
    if (code != LR_OK)
        return code;
    size_t gap = content->len > 0 ? 1 : 0;
    char *both = lr_arena_alloc(b->p->arena, content->len + gap + note.len);
    if (both == NULL)
        return ollama_messages_no_memory(b);
    memcpy(both, content->ptr, content->len);
    memset(both + content->len, '\n', gap);
    memcpy(both + content->len + gap, note.ptr, note.len);
    *content = lr_str(both, content->len + gap + note.len);
    return LR_OK;
}

/* {"role": role, "content": text}, with room for more members. */
static lr_code begin_message(struct build *b, struct chat_object *o, struct lr_str role,
                             uint32_t more)
{
    struct lr_str content;
    if (!ollama_messages_text_of(b->message, "content", &content))
        return ollama_messages_fail_at(b, ".content", LR_INVALID_ARGUMENT,
                                       "expected a string.");
    lr_code code = add_note(b, &content);
    if (code != LR_OK)
        return code;
    if (!chat_object_begin(o, b->p->arena, NULL, 2 + more))
        return ollama_messages_no_memory(b);
    chat_object_set(o, "role", chat_string_json(role));
    chat_object_set(o, "content", chat_string_json(content));
    return LR_OK;
}

/* ---- calls and results ---- */

/* The client's id, where it sends one, else a number. */
static bool make_id(struct build *b, const struct lr_json *call, struct lr_str *out)
{
    char text[ID_MAX];
    if (lr_json_str(lr_json_get(call, "id"), out) && out->len > 0)
        return true;
    (void)snprintf(text, sizeof(text), "call_%u", b->call_count + 1);
    const char *copy = lr_arena_copy(b->p->arena, lr_str_z(text));
    *out = lr_str(copy, copy != NULL ? strlen(text) : 0);
    return copy != NULL;
}

static lr_code make_call(struct build *b, const struct lr_json *from, struct lr_json *out)
{
    const struct lr_json *function = lr_json_get(from, "function");
    const struct lr_json *given = lr_json_get(function, "arguments");
    struct lr_json arguments = {.type = LR_JSON_OBJECT};
    struct pending *call = &b->calls[b->call_count];
    struct chat_object o, f;
    *call = (struct pending){0};
    if (!lr_json_str(lr_json_get(function, "name"), &call->name) || call->name.len == 0)
        return ollama_messages_fail_at(b, ".tool_calls", LR_INVALID_ARGUMENT,
                                       "a call needs 'function' with a 'name'.");
    if (given != NULL && given->type != LR_JSON_NULL)
        arguments = *given;
    if (arguments.type != LR_JSON_OBJECT && arguments.type != LR_JSON_STRING)
        return ollama_messages_fail_at(b, ".tool_calls", LR_INVALID_ARGUMENT,
                                       "'function.arguments' must be an object.");
    if (!make_id(b, from, &call->id) || !chat_object_begin(&o, b->p->arena, NULL, 3) ||
        !chat_object_begin(&f, b->p->arena, NULL, 2))
        return ollama_messages_no_memory(b);
    chat_object_set(&f, "name", chat_string_json(call->name));
    chat_object_set(&f, "arguments", arguments);
    chat_object_set(&o, "id", chat_string_json(call->id));
    chat_object_set(&o, "type", chat_string_json(LR_STR_LIT("function")));
    chat_object_set(&o, "function", chat_object_json(&f));
    *out = chat_object_json(&o);
    b->call_count++;
    return LR_OK;
}

static lr_code ollama_messages_add_assistant(struct build *b, struct chat_object *o)
{
    const struct lr_json *from = lr_json_get(b->message, "tool_calls");
    struct lr_str thinking;
    uint32_t count = lr_json_is(from, LR_JSON_ARRAY) ? from->count : 0;
    lr_code code = begin_message(b, o, LR_STR_LIT("assistant"), (count > 0) + 1);
    if (code != LR_OK)
        return code;
    if (!ollama_messages_text_of(b->message, "thinking", &thinking))
        return ollama_messages_fail_at(b, ".thinking", LR_INVALID_ARGUMENT,
                                       "expected a string.");
    if (from != NULL && from->type != LR_JSON_NULL && from->type != LR_JSON_ARRAY)
        return ollama_messages_fail_at(b, ".tool_calls", LR_INVALID_ARGUMENT,
                                       "expected an array.");
    if (thinking.len > 0)
        chat_object_set(o, "reasoning_content", chat_string_json(thinking));
    if (count == 0)
        return LR_OK;
    struct lr_json *calls = lr_arena_array(b->p->arena, count, sizeof(*calls));
    if (calls == NULL)
        return ollama_messages_no_memory(b);
    for (uint32_t i = 0; code == LR_OK && i < count; i++)
        code = make_call(b, &from->items[i], &calls[i]);
    chat_object_set(o, "tool_calls",
                    (struct lr_json){.type = LR_JSON_ARRAY, .count = count, .items = calls});
    return code;
}

/* The id of the call that a result answers; the call has its result then. */
static struct lr_str find_call(struct build *b)
{
    struct lr_str id = lr_str("", 0), name = lr_str("", 0);
    struct pending *found = NULL;
    bool has_id = lr_json_str(lr_json_get(b->message, "tool_call_id"), &id) && id.len > 0;
    if (!lr_json_str(lr_json_get(b->message, "tool_name"), &name))
        (void)lr_json_str(lr_json_get(b->message, "name"), &name);
    while (b->first < b->call_count && b->calls[b->first].has_result)
        b->first++;
    for (uint32_t i = b->first; i < b->call_count && i < b->first + LOOK_AHEAD; i++) {
        struct pending *call = &b->calls[i];
        if (call->has_result)
            continue;
        bool is_it = has_id ? lr_str_eq(call->id, id) : lr_str_eq(call->name, name);
        if (is_it || (found == NULL && !has_id))
            found = call;
        if (is_it)
            break;
    }
    if (found == NULL)
        return has_id ? id : LR_STR_LIT("call_0");
    found->has_result = true;
    return found->id;
}

/* ---- all messages ---- */

enum role { ROLE_SYSTEM, ROLE_DEVELOPER, ROLE_USER, ROLE_ASSISTANT, ROLE_TOOL, ROLE_COUNT };
static const char *const role_names[] = {"system", "developer", "user", "assistant", "tool"};

static enum role role_of(const struct lr_json *message)
{
    struct lr_str text;
    if (lr_json_str(lr_json_get(message, "role"), &text))
        for (int i = 0; i < ROLE_COUNT; i++)
            if (lr_str_eq_nocase(text, lr_str_z(role_names[i])))
                return (enum role)i;
    return ROLE_COUNT;
}

static lr_code ollama_messages_add_message(struct build *b)
{
    struct chat_object o = {0};
    enum role role = role_of(b->message);
    lr_code code;
    if (b->message->type != LR_JSON_OBJECT)
        return ollama_messages_fail_at(b, "", LR_INVALID_ARGUMENT, "expected an object.");
    if (role == ROLE_COUNT)
        return ollama_messages_fail_at(b, ".role", LR_INVALID_ARGUMENT,
                                       "expected 'system', 'user', 'assistant' or 'tool'.");
    if (role == ROLE_ASSISTANT) {
        code = ollama_messages_add_assistant(b, &o);
    } else {
        code = begin_message(b, &o, lr_str_z(role_names[role]), role == ROLE_TOOL);
        if (code == LR_OK && role == ROLE_TOOL)
            chat_object_set(&o, "tool_call_id", chat_string_json(find_call(b)));
    }
    if (code == LR_OK)
        b->messages[b->index] = chat_object_json(&o);
    return code;
}

/* Makes room for messages and calls, and finds the last message of the user. */
static lr_code count_messages(struct build *b, const struct lr_json *from)
{
    size_t calls = 0;
    for (uint32_t i = 0; i < from->count; i++) {
        const struct lr_json *list = lr_json_get(&from->items[i], "tool_calls");
        calls += lr_json_is(list, LR_JSON_ARRAY) ? list->count : 0;
        if (role_of(&from->items[i]) == ROLE_USER)
            b->last_user = i;
    }
    b->messages = lr_arena_array(b->p->arena, from->count, sizeof(*b->messages));
    b->calls = calloc(calls + 1, sizeof(*b->calls));
    return b->messages != NULL && b->calls != NULL ? LR_OK : ollama_messages_no_memory(b);
}

lr_code chat_ollama_messages(struct chat_parse *p)
{
    const struct lr_json *from = chat_ollama_parse_of(p)->messages;
    struct build b = {.p = p, .last_user = UINT32_MAX};
    if (from->count > CHAT_MESSAGES_MAX)
        return chat_parse_fail(p, "messages", "invalid_value", LR_INVALID_ARGUMENT,
                               "'messages' has %u entries; the limit is %d.", from->count,
                               CHAT_MESSAGES_MAX);
    lr_code code = count_messages(&b, from);
    for (; code == LR_OK && b.index < from->count; b.index++) {
        b.message = &from->items[b.index];
        code = ollama_messages_add_message(&b);
    }
    free(b.calls);
    struct lr_json *all = lr_arena_alloc(p->arena, sizeof(*all));
    if (code == LR_OK && all == NULL)
        code = ollama_messages_no_memory(&b);
    if (code != LR_OK)
        return code;
    *all = (struct lr_json){.type = LR_JSON_ARRAY, .count = from->count, .items = b.messages};
    p->req->messages = all;
    return LR_OK;
}

/* ---- a prompt ---- */

static lr_code use_raw(struct chat_ollama_parse *o)
{
    struct chat_parse *p = &o->p;
    struct chat_raw_prompt *raw = lr_arena_zalloc(p->arena, sizeof(*raw));
    if (o->system.len > 0)
        return chat_parse_fail(p, "system", "invalid_value", LR_INVALID_ARGUMENT,
                               "'raw' uses the prompt alone; put 'system' into it.");
    if (raw == NULL)
        return chat_parse_fail(p, "prompt", NULL, LR_OUT_OF_RAM, "no memory for 'prompt'");
    raw->text = o->prompt;
    p->req->prompts = raw;
    return LR_OK;
}

lr_code chat_ollama_prompt(struct chat_parse *p)
{
    struct chat_ollama_parse *o = chat_ollama_parse_of(p);
    const struct {
        const char *role;
        struct lr_str text;
    } texts[] = {{"system", o->system}, {"user", o->prompt}};
    struct lr_json *all = lr_arena_alloc(p->arena, sizeof(*all));
    struct lr_json *list = lr_arena_array(p->arena, 2, sizeof(*list));
    uint32_t count = 0;
    if (o->is_raw)
        return use_raw(o);
    for (size_t i = 0; all != NULL && list != NULL && i < 2; i++) {
        struct chat_object message;
        if (texts[i].text.len == 0)
            continue;
        if (!chat_object_begin(&message, p->arena, NULL, 2))
            break;
        chat_object_set(&message, "role", chat_string_json(lr_str_z(texts[i].role)));
        chat_object_set(&message, "content", chat_string_json(texts[i].text));
        list[count++] = chat_object_json(&message);
    }
    if (count != (o->system.len > 0) + 1u)
        return chat_parse_fail(p, "prompt", NULL, LR_OUT_OF_RAM, "no memory for 'prompt'");
    *all = (struct lr_json){.type = LR_JSON_ARRAY, .count = count, .items = list};
    p->req->messages = all;
    return LR_OK;
}
