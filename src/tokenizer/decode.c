/* tokenizer/decode.c - ids to bytes, properties of tokens, and the list of ids. */
#include <stdlib.h>

#include "tokenizer/model.h"
#include "tokenizer/scan.h"

void tokenizer_ids_init(struct tokenizer_ids *ids, size_t limit)
{
    *ids = (struct tokenizer_ids){.limit = limit};
}

void tokenizer_ids_free(struct tokenizer_ids *ids)
{
    free(ids->items);
    tokenizer_ids_init(ids, ids->limit);
}

bool tokenizer_ids_grow(struct tokenizer_ids *ids, size_t more)
{
    if (ids->failed)
        return false;
    if (ids->limit - ids->count < more) {
        ids->count = ids->limit <= ids->capacity ? ids->limit : ids->count;
        ids->failed = true;
        return false;
    }
    size_t needed = ids->count + more;
    size_t capacity = ids->capacity < 64 ? 64 : ids->capacity;
    while (capacity < needed)
        capacity = capacity > ids->limit / 2 ? ids->limit : capacity * 2;
    if (capacity > ids->limit)
        capacity = ids->limit;
    uint32_t *items = capacity <= SIZE_MAX / sizeof(*items)
                          ? realloc(ids->items, capacity * sizeof(*items))
                          : NULL;
    if (items == NULL) {
        ids->failed = true;
        return false;
    }
    ids->items = items;
    ids->capacity = capacity;
    return true;
}

bool tokenizer_ids_append(struct tokenizer_ids *ids, uint32_t id)
{
    tokenizer_ids_add(ids, id);
    return !ids->failed;
}

uint32_t tokenizer_vocab_size(const struct tokenizer *t)
{
    return t->vocab.size;
}

bool tokenizer_token(const struct tokenizer *t, uint32_t id, const char **bytes, uint32_t *len,
                     uint32_t *flags)
{
    if (id >= t->vocab.size)
        return false;
    const struct token *token = &t->vocab.tokens[id];
    bool used = (token->flags & TOKEN_PRESENT) != 0;
    *bytes = used ? vocab_bytes(&t->vocab, id) : "";
    *len = token->len;
    if (t->shown != NULL) {
        uint32_t start = id != 0 ? t->shown[id - 1] : 0;
        *bytes = t->shown_bytes.data != NULL ? t->shown_bytes.data + start : "";
        *len = t->shown[id] - start;
    }
    *flags = ((token->flags & TOKEN_SPECIAL) != 0 ? (uint32_t)LR_VOCAB_SPECIAL : 0) |
             (used ? 0 : (uint32_t)LR_VOCAB_UNUSED);
    return true;
}

/* Added tokens are found by their text in the file, not by the normalized one. */
static bool find_added(const struct tokenizer *t, struct lr_str wanted, bool special,
                       uint32_t *id)
{
    for (int which = 0; which < 2; which++) {
        const struct added_matcher *m = &t->added.matchers[which];
        for (uint32_t i = 0; i < m->count; i++) {
            const struct token *token = &t->vocab.tokens[m->tokens[i].id];
            struct lr_buf text;
            lr_buf_init(&text, 4 * (size_t)TOKENIZER_MAX_TOKEN);
            if ((token->flags & TOKEN_SPECIAL) != 0 || !special)
                tokenizer_vocab_content(&t->vocab, m->tokens[i].id, &text);
            bool same = lr_str_eq(lr_buf_str(&text), wanted);
            lr_buf_free(&text);
            *id = m->tokens[i].id;
            if (same)
                return true;
        }
    }
    return false;
}

bool tokenizer_find_special(const struct tokenizer *t, const char *name, uint32_t *id)
{
    return find_added(t, lr_str_z(name), true, id);
}

bool tokenizer_find_added(const struct tokenizer *t, struct lr_str text, uint32_t *id)
{
    return find_added(t, text, false, id);
}

/* A vocabulary of bytes whose decoder only undoes the byte alphabet. */
static bool shows_bytes(const struct tokenizer *t)
{
    return t->kind == MODEL_BPE && !t->characters_only && t->suffix.len == 0 &&
           (t->decoder.joins_with_blanks ||
            (t->decoder.count == 1 && t->decoder.steps[0].kind == DECODE_BYTE_LEVEL));
}

/* The text of a token that follows another one. */
static lr_code show(const struct tokenizer *t, uint32_t id, struct lr_buf *scratch,
                    struct lr_buf *out, struct lr_error *err)
{
    struct decode_run run;
    unsigned char byte;
    lr_buf_clear(scratch);
    tokenizer_vocab_content(&t->vocab, id, scratch);
    if (tokenizer_decode_is_byte(&t->decoder, lr_buf_str(scratch), &byte)) {
        lr_buf_add_char(out, (char)byte);
        return LR_OK;
    }
    tokenizer_decode_begin(&run, &t->decoder, out->limit, out, err);
    tokenizer_decode_skip_start(&run);
    lr_code rc = tokenizer_decode_add(&run, lr_buf_str(scratch));
    if (rc == LR_OK)
        rc = tokenizer_decode_end(&run);
    tokenizer_decode_free(&run);
    return rc;
}

lr_code tokenizer_shown_make(struct tokenizer *t, struct lr_error *err)
{
    lr_code rc = LR_OK;
    struct lr_buf scratch;
    if (shows_bytes(t))
        return LR_OK;
    t->shown = malloc((t->vocab.size + 1) * sizeof(*t->shown));
    if (t->shown == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the texts of %u tokens",
                       t->vocab.size);
    lr_buf_init(&t->shown_bytes, UINT32_MAX / 2);
    lr_buf_init(&scratch, 4 * (size_t)TOKENIZER_MAX_TOKEN);
    for (uint32_t id = 0; rc == LR_OK && id < t->vocab.size; id++) {
        if ((t->vocab.tokens[id].flags & TOKEN_SPECIAL) != 0)
            tokenizer_vocab_content(&t->vocab, id, &t->shown_bytes);
        else if ((t->vocab.tokens[id].flags & TOKEN_PRESENT) != 0)
            rc = show(t, id, &scratch, &t->shown_bytes, err);
        t->shown[id] = (uint32_t)t->shown_bytes.len;
    }
    lr_buf_free(&scratch);
    return rc;
}

struct tokenizer_stream {
    const struct tokenizer *t; /* borrowed */
    struct decode_run run;
    struct lr_buf content; /* the token as the file has it */
    struct lr_buf *out;    /* borrowed */
    bool skip_control;
    bool bytes; /* shows_bytes */
    bool any;   /* a token has been written */
};

struct tokenizer_stream *tokenizer_stream_new(const struct tokenizer *t, bool skip_control,
                                              struct lr_buf *out)
{
    struct tokenizer_stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    s->t = t;
    s->out = out;
    s->skip_control = skip_control;
    s->bytes = shows_bytes(t);
    lr_buf_init(&s->content, 4 * (size_t)TOKENIZER_MAX_TOKEN);
    tokenizer_decode_begin(&s->run, &t->decoder, out->limit, out, NULL);
    return s;
}

void tokenizer_stream_free(struct tokenizer_stream *s)
{
    if (s == NULL)
        return;
    tokenizer_decode_free(&s->run);
    lr_buf_free(&s->content);
    free(s);
}

lr_code tokenizer_stream_add(struct tokenizer_stream *s, uint32_t id, struct lr_error *err)
{
    const struct vocab *v = &s->t->vocab;
    if (id >= v->size)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "token id %u is beyond the vocabulary of %u tokens", id, v->size);
    const struct token *token = &v->tokens[id];
    if ((token->flags & TOKEN_PRESENT) == 0 ||
        (s->skip_control && (token->flags & TOKEN_SPECIAL) != 0))
        return LR_OK;
    if (s->t->decoder.joins_with_blanks && !s->bytes && s->any)
        lr_buf_add_char(s->out, ' ');
    s->any = true;
    if (s->bytes && (token->flags & TOKEN_ADDED) == 0) {
        lr_buf_add(s->out, vocab_bytes(v, id), token->len);
        return LR_OK;
    }
    s->run.err = err;
    lr_buf_clear(&s->content);
    tokenizer_vocab_content(v, id, &s->content);
    return tokenizer_decode_add(&s->run, lr_buf_str(&s->content));
}

lr_code tokenizer_stream_end(struct tokenizer_stream *s, struct lr_error *err)
{
    s->run.err = err;
    return tokenizer_decode_end(&s->run);
}

lr_code tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t count,
                         bool skip_control, struct lr_buf *out, struct lr_error *err)
{
    struct tokenizer_stream *s = tokenizer_stream_new(t, skip_control, out);
    if (s == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to decode %zu tokens", count);
    lr_code rc = LR_OK;
    for (size_t i = 0; rc == LR_OK && i < count; i++)
        rc = tokenizer_stream_add(s, ids[i], err);
    if (rc == LR_OK)
        rc = tokenizer_stream_end(s, err);
    tokenizer_stream_free(s);
    if (rc == LR_OK && out->failed)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the text of %zu tokens is longer than %zu bytes", count, out->limit);
    return rc;
}

size_t tokenizer_memory(const struct tokenizer *t)
{
    size_t slots = t->vocab.slots != NULL ? (size_t)1 << t->vocab.slot_bits : 0;
    size_t bytes = sizeof(*t) + t->vocab.capacity * sizeof(struct token) +
                   t->vocab.bytes.capacity + slots * sizeof(struct vocab_slot) + slots / 2;
    if (t->merges.slots != NULL)
        bytes += ((size_t)1 << t->merges.slot_bits) * sizeof(uint64_t) +
                 t->merges.count * sizeof(uint32_t) + 65536 * sizeof(uint32_t);
    if (t->characters != NULL)
        bytes += 65536 * sizeof(uint32_t);
    if (t->trie.edges != NULL)
        bytes += (sizeof(uint64_t) << t->trie.bits) + t->trie.capacity * sizeof(uint32_t);
    if (t->unigram.scores != NULL)
        bytes += t->vocab.size * sizeof(double);
    if (t->shown != NULL)
        bytes += t->vocab.size * sizeof(uint32_t) + t->shown_bytes.capacity;
    for (uint32_t i = 0; i < t->splitter.count; i++)
        bytes += t->splitter.steps[i].classes != NULL ? sizeof(struct split_classes) : 0;
    return bytes;
}
