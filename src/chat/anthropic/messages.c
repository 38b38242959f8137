/* chat/anthropic/messages.c - system texts and messages -> the request's messages.
 *
 * The texts of `system`, and system messages before any other, become one system message.  A
 * later system message becomes text of the user at its place: templates have no place for it,
 * and moving it to the front would change the beginning of the prompt with every turn, so that
 * the prefix cache would never hit.
 *
 * The results in a message of the user become messages of role `tool`, and its other blocks one
 * message of the user behind them.  Messages of the user that follow each other are joined,
 * because many templates want roles to alternate.
 */
#include <stdio.h>

#include "base/strmap.h"
#include "chat/anthropic/anthropic.h"
#include "chat/template/object.h"

struct build {
    struct chat_parse *p;
    uint32_t index; /* of the message */
    const struct lr_json *message;
    uint32_t last_user;       /* index of the last message of the user */
    struct lr_json *messages; /* arena: room for all; slot 0 is the system message's */
    uint32_t count;
    struct lr_strmap calls;       /* ids of the calls so far */
    struct lr_buf system;         /* text of the system message */
    struct lr_buf user;           /* text of the user that is not a message yet */
    bool has_user;                /* `user` has text; the text may be empty */
    struct lr_buf text, thinking; /* of the message that is being built */
};

static lr_code anthropic_messages_no_memory(struct build *b)
{
    return chat_parse_fail(b->p, "messages", NULL, LR_OUT_OF_RAM,
                           "no memory for 'messages' (limit %zu bytes)", b->p->arena->limit);
}

/* Fails with the position of the message and, from 0, of a block in it; -1: of no block. */
static lr_code anthropic_messages_fail_at(struct build *b, int64_t block, lr_code status,
                                          const char *text)
{
    char at[64];
    int len = snprintf(at, sizeof(at), "messages.%u", b->index);
    if (block >= 0)
        (void)snprintf(at + len, sizeof(at) - (size_t)len, ".content.%lld", (long long)block);
    return chat_parse_fail(b->p, at,
                           status == LR_UNSUPPORTED ? "unsupported_value" : "invalid_value",
                           status, "%s: %s", at, text);
}

/* Names a block of which the model gets only a note; a strict request is refused. */
static lr_code name_note(struct build *b, uint32_t block)
{
    char param[64];
    (void)snprintf(param, sizeof(param), "messages[%u].content[%u]", b->index, block);
    return chat_parse_ignore(b->p, param, "unsupported_value", LR_UNSUPPORTED,
                             "messages.%u.content.%u: this model reads text only", b->index,
                             block);
}

/* The content of a buffer as JSON text in the arena; type null without memory. */
static struct lr_json anthropic_messages_take(struct build *b, struct lr_buf *buf)
{
    const char *copy = buf->failed ? NULL : lr_arena_copy(b->p->arena, lr_buf_str(buf));
    struct lr_json text = copy != NULL ? chat_string_json(lr_str(copy, buf->len))
                                       : (struct lr_json){.type = LR_JSON_NULL};
    lr_buf_clear(buf);
    return text;
}

/* {"role": role, "content": the buffer's text}, with room for more members. */
static bool begin_message(struct build *b, struct chat_object *o, const char *role,
                          struct lr_buf *text, uint32_t more)
{
    struct lr_json content = anthropic_messages_take(b, text);
    if (content.type == LR_JSON_NULL || !chat_object_begin(o, b->p->arena, NULL, 2 + more))
        return false;
    chat_object_set(o, "role", chat_string_json(lr_str_z(role)));
    chat_object_set(o, "content", content);
    return true;
}

/* ---- system ---- */

/* Claude Code begins its system text with a line that differs between sessions.  With this line
 * no conversation would share the beginning of its prompt with another. */
static struct lr_str without_billing(struct lr_str text)
{
    if (!lr_str_starts(text, "x-anthropic-billing-header:"))
        return text;
    size_t end = lr_str_find(text, LR_STR_LIT("\n"));
    text = end == LR_STR_NONE ? lr_str_sub(text, text.len, text.len)
                              : lr_str_sub(text, end, text.len);
    while (lr_str_starts(text, "\n"))
        text = lr_str_sub(text, 1, text.len);
    return text;
}

static void anthropic_messages_add_system(struct lr_buf *out, struct lr_str text)
{
    text = without_billing(text);
    if (out->len > 0 && text.len > 0)
        lr_buf_add_z(out, "\n\n");
    lr_buf_add_str(out, text);
}

/* content: a string or blocks of text.  False: neither. */
static bool add_system_content(const struct lr_json *content, struct lr_buf *out)
{
    struct lr_str text;
    bool ok = lr_json_str(content, &text) || lr_json_is(content, LR_JSON_ARRAY);
    if (ok && content->type == LR_JSON_STRING)
        anthropic_messages_add_system(out, text);
    for (uint32_t i = 0; ok && content->type == LR_JSON_ARRAY && i < content->count; i++)
        if (lr_json_str(lr_json_get(&content->items[i], "text"), &text))
            anthropic_messages_add_system(out, text);
    return ok;
}

static lr_code add_system_message(struct build *b)
{
    bool is_first = b->count == 1 && !b->has_user;
    struct lr_buf *out = is_first ? &b->system : &b->user;
    if (!add_system_content(lr_json_get(b->message, "content"), out))
        return anthropic_messages_fail_at(b, -1, LR_INVALID_ARGUMENT,
                                          "'content' must be a string or an array of blocks");
    b->has_user = b->has_user || !is_first;
    return LR_OK;
}

/* ---- the user ---- */

static lr_code flush_user(struct build *b)
{
    struct chat_object o;
    if (!b->has_user)
        return LR_OK;
    b->has_user = false;
    if (!begin_message(b, &o, "user", &b->user, 0))
        return anthropic_messages_no_memory(b);
    b->messages[b->count++] = chat_object_json(&o);
    return LR_OK;
}

static lr_code add_result(struct build *b, uint32_t index, const struct lr_json *block)
{
    const struct lr_json *content = lr_json_get(block, "content");
    bool is_error = false;
    struct lr_str id;
    struct chat_object o;
    if (!lr_json_str(lr_json_get(block, "tool_use_id"), &id) || !lr_strmap_has(&b->calls, id))
        return anthropic_messages_fail_at(
            b, index, LR_INVALID_ARGUMENT,
            "'tool_use_id' must be the id of a 'tool_use' block before it");
    (void)lr_json_bool(lr_json_get(block, "is_error"), &is_error);
    if (is_error)
        lr_buf_add_z(&b->text, "Error: ");
    if (content != NULL && content->type != LR_JSON_NULL &&
        !chat_anthropic_text(content, &b->text))
        return anthropic_messages_fail_at(b, index, LR_INVALID_ARGUMENT,
                                          "'content' must be a string or an array of blocks");
    if (!begin_message(b, &o, "tool", &b->text, 1))
        return anthropic_messages_no_memory(b);
    chat_object_set(&o, "tool_call_id", chat_string_json(id));
    b->messages[b->count++] = chat_object_json(&o);
    return LR_OK;
}

/* A block of text, or one that becomes text.  Messages are separated by an empty line, blocks
 * by a newline. */
static lr_code add_user_block(struct build *b, uint32_t index, const struct lr_json *block)
{
    size_t before = b->user.len;
    if (chat_anthropic_is(block, "text") &&
        !lr_json_is(lr_json_get(block, "text"), LR_JSON_STRING))
        return anthropic_messages_fail_at(b, index, LR_INVALID_ARGUMENT,
                                          "'text' must be a string");
    if (chat_anthropic_is(block, "image") && b->index == b->last_user)
        return anthropic_messages_fail_at(
            b, index, LR_UNSUPPORTED,
            "this model reads text only and cannot see the image; describe it in "
            "words or leave it out");
    if (before > 0)
        lr_buf_add_z(&b->user, index == 0 ? "\n\n" : "\n");
    size_t at = b->user.len;
    chat_anthropic_block_text(block, &b->user);
    if (b->user.len == at && !b->user.failed)
        b->user.len = before;
    b->has_user = true;
    return LR_OK;
}

static lr_code add_user(struct build *b)
{
    const struct lr_json *content = lr_json_get(b->message, "content");
    lr_code code = LR_OK;
    if (lr_json_is(content, LR_JSON_STRING))
        return add_user_block(b, 0, content);
    if (!lr_json_is(content, LR_JSON_ARRAY))
        return anthropic_messages_fail_at(b, -1, LR_INVALID_ARGUMENT,
                                          "'content' must be a string or an array of blocks");
    for (uint32_t i = 0; code == LR_OK && i < content->count; i++) {
        const struct lr_json *block = &content->items[i];
        if (!lr_json_is(lr_json_get(block, "type"), LR_JSON_STRING))
            return anthropic_messages_fail_at(b, i, LR_INVALID_ARGUMENT,
                                              "a block is an object with a 'type'");
        code = chat_anthropic_is(block, "tool_result") ? add_result(b, i, block)
                                                       : add_user_block(b, i, block);
        if (code == LR_OK && chat_anthropic_has_note(block))
            code = name_note(b, i);
    }
    return code;
}

/* ---- the assistant ---- */

static lr_code make_call(struct build *b, uint32_t index, const struct lr_json *block,
                         struct lr_json *out)
{
    const struct lr_json *input = lr_json_get(block, "input");
    struct lr_json arguments = {.type = LR_JSON_OBJECT};
    struct lr_str id, name;
    struct chat_object call, function;
    if (!lr_json_str(lr_json_get(block, "id"), &id) || id.len == 0 ||
        !lr_json_str(lr_json_get(block, "name"), &name) || name.len == 0)
        return anthropic_messages_fail_at(b, index, LR_INVALID_ARGUMENT,
                                          "a 'tool_use' needs 'id' and 'name'");
    if (input != NULL && input->type != LR_JSON_NULL)
        arguments = *input;
    if (!chat_object_begin(&call, b->p->arena, NULL, 3) ||
        !chat_object_begin(&function, b->p->arena, NULL, 2) ||
        !lr_strmap_put(&b->calls, id, NULL, NULL))
        return anthropic_messages_no_memory(b);
    chat_object_set(&function, "name", chat_string_json(name));
    chat_object_set(&function, "arguments", arguments);
    chat_object_set(&call, "id", chat_string_json(id));
    chat_object_set(&call, "type", chat_string_json(LR_STR_LIT("function")));
    chat_object_set(&call, "function", chat_object_json(&function));
    *out = chat_object_json(&call);
    return LR_OK;
}

static void add_line(struct lr_buf *out, const struct lr_json *text)
{
    if (!lr_json_is(text, LR_JSON_STRING) || text->text.len == 0)
        return;
    if (out->len > 0)
        lr_buf_add_char(out, '\n');
    lr_buf_add_str(out, text->text);
}

/* Blocks of other types (redacted thinking, Anthropic's own tools) are left out. */
static lr_code read_assistant(struct build *b, const struct lr_json *content,
                              struct lr_json *calls, uint32_t *count)
{
    lr_code code = LR_OK;
    for (uint32_t i = 0; code == LR_OK && i < content->count; i++) {
        const struct lr_json *block = &content->items[i];
        if (!lr_json_is(lr_json_get(block, "type"), LR_JSON_STRING))
            return anthropic_messages_fail_at(b, i, LR_INVALID_ARGUMENT,
                                              "a block is an object with a 'type'");
        if (chat_anthropic_is(block, "tool_use"))
            code = make_call(b, i, block, &calls[(*count)++]);
        else if (chat_anthropic_is(block, "thinking"))
            add_line(&b->thinking, lr_json_get(block, "thinking"));
        else if (chat_anthropic_is(block, "text"))
            add_line(&b->text, lr_json_get(block, "text"));
    }
    return code;
}

static uint32_t count_blocks(const struct lr_json *content, const char *type)
{
    uint32_t count = 0;
    for (uint32_t i = 0; lr_json_is(content, LR_JSON_ARRAY) && i < content->count; i++)
        count += chat_anthropic_is(&content->items[i], type);
    return count;
}

static lr_code anthropic_messages_add_assistant(struct build *b)
{
    const struct lr_json *content = lr_json_get(b->message, "content");
    struct lr_json *calls = NULL;
    struct chat_object o;
    uint32_t count = 0;
    lr_code code = flush_user(b);
    lr_buf_clear(&b->thinking);
    if (code != LR_OK)
        return code;
    if (lr_json_is(content, LR_JSON_STRING)) {
        lr_buf_add_str(&b->text, content->text);
    } else if (lr_json_is(content, LR_JSON_ARRAY)) {
        uint32_t room = count_blocks(content, "tool_use");
        calls = lr_arena_array(b->p->arena, (size_t)room + 1, sizeof(*calls));
        if (calls == NULL)
            return anthropic_messages_no_memory(b);
        if ((code = read_assistant(b, content, calls, &count)) != LR_OK)
            return code;
    } else {
        return anthropic_messages_fail_at(b, -1, LR_INVALID_ARGUMENT,
                                          "'content' must be a string or an array of blocks");
    }
    if (b->text.len == 0 && count == 0)
        return LR_OK; /* thinking that led to nothing: templates have no place for it */
    if (!begin_message(b, &o, "assistant", &b->text, 2))
        return anthropic_messages_no_memory(b);
    if (b->thinking.len > 0 || b->thinking.failed) {
        struct lr_json thinking = anthropic_messages_take(b, &b->thinking);
        if (thinking.type == LR_JSON_NULL)
            return anthropic_messages_no_memory(b);
        chat_object_set(&o, "reasoning_content", thinking);
    }
    if (count > 0)
        chat_object_set(
            &o, "tool_calls",
            (struct lr_json){.type = LR_JSON_ARRAY, .count = count, .items = calls});
    b->messages[b->count++] = chat_object_json(&o);
    return LR_OK;
}

/* ---- all messages ---- */

static bool has_role(const struct lr_json *message, const char *role)
{
    struct lr_str text;
    return lr_json_str(lr_json_get(message, "role"), &text) && lr_str_eq_z(text, role);
}

static lr_code anthropic_messages_add_message(struct build *b)
{
    if (has_role(b->message, "user"))
        return add_user(b);
    if (has_role(b->message, "assistant"))
        return anthropic_messages_add_assistant(b);
    if (has_role(b->message, "system"))
        return add_system_message(b);
    return anthropic_messages_fail_at(b, -1, LR_INVALID_ARGUMENT,
                                      "'role' must be 'user', 'assistant' or 'system'");
}

/* Without a system text the list begins at slot 1. */
static lr_code anthropic_messages_finish(struct build *b)
{
    struct chat_parse *p = b->p;
    bool has_system = b->system.len > 0 || b->system.failed;
    struct chat_object o;
    lr_code code = flush_user(b);
    if (code != LR_OK)
        return code;
    struct lr_json *all = lr_arena_alloc(p->arena, sizeof(*all));
    if (all == NULL || (has_system && !begin_message(b, &o, "system", &b->system, 0)))
        return anthropic_messages_no_memory(b);
    if (has_system)
        b->messages[0] = chat_object_json(&o);
    if (b->count == 1)
        return chat_parse_fail(p, "messages", "invalid_value", LR_INVALID_ARGUMENT,
                               "messages: at least one message with content is required");
    *all = (struct lr_json){.type = LR_JSON_ARRAY,
                            .count = b->count - (has_system ? 0 : 1),
                            .items = b->messages + (has_system ? 0 : 1)};
    p->req->messages = all;
    return LR_OK;
}

/* Makes room for the messages, and finds the last one of the user. */
static lr_code count_messages(struct build *b, const struct lr_json *from)
{
    size_t room = 2 + (size_t)from->count;
    for (uint32_t i = 0; i < from->count; i++) {
        room += count_blocks(lr_json_get(&from->items[i], "content"), "tool_result");
        if (has_role(&from->items[i], "user"))
            b->last_user = i;
    }
    b->messages = lr_arena_array(b->p->arena, room, sizeof(*b->messages));
    return b->messages != NULL ? LR_OK : anthropic_messages_no_memory(b);
}

lr_code chat_anthropic_messages(struct chat_parse *p)
{
    const struct chat_anthropic_parse *a = chat_anthropic_parse_of(p);
    struct build b = {.p = p, .count = 1};
    if (a->messages->count > CHAT_MESSAGES_MAX)
        return chat_parse_fail(p, "messages", "invalid_value", LR_INVALID_ARGUMENT,
                               "messages: %u entries; the limit is %d", a->messages->count,
                               CHAT_MESSAGES_MAX);
    lr_code code = count_messages(&b, a->messages);
    if (code != LR_OK)
        return code;
    struct lr_buf *const buffers[] = {&b.system, &b.user, &b.text, &b.thinking};
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        lr_buf_init(buffers[i], p->arena->limit);
    lr_strmap_init(&b.calls);
    if (a->system != NULL)
        (void)add_system_content(a->system, &b.system);
    for (; code == LR_OK && b.index < a->messages->count; b.index++) {
        b.message = &a->messages->items[b.index];
        code = anthropic_messages_add_message(&b);
    }
    if (code == LR_OK)
        code = anthropic_messages_finish(&b);
    for (size_t i = 0; i < sizeof(buffers) / sizeof(buffers[0]); i++)
        lr_buf_free(buffers[i]);
    lr_strmap_free(&b.calls);
    return code;
}
