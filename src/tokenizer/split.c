/* tokenizer/split.c - applies the steps of a pre-tokenizer.
 *
 * Depth first: each piece goes through all later steps before the next piece, so a step needs
 * one buffer for the text it changes.
 */
#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/encoding.h"
#include "tokenizer/reader.h"
#include "tokenizer/scan.h"

static lr_code split(struct encoding *e, uint32_t step, struct lr_str text, bool first);

/* ---- matches and gaps to pieces ---- */

struct folding {
    struct encoding *e;
    const struct split_step *s;
    struct lr_str text;
    uint32_t next; /* step that gets the pieces */
    bool first;
    bool has;   /* there is a part that a later one may join */
    bool match; /* that part ends with a match */
    size_t start, end;
    size_t seen; /* end of the last match or gap */
};

static lr_code piece(struct folding *f, size_t start, size_t end)
{
    return split(f->e, f->next, lr_str(f->text.ptr + start, end - start),
                 f->first && start == 0);
}

/* Takes the next part, a match or a gap. */
static lr_code fold(struct folding *f, size_t start, size_t end, bool match)
{
    bool joins = false;
    match = match != f->s->invert;
    switch (f->s->behavior) {
    case SPLIT_ISOLATED:
        return piece(f, start, end);
    case SPLIT_REMOVED:
        return match ? LR_OK : piece(f, start, end);
    case SPLIT_CONTIGUOUS:
        joins = match == f->match;
        break;
    case SPLIT_MERGED_WITH_PREVIOUS:
        joins = match && !f->match;
        break;
    case SPLIT_MERGED_WITH_NEXT:
        joins = !match && f->match;
        break;
    }
    joins = joins && f->has;
    lr_code rc = f->has && !joins ? piece(f, f->start, f->end) : LR_OK;
    f->start = joins ? f->start : start;
    f->end = end;
    f->match = match;
    f->has = true;
    return rc;
}

static lr_code fold_match(struct folding *f, size_t start, size_t end)
{
    lr_code rc = start > f->seen ? fold(f, f->seen, start, false) : LR_OK;
    f->seen = end;
    return rc == LR_OK ? fold(f, start, end, true) : rc;
}

static lr_code fold_end(struct folding *f)
{
    lr_code rc = f->seen < f->text.len ? fold(f, f->seen, f->text.len, false) : LR_OK;
    return rc == LR_OK && f->has ? piece(f, f->start, f->end) : rc;
}

/* True if the pieces of this step go to BPE of bytes as they are. */
static bool feeds_bytes(const struct encoding *e, uint32_t next)
{
    return next == e->t->splitter.count && e->t->plain_bytes && !e->t->splitter.has_letters;
}

/* Isolated pieces for BPE of bytes, many at a time. */
static lr_code split_regex_batch(struct folding *f)
{
    const char *ends[BPE_BATCH], *start = f->text.ptr, *last = start;
    const char *end = start + f->text.len;
    struct found m = {0};
    size_t count = 0;
    while (!m.at_end) {
        lr_code rc = tokenizer_find_next(&f->e->finder, f->s->code, f->text, &m, f->e->err);
        if (rc != LR_OK)
            return rc;
        const char *marks[2] = {m.at_end ? end : f->text.ptr + m.start,
                                m.at_end ? end : f->text.ptr + m.end};
        for (int i = 0; i < 2; i++)
            if (marks[i] > last)
                ends[count++] = last = marks[i];
        if (count + 2 > BPE_BATCH || m.at_end) {
            tokenizer_bpe_pieces(&f->e->bpe, start, ends, count, end);
            start = last;
            count = 0;
        }
    }
    return LR_OK;
}

static lr_code split_regex(struct folding *f)
{
    struct found m = {0};
    if (f->s->behavior == SPLIT_ISOLATED && feeds_bytes(f->e, f->next))
        return split_regex_batch(f);
    for (;;) {
        lr_code rc = tokenizer_find_next(&f->e->finder, f->s->code, f->text, &m, f->e->err);
        if (rc == LR_OK && m.at_end)
            return fold_end(f);
        if (rc == LR_OK)
            rc = fold_match(f, m.start, m.end);
        if (rc != LR_OK)
            return rc;
    }
}

static inline bool matches(const struct split_step *s, uint32_t c)
{
    if (s->matches == NULL)
        return c == s->letter;
    return c < SPLIT_TABLE ? (s->matches[c >> 6] >> (c & 63) & 1) != 0 : s->is_match(c);
}

static lr_code split_chars(struct folding *f)
{
    lr_code rc = LR_OK;
    for (size_t at = 0, len; rc == LR_OK && at < f->text.len; at += len) {
        uint32_t c = char_at(f->text.ptr + at, &len);
        if (matches(f->s, c))
            rc = fold_match(f, at, at + len);
    }
    return rc == LR_OK ? fold_end(f) : rc;
}

/* A piece begins where the script differs from the last one; blanks have any script, and what
 * is before the first script belongs to no piece, as in the reference. */
static lr_code split_scripts(struct folding *f)
{
    enum { NONE = -1, ANY = 0 };
    const unsigned char *scripts = f->e->t->splitter.scripts;
    int last = NONE;
    size_t start = f->text.len;
    lr_code rc = LR_OK;
    for (size_t at = 0, len; rc == LR_OK && at < f->text.len; at += len) {
        int script = scripts[char_at(f->text.ptr + at, &len)];
        if (script == ANY || script == last)
            continue;
        if (last != NONE)
            rc = piece(f, start, at);
        start = at;
        last = script;
    }
    return rc == LR_OK && start < f->text.len ? piece(f, start, f->text.len) : rc;
}

static lr_code split_scan(struct encoding *e, uint32_t step, struct lr_str text, bool first)
{
    const struct splitter *s = &e->t->splitter;
    const struct split_classes *classes = s->steps[step].classes;
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool last = feeds_bytes(e, step + 1);
    lr_code rc = LR_OK;
    while (at < end && rc == LR_OK) {
        const char *ends[BPE_BATCH], *next = at;
        size_t count = 0;
        while (count < BPE_BATCH && next < end)
            ends[count++] = next = tokenizer_scan(classes, next, end);
        if (last)
            tokenizer_bpe_pieces(&e->bpe, at, ends, count, end);
        for (size_t i = 0; !last && rc == LR_OK && i < count; at = ends[i++])
            rc =
                split(e, step + 1, lr_str(at, (size_t)(ends[i] - at)), first && at == text.ptr);
        at = next;
    }
    return rc;
}

/* ---- steps that change the text ---- */

static lr_code no_memory(struct encoding *e, size_t len)
{
    return lr_fail(e->err, LR_OUT_OF_RAM, "no memory to tokenize %zu bytes", len);
}

static struct lr_buf *change(struct encoding *e, uint32_t step, size_t room)
{
    struct lr_buf *out = &e->changed[step];
    lr_buf_clear(out);
    out->limit = room;
    return out;
}

static lr_code split_changed(struct encoding *e, uint32_t step, size_t len, bool first)
{
    struct lr_buf *out = &e->changed[step];
    return out->failed ? no_memory(e, len) : split(e, step + 1, lr_buf_str(out), first);
}

static lr_code add_prefix(struct encoding *e, uint32_t step, struct lr_str text, bool first)
{
    if (text.ptr[0] == ' ')
        return split(e, step + 1, text, first);
    struct lr_buf *out = change(e, step, text.len + 1);
    lr_buf_add_char(out, ' ');
    lr_buf_add_str(out, text);
    return split_changed(e, step, text.len, first);
}

static lr_code replace_blanks(struct encoding *e, uint32_t step, struct lr_str text, bool first)
{
    const struct split_step *s = &e->t->splitter.steps[step];
    struct lr_str mark = lr_str(s->mark, s->mark_len);
    struct lr_buf *out = change(e, step, (text.len + 1) * sizeof(s->mark));
    bool wanted = s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first);
    bool starts = text.ptr[0] == ' ' ||
                  (text.len >= mark.len && memcmp(text.ptr, mark.ptr, mark.len) == 0);
    if (wanted && !starts)
        lr_buf_add_str(out, mark);
    for (size_t at = 0; at < text.len;) {
        size_t blank = at;
        while (blank < text.len && text.ptr[blank] != ' ')
            blank++;
        lr_buf_add(out, text.ptr + at, blank - at);
        for (; blank < text.len && text.ptr[blank] == ' '; blank++)
            lr_buf_add_str(out, mark);
        at = blank;
    }
    return split_changed(e, step, text.len, first);
}

static lr_code add_letters(struct encoding *e, uint32_t step, struct lr_str text, bool first)
{
    struct lr_buf *out = change(e, step, text.len * 2);
    tokenizer_alphabet_letters(text, out);
    return split_changed(e, step, text.len, first);
}

/* ---- the chain ---- */

static lr_code leaf(struct encoding *e, struct lr_str text)
{
    if (!e->t->splitter.has_letters)
        return tokenizer_model_encode(e, text);
    lr_buf_clear(&e->bytes);
    e->bytes.limit = text.len;
    (void)tokenizer_alphabet_bytes(text, &e->bytes);
    return e->bytes.failed ? no_memory(e, text.len)
                           : tokenizer_model_encode(e, lr_buf_str(&e->bytes));
}

/* Applies the steps from `step` on; the last step gives pieces. */
static lr_code split(struct encoding *e, uint32_t step, struct lr_str text, bool first)
{
    if (text.len == 0)
        return LR_OK;
    if (step == e->t->splitter.count)
        return leaf(e, text);
    const struct split_step *s = &e->t->splitter.steps[step];
    struct folding f = {.e = e, .s = s, .text = text, .next = step + 1, .first = first};
    switch (s->kind) {
    case SPLIT_REGEX:
        return split_regex(&f);
    case SPLIT_SCAN:
        return split_scan(e, step, text, first);
    case SPLIT_CHARS:
        return split_chars(&f);
    case SPLIT_SCRIPTS:
        return split_scripts(&f);
    case SPLIT_PREFIX:
        return add_prefix(e, step, text, first);
    case SPLIT_METASPACE:
        return replace_blanks(e, step, text, first);
    case SPLIT_ALPHABET:
        return add_letters(e, step, text, first);
    }
    return lr_fail(e->err, LR_INTERNAL, "unknown step in a pre-tokenizer");
}

lr_code tokenizer_split(struct encoding *e, struct lr_str text, bool first)
{
    return split(e, 0, text, first);
}
