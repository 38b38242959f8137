/* tokenizer/encode.c - from segments to ids.
 *
 * join and repair -> find added tokens -> split the text between them into pieces -> merge
 * (bpe.c).  All state of a call is in struct encoding, on its stack.
 */
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/encoding.h"

enum { REMEMBER_FROM = 4096 }; /* bytes of text from which the cache of pieces is used */

/* Marks for each byte of text, which lies at `base` in the text of e->trust. */
static void mark_trusted(const struct trust *trust, size_t base, struct lr_str text,
                         unsigned char *marks)
{
    size_t flip = 0;
    while (flip < trust->count && trust->flips[flip] <= base)
        flip++;
    for (size_t i = 0; i < text.len; i++) {
        while (flip < trust->count && trust->flips[flip] <= base + i)
            flip++;
        marks[i] = flip % 2;
    }
}

/* The trust of a text with marks; the caller frees flips. */
static lr_code find_flips(const unsigned char *marks, size_t len, size_t **list,
                          struct trust *out, struct lr_error *err)
{
    size_t count = 0;
    unsigned char last = 0;
    for (size_t i = 0; i < len; i++) {
        count += marks[i] != last;
        last = marks[i];
    }
    size_t *flips = malloc((count + 1) * sizeof(*flips));
    if (flips == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %zu changes of trust", count);
    count = 0;
    last = 0;
    for (size_t i = 0; i < len; i++) {
        if (marks[i] != last)
            flips[count++] = i;
        last = marks[i];
    }
    *list = flips;
    *out = (struct trust){flips, count};
    return LR_OK;
}

/* ---- added tokens ---- */

static lr_code encode_rest(struct encoding *e, size_t which, struct lr_str text, size_t base,
                           bool first);

/* Encodes text, which lies at `base` in the text of e->trust; finds the added tokens of matcher
 * `which` and later ones. */
static lr_code encode_run(struct encoding *e, size_t which, struct lr_str text, size_t base,
                          bool first)
{
    const struct added_matcher *m = &e->t->added.matchers[which];
    if (m->count == 0)
        return encode_rest(e, which, text, base, first);
    size_t done = 0, from = 0;
    struct added_hit hit;
    lr_code rc = LR_OK;
    while (rc == LR_OK &&
           tokenizer_added_next(&e->t->added, m, text, &from, base, &e->trust, &hit)) {
        if (hit.start > done)
            rc = encode_rest(e, which, lr_str(text.ptr + done, hit.start - done), base + done,
                             first && done == 0);
        tokenizer_ids_add(e->bpe.out, hit.id);
        done = hit.end;
    }
    if (rc == LR_OK && done < text.len)
        rc = encode_rest(e, which, lr_str(text.ptr + done, text.len - done), base + done,
                         first && done == 0);
    return rc;
}

/* Normalizes a run and goes on with the second matcher, whose tokens are normalized, too. */
static lr_code encode_normalized(struct encoding *e, struct lr_str text, size_t base,
                                 bool first)
{
    const struct tokenizer *t = e->t;
    struct lr_str normalized = text;
    const unsigned char *marks = NULL;
    unsigned char *own = NULL;
    struct trust before = e->trust, inner = {0};
    size_t *flips = NULL;
    bool needs_trust = t->added.matchers[1].count != 0 && e->trust.count != 0;
    if (needs_trust) {
        marks = own = malloc(text.len + 1);
        if (own == NULL)
            return lr_fail(e->err, LR_OUT_OF_RAM, "no memory to tokenize %zu bytes", text.len);
        mark_trusted(&e->trust, base, text, own);
    }
    lr_code rc = tokenizer_normal_apply(&t->normalizer, &e->normal, &e->finder, text, &marks,
                                        &normalized, e->err);
    if (rc == LR_OK && needs_trust)
        rc = find_flips(marks, normalized.len, &flips, &inner, e->err);
    e->trust = inner;
    if (rc == LR_OK)
        rc = encode_run(e, 1, normalized, 0, first);
    e->trust = before;
    free(flips);
    free(own);
    return rc;
}

static lr_code encode_rest(struct encoding *e, size_t which, struct lr_str text, size_t base,
                           bool first)
{
    if (which == 1)
        return tokenizer_split(e, text, first);
    return e->t->normalizer.count != 0 ? encode_normalized(e, text, base, first)
                                       : encode_run(e, 1, text, base, first);
}

static lr_code encode_text(const struct tokenizer *t, struct lr_str text,
                           const struct trust *trust, struct tokenizer_ids *ids,
                           struct lr_error *err)
{
    struct encoding e = {.t = t, .trust = *trust, .err = err};
    e.spells_control = trust->count == 1 && trust->flips[0] == 0;
    tokenizer_bpe_init(&e.bpe, t, ids);
    tokenizer_normal_work_init(&e.normal);
    for (int i = 0; i < SPLIT_MAX_STEPS; i++)
        lr_buf_init(&e.changed[i], 0);
    lr_buf_init(&e.bytes, 0);
    if (text.len >= REMEMBER_FROM)
        tokenizer_bpe_remember(&e.bpe);
    lr_code rc = encode_run(&e, 0, text, 0, true);
    if (rc == LR_OK && e.bpe.out_of_memory)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory to tokenize %zu bytes", text.len);
    if (rc == LR_OK && ids->failed)
        rc = ids->count == ids->limit
                 ? lr_fail(err, LR_INVALID_ARGUMENT,
                           "the text has more than %zu tokens, the limit here", ids->limit)
                 : lr_fail(err, LR_OUT_OF_RAM, "no memory for more than %zu token ids",
                           ids->count);
    tokenizer_bpe_free(&e.bpe);
    tokenizer_normal_work_free(&e.normal);
    for (int i = 0; i < SPLIT_MAX_STEPS; i++)
        lr_buf_free(&e.changed[i]);
    lr_buf_free(&e.bytes);
    tokenizer_finder_free(&e.finder);
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

static lr_code encode_join(const struct lr_segment *segments, size_t count,
                           struct lr_buf *joined, size_t *flips, size_t *flip_count,
                           struct lr_error *err)
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
    lr_code rc = encode_join(segments, count, &joined, flips, &flip_count, err);
    if (rc == LR_OK)
        rc = encode_repaired(t, lr_buf_str(&joined), flips, flip_count, ids, err);
    lr_buf_free(&joined);
    free(flips);
    return rc;
}

lr_code tokenizer_encode_prompt(const struct tokenizer *t, const struct lr_segment *segments,
                                size_t count, struct tokenizer_ids *ids, struct lr_error *err)
{
    bool is_raw = true;
    for (size_t i = 0; i < count; i++)
        is_raw = is_raw && segments[i].control == 0;
    if (is_raw)
        tokenizer_add_wrapping(t, true, ids);
    lr_code rc = tokenizer_encode_segments(t, segments, count, ids, err);
    if (rc == LR_OK && is_raw)
        tokenizer_add_wrapping(t, false, ids);
    if (rc == LR_OK && ids->failed)
        rc = lr_fail(err, LR_INVALID_ARGUMENT,
                     "the text has more than %zu tokens, the limit here", ids->limit);
    return rc;
}
