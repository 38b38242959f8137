/* chat/dialect/values.c - see chat/dialect/values.h: texts with the types of a schema. */
#include "chat/dialect/values.h"

#include "chat/json_scan.h"

/* True for a whole JSON value; *is_string: it is a string. */
static bool is_json(struct lr_str text, bool *is_string)
{
    /* chat_json_step knows the end of an object or array only, so that the text is read as the
     * item of an array. */
    struct chat_json_scan scan = {0};
    (void)chat_json_step(&scan, '[');
    *is_string = text.len != 0 && text.ptr[0] == '"';
    for (size_t i = 0; i < text.len; i++)
        if (!chat_json_step(&scan, text.ptr[i]) || scan.depth == 0 ||
            (scan.depth == 1 && scan.state == CHAT_JSON_VALUE))
            return false;
    return text.len != 0 && chat_json_step(&scan, ']') && scan.state == CHAT_JSON_DONE &&
           scan.depth == 0;
}

static void put_string(struct lr_buf *out, struct lr_str text)
{
    lr_json_quote(out, text);
}

void chat_value_json(struct lr_str text, struct lr_buf *out)
{
    bool is_string;
    struct lr_str trimmed = lr_str_trim(text);
    if (is_json(trimmed, &is_string))
        lr_buf_add_str(out, trimmed);
    else if (!chat_value_python(trimmed, out))
        put_string(out, text);
}

void chat_value_typed(struct lr_str text, const struct chat_types *types, struct lr_buf *out)
{
    bool is_string;
    uint32_t bits = types != NULL ? types->bits : 0;
    if ((bits & CHAT_TYPE_STRING) != 0) {
        if ((bits & CHAT_TYPE_NULL) != 0 && lr_str_eq_z(text, "null"))
            lr_buf_add_str(out, text);
        else
            put_string(out, text);
        return;
    }
    if (bits != 0) {
        chat_value_json(text, out);
        return;
    }
    struct lr_str trimmed = lr_str_trim(text);
    if (is_json(trimmed, &is_string) && !is_string)
        lr_buf_add_str(out, trimmed);
    else
        put_string(out, text);
}
