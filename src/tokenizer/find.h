/* tokenizer/find.h - the matches of a pattern in a text, one after the other.
 *
 * In the order and with the empty matches of the reference: an empty match counts unless it
 * directly follows the match before it.
 */
#ifndef TOKENIZER_FIND_H
#define TOKENIZER_FIND_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"

/* PCRE2's working memory for one call.  Thread: the caller's. */
struct finder {
    void *match;   /* owned pcre2_match_data; NULL until it is needed */
    void *context; /* owned pcre2_match_context */
    void *stack;   /* owned pcre2_jit_stack */
};

void tokenizer_finder_free(struct finder *f);

struct found {
    size_t start; /* of the match */
    size_t end;
    size_t next; /* where to search from */
    bool any;    /* there was a match before */
    bool at_end; /* there are no more */
};

/* The next match into *m, which begins as {0}; sets m->at_end when there is none. */
LR_MUST_USE lr_code tokenizer_find_next(struct finder *f, const void *code, struct lr_str text,
                                        struct found *m, struct lr_error *err);

#endif
