/* chat/dialect/call_tags.c - see chat/dialect/reading.h: calls whose parameters are tags, and
 * arguments that are read as a whole. */
#include "chat/dialect/reading.h"

#include "chat/dialect/values.h"

/* Ends of a call that may be inside a string, each of which costs a look at the whole. */
enum { TEXT_TRIES = 16 };

#define CDATA     "<![CDATA["
#define CDATA_END "]]>"

static void args_z(struct chat_calls *p, const char *text)
{
    chat_calls_args(p, lr_str_z(text));
}

/* ---- values ---- */

static void begin_parameter(struct chat_calls *p)
{
    struct lr_buf key;
    struct lr_str name = chat_calls_bare_name(lr_str_trim(lr_buf_str(&p->text)));
    lr_buf_init(&key, 8 * CHAT_CALLS_HEADER_MAX);
    lr_json_quote(&key, name);
    args_z(p, p->has_keys ? ", " : "{");
    chat_calls_args(p, lr_buf_str(&key));
    args_z(p, ": ");
    lr_buf_free(&key);
    p->has_keys = true;
    p->value_types = chat_types_member(p->types, name);
    p->has_type = false;
    lr_buf_clear(&p->text);
    p->state = p->form->key_close.len != 0 ? CHAT_CALLS_KEY_REST
               : p->form->value.len != 0   ? CHAT_CALLS_VALUE_MARK
                                           : CHAT_CALLS_VALUE;
}

static void tags_begin_value(struct chat_calls *p)
{
    uint32_t bits = p->value_types != NULL ? p->value_types->bits : 0;
    bool is_text = p->has_type ? p->is_string : bits == CHAT_TYPE_STRING;
    p->is_streamed = is_text && !p->form->is_cdata;
    p->has_newline = false;
    p->is_first = true;
    lr_buf_clear(&p->text);
    p->state = CHAT_CALLS_VALUE;
    if (p->is_streamed)
        args_z(p, "\"");
}

/* A byte of a string, as JSON writes it. */
static void string_byte(struct chat_calls *p, char c)
{
    struct lr_buf quoted;
    if ((unsigned char)c >= 0x20 && c != '"' && c != '\\') {
        chat_calls_args(p, lr_str(&c, 1));
        return;
    }
    lr_buf_init(&quoted, 16);
    lr_json_quote(&quoted, lr_str(&c, 1));
    chat_calls_args(p, lr_str_sub(lr_buf_str(&quoted), 1, quoted.len - 1));
    lr_buf_free(&quoted);
}

/* One newline on each side of a value is markup in some forms, so that the last newline is held
 * back. */
static void value_byte(struct chat_calls *p, char c)
{
    bool is_first = p->is_first;
    p->is_first = false;
    if (!p->is_streamed) {
        lr_buf_add_char(&p->text, c);
        return;
    }
    if (p->form->strips_newline && c == '\n') {
        if (p->has_newline && !is_first)
            string_byte(p, '\n');
        p->has_newline = !is_first;
        return;
    }
    if (p->has_newline)
        string_byte(p, '\n');
    p->has_newline = false;
    string_byte(p, c);
}

static struct lr_str bare_value(const struct chat_calls *p)
{
    struct lr_str text = lr_buf_str(&p->text);
    size_t begin = sizeof(CDATA) - 1, end = sizeof(CDATA_END) - 1;
    if (p->form->strips_newline) {
        if (text.len != 0 && text.ptr[0] == '\n')
            text = lr_str_sub(text, 1, text.len);
        if (text.len != 0 && text.ptr[text.len - 1] == '\n')
            text = lr_str_sub(text, 0, text.len - 1);
    }
    if (p->form->is_cdata && lr_str_starts(text, CDATA) && text.len >= begin + end)
        text = lr_str_sub(text, begin, text.len - end);
    return text;
}

static void end_value(struct chat_calls *p)
{
    struct lr_buf value;
    p->state = CHAT_CALLS_BODY;
    if (p->is_streamed) {
        args_z(p, "\"");
        return;
    }
    struct lr_str text = bare_value(p);
    lr_buf_init(&value, p->text.limit * 6);
    if (p->has_type)
        chat_value_json(text, &value);
    else
        chat_value_typed(text, p->value_types, &value);
    chat_calls_args(p, lr_buf_str(&value));
    lr_buf_free(&value);
    lr_buf_clear(&p->text);
}

/* A CDATA section that is still open. */
static bool is_in_cdata(const struct chat_calls *p)
{
    struct lr_str text = lr_buf_str(&p->text);
    size_t end = sizeof(CDATA_END) - 1;
    return p->form->is_cdata && lr_str_starts(text, CDATA) &&
           (text.len < end || memcmp(text.ptr + text.len - end, CDATA_END, end) != 0);
}

/* ---- arguments as a whole ---- */

bool chat_calls_take_text(struct chat_calls *p)
{
    struct lr_buf value;
    struct lr_str text = lr_buf_str(&p->text);
    lr_buf_init(&value, p->text.limit * 6);
    bool good = p->form->shape == GRAMMAR_SHAPE_GEMMA
                    ? chat_value_gemma(text, p->form->quote, &value)
                    : chat_value_nested(text, LR_STR_LIT("]<]minimax[>["), p->types, &value);
    if (good)
        chat_calls_args(p, lr_buf_str(&value));
    lr_buf_free(&value);
    return good;
}

/* ---- bytes ---- */

void chat_calls_tag_byte(struct chat_calls *p, char c)
{
    switch (p->state) {
    case CHAT_CALLS_TEXT:
        lr_buf_add_char(&p->text, c);
        return;
    case CHAT_CALLS_VALUE:
        value_byte(p, c);
        break;
    case CHAT_CALLS_BODY:
    case CHAT_CALLS_VALUE_MARK:
        if (!grammar_is_blank(c) && !p->is_begun)
            chat_calls_give_up(p, 1);
        return;
    default: /* a key, or the rest of a tag */
        lr_buf_add_char(&p->text, c);
        if (p->text.len > CHAT_CALLS_HEADER_MAX && !p->is_begun)
            chat_calls_give_up(p, 1);
        else if (p->text.len > CHAT_CALLS_HEADER_MAX)
            p->state = CHAT_CALLS_BODY;
        return;
    }
    chat_calls_check_size(p);
}

void chat_calls_tag_close(struct chat_calls *p)
{
    if (p->state == CHAT_CALLS_VALUE)
        end_value(p);
    else if (p->state == CHAT_CALLS_KEY_REST || p->state == CHAT_CALLS_VALUE_MARK)
        args_z(p, "null");
    args_z(p, p->has_keys ? "}" : "{}");
}

static void close_tag(struct chat_calls *p)
{
    struct lr_str rest = lr_str_trim(lr_buf_str(&p->text));
    if (p->state == CHAT_CALLS_KEY_REST) {
        p->has_type = p->form->has_attributes && rest.len != 0;
        p->is_string =
            p->has_type && lr_str_find(rest, p->form->string_attribute) != LR_STR_NONE;
        tags_begin_value(p);
        return;
    }
    bool is_empty = rest.len != 0 && rest.ptr[rest.len - 1] == '/';
    lr_buf_clear(&p->text);
    p->state = p->form->shape == GRAMMAR_SHAPE_NESTED ? CHAT_CALLS_TEXT : CHAT_CALLS_BODY;
    if (is_empty)
        chat_calls_end_call(p, false);
}

static void end_tags(struct chat_calls *p)
{
    chat_calls_tag_close(p);
    chat_calls_end_call(p, false);
}

static void value_mark(struct chat_calls *p, enum chat_calls_mark kind, struct lr_str mark)
{
    bool is_after_newline =
        p->has_newline || (p->text.len != 0 && p->text.data[p->text.len - 1] == '\n');
    if (kind == CHAT_MARK_KEY ? !is_after_newline : is_in_cdata(p)) {
        for (size_t i = 0; i < mark.len; i++)
            value_byte(p, mark.ptr[i]);
        return;
    }
    end_value(p);
    if (kind == CHAT_MARK_KEY) {
        chat_calls_repair(p, CHAT_REPAIR_END);
        p->state = CHAT_CALLS_KEY;
    }
    lr_buf_clear(&p->text);
    chat_calls_check_size(p);
}

void chat_calls_tag_mark(struct chat_calls *p, enum chat_calls_mark kind, struct lr_str mark)
{
    switch (kind) {
    case CHAT_MARK_KEY:
    case CHAT_MARK_VALUE_END:
        if (p->state == CHAT_CALLS_VALUE) {
            value_mark(p, kind, mark);
            return;
        }
        lr_buf_clear(&p->text);
        p->state = CHAT_CALLS_KEY;
        return;
    case CHAT_MARK_KEY_END:
        begin_parameter(p);
        if (p->state == CHAT_CALLS_VALUE)
            tags_begin_value(p);
        return;
    case CHAT_MARK_VALUE:
        tags_begin_value(p);
        return;
    case CHAT_MARK_CLOSE:
        close_tag(p);
        return;
    case CHAT_MARK_SECTION_END:
        chat_calls_repair(p, CHAT_REPAIR_END);
        end_tags(p);
        return;
    case CHAT_MARK_BEGIN: /* the end of the call before is missing */
        chat_calls_repair(p, CHAT_REPAIR_END);
        end_tags(p);
        if (!p->in_thought)
            lr_buf_add_str(&p->raw, mark);
        chat_calls_begin_mark(p);
        return;
    default:
        break;
    }
    if (p->state == CHAT_CALLS_BROKEN)
        chat_calls_end_call(p, false);
    else if (p->state != CHAT_CALLS_TEXT)
        end_tags(p);
    else if (chat_calls_take_text(p))
        chat_calls_end_call(p, false);
    else if (p->form->shape == GRAMMAR_SHAPE_GEMMA && p->depth++ < TEXT_TRIES)
        lr_buf_add_str(&p->text, mark); /* inside a string it is text */
    else
        chat_calls_give_up(p, 0);
}
