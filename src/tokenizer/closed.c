/* tokenizer/closed.c - characters that can be treated as one symbol from the start.
 *
 * Text beyond ASCII begins as two to four symbols a character, and most merges only assemble
 * characters.  Some of these merges can be skipped exactly.  Take a character whose bytes merge
 * into one token at ranks up to R. If every pair that its first or last symbol could form with
 * an outside symbol, at any moment of that, has a rank above R, then no such pair merges before
 * the character is complete.  U+FFFD is such a character, so invalid UTF-8 is cheap.
 * Where BPE's symbols are characters, every character of the vocabulary is one.
 */
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/bpe.h"

/* By token: the lowest rank of a pair with it as the left (right) half. */
struct lowest {
    uint32_t *as_left;
    uint32_t *as_right;
};

static void find_lowest(const struct merges *m, struct lowest *l)
{
    for (size_t i = 0; i < (size_t)1 << m->slot_bits; i++) {
        if (m->slots[i] == MERGES_FREE)
            continue;
        uint32_t rank = (uint32_t)(m->slots[i] & 0xFFFFFF);
        uint32_t left = (uint32_t)(m->slots[i] >> 44);
        uint32_t right = (uint32_t)(m->slots[i] >> 24) & 0xFFFFF;
        if (rank < l->as_left[left])
            l->as_left[left] = rank;
        if (rank < l->as_right[right])
            l->as_right[right] = rank;
    }
}

/* Merges the bytes of one character and checks the pairs at its ends. */
static bool is_closed(const struct tokenizer *t, const struct lowest *l, const char *bytes,
                      size_t len, uint32_t id)
{
    uint32_t row[3] = {0}, highest = 0, outside = TOKENIZER_NONE;
    for (size_t i = 0; i < len; i++)
        if ((row[i] = t->vocab.byte_ids[(unsigned char)bytes[i]]) == TOKENIZER_NONE)
            return false;
    for (size_t n = len; n > 1; n--) {
        uint32_t first = l->as_right[row[0]], last = l->as_left[row[n - 1]];
        outside = first < outside ? first : outside;
        outside = last < outside ? last : outside;
        size_t at = 0;
        uint32_t rank = merges_rank(&t->merges, row[0], row[1]);
        if (n == 3) {
            uint32_t second = merges_rank(&t->merges, row[1], row[2]);
            at = second < rank ? 1 : 0;
            rank = second < rank ? second : rank;
        }
        if (rank == TOKENIZER_NONE)
            return false;
        highest = rank > highest ? rank : highest;
        row[at] = t->merges.results[rank];
        if (at == 0 && n == 3)
            row[1] = row[2];
    }
    return row[0] == id && highest < outside;
}

lr_code tokenizer_closed_find(struct tokenizer *t, struct lr_error *err)
{
    size_t bytes = t->vocab.size * sizeof(uint32_t);
    struct lowest l = {malloc(bytes), malloc(bytes)};
    t->characters = malloc(CLOSED_CHARACTERS * sizeof(*t->characters));
    bool good = l.as_left != NULL && l.as_right != NULL && t->characters != NULL;
    if (good) {
        memset(l.as_left, 0xFF, bytes);
        memset(l.as_right, 0xFF, bytes);
        memset(t->characters, 0xFF, CLOSED_CHARACTERS * sizeof(*t->characters));
        find_lowest(&t->merges, &l);
    }
    for (uint32_t id = 0; good && id < t->vocab.size; id++) {
        const struct token *token = &t->vocab.tokens[id];
        uint32_t c;
        if ((token->flags & (TOKEN_INDEXED | TOKEN_SPECIAL)) != TOKEN_INDEXED ||
            token->len < 2 || token->len > 3)
            continue;
        const char *text = vocab_bytes(&t->vocab, id);
        if (lr_utf8_decode(text, token->len, &c) == token->len &&
            (t->characters_only || is_closed(t, &l, text, token->len, id)))
            t->characters[c] = id;
    }
    free(l.as_left);
    free(l.as_right);
    return good ? LR_OK
                : lr_fail(err, LR_OUT_OF_RAM, "no memory to examine %u tokens", t->vocab.size);
}
