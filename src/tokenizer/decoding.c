/* tokenizer/decoding.c - see decoding.h. */
#include "tokenizer/decoding.h"

#include "base/utf8.h"
#include "tokenizer/chars.h"
#include "tokenizer/reader.h"

static lr_code push(struct decode_run *run, uint32_t at, struct lr_str text);

void tokenizer_decode_begin(struct decode_run *run, const struct decoder *d, size_t limit,
                            struct lr_buf *out, struct lr_error *err)
{
    *run = (struct decode_run){.decoder = d, .out = out, .err = err};
    for (uint32_t i = 0; i < d->count; i++) {
        lr_buf_init(&run->states[i].held, limit);
        lr_buf_init(&run->states[i].made, limit);
    }
}

void tokenizer_decode_free(struct decode_run *run)
{
    for (uint32_t i = 0; i < run->decoder->count; i++) {
        lr_buf_free(&run->states[i].held);
        lr_buf_free(&run->states[i].made);
    }
    tokenizer_finder_free(&run->finder);
}

void tokenizer_decode_skip_start(struct decode_run *run)
{
    for (uint32_t i = 0; i < run->decoder->count; i++)
        run->states[i].seen = UINT32_MAX;
}

static lr_code too_long(struct decode_run *run, const struct lr_buf *buf)
{
    return lr_fail(run->err, LR_INVALID_ARGUMENT, "the decoded text is longer than %zu bytes",
                   buf->limit);
}

/* Passes on what a step has made of a text. */
static lr_code pass(struct decode_run *run, uint32_t at)
{
    struct lr_buf *made = &run->states[at].made;
    return made->failed ? too_long(run, made) : push(run, at + 1, lr_buf_str(made));
}

static lr_code hold(struct decode_run *run, uint32_t at, struct lr_str text)
{
    struct lr_buf *held = &run->states[at].held;
    lr_buf_add_str(held, text);
    return held->failed ? too_long(run, held) : LR_OK;
}

/* ---- steps ---- */

static void replace_all(struct lr_buf *out, struct lr_str text, struct lr_str from,
                        struct lr_str to)
{
    size_t found;
    while ((found = lr_str_find(text, from)) != LR_STR_NONE) {
        lr_buf_add(out, text.ptr, found);
        lr_buf_add_str(out, to);
        text = lr_str_sub(text, found + from.len, text.len);
    }
    lr_buf_add_str(out, text);
}

static lr_code replace(struct decode_run *run, const struct decode_step *s, struct lr_str text,
                       struct lr_buf *out)
{
    if (s->code == NULL) {
        replace_all(out, text, s->pattern, s->content);
        return LR_OK;
    }
    struct found m = {0};
    size_t at = 0;
    for (;; at = m.end) {
        lr_code rc = tokenizer_find_next(&run->finder, s->code, text, &m, run->err);
        if (rc != LR_OK)
            return rc;
        if (m.at_end)
            break;
        lr_buf_add(out, text.ptr + at, m.start - at);
        lr_buf_add_str(out, s->content);
    }
    lr_buf_add(out, text.ptr + at, text.len - at);
    return LR_OK;
}

static void decoding_strip(const struct decode_step *s, struct lr_str text, struct lr_buf *out)
{
    struct lr_str letter = s->pattern;
    for (uint64_t i = 0; i < s->start && text.len >= letter.len &&
                         memcmp(text.ptr, letter.ptr, letter.len) == 0;
         i++)
        text = lr_str_sub(text, letter.len, text.len);
    for (uint64_t i = 0; i < s->stop && text.len >= letter.len &&
                         memcmp(text.ptr + text.len - letter.len, letter.ptr, letter.len) == 0;
         i++)
        text.len -= letter.len;
    lr_buf_add_str(out, text);
}

/* The reference's list, in its order: English as WordPiece takes it apart. */
static void clean_up(struct lr_buf *text, struct lr_buf *spare)
{
    static const char *const pairs[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
    };
    for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
        if (lr_str_find(lr_buf_str(text), lr_str_z(pairs[i][0])) == LR_STR_NONE)
            continue;
        lr_buf_clear(spare);
        replace_all(spare, lr_buf_str(text), lr_str_z(pairs[i][0]), lr_str_z(pairs[i][1]));
        struct lr_buf other = *text;
        *text = *spare;
        *spare = other;
    }
}

static void wordpiece(const struct decode_step *s, bool first, struct lr_str text,
                      struct decode_state *state)
{
    bool inner = text.len >= s->pattern.len && s->pattern.len != 0 &&
                 memcmp(text.ptr, s->pattern.ptr, s->pattern.len) == 0;
    if (!first && inner)
        text = lr_str_sub(text, s->pattern.len, text.len);
    else if (!first)
        lr_buf_add_char(&state->made, ' ');
    lr_buf_add_str(&state->made, text);
    if (s->flag)
        clean_up(&state->made, &state->held);
}

/* "<0x41>" */
static bool is_byte(struct lr_str text, unsigned char *byte)
{
    if (text.len != 6 || memcmp(text.ptr, "<0x", 3) != 0 || text.ptr[5] != '>')
        return false;
    int high = lr_hex_digit(text.ptr[3]), low = lr_hex_digit(text.ptr[4]);
    if (high < 0 || low < 0)
        return false;
    *byte = (unsigned char)(high << 4 | low);
    return true;
}

bool tokenizer_decode_is_byte(const struct decoder *d, struct lr_str token, unsigned char *byte)
{
    for (uint32_t i = 0; i < d->count; i++)
        if (d->steps[i].kind == DECODE_BYTE_FALLBACK)
            return is_byte(token, byte);
    return false;
}

/* The bytes so far as one text; each becomes U+FFFD if they are not UTF-8. */
static lr_code flush_bytes(struct decode_run *run, uint32_t at)
{
    struct lr_buf *held = &run->states[at].held;
    lr_code rc = LR_OK;
    if (held->len == 0)
        return LR_OK;
    if (lr_utf8_valid(lr_buf_str(held)))
        rc = push(run, at + 1, lr_buf_str(held));
    else
        for (size_t i = 0; rc == LR_OK && i < held->len; i++)
            rc = push(run, at + 1, LR_STR_LIT("\xEF\xBF\xBD"));
    lr_buf_clear(held);
    return rc;
}

/* A stream does not wait for the end of this number of bytes: the whole characters are passed
 * on. */
enum { BYTES_HELD = 4096 };

static lr_code flush_most(struct decode_run *run, uint32_t at)
{
    struct lr_buf *held = &run->states[at].held;
    size_t whole = lr_utf8_valid_prefix(lr_buf_str(held));
    if (whole + 4 < held->len) /* not UTF-8: more than a cut character is left */
        return flush_bytes(run, at);
    lr_code rc = push(run, at + 1, lr_str(held->data, whole));
    lr_buf_consume(held, whole);
    return rc;
}

static lr_code byte_fallback(struct decode_run *run, uint32_t at, struct lr_str text)
{
    unsigned char byte;
    lr_code rc;
    if (is_byte(text, &byte)) {
        rc = hold(run, at, lr_str((const char *)&byte, 1));
        return rc == LR_OK && run->states[at].held.len >= BYTES_HELD ? flush_most(run, at) : rc;
    }
    rc = flush_bytes(run, at);
    return rc == LR_OK ? push(run, at + 1, text) : rc;
}

static void byte_level(struct lr_str text, struct lr_buf *out)
{
    size_t len = out->len;
    if (tokenizer_alphabet_bytes(text, out))
        return;
    out->len = len;
    lr_buf_add_str(out, text);
}

/* After all is one text: a Strip of the beginning can go on with each part; anything else needs
 * the whole text. */
static bool streams_after(const struct decoder *d, uint32_t at)
{
    for (uint32_t i = at; i < d->count; i++)
        if (d->steps[i].kind != DECODE_FUSE &&
            (d->steps[i].kind != DECODE_STRIP || d->steps[i].stop != 0 || i != at))
            return false;
    return true;
}

/* The parts of a fused text, of which a Strip takes up to `start` letters from the front. */
static lr_code fused(struct decode_run *run, uint32_t at, struct lr_str text)
{
    const struct decoder *d = run->decoder;
    struct decode_state *state = &run->states[at];
    if (!streams_after(d, at + 1))
        return hold(run, at, text);
    const struct decode_step *s = at + 1 < d->count ? &d->steps[at + 1] : NULL;
    while (s != NULL && s->kind == DECODE_STRIP && state->seen < s->start && text.len != 0) {
        if (text.len < s->pattern.len ||
            memcmp(text.ptr, s->pattern.ptr, s->pattern.len) != 0) {
            state->seen = s->start;
            break;
        }
        text = lr_str_sub(text, s->pattern.len, text.len);
        state->seen++;
    }
    lr_buf_add_str(run->out, text);
    return LR_OK;
}

static lr_code push(struct decode_run *run, uint32_t at, struct lr_str text)
{
    if (at == run->decoder->count) {
        lr_buf_add_str(run->out, text);
        return LR_OK;
    }
    const struct decode_step *s = &run->decoder->steps[at];
    struct decode_state *state = &run->states[at];
    bool first = state->seen == 0;
    lr_code rc = LR_OK;
    if (text.ptr == NULL)
        text = LR_STR_LIT("");
    lr_buf_clear(&state->made);
    if (s->kind != DECODE_FUSE && s->kind != DECODE_BYTE_LEVEL)
        state->seen++;
    switch (s->kind) {
    case DECODE_BYTE_LEVEL:
        byte_level(text, &state->made);
        return fused(run, at, lr_buf_str(&state->made));
    case DECODE_FUSE:
        return fused(run, at, text);
    case DECODE_BYTE_FALLBACK:
        return byte_fallback(run, at, text);
    case DECODE_REPLACE:
        rc = replace(run, s, text, &state->made);
        break;
    case DECODE_STRIP:
        decoding_strip(s, text, &state->made);
        break;
    case DECODE_METASPACE:
        replace_all(&state->made, text, s->pattern,
                    first && s->flag ? LR_STR_LIT("") : LR_STR_LIT(" "));
        break;
    case DECODE_WORDPIECE:
        wordpiece(s, first, text, state);
        break;
    case DECODE_SUFFIX: /* what follows decides what the end of a word becomes */
        replace_all(&state->made, lr_buf_str(&state->held), s->pattern, LR_STR_LIT(" "));
        lr_buf_clear(&state->held);
        rc = hold(run, at, text);
        if (rc == LR_OK && first)
            return LR_OK;
        break;
    }
    return rc == LR_OK ? pass(run, at) : rc;
}

lr_code tokenizer_decode_add(struct decode_run *run, struct lr_str token)
{
    return push(run, 0, token);
}

static lr_code end_step(struct decode_run *run, uint32_t at)
{
    const struct decode_step *s = &run->decoder->steps[at];
    struct decode_state *state = &run->states[at];
    if (s->kind == DECODE_BYTE_FALLBACK)
        return flush_bytes(run, at);
    if (s->kind == DECODE_SUFFIX && state->seen != 0) {
        lr_buf_clear(&state->made);
        replace_all(&state->made, lr_buf_str(&state->held), s->pattern, LR_STR_LIT(""));
        return pass(run, at);
    }
    bool fuses = s->kind == DECODE_FUSE || s->kind == DECODE_BYTE_LEVEL;
    if (!fuses || streams_after(run->decoder, at + 1))
        return LR_OK;
    if (s->kind == DECODE_FUSE)
        return push(run, at + 1, lr_buf_str(&state->held));
    lr_buf_clear(&state->made);
    lr_utf8_add_repaired(&state->made, lr_buf_str(&state->held));
    return pass(run, at);
}

lr_code tokenizer_decode_end(struct decode_run *run)
{
    lr_code rc = LR_OK;
    for (uint32_t i = 0; rc == LR_OK && i < run->decoder->count; i++)
        rc = end_step(run, i);
    if (rc == LR_OK && run->out->failed)
        rc = too_long(run, run->out);
    return rc;
}
