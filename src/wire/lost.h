/* wire/lost.h - what becomes of a generation whose worker died.
 *
 * The worker names the requests that a step computes for the first time (WIRE_ENTER) before the
 * step begins; these are its newcomers.  After a death the node decides which requests are
 * suspected and tells the owner of each (WIRE_LOST).  The owner holds the tokens, counts the
 * strikes and submits the generation again, here or on another node, with the entry that
 * WIRE_LOST asked for.
 */
#ifndef WIRE_LOST_H
#define WIRE_LOST_H

#include "wire/frame.h"

/* A generation with so many strikes is not tried again anywhere. */
enum { WIRE_STRIKES_MAX = 2 };

/* Tokens behind which a generation that came in a cohort is no longer suspected. */
enum { WIRE_PROBATION_TOKENS = 32 };

/* The cohort of those that may enter together and at once. */
enum { WIRE_COHORT_TOGETHER = 0 };

/* Requests in one WIRE_ENTER. */
enum { WIRE_ENTER_MAX = 4096 };

/* How a generation goes into a worker. */
#define WIRE_ENTRIES(X)                                                                        \
    X(NEW, "new")         /* never computed: a newcomer of its first step */                   \
    X(RESUMED, "resumed") /* computed before, above suspicion: enters at once */               \
    X(SUSPECT, "suspect") /* was a newcomer of a fatal step: enters as the only newcomer */    \
    X(COHORT, "cohort")   /* one of a group under suspicion: enters when the group before it   \
                           * has come further */

enum wire_entry {
#define X(name, text) WIRE_ENTRY_##name,
    WIRE_ENTRIES(X)
#undef X
};

struct wire_lost {
    bool has_strike;       /* the death is blamed on this generation alone */
    enum wire_entry entry; /* how it is to be submitted again */
    uint32_t cohort;       /* with WIRE_ENTRY_COHORT: which group */
    struct lr_error error; /* how the worker died */
};

const char *wire_entry_name(enum wire_entry entry);
bool wire_entry_parse(struct lr_str text, enum wire_entry *out);

void wire_lost_encode(struct lr_buf *buf, const struct wire_lost *m);
LR_MUST_USE lr_code wire_lost_decode(struct lr_str body, struct wire_lost *out,
                                     struct lr_error *err);

/* Of at most WIRE_ENTER_MAX ids. */
void wire_enter_encode(struct lr_buf *buf, const uint64_t *ids, size_t count);
/* *count is how many ids the body holds, 0 for a body that is none. */
size_t wire_enter_count(struct lr_str body);
uint64_t wire_enter_id(struct lr_str body, size_t index);

/* The error of a generation that has used up its strikes. */
lr_code wire_lost_fail(struct lr_error *err, const struct lr_error *how);

#endif
