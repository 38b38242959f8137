/* jinja/filters_wrap.c - the filter wordwrap, which breaks lines like Python's textwrap. */
#include "base/utf8.h"
#include "jinja/builtins.h"
#include "jinja/text_ops.h"
#include "jinja/unicode.h"

/* A piece of the text that stays together: bytes [from, to). */
struct chunk {
    size_t from, to, chars;
    bool blank;
};

struct wrap {
    struct run *run;
    struct text *t;
    int64_t width;
    bool break_long, hyphens;
    struct text *newline;
    struct chunk *chunks;
    size_t count, capacity;
    bool any; /* at least one line was written */
};

static bool filters_wrap_is_blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static uint32_t char_at(const struct wrap *w, size_t at, size_t end)
{
    uint32_t c;
    return at < end && lr_utf8_decode(w->t->ptr + at, end - at, &c) > 0 ? c : 0;
}

static uint32_t char_before(const struct wrap *w, size_t at, size_t start)
{
    size_t from = at;
    while (from > start && at - from < 4) {
        from--;
        if (((unsigned char)w->t->ptr[from] & 0xC0) != 0x80)
            return char_at(w, from, at);
    }
    return 0;
}

static size_t filters_wrap_step(const struct wrap *w, size_t at, size_t end)
{
    at++;
    while (at < end && ((unsigned char)w->t->ptr[at] & 0xC0) == 0x80)
        at++;
    return at;
}

static bool is_letter(uint32_t c)
{
    return c == '_' || jinja_is_alpha(c);
}

static bool is_word(uint32_t c)
{
    return is_letter(c) || jinja_is_numeric(c);
}

static bool add_chunk(struct wrap *w, size_t from, size_t to, bool blank)
{
    if (from >= to)
        return true;
    if (w->count == w->capacity) {
        size_t capacity = w->capacity == 0 ? 32 : w->capacity * 2;
        struct chunk *chunks = jinja_array(w->run, capacity, sizeof(*chunks));
        if (chunks == NULL)
            return false;
        if (w->count > 0)
            memcpy(chunks, w->chunks, w->count * sizeof(*chunks));
        w->chunks = chunks;
        w->capacity = capacity;
    }
    size_t chars = lr_utf8_count(lr_str(w->t->ptr + from, to - from));
    w->chunks[w->count++] = (struct chunk){from, to, chars, blank};
    return jinja_charge(w->run, 1);
}

/* True when the word [start, end) may be broken after the hyphen at `at`: two letters (or a
 * letter after a hyphen) before it, and two letters after it. */
static bool breaks_after(const struct wrap *w, size_t start, size_t at, size_t end)
{
    uint32_t before = char_before(w, at, start);
    size_t before_at = at > start ? at - 1 : start;
    while (before_at > start && ((unsigned char)w->t->ptr[before_at] & 0xC0) == 0x80)
        before_at--;
    uint32_t second = char_before(w, before_at, start);
    bool left = is_letter(before) && is_letter(second);
    if (!left && is_letter(before) && second == '-')
        left = is_letter(char_before(w, before_at - 1, start));
    size_t next = at + 1;
    if (!left || !is_letter(char_at(w, next, end)))
        return false;
    next = filters_wrap_step(w, next, end);
    if (char_at(w, next, end) == '-')
        next++;
    return is_letter(char_at(w, next, end));
}

static bool split_word(struct wrap *w, size_t start, size_t end)
{
    size_t from = start;
    for (size_t at = start; w->hyphens && at < end; at = filters_wrap_step(w, at, end)) {
        if (w->t->ptr[at] != '-')
            continue;
        size_t run_end = at;
        while (run_end < end && w->t->ptr[run_end] == '-')
            run_end++;
        uint32_t before = char_before(w, at, start);
        bool word_before = is_word(before) || (before != 0 && before < 0x80 &&
                                               strchr("!\"'&.,?", (int)before) != NULL);
        if (run_end - at >= 2 && word_before && is_word(char_at(w, run_end, end))) {
            if (!add_chunk(w, from, at, false) || !add_chunk(w, at, run_end, false))
                return false;
            from = run_end;
        } else if (run_end - at == 1 && breaks_after(w, start, at, end)) {
            if (!add_chunk(w, from, at + 1, false))
                return false;
            from = at + 1;
        }
        at = run_end - 1;
    }
    return add_chunk(w, from, end, false);
}

static bool split_line(struct wrap *w, size_t from, size_t to)
{
    w->count = 0;
    while (from < to) {
        bool blank = filters_wrap_is_blank(w->t->ptr[from]);
        size_t end = from;
        while (end < to && filters_wrap_is_blank(w->t->ptr[end]) == blank)
            end++;
        if (!(blank ? add_chunk(w, from, end, true) : split_word(w, from, end)))
            return false;
        from = end;
    }
    return true;
}

/* Takes as much of an overlong chunk as fits the line; returns the number of characters. */
static size_t cut_long(struct wrap *w, struct chunk *c, size_t used)
{
    size_t left = (size_t)w->width - used, end = left;
    struct text whole = {.ptr = w->t->ptr + c->from, .len = c->to - c->from, .chars = SIZE_MAX};
    if (w->hyphens) {
        size_t limit = jinja_text_offset(&whole, left);
        bool other = false;
        size_t hyphen = 0;
        for (size_t i = 0; i < limit; i++) {
            if (whole.ptr[i] == '-' && other)
                hyphen = i;
            other = other || whole.ptr[i] != '-';
        }
        if (hyphen > 0)
            end = lr_utf8_count(lr_str(whole.ptr, hyphen + 1));
    }
    return end;
}

static void write_line(struct wrap *w, size_t from, size_t to)
{
    if (w->any)
        jinja_write_text(w->run, w->newline);
    jinja_write_part(w->run, w->t, from, to);
    w->any = true;
}

/* Writes one line from chunk *at on; a chunk that is cut keeps its rest. */
static void next_line(struct wrap *w, size_t *at)
{
    size_t i = *at, used = 0, start = w->chunks[i].from, end = start;
    while (i < w->count && used + w->chunks[i].chars <= (size_t)w->width) {
        used += w->chunks[i].chars;
        end = w->chunks[i++].to;
    }
    bool cut = false;
    if (i < w->count && w->chunks[i].chars > (size_t)w->width) {
        struct chunk *c = &w->chunks[i];
        if (w->break_long) {
            size_t take = cut_long(w, c, used);
            struct text whole = {
                .ptr = w->t->ptr + c->from, .len = c->to - c->from, .chars = SIZE_MAX};
            c->from += jinja_text_offset(&whole, take);
            c->chars -= take;
            /* A piece of nothing or of blanks is what gets dropped at the end of the
             * line then, and a blank before it stays. */
            cut = true;
            if (take > 0 && !c->blank)
                end = c->from;
        } else if (i == *at) {
            end = w->chunks[i++].to;
        }
    }
    if (!cut && i > *at && w->chunks[i - 1].blank)
        end = w->chunks[i - 1].from;
    if (end > start)
        write_line(w, start, end);
    *at = i;
}

static bool wrap_line(struct wrap *w, size_t from, size_t to)
{
    if (!split_line(w, from, to))
        return false;
    for (size_t i = 0; i < w->count && !w->run->failed;) {
        if (w->chunks[i].blank && w->any && ++i >= w->count)
            break;
        next_line(w, &i);
        if (!jinja_charge(w->run, 1))
            return false;
    }
    return !w->run->failed;
}

static struct value filter_wordwrap(struct run *run, struct value v, const struct value *args)
{
    struct wrap w = {.run = run,
                     .break_long = jinja_arg_bool(args[1], true),
                     .hyphens = jinja_arg_bool(args[3], true)};
    if (v.kind == K_UNDEFINED)
        return jinja_error_undefined(run, v);
    if (!jinja_arg_text(run, v, "wordwrap() subject", &w.t) ||
        !jinja_arg_int(run, args[0], 79, &w.width))
        return V_FAIL;
    w.newline = args[2].kind == K_TEXT ? args[2].text : jinja_text_z(run, "\n");
    if (w.newline == NULL)
        return V_FAIL;
    if (w.width <= 0)
        return jinja_error(run, "invalid width %lld (must be > 0)", (long long)w.width);
    struct mark mark = jinja_mark(run);
    struct line line = {0};
    for (bool first = true; jinja_next_line(w.t, &line); first = false) {
        if (!first)
            jinja_write_text(run, w.newline);
        w.any = false;
        if (!wrap_line(&w, line.start, line.end))
            return V_FAIL;
    }
    return value_text(jinja_take(run, mark));
}

const struct builtin_row jinja_filters_wrap[] = {
    {"wordwrap",
     {.fn = filter_wordwrap,
      .params = {"width", "break_long_words", "wrapstring", "break_on_hyphens"}}},
    {NULL, {0}},
};
