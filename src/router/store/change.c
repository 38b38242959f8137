#include "router/store/change.h"

#include <stdio.h>
#include <string.h>

#include "base/json.h"

enum {
    TEXT_MAX = 300,    /* bytes of a text, and of all texts of a list */
    MEMBER_MAX = 8192, /* each byte of TEXT_MAX may become six */
};
static const char cut[] = "\"cut\":true";

static void change_add(struct router_values *values, struct lr_str member)
{
    size_t at = values->len != 0 ? values->len - 1 : 0; /* over the brace */
    if (values->is_cut)
        return;
    if (at + member.len + sizeof(",,}") + sizeof(cut) > sizeof(values->text)) {
        member = lr_str_z(cut);
        values->is_cut = true;
    }
    values->len =
        at + (size_t)snprintf(values->text + at, sizeof(values->text) - at, "%s" LR_STR_FMT "}",
                              at != 0 ? "," : "{", LR_STR_ARG(member));
}

/* No character is cut in two. */
static void change_put_text(struct lr_buf *out, struct lr_str text)
{
    char own[TEXT_MAX + sizeof("...")];
    size_t len = text.len;
    if (len > TEXT_MAX)
        for (len = TEXT_MAX; len != 0 && ((unsigned char)text.ptr[len] & 0xc0) == 0x80;)
            len--;
    (void)snprintf(own, sizeof(own), "%.*s%s", (int)len, text.ptr, len < text.len ? "..." : "");
    lr_json_quote(out, lr_str_z(own));
}

static void put_words(struct lr_buf *out, struct lr_str rest)
{
    struct lr_str one;
    size_t bytes = 0;
    lr_buf_add_char(out, '[');
    while (rest.len != 0 && bytes <= TEXT_MAX && lr_str_split(&rest, ' ', &one)) {
        if (bytes != 0)
            lr_buf_add_char(out, ',');
        bytes += one.len + 1;
        change_put_text(out, bytes <= TEXT_MAX ? one : LR_STR_LIT("..."));
    }
    lr_buf_add_char(out, ']');
}

static void add_text(struct router_values *values, const char *name, const char *text,
                     void (*put)(struct lr_buf *out, struct lr_str text))
{
    struct lr_buf member;
    if (text == NULL)
        return;
    lr_buf_init(&member, MEMBER_MAX);
    lr_buf_addf(&member, "\"%s\":", name);
    put(&member, lr_str_z(text));
    change_add(values, member.failed ? lr_str_z(cut) : lr_buf_str(&member));
    lr_buf_free(&member);
}

static bool are_equal(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

void router_change_text(struct router_change *c, const char *name, const char *before,
                        const char *after)
{
    if (are_equal(before, after))
        return;
    add_text(&c->before, name, before, change_put_text);
    add_text(&c->after, name, after, change_put_text);
}

void router_change_words(struct router_change *c, const char *name, const char *before,
                         const char *after)
{
    if (are_equal(before, after))
        return;
    add_text(&c->before, name, before, put_words);
    add_text(&c->after, name, after, put_words);
}

static void add_raw(struct router_values *values, const char *name, const char *value)
{
    char member[96];
    (void)snprintf(member, sizeof(member), "\"%s\":%s", name, value);
    change_add(values, lr_str_z(member));
}

static void add_number(struct router_values *values, const char *name, int64_t number)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)number);
    if (number >= 0)
        add_raw(values, name, text);
}

void router_change_number(struct router_change *c, const char *name, int64_t before,
                          int64_t after)
{
    if (before == after)
        return;
    add_number(&c->before, name, before);
    add_number(&c->after, name, after);
}

void router_change_flag(struct router_change *c, const char *name, bool before, bool after)
{
    if (before == after)
        return;
    add_raw(&c->before, name, before ? "true" : "false");
    add_raw(&c->after, name, after ? "true" : "false");
}
