/* chat/responses/input.c - instructions and input items -> messages.
 *
 * Items are finer than messages: reasoning, text and calls of an assistant's turn are separate
 * items and become one message again.  System and developer texts are joined into the first
 * message, because Harmony has one place for them.  Every content becomes one string, parts
 * joined by newlines.
 */
#include <stdio.h>

#include "chat/responses/build.h"
#include "chat/template/repair.h"

static lr_code input_fail_at(struct chat_build *b, const char *member, const char *code,
                             lr_code status, const char *text)
{
    char param[96];
    uint32_t earlier = chat_responses_parse_of(b->p)->earlier;
    (void)snprintf(param, sizeof(param), "input[%u]%s",
                   b->index >= earlier ? b->index - earlier : 0, member);
    return chat_parse_fail(b->p, param, code, status, "Invalid '%s': %s", param, text);
}

lr_code chat_build_bad(struct chat_build *b, const char *member, const char *text)
{
    return input_fail_at(b, member, "invalid_value", LR_INVALID_ARGUMENT, text);
}

lr_code chat_build_no_memory(struct chat_build *b)
{
    return chat_parse_fail(b->p, "input", NULL, LR_OUT_OF_RAM,
                           "no memory for 'input' (limit %zu bytes)", b->p->arena->limit);
}

enum chat_input_kind chat_input_kind(const struct lr_json *item)
{
    static const struct {
        const char *name;
        enum chat_input_kind kind;
    } kinds[] = {
        {"message", CHAT_INPUT_MESSAGE},
        {"function_call", CHAT_INPUT_CALL},
        {"custom_tool_call", CHAT_INPUT_CUSTOM_CALL},
        {"function_call_output", CHAT_INPUT_OUTPUT},
        {"custom_tool_call_output", CHAT_INPUT_OUTPUT},
        {"reasoning", CHAT_INPUT_REASONING},
    };
    struct lr_str type;
    if (!lr_json_str(lr_json_get(item, "type"), &type))
        return lr_json_get(item, "role") != NULL ? CHAT_INPUT_MESSAGE : CHAT_INPUT_OTHER;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (lr_str_eq_z(type, kinds[i].name))
            return kinds[i].kind;
    return CHAT_INPUT_OTHER;
}

/* ---- text ---- */

/* An attachment.  Refusing it in the history, or in the output of the client's own tool, would
 * end the conversation: the model gets a note instead. */
static lr_code check_attachment(struct chat_build *b, const char *at, const char *what)
{
    char param[96];
    bool is_output = lr_str_starts(lr_str_z(at), ".output");
    uint32_t earlier = chat_responses_parse_of(b->p)->earlier;
    if (b->index < earlier)
        return LR_OK; /* it was named when it was sent */
    (void)snprintf(param, sizeof(param), "input[%u]%s", b->index - earlier, at);
    if (b->index == b->last_user || (b->p->is_strict && !is_output))
        return chat_parse_fail(b->p, param, "unsupported_value", LR_UNSUPPORTED,
                               "Invalid '%s': this model cannot see %s; it takes text.", param,
                               what);
    chat_parse_note(b->p, param);
    return LR_OK;
}

static uint32_t last_user(const struct lr_json *input)
{
    struct lr_str role;
    for (uint32_t i = input->type == LR_JSON_ARRAY ? input->count : 0; i > 0; i--)
        if (chat_input_kind(&input->items[i - 1]) == CHAT_INPUT_MESSAGE &&
            lr_json_str(lr_json_get(&input->items[i - 1], "role"), &role) &&
            lr_str_eq_z(role, "user"))
            return i - 1;
    return UINT32_MAX;
}

/* The text of a part whose type is one of `types`, which ends with NULL. */
static lr_code part_text(struct chat_build *b, const char *member, uint32_t index,
                         const struct lr_json *part, const char *const *types,
                         struct lr_str *out)
{
    char at[48], text[160];
    const char *what;
    struct lr_str type;
    (void)snprintf(at, sizeof(at), "%s[%u]", member, index);
    if (part->type != LR_JSON_OBJECT || !lr_json_str(lr_json_get(part, "type"), &type))
        return chat_build_bad(b, at, "a part is an object with a 'type'.");
    *out = chat_part_note(type, &what);
    if (out->len > 0)
        return check_attachment(b, at, what);
    const char *key = lr_str_eq_z(type, "refusal") ? "refusal" : "text";
    for (size_t i = 0; types[i] != NULL; i++)
        if (lr_str_eq_z(type, types[i]))
            return lr_json_str(lr_json_get(part, key), out)
                       ? LR_OK
                       : chat_build_bad(b, at, "its text must be a string.");
    (void)snprintf(text, sizeof(text), "parts of type '%.*s' are not supported here; '%s' is.",
                   type.len < 40 ? (int)type.len : 40, type.ptr, types[0]);
    return input_fail_at(b, at, "unsupported_value", LR_UNSUPPORTED, text);
}

lr_code chat_build_text(struct chat_build *b, const char *member, const struct lr_json *value,
                        const char *const *types, struct lr_str *out)
{
    struct lr_str text;
    size_t len = 0, at = 0;
    *out = LR_STR_LIT("");
    if (lr_json_str(value, out))
        return LR_OK;
    if (!lr_json_is(value, LR_JSON_ARRAY))
        return chat_build_bad(b, member, "expected a string or an array of parts.");
    for (uint32_t i = 0; i < value->count; i++) {
        lr_code code = part_text(b, member, i, &value->items[i], types, &text);
        if (code != LR_OK)
            return code;
        len += text.len + 1;
    }
    if (value->count == 1)
        *out = text;
    if (value->count <= 1)
        return LR_OK;
    char *joined = lr_arena_alloc(b->p->arena, len);
    if (joined == NULL)
        return chat_build_no_memory(b);
    for (uint32_t i = 0; i < value->count; i++) {
        lr_code ignored = part_text(b, member, i, &value->items[i], types, &text);
        (void)ignored; /* no error: the same text was read before */
        if (i > 0)
            joined[at++] = '\n';
        if (text.len > 0)
            memcpy(joined + at, text.ptr, text.len);
        at += text.len;
    }
    *out = lr_str(joined, at);
    return LR_OK;
}

/* ---- other items ---- */

static lr_code add_output(struct chat_build *b)
{
    static const char *const types[] = {"input_text", "output_text", "text", NULL};
    struct lr_str id, text;
    struct chat_object o;
    chat_assistant_end(b);
    if (!lr_json_str(lr_json_get(b->item, "call_id"), &id))
        return chat_build_bad(b, ".call_id", "an output needs the 'call_id' of its call.");
    if (!lr_strmap_has(&b->calls, id))
        return chat_build_bad(b, ".call_id",
                              "no call before it has this id; send the call, too.");
    lr_code code = chat_build_text(b, ".output", lr_json_get(b->item, "output"), types, &text);
    if (code != LR_OK)
        return code;
    if (!chat_object_begin(&o, b->p->arena, NULL, 3))
        return chat_build_no_memory(b);
    chat_object_set(&o, "role", chat_string_json(LR_STR_LIT("tool")));
    chat_object_set(&o, "tool_call_id", chat_string_json(id));
    chat_object_set(&o, "content", chat_string_json(text));
    b->messages[b->count++] = chat_object_json(&o);
    return LR_OK;
}

static lr_code add_user(struct chat_build *b, struct lr_str text)
{
    struct chat_object o;
    chat_assistant_end(b);
    if (!chat_object_begin(&o, b->p->arena, NULL, 2))
        return chat_build_no_memory(b);
    chat_object_set(&o, "role", chat_string_json(LR_STR_LIT("user")));
    chat_object_set(&o, "content", chat_string_json(text));
    b->messages[b->count++] = chat_object_json(&o);
    return LR_OK;
}

static void input_add_system(struct chat_build *b, struct lr_str text)
{
    if (b->turn_call_count > 0)
        chat_assistant_end(b); /* the calls of a turn belong together */
    if (b->system.len > 0 && text.len > 0)
        lr_buf_add_z(&b->system, "\n\n");
    lr_buf_add_str(&b->system, text);
}

static lr_code input_add_message(struct chat_build *b)
{
    static const char *const types[] = {"input_text", "output_text", "refusal", "text", NULL};
    struct lr_str role = {0}, text;
    (void)lr_json_str(lr_json_get(b->item, "role"), &role);
    bool is_system = lr_str_eq_z(role, "system") || lr_str_eq_z(role, "developer");
    bool is_assistant = lr_str_eq_z(role, "assistant");
    if (!is_system && !is_assistant && !lr_str_eq_z(role, "user"))
        return chat_build_bad(b, ".role",
                              "expected 'user', 'assistant', 'system' or 'developer'.");
    lr_code code =
        chat_build_text(b, ".content", lr_json_get(b->item, "content"), types, &text);
    if (code != LR_OK)
        return code;
    if (is_assistant)
        return chat_assistant_content(b, text);
    if (!is_system)
        return add_user(b, text);
    input_add_system(b, text);
    return LR_OK;
}

static lr_code refuse_item(struct chat_build *b)
{
    char text[200];
    struct lr_str type;
    if (!lr_json_str(lr_json_get(b->item, "type"), &type))
        return chat_build_bad(b, ".type", "an item has a 'type', a message at least a 'role'.");
    if (lr_str_eq_z(type, "item_reference"))
        return chat_build_bad(b, ".id", "an 'item_reference' needs the 'id' of an item.");
    (void)snprintf(text, sizeof(text),
                   "items of type '%.*s' are not supported; leave it out of 'input'.",
                   type.len < 40 ? (int)type.len : 40, type.ptr);
    return input_fail_at(b, ".type", "unsupported_value", LR_UNSUPPORTED, text);
}

static lr_code add_item(struct chat_build *b)
{
    if (b->item->type != LR_JSON_OBJECT)
        return input_fail_at(b, "", "invalid_type", LR_INVALID_ARGUMENT, "expected an object.");
    switch (chat_input_kind(b->item)) {
    case CHAT_INPUT_MESSAGE:
        return input_add_message(b);
    case CHAT_INPUT_CALL:
        return chat_assistant_call(b, false);
    case CHAT_INPUT_CUSTOM_CALL:
        return chat_assistant_call(b, true);
    case CHAT_INPUT_OUTPUT:
        return add_output(b);
    case CHAT_INPUT_REASONING:
        return chat_assistant_reasoning(b);
    default:
        return refuse_item(b);
    }
}

/* Slot 0 is reserved for the instructions; without any the list begins at slot 1. */
static lr_code input_finish(struct chat_build *b)
{
    struct chat_parse *p = b->p;
    bool has_system = b->system.len > 0;
    struct chat_object o;
    chat_assistant_end(b);
    struct lr_json *all = lr_arena_alloc(p->arena, sizeof(*all));
    if (b->system.failed || all == NULL)
        return chat_build_no_memory(b);
    if (has_system) {
        char *text = lr_arena_copy(p->arena, lr_buf_str(&b->system));
        if (text == NULL || !chat_object_begin(&o, p->arena, NULL, 2))
            return chat_build_no_memory(b);
        chat_object_set(&o, "role", chat_string_json(LR_STR_LIT("system")));
        chat_object_set(&o, "content", chat_string_json(lr_str(text, b->system.len)));
        b->messages[0] = chat_object_json(&o);
    }
    *all = (struct lr_json){.type = LR_JSON_ARRAY,
                            .count = b->count - (has_system ? 0 : 1),
                            .items = b->messages + (has_system ? 0 : 1)};
    if (all->count == 0)
        return chat_parse_fail(p, "input", "invalid_value", LR_INVALID_ARGUMENT,
                               "'input' has nothing to answer; send at least one message.");
    p->req->messages = all;
    return LR_OK;
}

lr_code chat_responses_messages(struct chat_parse *p)
{
    const struct lr_json *input = chat_responses_parse_of(p)->input;
    bool is_list = input->type == LR_JSON_ARRAY;
    uint32_t items = is_list ? input->count : 1;
    struct chat_build b = {.p = p, .count = 1, .last_user = last_user(input)};
    lr_code code = LR_OK;
    if (items == 0 || items > CHAT_MESSAGES_MAX)
        return chat_parse_fail(p, "input", "invalid_value", LR_INVALID_ARGUMENT,
                               "'input' has %u items; 1 to %d are taken.", items,
                               CHAT_MESSAGES_MAX);
    b.messages = lr_arena_array(p->arena, (size_t)items + 1, sizeof(*b.messages));
    if (b.messages == NULL)
        return chat_build_no_memory(&b);
    lr_buf_init(&b.system, p->arena->limit);
    lr_buf_init(&b.reasoning, p->arena->limit);
    lr_strmap_init(&b.calls);
    input_add_system(&b, chat_responses_parse_of(p)->instructions);
    if (!is_list)
        code = add_user(&b, input->text);
    for (; is_list && code == LR_OK && b.index < items; b.index++) {
        b.item = &input->items[b.index];
        code = add_item(&b);
    }
    if (code == LR_OK)
        code = input_finish(&b);
    lr_buf_free(&b.system);
    lr_buf_free(&b.reasoning);
    lr_strmap_free(&b.calls);
    return code;
}
