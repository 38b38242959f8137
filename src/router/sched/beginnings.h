/* router/sched/beginnings.h - which node has computed which beginning of a prompt.
 *
 * Engines keep what they computed of a prompt findable for the next one of the same key that
 * begins alike (docs/adr/0013), so a node that has served a conversation is cheaper for its
 * next turn.  Marks are digests of a prompt up to fixed places; a node that gets the prompt
 * is noted with each.  The table is small and forgets by overwriting, and nodes forget
 * without saying so: what it gives is an estimate, and a wrong one costs time only.
 *
 * Thread: marks are their maker's; the table is guarded by the router's lock.
 */
#ifndef ROUTER_SCHED_BEGINNINGS_H
#define ROUTER_SCHED_BEGINNINGS_H

#include "chat/prompt.h"

enum { ROUTER_MARKS_MAX = 104, ROUTER_BEGINNINGS = 1 << 16 };

/* Of one prompt. */
struct router_marks {
    uint32_t count;
    uint64_t total_bytes;
    struct {
        uint64_t digest;
        uint64_t bytes; /* up to here */
    } at[ROUTER_MARKS_MAX];
};

struct router_beginnings {
    uint64_t *noted; /* owned, ROUTER_BEGINNINGS of them; NULL: nothing is remembered */
};

void router_beginnings_init(
    struct router_beginnings *b); /* without memory: remembers nothing */
void router_beginnings_free(struct router_beginnings *b);

/* Whether a prompt is long enough to have any. */
bool router_marks_pay(const struct chat_prompt *prompt);
/* Only what is equal in model, scope and bytes has equal marks. */
void router_marks_make(struct router_marks *out, struct lr_str model, struct lr_str scope,
                       const struct chat_prompt *prompt);

/* `node` will have computed this prompt. */
void router_beginnings_note(struct router_beginnings *b, const void *node,
                            const struct router_marks *marks);
/* The share of the prompt, 0 to 1, that it has computed, as far as is known. */
double router_beginnings_share(const struct router_beginnings *b, const void *node,
                               const struct router_marks *marks);

#endif
