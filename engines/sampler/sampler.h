/* sampler/sampler.h - from a row of logits to the next token.
 *
 * A pure function of (seed, index, logits, history, mask): nothing is remembered
 * between calls, so that a run continued elsewhere goes on as one run would have, and
 * so that every device can implement the same thing.  The definition, in order:
 *
 *  1. raw[i] = logits[i]; ids whose `usable` bit is clear do not exist below.
 *     Log probabilities reported to clients are log_softmax(raw): the model's own
 *     distribution, before penalties, bias, mask, temperature and filters.
 *  2. repetition_penalty r, for every id that occurs in the history (prompt and
 *     generated): l = l > 0 ? l / r : l * r.  Then for ids generated c > 0 times:
 *     l -= presence_penalty + c * frequency_penalty.  Then l += logit_bias.
 *  3. ids whose mask bit is clear are removed.
 *  4. temperature 0, or the largest l is infinite: the largest l; equal values: the lowest
 *     id.  Done.
 *  5. x = (l - l_max) / temperature.  Ids are ranked by x descending, equal values by
 *     id ascending, and kept by three filters, in this order:
 *       top_k   the first top_k ranks;
 *       top_p   of those, the shortest leading run whose exp(x) add up to at least
 *               top_p of the sum over all of them (never fewer than one);
 *       min_p   of those, x >= log(min_p) (the most likely id has x = 0).
 *     exp(x) and its sums are taken in double precision or close to it: to 2e-10 of their
 *     value, in any order, and exactly where every x is 0.  So two devices may end a run of
 *     top_p at different ids, but only where a sum misses the share by so little, and then
 *     differ only if that id is sampled: less than once in 10^9 tokens.
 *  6. The token is the kept id with the largest x + g(seed, index, id), equal values:
 *     the lowest id, where g is Gumbel noise from a counter-based generator (below).
 *     That samples from softmax(x) over the kept ids, needs no running sum, and does
 *     not depend on the order in which a device visits the ids.
 *
 * Thread: any; the scratch belongs to one caller at a time.
 */
#ifndef SAMPLER_SAMPLER_H
#define SAMPLER_SAMPLER_H

#include <stdint.h>

#include "llm-router/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { SAMPLER_TOP_LOGPROBS_MAX = 20 };

/* In place of a result's id: the logits are no numbers, and the request ends with an error. */
#define SAMPLER_NO_ID UINT32_MAX

struct sampler_input {
    const struct lr_sampling *sampling; /* complete: missing members were set to zero */
    uint32_t index;         /* index of the token to sample: how many were generated */
    uint32_t prompt_count;  /* leading ids of history that are prompt */
    uint32_t history_count; /* prompt and generated */
    uint32_t reserved;
    const uint32_t *history;
    const uint32_t *mask; /* bit (i & 31) of mask[i >> 5]: legal next; NULL: all are */
};

struct sampler_result {
    uint32_t id;
    float logprob; /* set when sampling->logprobs; else 0 */
    uint32_t top_count;
    struct lr_logprob top[SAMPLER_TOP_LOGPROBS_MAX]; /* most likely first, ties by id */
};

/* Working memory of sampler_sample(), for one vocabulary size. */
struct sampler;
struct sampler *sampler_create(uint32_t vocab); /* NULL: no memory */
void sampler_destroy(struct sampler *sampler);

/* logits and usable cover the sampler's vocabulary.  A mask or bias that leaves no id is
 * ignored: the result is then the most likely usable id. */
void sampler_sample(struct sampler *sampler, const float *logits, const uint32_t *usable,
                    const struct sampler_input *how, struct sampler_result *out);

/* ---- noise ----
 *
 * Philox4x32-10 with key = seed (low word first) and counter = (id / 4, index, 0, 0);
 * output word id % 4 gives u = ((word >> 9) + 0.5) / 2^23, exact in float32, in (0, 1),
 * and g = -log(-log(u)). */
void sampler_philox(uint64_t seed, uint32_t counter0, uint32_t counter1, uint32_t out[4]);
float sampler_gumbel(uint32_t word);

#ifdef __cplusplus
}
#endif

#endif
