/* wire/lost.h - how a generation continues after its worker died.
 *
 * Before a step begins, the worker names the requests that the step computes for the first time
 * (WIRE_ENTER): the step's newcomers.  After a worker's death the node decides which requests
 * are suspects and tells the owner of each generation (WIRE_LOST).  The owner holds the tokens,
 * counts the strikes and submits the generation again, here or on another node, with the entry
 * that WIRE_LOST asked for.
 */
#ifndef WIRE_LOST_H
#define WIRE_LOST_H

#include "wire/frame.h"

/* A generation with this number of strikes is not tried again on any node. */
enum { WIRE_STRIKES_MAX = 2 };

/* After this number of tokens, a generation that started in a cohort is no longer a suspect. */
enum { WIRE_PROBATION_TOKENS = 32 };

/* The cohort of generations that may enter together and at once. */
enum { WIRE_COHORT_TOGETHER = 0 };

/* Most requests in one WIRE_ENTER. */
enum { WIRE_ENTER_MAX = 4096 };

/* How a generation enters a worker. */
#define WIRE_ENTRIES(X)                                                                        \
    X(NEW, "new")         /* never computed: a newcomer of its first step */                   \
    X(RESUMED, "resumed") /* computed before, no suspect: enters at once */                    \
    X(SUSPECT, "suspect") /* was a newcomer of a fatal step: enters as the only newcomer */    \
    X(COHORT, "cohort")   /* member of a group of suspects: enters when the previous group has \
                             got further */

enum wire_entry {
#define X(name, text) WIRE_ENTRY_##name,
    WIRE_ENTRIES(X)
#undef X
};

struct wire_lost {
    bool has_strike;       /* only this generation can have caused the death */
    enum wire_entry entry; /* how to submit the generation again */
    uint32_t cohort;       /* with WIRE_ENTRY_COHORT: which group */
    struct lr_error error; /* how the worker died */
};

const char *wire_entry_name(enum wire_entry entry);
bool wire_entry_parse(struct lr_str text, enum wire_entry *out);

void wire_lost_encode(struct lr_buf *buf, const struct wire_lost *m);
LR_MUST_USE lr_code wire_lost_decode(struct lr_str body, struct wire_lost *out,
                                     struct lr_error *err);

/* At most WIRE_ENTER_MAX ids. */
void wire_enter_encode(struct lr_buf *buf, const uint64_t *ids, size_t count);
/* Number of ids in the body; 0 for a malformed body. */
size_t wire_enter_count(struct lr_str body);
uint64_t wire_enter_id(struct lr_str body, size_t index);

/* The error of a generation that has too many strikes. */
lr_code wire_lost_fail(struct lr_error *err, const struct lr_error *how);

#endif
