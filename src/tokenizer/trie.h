/* tokenizer/trie.h - the tokens that a text begins with, for Unigram and WordPiece.
 *
 * A node's children are in one hash table of all edges: 8 bytes an edge, one cache line a step.
 */
#ifndef TOKENIZER_TRIE_H
#define TOKENIZER_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct trie {
    uint64_t *edges;  /* owned, open addressing: node << 36 | byte << 28 | child; 0: free */
    uint32_t *tokens; /* owned, by node: id of the token that ends there, or TRIE_NONE; with
                         TRIE_CONTROL if it is a control token */
    uint32_t count;   /* nodes; 0 is the root */
    uint32_t capacity;
    uint32_t bits;            /* the table has 1 << bits edges */
    uint32_t root_edges[256]; /* children of the root; 0: none */
};

#define TRIE_NONE    UINT32_MAX
#define TRIE_CONTROL 0x40000000u

enum { TRIE_MAX_NODES = (1 << 28) - 1 };

bool tokenizer_trie_init(struct trie *t);
/* A second token with the same text replaces the first.  False: no memory, or too many
 * nodes. */
bool tokenizer_trie_add(struct trie *t, struct lr_str text, uint32_t id);
void tokenizer_trie_free(struct trie *t);

static inline uint64_t trie_slot(uint32_t node, unsigned char byte, uint32_t bits)
{
    return (((uint64_t)node << 8 | byte) * 0x9E3779B97F4A7C15u) >> (64 - bits);
}

/* The token that ends at a node, or TRIE_NONE; control tokens only if `control`. */
static inline uint32_t trie_token(const struct trie *t, uint32_t node, bool control)
{
    uint32_t token = t->tokens[node];
    if (token == TRIE_NONE || (token & TRIE_CONTROL) == 0)
        return token;
    return control ? token & ~TRIE_CONTROL : TRIE_NONE;
}

/* The node after `node` and a byte; 0: none. */
static inline uint32_t trie_next(const struct trie *t, uint32_t node, unsigned char byte)
{
    if (node == 0)
        return t->root_edges[byte];
    uint64_t wanted = (uint64_t)node << 8 | byte, mask = ((uint64_t)1 << t->bits) - 1;
    for (uint64_t i = trie_slot(node, byte, t->bits);; i = (i + 1) & mask) {
        uint64_t edge = t->edges[i];
        if (edge == 0)
            return 0;
        if (edge >> 28 == wanted)
            return (uint32_t)(edge & TRIE_MAX_NODES);
    }
}

#endif
