/* chat/template/render.c - see chat/template/render.h. */
#include "chat/template/render.h"

#include "chat/template/object.h"

/* ---- the content "" ---- */

/* An assistant's message whose content is null or missing. */
static bool lacks_content(const struct lr_json *message)
{
    struct lr_str role;
    const struct lr_json *content = lr_json_get(message, "content");
    return lr_json_str(lr_json_get(message, "role"), &role) && lr_str_eq_z(role, "assistant") &&
           (content == NULL || content->type == LR_JSON_NULL);
}

static bool fill_content(struct lr_arena *arena, struct lr_json *message)
{
    struct chat_object o;
    if (!chat_object_begin(&o, arena, message, 1))
        return false;
    chat_object_set(&o, "content", chat_string_json(LR_STR_LIT("")));
    *message = chat_object_json(&o);
    return true;
}

/* ---- arguments as text ---- */

static bool has_call(const struct lr_json *message)
{
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    return lr_json_is(calls, LR_JSON_ARRAY) && calls->count > 0;
}

static bool write_arguments(struct lr_arena *arena, struct lr_json *call)
{
    struct chat_object o;
    const struct lr_json *function = lr_json_get(call, "function");
    if (!chat_object_begin(&o, arena, call, 0))
        return false;
    if (lr_json_is(function, LR_JSON_OBJECT)) {
        struct lr_json written = *function;
        if (!write_arguments(arena, &written))
            return false;
        chat_object_set(&o, "function", written);
    }
    struct lr_json_member *arguments = chat_object_find(&o, "arguments");
    if (arguments != NULL && arguments->value.type != LR_JSON_STRING) {
        struct lr_buf text;
        lr_buf_init(&text, JINJA_MAX_OUTPUT);
        jinja_dumps(&text, &arguments->value);
        const char *copy = text.failed ? NULL : lr_arena_copy(arena, lr_buf_str(&text));
        arguments->value = chat_string_json(lr_str(copy, text.len));
        lr_buf_free(&text);
        if (copy == NULL)
            return false;
    }
    *call = chat_object_json(&o);
    return true;
}

static bool write_calls(struct lr_arena *arena, struct lr_json *message)
{
    struct chat_object o;
    const struct lr_json *calls = lr_json_get(message, "tool_calls");
    struct lr_json *items = lr_arena_array(arena, calls->count, sizeof(*items));
    if (items == NULL || !chat_object_begin(&o, arena, message, 0))
        return false;
    for (uint32_t i = 0; i < calls->count; i++) {
        items[i] = calls->items[i];
        if (items[i].type == LR_JSON_OBJECT && !write_arguments(arena, &items[i]))
            return false;
    }
    chat_object_set(
        &o, "tool_calls",
        (struct lr_json){.type = LR_JSON_ARRAY, .count = calls->count, .items = items});
    *message = chat_object_json(&o);
    return true;
}

/* ---- messages ---- */

struct change {
    bool (*is_due)(const struct lr_json *message);
    bool (*make)(struct lr_arena *arena, struct lr_json *message);
};
static const struct change as_text = {has_call, write_calls};
static const struct change as_empty = {lacks_content, fill_content};

/* A copy of context with changed messages.  False: nothing to change, or no memory. */
static bool render_apply(const struct change *change, struct lr_arena *arena,
                         const struct lr_json *context, struct lr_json *out)
{
    const struct lr_json *messages = lr_json_get(context, "messages");
    uint32_t count = lr_json_is(messages, LR_JSON_ARRAY) ? messages->count : 0, first = 0;
    struct chat_object all;
    while (first < count && !change->is_due(&messages->items[first]))
        first++;
    if (first == count)
        return false;
    struct lr_json *items = lr_arena_array(arena, count, sizeof(*items));
    if (items == NULL || !chat_object_begin(&all, arena, context, 0))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        items[i] = messages->items[i];
        if (i >= first && change->is_due(&items[i]) && !change->make(arena, &items[i]))
            return false;
    }
    chat_object_set(&all, "messages",
                    (struct lr_json){.type = LR_JSON_ARRAY, .count = count, .items = items});
    *out = chat_object_json(&all);
    return true;
}

/* ---- rendering ---- */

static size_t render_count_of(struct lr_str text, struct lr_str word)
{
    size_t count = 0, at;
    while ((at = lr_str_find(text, word)) != LR_STR_NONE) {
        count++;
        text = lr_str_sub(text, at + word.len, text.len);
    }
    return count;
}

/* How often a text says what templates print for null. */
static size_t nulls_in(struct lr_str text)
{
    return render_count_of(text, LR_STR_LIT("None")) +
           render_count_of(text, LR_STR_LIT("null"));
}

/* Renders anew with changed messages.  NOT_FOUND: nothing to change; *out is as before. */
static lr_code render_changed(const struct change *change, const struct jinja_template *tmpl,
                              const struct jinja_input *input, struct lr_arena *arena,
                              struct jinja_output *out, struct lr_error *err)
{
    struct lr_json changed;
    struct jinja_input again = *input;
    if (!render_apply(change, arena, input->context, &changed))
        return LR_NOT_FOUND;
    again.context = &changed;
    jinja_output_free(out);
    return jinja_render(tmpl, &again, out, err);
}

static lr_code render_until_it_works(const struct jinja_template *tmpl,
                                     const struct jinja_input *input, struct lr_arena *arena,
                                     struct jinja_output *out, struct lr_error *err)
{
    lr_code code = render_changed(&as_text, tmpl, input, arena, out, NULL);
    if (code != LR_OK)
        code = render_changed(&as_empty, tmpl, input, arena, out, err);
    return code == LR_NOT_FOUND ? LR_INVALID_ARGUMENT : code;
}

lr_code chat_template_render(const struct jinja_template *tmpl, const struct jinja_input *input,
                             struct lr_arena *arena, struct jinja_output *out,
                             struct lr_error *err)
{
    struct jinja_output other = {0};
    lr_code code = jinja_render(tmpl, input, out, err);
    if (code == LR_INVALID_ARGUMENT)
        return render_until_it_works(tmpl, input, arena, out, err);
    size_t nulls = code == LR_OK ? nulls_in(out->text) : 0;
    if (nulls > 0 && render_changed(&as_empty, tmpl, input, arena, &other, NULL) == LR_OK &&
        nulls_in(other.text) < nulls) {
        struct jinja_output printed = *out;
        *out = other;
        other = printed;
    }
    jinja_output_free(&other);
    return code;
}
