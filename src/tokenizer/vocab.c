/* tokenizer/vocab.c - looks up tokens by id and by bytes. */
#include <stdlib.h>

#include "base/os/memory.h"
#include "tokenizer/bpe.h"
#include "tokenizer/key.h"
#include "tokenizer/reader.h"

void *tokenizer_table_alloc(size_t bytes)
{
    return lr_table_alloc(bytes);
}

/* Ids need not come in order; the table grows by doubling up to the limit. */
static lr_code vocab_make_room(struct vocab *v, uint32_t id, struct lr_error *err)
{
    if (id < v->capacity)
        return LR_OK;
    uint32_t capacity = v->capacity != 0 ? v->capacity : 1024;
    while (capacity <= id)
        capacity *= 2;
    struct token *tokens = realloc(v->tokens, capacity * sizeof(*tokens));
    if (tokens == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a vocabulary of %u tokens", capacity);
    memset(tokens + v->capacity, 0, (capacity - v->capacity) * sizeof(*tokens));
    v->tokens = tokens;
    v->capacity = capacity;
    return LR_OK;
}

lr_code tokenizer_vocab_add(struct vocab *v, uint64_t id, struct lr_str bytes, uint16_t flags,
                            struct lr_error *err)
{
    if (id >= TOKENIZER_MAX_VOCAB)
        return lr_fail(err, LR_MODEL_CORRUPT, "token id %llu is above the limit of %d",
                       (unsigned long long)id, TOKENIZER_MAX_VOCAB - 1);
    if (bytes.len > TOKENIZER_MAX_TOKEN)
        return lr_fail(err, LR_MODEL_CORRUPT, "token %llu has %zu bytes; up to %d are possible",
                       (unsigned long long)id, bytes.len, TOKENIZER_MAX_TOKEN);
    lr_code rc = vocab_make_room(v, (uint32_t)id, err);
    if (rc != LR_OK)
        return rc;
    struct token *token = &v->tokens[id];
    if (token->flags != 0)
        return lr_fail(err, LR_MODEL_CORRUPT, "two tokens have the id %llu",
                       (unsigned long long)id);
    *token = (struct token){(uint32_t)v->bytes.len, (uint16_t)bytes.len,
                            (uint16_t)(flags | TOKEN_PRESENT)};
    lr_buf_add_str(&v->bytes, bytes);
    if (v->bytes.failed)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the bytes of token %llu",
                       (unsigned long long)id);
    if (id >= v->size)
        v->size = (uint32_t)id + 1;
    return LR_OK;
}

struct lr_str tokenizer_vocab_form(const struct vocab *v, struct lr_str text, bool is_letters,
                                   struct lr_buf *scratch)
{
    (void)is_letters;
    size_t suffix = v->suffix.len;
    if (suffix == 0 || text.len <= suffix ||
        memcmp(text.ptr + text.len - suffix, v->suffix.ptr, suffix) != 0)
        return text;
    lr_buf_clear(scratch);
    lr_buf_add(scratch, text.ptr, text.len - suffix);
    lr_buf_add_char(scratch, BPE_END);
    return lr_buf_str(scratch);
}

void tokenizer_vocab_content(const struct vocab *v, uint32_t id, struct lr_buf *out)
{
    const struct token *token = &v->tokens[id];
    struct lr_str bytes = lr_str(vocab_bytes(v, id), token->len);
    bool ends = (token->flags & TOKEN_INDEXED) != 0 && v->suffix.len != 0 && bytes.len > 1 &&
                bytes.ptr[bytes.len - 1] == BPE_END;
    bytes.len -= ends ? 1 : 0;
    if ((token->flags & TOKEN_LETTERS) != 0)
        tokenizer_alphabet_letters(bytes, out);
    else
        lr_buf_add_str(out, bytes);
    if (ends)
        lr_buf_add_str(out, v->suffix);
}

/* One "token": id. */
static lr_code read_entry(struct vocab *v, struct reader *r, struct lr_buf *scratch,
                          struct lr_error *err)
{
    struct lr_str bytes;
    bool is_letters = false;
    uint64_t id = 0;
    lr_code rc = v->raw ? tokenizer_reader_string(r, &bytes)
                        : tokenizer_reader_token(r, &bytes, &is_letters);
    if (rc == LR_OK)
        rc = tokenizer_reader_expect(r, ':', "':' is expected");
    if (rc == LR_OK)
        rc = tokenizer_reader_number(r, &id);
    if (rc != LR_OK)
        return rc;
    uint16_t flags = v->raw ? TOKEN_INDEXED : is_letters ? TOKEN_INDEXED | TOKEN_LETTERS : 0;
    if (flags != 0)
        bytes = tokenizer_vocab_form(v, bytes, is_letters, scratch);
    return tokenizer_vocab_add(v, id, bytes, flags, err);
}

lr_code tokenizer_vocab_read(struct vocab *v, struct lr_str whole, struct lr_str object,
                             struct lr_error *err)
{
    struct reader r;
    struct lr_buf scratch;
    tokenizer_reader_init(&r, whole, object, err);
    lr_buf_init(&scratch, object.len + 1);
    lr_code rc = tokenizer_reader_expect(&r, '{', "model.vocab must be an object");
    bool more = rc == LR_OK && !tokenizer_reader_take(&r, '}');
    while (rc == LR_OK && more) {
        rc = read_entry(v, &r, &scratch, err);
        more = tokenizer_reader_take(&r, ',');
        if (rc == LR_OK && !more)
            rc = tokenizer_reader_expect(&r, '}', "',' or '}' is expected in model.vocab");
    }
    if (rc == LR_OK)
        rc = tokenizer_reader_done(&r);
    lr_buf_free(&scratch);
    tokenizer_reader_free(&r);
    return rc;
}

static lr_code insert(struct vocab *v, uint32_t id, struct lr_error *err)
{
    const char *bytes = vocab_bytes(v, id);
    size_t len = v->tokens[id].len;
    if (len == 0)
        return LR_OK;
    struct key key = key_of(bytes, len);
    uint64_t hash = key_hash(key, len);
    const struct vocab_slot *known = key_find(v, key, hash, bytes, len);
    if (known != NULL && v->repeats) {
        v->slots[known - v->slots].id = id;
        return LR_OK;
    }
    if (known != NULL)
        return lr_fail(err, LR_MODEL_CORRUPT, "token %u is twice in model.vocab", id);
    uint32_t mask = (1u << v->slot_bits) - 1;
    uint32_t i = (uint32_t)(hash >> (64 - v->slot_bits));
    while (v->slots[i].len != 0)
        i = (i + 1) & mask;
    uint64_t bit = key_filter_bit(v, hash);
    v->filter[bit >> 6] |= (uint64_t)1 << (bit & 63);
    v->slots[i] = (struct vocab_slot){key.low, key.high, (uint32_t)len, id};
    return LR_OK;
}

/* No single byte may be a control token: untrusted text has every byte. */
lr_code tokenizer_vocab_find_bytes(struct vocab *v, struct lr_error *err)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)b;
        const struct vocab_slot *slot =
            v->raw && b >= 0x80 ? NULL : tokenizer_vocab_find(v, &byte, 1);
        v->byte_ids[b] = slot != NULL ? slot->id : TOKENIZER_NONE;
        if (slot != NULL && (v->tokens[slot->id].flags & TOKEN_SPECIAL) != 0)
            return lr_fail(err, LR_UNSUPPORTED,
                           "added_tokens makes the byte 0x%02X (id %u) a special token", b,
                           slot->id);
    }
    return LR_OK;
}

lr_code tokenizer_vocab_index(struct vocab *v, struct lr_error *err)
{
    v->slot_bits = 10;
    while ((1u << v->slot_bits) < 2 * v->size)
        v->slot_bits++;
    v->slots = tokenizer_table_alloc(sizeof(*v->slots) << v->slot_bits);
    v->filter = calloc((size_t)1 << (v->slot_bits - 4), sizeof(*v->filter));
    if (v->slots == NULL || v->filter == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to index %u tokens", v->size);
    for (uint32_t id = 0; id < v->size; id++) {
        if ((v->tokens[id].flags & TOKEN_INDEXED) == 0)
            continue;
        lr_code rc = insert(v, id, err);
        if (rc != LR_OK)
            return rc;
    }
    return LR_OK;
}

const struct vocab_slot *tokenizer_vocab_find(const struct vocab *v, const char *bytes,
                                              size_t len)
{
    struct key key = key_of(bytes, len);
    return key_find(v, key, key_hash(key, len), bytes, len);
}

void tokenizer_vocab_free(struct vocab *v)
{
    free(v->tokens);
    lr_buf_free(&v->bytes);
    free(v->slots);
    free(v->filter);
}
