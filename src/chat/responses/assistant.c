/* chat/responses/assistant.c - joins reasoning, text and calls of an assistant into one
 * message. */
#include "chat/responses/build.h"

void chat_assistant_end(struct chat_build *b)
{
    if (b->turn.members != NULL) {
        if (b->turn_call_count > 0)
            chat_object_set(&b->turn, "tool_calls",
                            (struct lr_json){.type = LR_JSON_ARRAY,
                                             .count = b->turn_call_count,
                                             .items = b->turn_calls});
        b->messages[b->count++] = chat_object_json(&b->turn);
    }
    b->turn = (struct chat_object){0};
    b->turn_call_count = 0;
    /* Reasoning without text or calls after it: templates have no place for it. */
    lr_buf_clear(&b->reasoning);
}

static lr_code open_turn(struct chat_build *b)
{
    if (b->turn.members != NULL)
        return LR_OK;
    if (!chat_object_begin(&b->turn, b->p->arena, NULL, 4))
        return chat_build_no_memory(b);
    chat_object_set(&b->turn, "role", chat_string_json(LR_STR_LIT("assistant")));
    chat_object_set(&b->turn, "content", (struct lr_json){.type = LR_JSON_NULL});
    if (b->reasoning.len == 0)
        return LR_OK;
    const char *text = lr_arena_copy(b->p->arena, lr_buf_str(&b->reasoning));
    if (text == NULL || b->reasoning.failed)
        return chat_build_no_memory(b);
    chat_object_set(&b->turn, "reasoning_content",
                    chat_string_json(lr_str(text, b->reasoning.len)));
    return LR_OK;
}

lr_code chat_assistant_reasoning(struct chat_build *b)
{
    static const char *const types[] = {"reasoning_text", "text", NULL};
    static const char *const summary_types[] = {"summary_text", NULL};
    const struct lr_json *content = lr_json_get(b->item, "content");
    const struct lr_json *summary = lr_json_get(b->item, "summary");
    struct lr_str text = {0};
    lr_code code = LR_OK;
    if (b->turn.members != NULL)
        chat_assistant_end(b);
    if (lr_json_is(content, LR_JSON_ARRAY) && content->count > 0)
        code = chat_build_text(b, ".content", content, types, &text);
    else if (summary != NULL && summary->type != LR_JSON_NULL)
        code = chat_build_text(b, ".summary", summary, summary_types, &text);
    if (b->reasoning.len > 0 && text.len > 0)
        lr_buf_add_char(&b->reasoning, '\n');
    lr_buf_add_str(&b->reasoning, text);
    return code;
}

lr_code chat_assistant_content(struct chat_build *b, struct lr_str text)
{
    if (b->turn.members != NULL)
        chat_assistant_end(b);
    lr_code code = open_turn(b);
    if (code == LR_OK)
        chat_object_set(&b->turn, "content", chat_string_json(text));
    return code;
}

/* The number of consecutive calls from here on; they belong to one turn. */
static uint32_t count_calls(const struct chat_build *b)
{
    const struct lr_json *input = chat_responses_parse_of(b->p)->input;
    uint32_t end = b->index;
    while (end < input->count &&
           (chat_input_kind(&input->items[end]) == CHAT_INPUT_CALL ||
            chat_input_kind(&input->items[end]) == CHAT_INPUT_CUSTOM_CALL))
        end++;
    return end - b->index;
}

/* {"input": text}: the arguments of the function that represents a custom tool. */
static bool wrap_input(struct chat_build *b, struct lr_str text, struct lr_json *out)
{
    struct chat_object o;
    if (!chat_object_begin(&o, b->p->arena, NULL, 1))
        return false;
    chat_object_set(&o, "input", chat_string_json(text));
    *out = chat_object_json(&o);
    return true;
}

lr_code chat_assistant_call(struct chat_build *b, bool is_custom)
{
    const char *key = is_custom ? "input" : "arguments";
    const struct lr_json *within = lr_json_get(b->item, "namespace");
    struct lr_str id, name, text, space = {0};
    struct lr_json arguments;
    struct chat_object call, function;
    if (!lr_json_str(lr_json_get(b->item, "call_id"), &id) || id.len == 0)
        return chat_build_bad(b, ".call_id", "a call needs its 'call_id', a string.");
    if (!lr_json_str(lr_json_get(b->item, "name"), &name) || !chat_is_tool_name(name))
        return chat_build_bad(b, ".name",
                              "expected 1 to 128 letters, digits, '_', '-' or '.'.");
    if (within != NULL && within->type != LR_JSON_NULL &&
        (!lr_json_str(within, &space) || !chat_is_tool_name(space)))
        return chat_build_bad(b, ".namespace", "expected the name of a namespace.");
    if (!lr_json_str(lr_json_get(b->item, key), &text))
        return chat_build_bad(b, is_custom ? ".input" : ".arguments", "expected a string.");
    lr_code code = open_turn(b);
    if (code != LR_OK)
        return code;
    if (b->turn_call_count == 0)
        b->turn_calls = lr_arena_array(b->p->arena, count_calls(b), sizeof(*b->turn_calls));
    arguments = chat_string_json(text);
    name = chat_responses_tool_name(b->p->arena, space, name);
    if (b->turn_calls == NULL || name.ptr == NULL ||
        !chat_object_begin(&call, b->p->arena, NULL, 3) ||
        !chat_object_begin(&function, b->p->arena, NULL, 2) ||
        (is_custom && !wrap_input(b, text, &arguments)) ||
        !lr_strmap_put(&b->calls, id, b, NULL))
        return chat_build_no_memory(b);
    chat_object_set(&function, "name", chat_string_json(name));
    chat_object_set(&function, "arguments", arguments);
    chat_object_set(&call, "id", chat_string_json(id));
    chat_object_set(&call, "type", chat_string_json(LR_STR_LIT("function")));
    chat_object_set(&call, "function", chat_object_json(&function));
    b->turn_calls[b->turn_call_count++] = chat_object_json(&call);
    return LR_OK;
}
