/* tokenizer/encode.c - from segments to ids.
 *
 * join and repair -> find added tokens -> split the text between them into pieces -> merge
 * (bpe.c).  All state of a call is in struct encoding, on its stack.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/bpe.h"
#include "tokenizer/scan.h"

enum {
    REMEMBER_FROM = 4096, /* bytes of text from which the cache of pieces is used */
    MATCH_LIMIT = 50 << 20,
    JIT_STACK_FIRST = 32 << 10,
    JIT_STACK_MAX = 4 << 20,
};

struct encoding {
    const struct tokenizer *t;
    struct bpe bpe;
    struct trust trust;
    struct lr_buf prefixed; /* owned: a piece with its added blank */
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    struct lr_error *err;
};

/* ---- pieces ---- */

static lr_code split(struct encoding *e, uint32_t step, struct lr_str text);

static lr_code prepare_match(struct encoding *e)
{
    if (e->match != NULL)
        return LR_OK;
    e->match = pcre2_match_data_create(1, NULL);
    e->context = pcre2_match_context_create(NULL);
    e->stack = pcre2_jit_stack_create(JIT_STACK_FIRST, JIT_STACK_MAX, NULL);
    if (e->match == NULL || e->context == NULL)
        return lr_fail(e->err, LR_OUT_OF_RAM, "no memory to match the tokenizer's pattern");
    (void)pcre2_set_match_limit(e->context, MATCH_LIMIT);
    pcre2_jit_stack_assign(e->context, NULL, e->stack);
    return LR_OK;
}

static lr_code match_failed(struct encoding *e, int rc)
{
    PCRE2_UCHAR text[160];
    (void)pcre2_get_error_message(rc, text, sizeof(text));
    return lr_fail(e->err, LR_INVALID_ARGUMENT,
                   "the tokenizer's pattern gives up on this text: %s", (const char *)text);
}

static lr_code split_regex(struct encoding *e, uint32_t step, struct lr_str text)
{
    const pcre2_code *code = e->t->splitter.steps[step].code;
    size_t done = 0, at = 0;
    lr_code rc = prepare_match(e);
    while (rc == LR_OK && at < text.len) {
        int found = pcre2_match(code, (PCRE2_SPTR)text.ptr, text.len, at, PCRE2_NO_UTF_CHECK,
                                e->match, e->context);
        if (found == PCRE2_ERROR_NOMATCH)
            break;
        if (found < 0)
            return match_failed(e, found);
        const PCRE2_SIZE *where = pcre2_get_ovector_pointer(e->match);
        size_t start = where[0], end = where[1];
        if (start >= end) { /* an empty match splits nothing */
            for (at = start + 1; at < text.len && ((unsigned char)text.ptr[at] & 0xC0) == 0x80;)
                at++;
            continue;
        }
        if (start > done)
            rc = split(e, step + 1, lr_str(text.ptr + done, start - done));
        if (rc == LR_OK)
            rc = split(e, step + 1, lr_str(text.ptr + start, end - start));
        done = at = end;
    }
    if (rc == LR_OK && done < text.len)
        rc = split(e, step + 1, lr_str(text.ptr + done, text.len - done));
    return rc;
}

static lr_code split_o200k(struct encoding *e, uint32_t step, struct lr_str text)
{
    const struct split_classes *classes = e->t->splitter.classes;
    const char *at = text.ptr, *end = text.ptr + text.len;
    bool last = step + 1 == e->t->splitter.count;
    lr_code rc = LR_OK;
    while (at < end && rc == LR_OK) {
        const char *ends[BPE_BATCH], *next = at;
        size_t count = 0;
        while (count < BPE_BATCH && next < end)
            ends[count++] = next = tokenizer_scan_o200k(classes, next, end);
        if (last)
            tokenizer_bpe_pieces(&e->bpe, at, ends, count, end);
        for (size_t i = 0; !last && rc == LR_OK && i < count; at = ends[i++])
            rc = split(e, step + 1, lr_str(at, (size_t)(ends[i] - at)));
        at = next;
    }
    return rc;
}

static lr_code split_prefix(struct encoding *e, uint32_t step, struct lr_str text)
{
    if (text.ptr[0] == ' ')
        return split(e, step + 1, text);
    tokenizer_bpe_forget(&e->bpe); /* its keys point into e->prefixed */
    lr_buf_clear(&e->prefixed);
    lr_buf_add_char(&e->prefixed, ' ');
    lr_buf_add_str(&e->prefixed, text);
    if (e->prefixed.failed)
        return lr_fail(e->err, LR_OUT_OF_RAM, "no memory to tokenize %zu bytes", text.len);
    return split(e, step + 1, lr_buf_str(&e->prefixed));
}

/* Applies the steps from `step` on; the last step gives pieces. */
static lr_code split(struct encoding *e, uint32_t step, struct lr_str text)
{
    if (text.len == 0)
        return LR_OK;
    if (step == e->t->splitter.count) {
        tokenizer_bpe_piece(&e->bpe, text.ptr, text.len);
        return LR_OK;
    }
    switch (e->t->splitter.steps[step].kind) {
    case SPLIT_REGEX:
        return split_regex(e, step, text);
    case SPLIT_O200K:
        return split_o200k(e, step, text);
    case SPLIT_PREFIX:
        return split_prefix(e, step, text);
    }
    return lr_fail(e->err, LR_INTERNAL, "unknown step in a pre-tokenizer");
}

/* ---- added tokens ---- */

/* Encodes text, which lies at `base` in the text of e->trust; finds the added tokens of matcher
 * `which` and later ones. */
static lr_code encode_run(struct encoding *e, size_t which, struct lr_str text, size_t base)
{
    if (which == 2)
        return split(e, 0, text);
    const struct added_matcher *m = &e->t->added.matchers[which];
    if (m->count == 0)
        return encode_run(e, which + 1, text, base);
    size_t done = 0, from = 0;
    struct added_hit hit;
    lr_code rc = LR_OK;
    while (rc == LR_OK &&
           tokenizer_added_next(&e->t->added, m, text, &from, base, &e->trust, &hit)) {
        if (hit.start > done)
            rc = encode_run(e, which + 1, lr_str(text.ptr + done, hit.start - done),
                            base + done);
        tokenizer_ids_add(e->bpe.out, hit.id);
        done = hit.end;
    }
    if (rc == LR_OK && done < text.len)
        rc = encode_run(e, which + 1, lr_str(text.ptr + done, text.len - done), base + done);
    return rc;
}

static lr_code encode_text(const struct tokenizer *t, struct lr_str text,
                           const struct trust *trust, struct tokenizer_ids *ids,
                           struct lr_error *err)
{
    struct encoding e = {.t = t, .trust = *trust, .err = err};
    tokenizer_bpe_init(&e.bpe, t, ids);
    lr_buf_init(&e.prefixed, text.len + 1);
    if (text.len >= REMEMBER_FROM)
        tokenizer_bpe_remember(&e.bpe);
    lr_code rc = encode_run(&e, 0, text, 0);
    if (rc == LR_OK && e.bpe.out_of_memory)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory to tokenize %zu bytes", text.len);
    if (rc == LR_OK && ids->failed)
        rc = ids->count == ids->limit
                 ? lr_fail(err, LR_INVALID_ARGUMENT,
                           "the text has more than %zu tokens, the limit here", ids->limit)
                 : lr_fail(err, LR_OUT_OF_RAM, "no memory for more than %zu token ids",
                           ids->count);
    tokenizer_bpe_free(&e.bpe);
    lr_buf_free(&e.prefixed);
    pcre2_match_data_free(e.match);
    pcre2_match_context_free(e.context);
    pcre2_jit_stack_free(e.stack);
    return rc;
}

/* ---- segments ---- */

/* ASCII is kept, any other byte becomes U+FFFD; always writes 4 bytes and returns how many
 * count. */
static inline size_t repair_byte(unsigned char c, char *out)
{
    static const char bytes[2][4] = {{0}, "\xEF\xBF\xBD"};
    size_t bad = c >> 7;
    memcpy(out, bytes[bad], 4);
    out[0] = (char)(bad != 0 ? 0xEF : c);
    return 1 + 2 * bad;
}

/* True when c and the next byte may begin a sequence: not for ASCII, 80..C1, F5..FF. */
static inline bool begins(unsigned char c, unsigned char next)
{
    return ((unsigned char)(c - 0xC2) <= 0xF4 - 0xC2) & ((next & 0xC0) == 0x80);
}

/* Writes joined[*at..until) to out with invalid parts replaced, as far as there is room;
 * returns the end of the output.  The last character may reach past `until`.  In random bytes
 * branches cannot be predicted, so an invalid byte costs no branch. */
static char *repair_some(struct lr_str joined, size_t *at, size_t until, char *out,
                         const char *out_end)
{
    size_t i = *at;
    while (i < until && out_end - out >= 4) {
        unsigned char c = (unsigned char)joined.ptr[i];
        if (i + 1 == joined.len || !begins(c, (unsigned char)joined.ptr[i + 1])) {
            out += repair_byte(c, out);
            i++;
            continue;
        }
        size_t len = lr_utf8_step(joined.ptr + i, joined.len - i);
        if (len > 0) {
            memcpy(out, joined.ptr + i, len);
            out += len;
            i += len;
        } else {
            out += repair_byte(c, out);
            i += lr_utf8_invalid_len(joined.ptr + i, joined.len - i);
        }
    }
    *at = i;
    return out;
}

/* Appends the joined segments with invalid parts replaced.  A character may span segments, so
 * they are joined first; flips[] are adjusted with the text. */
static void repair(struct lr_str joined, size_t *flips, size_t flip_count, struct lr_buf *out)
{
    enum { STEP = 64 << 10 };
    size_t at = 0;
    for (size_t flip = 0; !out->failed; flip++) {
        size_t until = flip < flip_count ? flips[flip] : joined.len;
        while (at < until) {
            size_t room = (until - at) * 3 + 4;
            char *start = lr_buf_reserve(out, room < STEP ? room : STEP);
            if (start == NULL)
                return;
            char *end =
                repair_some(joined, &at, until, start, start + (room < STEP ? room : STEP));
            lr_buf_commit(out, (size_t)(end - start));
        }
        if (flip == flip_count)
            return;
        flips[flip] = out->len;
    }
}

static lr_code too_long(size_t len, struct lr_error *err)
{
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "a text of %zu bytes (U+FFFD for each invalid part included) is longer "
                   "than the %d that are tokenized at once",
                   len, TOKENIZER_MAX_TEXT);
}

/* text may be invalid UTF-8; flips belong to it and are changed. */
static lr_code encode_repaired(const struct tokenizer *t, struct lr_str text, size_t *flips,
                               size_t flip_count, struct tokenizer_ids *ids,
                               struct lr_error *err)
{
    struct trust trust = {flips, flip_count};
    if (text.len > TOKENIZER_MAX_TEXT)
        return too_long(text.len, err);
    if (lr_utf8_valid(text))
        return encode_text(t, text, &trust, ids, err);
    struct lr_buf repaired;
    lr_buf_init(&repaired, TOKENIZER_MAX_TEXT);
    (void)lr_buf_reserve(&repaired,
                         text.len < TOKENIZER_MAX_TEXT / 2 ? text.len * 2 : text.len);
    repair(text, flips, flip_count, &repaired);
    lr_code rc = repaired.failed ? too_long(repaired.len, err)
                                 : encode_text(t, lr_buf_str(&repaired), &trust, ids, err);
    lr_buf_free(&repaired);
    return rc;
}

lr_code tokenizer_encode(const struct tokenizer *t, struct lr_str text, bool control,
                         struct tokenizer_ids *ids, struct lr_error *err)
{
    size_t flip = 0;
    return encode_repaired(t, text, &flip, control ? 1 : 0, ids, err);
}

static lr_code join(const struct lr_segment *segments, size_t count, struct lr_buf *joined,
                    size_t *flips, size_t *flip_count, struct lr_error *err)
{
    bool trusted = false;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        if (segments[i].len > TOKENIZER_MAX_TEXT - total)
            return too_long(total + segments[i].len, err);
        total += segments[i].len;
    }
    (void)lr_buf_reserve(joined, total);
    for (size_t i = 0; i < count; i++) {
        if (segments[i].len == 0)
            continue;
        if ((segments[i].control != 0) != trusted) {
            flips[(*flip_count)++] = joined->len;
            trusted = !trusted;
        }
        lr_buf_add(joined, segments[i].text, segments[i].len);
    }
    return joined->failed
               ? lr_fail(err, LR_OUT_OF_RAM, "no memory to join %zu bytes of prompt", total)
               : LR_OK;
}

lr_code tokenizer_encode_segments(const struct tokenizer *t, const struct lr_segment *segments,
                                  size_t count, struct tokenizer_ids *ids, struct lr_error *err)
{
    if (count == 1)
        return tokenizer_encode(t, lr_str(segments[0].text, segments[0].len),
                                segments[0].control != 0, ids, err);
    if (count == 0)
        return LR_OK;
    size_t *flips = calloc(count, sizeof(*flips));
    if (flips == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu segments", count);
    struct lr_buf joined;
    lr_buf_init(&joined, TOKENIZER_MAX_TEXT);
    size_t flip_count = 0;
    lr_code rc = join(segments, count, &joined, flips, &flip_count, err);
    if (rc == LR_OK)
        rc = encode_repaired(t, lr_buf_str(&joined), flips, flip_count, ids, err);
    lr_buf_free(&joined);
    free(flips);
    return rc;
}
