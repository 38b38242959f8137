/* prefix/index.h - which of several places has computed which prefix of a prompt: for a
 * router its nodes, for a node the replicas of a model.
 *
 * Engines keep what they computed of a prompt for the next prompt of the same key with the same
 * prefix (docs/adr/0013), so a place that has served a conversation is cheaper for its next
 * turn.  A prompt is hashed up to fixed positions; the index notes each hash for the place that
 * gets the prompt.  The index is small and forgets by overwriting, and engines forget without
 * telling: what the index says is an estimate, and a wrong one costs time only.
 *
 * Thread: hashes belong to the thread that makes them; the index belongs to one thread, or a
 * lock of its owner guards the index.
 */
#ifndef PREFIX_INDEX_H
#define PREFIX_INDEX_H

#include "chat/prompt.h"

enum { PREFIX_HASHES_MAX = 104, PREFIX_ENTRIES = 1 << 16 };

/* Of one prompt. */
struct prefix_hashes {
    uint32_t count;
    uint64_t total_bytes;
    struct {
        uint64_t digest;
        uint64_t bytes; /* up to here */
    } at[PREFIX_HASHES_MAX];
};

struct prefix_index {
    uint64_t *noted; /* owned, PREFIX_ENTRIES of them; NULL: nothing is remembered */
};

/* Without memory the index stays empty. */
void prefix_index_init(struct prefix_index *index);
void prefix_index_free(struct prefix_index *index);

/* A prompt is long enough to have a prefix hash. */
bool prefix_fits(const struct chat_prompt *prompt);
/* Prompts have equal hashes only where model, scope and bytes are equal. */
void prefix_hashes_make(struct prefix_hashes *out, struct lr_str model, struct lr_str scope,
                        const struct chat_prompt *prompt);

/* `place` will have computed this prompt. */
void prefix_index_note(struct prefix_index *index, const void *place,
                       const struct prefix_hashes *hashes);
/* The part of the prompt, 0 to 1, that the place has computed, as far as the index knows. */
double prefix_index_share(const struct prefix_index *index, const void *place,
                          const struct prefix_hashes *hashes);

#endif
