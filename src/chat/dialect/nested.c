/* chat/dialect/nested.c - see chat/dialect/values.h: values of MiniMax M3, which are tags.
 *
 * The mark before every tag is one token, so that a string needs no escapes: it ends at the
 * mark with the end tag of its own name. */
#include "chat/dialect/values.h"

struct nested {
    struct lr_str text;
    size_t at;
    uint32_t depth;
    struct lr_str mark;
    struct lr_buf *out; /* borrowed */
};

/* The name of the tag at the front, after the mark; empty: no tag begins here. */
static struct lr_str tag_at(const struct nested *n, size_t at, bool *is_end, size_t *after)
{
    struct lr_str rest = lr_str_sub(n->text, at, n->text.len);
    struct lr_str none = {0};
    if (rest.len < n->mark.len + 2 || memcmp(rest.ptr, n->mark.ptr, n->mark.len) != 0 ||
        rest.ptr[n->mark.len] != '<')
        return none;
    size_t from = n->mark.len + 1;
    *is_end = rest.ptr[from] == '/';
    from += *is_end ? 1 : 0;
    size_t end = from;
    while (end < rest.len && rest.ptr[end] != '>' && rest.ptr[end] != '\n')
        end++;
    if (end == rest.len || rest.ptr[end] != '>' || end == from)
        return none;
    *after = at + end + 1;
    return lr_str_sub(rest, from, end);
}

static void nested_blanks(struct nested *n)
{
    while (n->at < n->text.len && strchr(" \t\r\n", n->text.ptr[n->at]) != NULL)
        n->at++;
}

static bool nested_value(struct nested *n, struct lr_str name, const struct chat_types *types);

/* Tags up to the end tag `name`, or to the end of the text if it is empty. */
static bool nested_tags(struct nested *n, struct lr_str name, const struct chat_types *types,
                        bool is_list)
{
    bool is_end;
    size_t after;
    lr_buf_add_char(n->out, is_list ? '[' : '{');
    for (uint32_t count = 0;; count++) {
        nested_blanks(n);
        if (name.len == 0 && n->at == n->text.len)
            break;
        struct lr_str tag = tag_at(n, n->at, &is_end, &after);
        if (tag.len == 0 || (is_end && !lr_str_eq(tag, name)))
            return false;
        n->at = after;
        if (is_end)
            break;
        if (count != 0)
            lr_buf_add_z(n->out, ", ");
        if (!is_list) {
            lr_json_quote(n->out, tag);
            lr_buf_add_z(n->out, ": ");
        }
        const struct chat_types *of =
            is_list ? (types != NULL ? types->items : NULL) : chat_types_member(types, tag);
        if (!nested_value(n, tag, of))
            return false;
    }
    lr_buf_add_char(n->out, is_list ? ']' : '}');
    return true;
}

/* The text up to the end tag, whatever is in it. */
static bool nested_text(struct nested *n, struct lr_str name, const struct chat_types *types)
{
    bool is_end;
    size_t after;
    for (size_t at = n->at; at < n->text.len; at++) {
        if (n->text.ptr[at] != n->mark.ptr[0] ||
            !lr_str_eq(tag_at(n, at, &is_end, &after), name) || !is_end)
            continue;
        chat_value_typed(lr_str_sub(n->text, n->at, at), types, n->out);
        n->at = after;
        return true;
    }
    return false;
}

static bool nested_value(struct nested *n, struct lr_str name, const struct chat_types *types)
{
    bool is_end;
    size_t after, from = n->at, before = n->out->len;
    uint32_t bits = types != NULL ? types->bits : 0;
    if ((bits & CHAT_TYPE_STRING) != 0)
        return nested_text(n, name, types);
    nested_blanks(n);
    struct lr_str tag = tag_at(n, n->at, &is_end, &after);
    bool is_tag =
        tag.len != 0 && (!is_end || (bits & (CHAT_TYPE_ARRAY | CHAT_TYPE_OBJECT)) != 0);
    if (is_tag && ++n->depth <= CHAT_VALUE_DEPTH_MAX) {
        bool is_list = lr_str_eq_z(tag, "item") && (bits & CHAT_TYPE_ARRAY) != 0;
        is_list = is_list || (lr_str_eq_z(tag, "item") && (bits & CHAT_TYPE_OBJECT) == 0) ||
                  (is_end && (bits & CHAT_TYPE_ARRAY) != 0);
        bool good = nested_tags(n, name, types, is_list);
        n->depth--;
        if (good)
            return true;
        n->depth = CHAT_VALUE_DEPTH_MAX; /* once: what follows is read as text */
    }
    n->at = from;
    n->out->len = before;
    return nested_text(n, name, types);
}

bool chat_value_nested(struct lr_str text, struct lr_str mark, const struct chat_types *types,
                       struct lr_buf *out)
{
    struct nested n = {.text = text, .mark = mark, .out = out};
    size_t before = out->len;
    bool good = nested_tags(&n, (struct lr_str){0}, types, false);
    if (!good)
        out->len = before;
    return good;
}
