/* tokenizer/decode.c - ids to bytes, properties of tokens, and the list of ids. */
#include <stdlib.h>

#include "tokenizer/internal.h"
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
    *flags = ((token->flags & TOKEN_SPECIAL) != 0 ? (uint32_t)LR_VOCAB_SPECIAL : 0) |
             (used ? 0 : (uint32_t)LR_VOCAB_UNUSED);
    return true;
}

bool tokenizer_find_special(const struct tokenizer *t, const char *name, uint32_t *id)
{
    struct lr_str wanted = lr_str_z(name);
    for (int which = 0; which < 2; which++) {
        const struct added_matcher *m = &t->added.matchers[which];
        for (uint32_t i = 0; i < m->count; i++) {
            if (!m->tokens[i].special || !lr_str_eq(m->tokens[i].text, wanted))
                continue;
            *id = m->tokens[i].id;
            return true;
        }
    }
    return false;
}

lr_code tokenizer_decode(const struct tokenizer *t, const uint32_t *ids, size_t count,
                         bool skip_control, struct lr_buf *out, struct lr_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const char *bytes;
        uint32_t len, flags;
        if (!tokenizer_token(t, ids[i], &bytes, &len, &flags))
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "token id %u is beyond the vocabulary of %u tokens", ids[i],
                           t->vocab.size);
        if (!skip_control || (flags & LR_VOCAB_SPECIAL) == 0)
            lr_buf_add(out, bytes, len);
    }
    if (out->failed)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "the text of %zu tokens is longer than %zu bytes", count, out->limit);
    return LR_OK;
}

size_t tokenizer_memory(const struct tokenizer *t)
{
    return sizeof(*t) + t->vocab.capacity * sizeof(struct token) + t->vocab.bytes.capacity +
           ((size_t)1 << t->vocab.slot_bits) * sizeof(struct vocab_slot) +
           ((size_t)1 << t->merges.slot_bits) * sizeof(uint64_t) +
           t->merges.count * sizeof(uint32_t) + 2 * 65536 * sizeof(uint32_t) +
           ((size_t)1 << t->vocab.slot_bits) / 2 +
           (t->splitter.classes != NULL ? sizeof(struct split_classes) : 0);
}
