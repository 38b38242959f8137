/* router/sched/prefix_index.h - which node has computed which prefix of a prompt.
 *
 * Engines keep what they computed of a prompt for the next prompt of the same key with the same
 * prefix (docs/adr/0013), so a node that has served a conversation is cheaper for its next
 * turn.  A prompt is hashed up to fixed positions; the index notes each hash for the node that
 * gets the prompt.  The index is small and forgets by overwriting, and nodes forget without
 * telling the router: what the index says is an estimate, and a wrong one costs time only.
 *
 * Thread: hashes belong to the thread that makes them; the router's lock guards the index.
 */
#ifndef ROUTER_SCHED_PREFIX_INDEX_H
#define ROUTER_SCHED_PREFIX_INDEX_H

#include "chat/prompt.h"

enum { ROUTER_PREFIX_HASHES_MAX = 104, ROUTER_PREFIX_ENTRIES = 1 << 16 };

/* Of one prompt. */
struct router_prefix_hashes {
    uint32_t count;
    uint64_t total_bytes;
    struct {
        uint64_t digest;
        uint64_t bytes; /* up to here */
    } at[ROUTER_PREFIX_HASHES_MAX];
};

struct router_prefix_index {
    uint64_t *noted; /* owned, ROUTER_PREFIX_ENTRIES of them; NULL: nothing is remembered */
};

/* Without memory the index stays empty. */
void router_prefix_index_init(struct router_prefix_index *index);
void router_prefix_index_free(struct router_prefix_index *index);

/* Whether a prompt is long enough to have a prefix hash. */
bool router_has_prefixes(const struct chat_prompt *prompt);
/* Prompts have equal hashes only where model, scope and bytes are equal. */
void router_prefix_hashes_make(struct router_prefix_hashes *out, struct lr_str model,
                               struct lr_str scope, const struct chat_prompt *prompt);

/* `node` will have computed this prompt. */
void router_prefix_index_note(struct router_prefix_index *index, const void *node,
                              const struct router_prefix_hashes *hashes);
/* The part of the prompt, 0 to 1, that the node has computed, as far as the index knows. */
double router_prefix_index_share(const struct router_prefix_index *index, const void *node,
                                 const struct router_prefix_hashes *hashes);

#endif
