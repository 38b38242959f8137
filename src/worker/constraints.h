/* worker/constraints.h - the constrained outputs of live requests.
 *
 * An engine asks which tokens are legal before each token, and reports each token that it
 * sampled.  The worker follows the grammars, so that no engine needs grammar code.  The
 * vocabulary is read when the first constrained request comes.  Thread: main.
 */
#ifndef WORKER_CONSTRAINTS_H
#define WORKER_CONSTRAINTS_H

#include "grammar/grammar.h"
#include "llm-router/engine.h"
#include "wire/generate.h"

struct worker_constraint; /* of one request */

struct worker_constraints {
    struct grammar_vocab *vocab; /* owned; NULL until the first constrained request */
    struct worker_constraint
        *first; /* owned list, one for each constrained request that is live */
};

/* Compiles the constraint and follows it through the tokens that the client already has.
 * INVALID_ARGUMENT, UNSUPPORTED: the message says what is wrong with the constraint or these
 * tokens. */
LR_MUST_USE lr_code worker_constraints_add(struct worker_constraints *all,
                                           const struct lr_engine_api *api,
                                           const struct lr_engine_model *model,
                                           const struct wire_generate *g, struct lr_error *err);
/* Both ignore requests without a constraint. */
void worker_constraints_token(struct worker_constraints *all, uint64_t request, uint32_t id);
void worker_constraints_drop(struct worker_constraints *all, uint64_t request);

LR_MUST_USE lr_code worker_constraints_mask(struct worker_constraints *all, uint64_t request,
                                            uint32_t *mask, size_t words, struct lr_error *err);
void worker_constraints_free(struct worker_constraints *all);

#endif
