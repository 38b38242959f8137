/* llamacpp/tokenize.c - prompt segments to ids (docs/promises.md: trusted-text).
 *
 * The segments are joined, with one bit of trust per byte.  We search for control tokens where
 * every byte is trusted, leftmost and longest first.  The text between two of them is one run
 * for libllama, which is told not to recognise control tokens in it.  A loose one it would
 * recognise all the same: there the run is cut inside the token's text.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/utf8.h"
#include "engines/llamacpp/vocabulary.h"

struct prompt {
    struct lr_buf text;
    struct lr_buf trust; /* a byte for each of text: 1 where control tokens may be */
};

static bool push(struct llamacpp_ids *ids, uint32_t id)
{
    if (ids->count == ids->capacity) {
        size_t more = ids->capacity * 2 + 64;
        uint32_t *items = realloc(ids->items, more * sizeof(*items));
        if (items == NULL)
            return false;
        ids->items = items;
        ids->capacity = more;
    }
    ids->items[ids->count++] = id;
    return true;
}

static void tokenize_join(const struct lr_segment *segments, size_t count, struct prompt *p)
{
    for (size_t i = 0; i < count; i++) {
        size_t before = p->text.len;
        lr_utf8_add_repaired(&p->text, lr_str(segments[i].text, segments[i].len));
        char *trust = lr_buf_reserve(&p->trust, p->text.len - before);
        if (trust == NULL)
            continue;
        memset(trust, segments[i].control != 0 ? 1 : 0, p->text.len - before);
        lr_buf_commit(&p->trust, p->text.len - before);
    }
}

static const struct llamacpp_control *control_at(const struct llamacpp_vocabulary *v,
                                                 const struct prompt *p, size_t at)
{
    unsigned char b = (unsigned char)p->text.data[at];

    for (uint32_t i = v->first[b]; i < v->first[b + 1]; i++) {
        const struct llamacpp_control *c = &v->controls[i];
        if (c->text.len <= p->text.len - at &&
            memcmp(p->text.data + at, c->text.ptr, c->text.len) == 0 &&
            memchr(p->trust.data + at, 0, c->text.len) == NULL)
            return c;
    }
    return NULL;
}

static bool add_piece(const struct llamacpp_vocabulary *v, struct lr_str run,
                      struct llamacpp_ids *ids)
{
    if (run.len == 0)
        return true;
    int32_t room = (int32_t)run.len + 8;
    for (int tries = 0; tries < 2; tries++) {
        if (ids->capacity - ids->count < (size_t)room) {
            size_t more = 2 * ids->count + (size_t)room;
            uint32_t *items = realloc(ids->items, more * sizeof(*items));
            if (items == NULL)
                return false;
            ids->items = items;
            ids->capacity = more;
        }
        int32_t n = v->lib->llama_tokenize(v->vocab, run.ptr, (int32_t)run.len,
                                           (llama_token *)(ids->items + ids->count), room,
                                           false, false);
        if (n >= 0) {
            ids->count += (size_t)n;
            return true;
        }
        if (n == INT32_MIN)
            return false;
        room = -n;
    }
    return false;
}

/* Where the text of a token may be cut: before its first letter, between "<|" and the name.
 * Pre-tokenizers part it there, too, so the ids are those of the uncut text. */
static size_t cut_of(struct lr_str text)
{
    size_t at = 1;
    while (at + 1 < text.len && !isalnum((unsigned char)text.ptr[at]))
        at++;
    return at;
}

/* The end of the piece of a run that begins at `start`. */
static size_t piece_end(const struct llamacpp_vocabulary *v, struct lr_str run, size_t start)
{
    for (size_t at = start; v->has_loose && at < run.len; at++) {
        unsigned char b = (unsigned char)run.ptr[at];
        for (uint32_t i = v->first[b]; i < v->first[b + 1]; i++) {
            const struct llamacpp_control *c = &v->controls[i];
            if (c->is_loose && c->text.len <= run.len - at &&
                memcmp(run.ptr + at, c->text.ptr, c->text.len) == 0)
                return at + cut_of(c->text);
        }
    }
    return run.len;
}

/* The text between two control tokens. */
static bool add_run(const struct llamacpp_vocabulary *v, struct lr_str run,
                    struct llamacpp_ids *ids)
{
    for (size_t start = 0; start < run.len;) {
        size_t end = piece_end(v, run, start);
        if (!add_piece(v, lr_str_sub(run, start, end), ids))
            return false;
        start = end;
    }
    return true;
}

static bool tokenize_encode(const struct llamacpp_vocabulary *v, const struct prompt *p,
                            struct llamacpp_ids *ids)
{
    size_t start = 0, at = 0, len = p->text.len;

    if (len == 0)
        return true;
    while (at < len) {
        const struct llamacpp_control *c = p->trust.data[at] ? control_at(v, p, at) : NULL;
        if (c == NULL) {
            at++;
            continue;
        }
        size_t end = at;
        while (c->strips_left && end > start && isspace((unsigned char)p->text.data[end - 1]))
            end--;
        if (!add_run(v, lr_str(p->text.data + start, end - start), ids) || !push(ids, c->id))
            return false;
        at += c->text.len;
        while (c->strips_right && at < len && isspace((unsigned char)p->text.data[at]))
            at++;
        start = at;
    }
    return add_run(v, lr_str(p->text.data + start, len - start), ids);
}

static bool add_bos(const struct llamacpp_vocabulary *v, struct llamacpp_ids *ids)
{
    if (v->bos < 0 || (ids->count > 0 && ids->items[0] == (uint32_t)v->bos))
        return true;
    if (!push(ids, 0))
        return false;
    memmove(ids->items + 1, ids->items, (ids->count - 1) * sizeof(*ids->items));
    ids->items[0] = (uint32_t)v->bos;
    return true;
}

lr_code llamacpp_tokenize(const struct llamacpp_vocabulary *v,
                          const struct lr_segment *segments, size_t count, size_t max_bytes,
                          struct llamacpp_ids *out, struct lr_error *err)
{
    struct prompt p;
    size_t bytes = 0;

    *out = (struct llamacpp_ids){0};
    for (size_t i = 0; i < count; i++)
        bytes += segments[i].len;
    if (bytes > max_bytes)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the prompt has %zu bytes; the limit is %zu",
                       bytes, max_bytes);
    lr_buf_init(&p.text, bytes * 3 + 16); /* a byte that is not UTF-8 becomes three */
    lr_buf_init(&p.trust, bytes * 3 + 16);
    tokenize_join(segments, count, &p);
    bool ok = !p.text.failed && !p.trust.failed && tokenize_encode(v, &p, out) &&
              (out->count == 0 || add_bos(v, out));
    lr_buf_free(&p.text);
    lr_buf_free(&p.trust);
    if (ok)
        return LR_OK;
    free(out->items);
    *out = (struct llamacpp_ids){0};
    return lr_fail(err, LR_OUT_OF_RAM, "no memory for the tokens of a prompt of %zu bytes",
                   bytes);
}
