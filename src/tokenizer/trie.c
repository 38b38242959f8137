/* tokenizer/trie.c - see trie.h. */
#include "tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#include "base/os/memory.h"

enum { FIRST_BITS = 12 };

bool tokenizer_trie_init(struct trie *t)
{
    *t = (struct trie){.count = 1, .bits = FIRST_BITS, .capacity = 1u << (FIRST_BITS - 1)};
    t->edges = lr_table_alloc(sizeof(*t->edges) << t->bits);
    t->tokens = malloc(t->capacity * sizeof(*t->tokens));
    if (t->edges == NULL || t->tokens == NULL)
        return false;
    t->tokens[0] = TRIE_NONE;
    return true;
}

void tokenizer_trie_free(struct trie *t)
{
    free(t->edges);
    free(t->tokens);
}

static void insert(uint64_t *edges, uint32_t bits, uint64_t edge)
{
    uint64_t mask = ((uint64_t)1 << bits) - 1;
    uint64_t i = trie_slot((uint32_t)(edge >> 36), (unsigned char)(edge >> 28), bits);
    while (edges[i] != 0)
        i = (i + 1) & mask;
    edges[i] = edge;
}

/* Doubles the tables: at most half of the edges' table is used. */
static bool grow(struct trie *t)
{
    uint64_t *edges = lr_table_alloc(sizeof(*edges) << (t->bits + 1));
    uint32_t *tokens = realloc(t->tokens, 2 * (size_t)t->capacity * sizeof(*tokens));
    if (tokens != NULL)
        t->tokens = tokens;
    if (edges == NULL || tokens == NULL) {
        free(edges);
        return false;
    }
    for (size_t i = 0; i < (size_t)1 << t->bits; i++)
        if (t->edges[i] != 0)
            insert(edges, t->bits + 1, t->edges[i]);
    free(t->edges);
    t->edges = edges;
    t->bits++;
    t->capacity *= 2;
    return true;
}

static uint32_t add_node(struct trie *t, uint32_t node, unsigned char byte)
{
    if (t->count == TRIE_MAX_NODES || (t->count == t->capacity && !grow(t)))
        return 0;
    uint32_t child = t->count++;
    t->tokens[child] = TRIE_NONE;
    if (node == 0)
        t->root_edges[byte] = child;
    else
        insert(t->edges, t->bits, (uint64_t)node << 36 | (uint64_t)byte << 28 | child);
    return child;
}

bool tokenizer_trie_add(struct trie *t, struct lr_str text, uint32_t id)
{
    uint32_t node = 0;
    for (size_t i = 0; i < text.len; i++) {
        unsigned char byte = (unsigned char)text.ptr[i];
        uint32_t child = trie_next(t, node, byte);
        node = child != 0 ? child : add_node(t, node, byte);
        if (node == 0)
            return false;
    }
    t->tokens[node] = id;
    return true;
}
