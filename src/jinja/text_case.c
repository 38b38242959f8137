/* jinja/text_case.c - upper, lower, title and similar changes.
 *
 * Trust is not tracked byte by byte here: the result is trusted if all of the text was.
 */
#include "jinja/text_case.h"
#include "base/utf8.h"
#include "jinja/builtins.h"
#include "jinja/unicode.h"

struct casing {
    struct run *run;
    const struct text *t;
    bool trusted;
    char chunk[256]; /* letters not yet written to the sink */
    size_t len;
};

static void text_case_flush(struct casing *c)
{
    jinja_write(c->run, lr_str(c->chunk, c->len), c->trusted);
    c->len = 0;
}

static void text_case_put(struct casing *c, uint32_t code)
{
    if (c->len + 4 > sizeof(c->chunk))
        text_case_flush(c);
    c->len += lr_utf8_encode(code, c->chunk + c->len);
}

static void put_mapped(struct casing *c, uint32_t code, enum case_kind kind)
{
    uint32_t to[3];
    size_t n = jinja_map_case(code, kind, to);
    for (size_t i = 0; i < n; i++)
        text_case_put(c, to[i]);
}

static uint32_t text_case_decode(const struct text *t, size_t at, size_t *len)
{
    uint32_t code;
    int n = lr_utf8_decode(t->ptr + at, t->len - at, &code);
    if (n <= 0) {
        *len = 1;
        return LR_UTF8_REPLACEMENT;
    }
    *len = (size_t)n;
    return code;
}

/* A capital sigma at the end of a word has its own small letter. */
static void put_lower(struct casing *c, uint32_t code, size_t after, bool after_letter)
{
    if (code != 0x3A3) {
        put_mapped(c, code, CASE_LOWER);
        return;
    }
    size_t len;
    bool before_letter =
        after < c->t->len && jinja_is_cased(text_case_decode(c->t, after, &len));
    text_case_put(c, after_letter && !before_letter ? 0x3C2 : 0x3C3);
}

static void map_char(struct casing *c, uint8_t kind, uint32_t code, size_t after, bool first,
                     bool after_letter)
{
    switch (kind) {
    case CHANGE_UPPER:
        put_mapped(c, code, CASE_UPPER);
        break;
    case CHANGE_FOLD:
        put_mapped(c, code, CASE_FOLD);
        break;
    case CHANGE_CAPITALIZE:
    case CHANGE_TITLE:
        if (kind == CHANGE_CAPITALIZE ? first : !after_letter)
            put_mapped(c, code, CASE_TITLE);
        else
            put_lower(c, code, after, after_letter);
        break;
    case CHANGE_SWAP:
        if (jinja_is_upper(code))
            put_lower(c, code, after, after_letter);
        else
            put_mapped(c, code, jinja_is_lower(code) ? CASE_UPPER : CASE_LOWER);
        break;
    default:
        put_lower(c, code, after, after_letter);
        break;
    }
}

void jinja_write_case(struct run *run, const struct text *t, size_t from, size_t to,
                      uint8_t kind)
{
    struct text part = *t;
    part.len = to;
    struct casing c = {.run = run, .t = &part, .trusted = t->trust == TRUSTED};
    bool after_letter = false;
    for (size_t at = from; at < to && !run->failed;) {
        size_t len;
        uint32_t code = text_case_decode(&part, at, &len);
        map_char(&c, kind, code, at + len, at == from, after_letter);
        after_letter = jinja_is_cased(code);
        at += len;
    }
    text_case_flush(&c);
}

struct value jinja_change_case(struct run *run, struct text *t, uint8_t kind)
{
    struct mark mark = jinja_mark(run);
    if (!jinja_charge_bytes(run, t->len * 8))
        return V_FAIL;
    jinja_write_case(run, t, 0, t->len, kind);
    return value_text(jinja_with_markup(run, jinja_take(run, mark), t->markup));
}

struct value jinja_fold_value(struct run *run, struct value v)
{
    return v.kind == K_TEXT ? jinja_change_case(run, v.text, CHANGE_LOWER) : v;
}
