/* worker/constraints.h - the constrained outputs of live requests.
 *
 * An engine asks before each token which ones are legal, and tells each token it drew; the
 * grammars are here, once for all engines.  The vocabulary is looked at when the first
 * constrained request comes.
 * Thread: main.
 */
#ifndef WORKER_CONSTRAINTS_H
#define WORKER_CONSTRAINTS_H

#include "grammar/grammar.h"
#include "llm-router/engine.h"
#include "wire/generate.h"

struct worker_constraint; /* of one request */

struct worker_constraints {
    struct grammar_vocab *vocab;     /* owned; NULL until it is needed */
    struct worker_constraint *first; /* owned list: as many as requests are decoded at once */
};

/* Compiles the constraint and follows it through the tokens the client has already.
 *   INVALID_ARGUMENT, UNSUPPORTED  what is wrong with it, or with these tokens */
LR_MUST_USE lr_code worker_constraints_add(struct worker_constraints *all,
                                           const struct lr_engine_api *api,
                                           const struct lr_engine_model *model,
                                           const struct wire_generate *g, struct lr_error *err);
/* Requests that are not constrained are ignored by these two. */
void worker_constraints_token(struct worker_constraints *all, uint64_t request, uint32_t id);
void worker_constraints_drop(struct worker_constraints *all, uint64_t request);

LR_MUST_USE lr_code worker_constraints_mask(struct worker_constraints *all, uint64_t request,
                                            uint32_t *mask, size_t words, struct lr_error *err);
void worker_constraints_free(struct worker_constraints *all);

#endif
