/* chat/template/chatml.c - see chat/template/chatml.h. */
#include "chat/template/chatml.h"

static void ours(struct jinja_output *out, const char *text)
{
    jinja_output_add(out, lr_str_z(text), true);
}

static void theirs(struct jinja_output *out, struct lr_str text)
{
    jinja_output_add(out, text, false);
}

static void add_json(struct jinja_output *out, const struct lr_json *v)
{
    struct lr_buf text;
    lr_buf_init(&text, out->bytes.limit);
    jinja_dumps(&text, v);
    if (text.failed)
        out->bytes.failed = true;
    theirs(out, lr_buf_str(&text));
    lr_buf_free(&text);
}

/* Only the five known roles are trusted text. */
static bool add_role(struct jinja_output *out, const struct lr_json *message)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant", "tool"};
    struct lr_str role;
    if (!lr_json_str(lr_json_get(message, "role"), &role))
        return false;
    ours(out, "<|im_start|>");
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (lr_str_eq_z(role, roles[i])) {
            ours(out, roles[i]);
            ours(out, "\n");
            return true;
        }
    }
    theirs(out, role);
    ours(out, "\n");
    return true;
}

static void add_content(struct jinja_output *out, const struct lr_json *content)
{
    if (content == NULL || content->type == LR_JSON_NULL)
        return;
    if (content->type == LR_JSON_STRING)
        theirs(out, content->text);
    else
        add_json(out, content);
}

static void add_tools(struct jinja_output *out, const struct lr_json *tools)
{
    ours(out, "# Tools\n\nYou may call one or more functions to assist with the user's "
              "request.\n\nTheir signatures are between <tools> and </tools>, one per "
              "line:\n<tools>");
    for (uint32_t i = 0; i < tools->count; i++) {
        ours(out, "\n");
        add_json(out, &tools->items[i]);
    }
    ours(out, "\n</tools>\n\nTo call a function, answer with a JSON object with its name and "
              "arguments between <tool_call> and </tool_call>:\n<tool_call>\n{\"name\": "
              "<function-name>, \"arguments\": <args-json-object>}\n</tool_call>");
}

static void add_calls(struct jinja_output *out, const struct lr_json *message)
{
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    struct lr_str text;
    if (!lr_json_is(calls, LR_JSON_ARRAY))
        return;
    bool any = lr_json_str(lr_json_get(message, "content"), &text) && text.len > 0;
    for (uint32_t i = 0; i < calls->count; i++) {
        const struct lr_json *f = lr_json_get(&calls->items[i], "function");
        const struct lr_json *call = f != NULL ? f : &calls->items[i];
        const struct lr_json *name = lr_json_get(call, "name");
        const struct lr_json *arguments = lr_json_get(call, "arguments");
        ours(out, any || i > 0 ? "\n<tool_call>\n{\"name\": " : "<tool_call>\n{\"name\": ");
        if (name != NULL)
            add_json(out, name);
        ours(out, ", \"arguments\": ");
        if (lr_json_str(arguments, &text))
            theirs(out, text);
        else if (arguments != NULL)
            add_json(out, arguments);
        ours(out, "}\n</tool_call>");
    }
}

lr_code chat_chatml_render(const struct lr_json *context, struct jinja_output *out,
                           struct lr_error *err)
{
    jinja_output_init(out, JINJA_MAX_OUTPUT);
    const struct lr_json *messages = lr_json_get(context, "messages");
    const struct lr_json *tools = lr_json_get(context, "tools");
    bool generate = false;
    bool has_tools = lr_json_is(tools, LR_JSON_ARRAY) && tools->count > 0;
    struct lr_str role;
    if (!lr_json_is(messages, LR_JSON_ARRAY))
        return lr_fail(err, LR_INVALID_ARGUMENT, "messages must be a list of messages");
    bool leads = messages->count > 0 &&
                 lr_json_str(lr_json_get(&messages->items[0], "role"), &role) &&
                 lr_str_eq_z(role, "system");
    if (has_tools && !leads) {
        ours(out, "<|im_start|>system\n");
        add_tools(out, tools);
        ours(out, "<|im_end|>\n");
    }
    for (uint32_t i = 0; i < messages->count; i++) {
        const struct lr_json *m = &messages->items[i];
        if (!add_role(out, m))
            return lr_fail(err, LR_INVALID_ARGUMENT, "messages[%u].role must be a string", i);
        add_content(out, lr_json_get(m, "content"));
        if (i == 0 && leads && has_tools) {
            ours(out, "\n\n");
            add_tools(out, tools);
        }
        add_calls(out, m);
        ours(out, "<|im_end|>\n");
    }
    if (lr_json_bool(lr_json_get(context, "add_generation_prompt"), &generate) && generate)
        ours(out, "<|im_start|>assistant\n");
    return jinja_output_finish(out, err);
}
