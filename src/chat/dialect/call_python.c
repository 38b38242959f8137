/* chat/dialect/call_python.c - see chat/dialect/reading.h: calls as Python writes them. */
#include "chat/dialect/reading.h"

#include "chat/dialect/values.h"

/* K=V; false: it has another form. */
static bool take_argument(struct chat_calls *p)
{
    struct lr_buf value;
    struct lr_str text = lr_str_trim(lr_buf_str(&p->text));
    size_t at = lr_str_find(text, LR_STR_LIT("="));
    if (text.len == 0)
        return true;
    if (at == LR_STR_NONE || at == 0)
        return false;
    struct lr_str key = lr_str_trim(lr_str_sub(text, 0, at));
    struct lr_str raw = lr_str_trim(lr_str_sub(text, at + 1, text.len));
    lr_buf_init(&value, p->text.limit * 6);
    lr_buf_add_z(&value, p->has_keys ? ", " : "{");
    lr_json_quote(&value, key);
    lr_buf_add_z(&value, ": ");
    bool good = chat_value_python(raw, &value);
    if (!good && p->is_begun) { /* the client has the beginning of the call */
        lr_json_quote(&value, raw);
        good = true;
    }
    if (good) {
        chat_calls_args(p, lr_buf_str(&value));
        p->has_keys = true;
    }
    lr_buf_free(&value);
    lr_buf_clear(&p->text);
    return good;
}

static void in_text(struct chat_calls *p, char c)
{
    if (p->is_escape)
        p->is_escape = false;
    else if (c == '\\')
        p->is_escape = true;
    else if (c == p->quote)
        p->quote = '\0';
}

void chat_calls_python_byte(struct chat_calls *p, char c)
{
    bool is_end = p->quote == '\0' && p->depth == 0 && (c == ',' || c == ')');
    if (is_end) {
        if (!take_argument(p)) {
            chat_calls_give_up(p, 1);
            return;
        }
        if (c == ')') {
            chat_calls_args(p, p->has_keys ? LR_STR_LIT("}") : LR_STR_LIT("{}"));
            chat_calls_end_call(p, false);
            return;
        }
        chat_calls_check_size(p);
        return;
    }
    lr_buf_add_char(&p->text, c);
    if (p->quote != '\0') {
        in_text(p, c);
        return;
    }
    if (c == '\'' || c == '"')
        p->quote = c;
    else if (c == '(' || c == '[' || c == '{')
        p->depth++;
    else if ((c == ')' || c == ']' || c == '}') && p->depth != 0)
        p->depth--;
    else if (c == ')' || c == ']' || c == '}')
        chat_calls_give_up(p, 1);
}
