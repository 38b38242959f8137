/* tokenizer/unigram.c - Unigram: of all ways to write a piece as tokens, the one with the
 * highest sum of scores.
 *
 * Viterbi, as in the reference: sums are added from the left in doubles, and of equal ways the
 * one whose last token begins first stays.  For each position where a character ends the best
 * last token is kept (8 bytes); the sums are needed only as far back as the longest token.
 */
#include <stdlib.h>

#include "tokenizer/chars.h"
#include "tokenizer/encoding.h"
#include "tokenizer/key.h"

/* The best last token that ends at a position: its bytes << 32 | id. */
#define PATH_NONE 0

/* As in the reference: below the least score. */
static const double unknown_penalty = 10.0;

static void offer(uint64_t *path, double *best, double sum, size_t len, uint32_t id)
{
    if (*path != PATH_NONE && sum <= *best)
        return;
    *best = sum;
    *path = (uint64_t)len << 32 | id;
}

/* sums is a ring of `mask` + 1 doubles. */
static void find_paths(const struct encoding *e, struct lr_str text, double *sums, size_t mask)
{
    const struct tokenizer *t = e->t;
    uint64_t *paths = e->bpe.paths;
    const struct unigram *u = &t->unigram;
    const double unknown = u->least - unknown_penalty;
    memset(paths, 0, (text.len + 1) * sizeof(*paths));
    sums[0] = 0;
    for (size_t at = 0, width; at < text.len; at += width) {
        double here = sums[at & mask];
        width = char_width(text.ptr[at]);
        bool has_single = false;
        uint32_t node = 0;
        for (size_t end = at; end < text.len;) {
            node = trie_next(&t->trie, node, (unsigned char)text.ptr[end++]);
            if (node == 0)
                break;
            uint32_t id = trie_token(&t->trie, node, e->spells_control);
            if (id == TRIE_NONE)
                continue;
            offer(&paths[end], &sums[end & mask], here + u->scores[id], end - at, id);
            has_single = has_single || end == at + width;
        }
        if (!has_single)
            offer(&paths[at + width], &sums[(at + width) & mask], here + unknown, width,
                  u->unknown);
    }
}

/* One token, or an unknown part that is written as bytes. */
static lr_code unigram_add_part(struct encoding *e, struct lr_str part, uint32_t id)
{
    const struct tokenizer *t = e->t;
    if (id != t->unigram.unknown) {
        tokenizer_ids_add(e->bpe.out, id);
        return LR_OK;
    }
    const struct vocab_slot *slot = tokenizer_vocab_find(&t->vocab, part.ptr, part.len);
    if (slot != NULL &&
        (e->spells_control || (t->vocab.tokens[slot->id].flags & TOKEN_SPECIAL) == 0)) {
        tokenizer_ids_add(e->bpe.out, slot->id);
        return LR_OK;
    }
    bool bytes = t->fallback;
    for (size_t i = 0; bytes && i < part.len; i++)
        bytes = t->fallback_ids[(unsigned char)part.ptr[i]] != TOKENIZER_NONE;
    for (size_t i = 0; bytes && i < part.len; i++)
        tokenizer_ids_add(e->bpe.out, t->fallback_ids[(unsigned char)part.ptr[i]]);
    if (bytes)
        return LR_OK;
    if (t->unigram.unknown == TOKENIZER_NONE)
        return lr_fail(e->err, LR_INVALID_ARGUMENT,
                       "the text has characters that are not in model.vocab, and the tokenizer "
                       "has no unk_id");
    tokenizer_ids_add(e->bpe.out, t->unigram.unknown);
    return LR_OK;
}

/* Turns the chain of last tokens around: paths[start of a token] is then that token. */
static void turn(uint64_t *paths, size_t len)
{
    uint64_t next = paths[len];
    for (size_t at = len; at > 0;) {
        uint64_t token = next;
        at -= (size_t)(token >> 32);
        next = paths[at];
        paths[at] = token;
    }
}

static lr_code add_tokens(struct encoding *e, struct lr_str text, const uint64_t *paths)
{
    uint32_t unknown = e->t->unigram.unknown;
    lr_code rc = LR_OK;
    for (size_t at = 0; rc == LR_OK && at < text.len;) {
        uint32_t id = (uint32_t)paths[at];
        size_t end = at + (size_t)(paths[at] >> 32);
        while (id == unknown && end < text.len && (uint32_t)paths[end] == unknown)
            end += (size_t)(paths[end] >> 32); /* unknown neighbours are one part */
        rc = unigram_add_part(e, lr_str(text.ptr + at, end - at), id);
        at = end;
    }
    return rc;
}

lr_code tokenizer_unigram_encode(struct encoding *e, struct lr_str text)
{
    struct bpe *b = &e->bpe;
    size_t ring = 64;
    while (ring < e->t->unigram.longest + 4 && ring < text.len + 1)
        ring *= 2;
    size_t room = text.len + 1 + ring;
    if (room > b->path_room) {
        free(b->paths);
        b->paths = malloc(room * sizeof(*b->paths));
        b->path_room = b->paths != NULL ? room : 0;
    }
    if (b->paths == NULL) {
        b->out_of_memory = true;
        return LR_OK;
    }
    double *sums = (double *)(void *)(b->paths + text.len + 1);
    find_paths(e, text, sums, ring - 1);
    turn(b->paths, text.len);
    return add_tokens(e, text, b->paths);
}
