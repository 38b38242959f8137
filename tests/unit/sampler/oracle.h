/* tests/unit/sampler/oracle.h - a direct implementation of sampler.h's definition: every id is
 * ranked by sorting, every sum is libm's exp added up in rank order.  Slow, and shares only the
 * noise with the tested code. */
#ifndef TESTS_SAMPLER_ORACLE_H
#define TESTS_SAMPLER_ORACLE_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engines/sampler/sampler.h"

struct oracle_id {
    float x;
    uint32_t id;
};

static inline bool oracle_bit(const uint32_t *words, uint32_t i)
{
    return words == NULL || (words[i >> 5] >> (i & 31) & 1u) != 0;
}

static inline int oracle_by_rank(const void *a, const void *b)
{
    const struct oracle_id *x = a, *y = b;

    if (x->x != y->x)
        return x->x > y->x ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The first of the largest numbers; the last id if there is no number. */
static inline uint32_t oracle_largest(const float *l, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (l[i] > l[best] || isnan(l[best]))
            best = i;
    return best;
}

/* Steps 2 and 3. */
static inline void oracle_adjust(float *l, uint32_t n, const uint32_t *usable,
                                 const struct sampler_input *how)
{
    const struct lr_sampling *p = how->sampling;
    float r = p->repetition_penalty > 0 ? p->repetition_penalty : 1;
    uint32_t *seen = calloc(n, sizeof(*seen)), *made = calloc(n, sizeof(*made));

    for (uint32_t i = 0; i < how->history_count; i++) {
        if (how->history[i] >= n)
            continue;
        seen[how->history[i]] = 1;
        made[how->history[i]] += i >= how->prompt_count;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (seen[i] != 0)
            l[i] = l[i] > 0 ? l[i] / r : l[i] * r;
        if (made[i] != 0)
            l[i] -= p->presence_penalty + (float)made[i] * p->frequency_penalty;
    }
    for (uint32_t i = 0; i < p->logit_bias_count; i++)
        if (p->logit_bias[i].token < n)
            l[p->logit_bias[i].token] += p->logit_bias[i].bias;
    for (uint32_t i = 0; i < n; i++)
        if (!oracle_bit(usable, i) || !oracle_bit(how->mask, i))
            l[i] = -INFINITY;
    free(seen);
    free(made);
}

/* Step 5: ranks the available ids and returns how many are kept. */
static inline uint32_t oracle_filter(struct oracle_id *ranks, uint32_t n,
                                     const struct lr_sampling *p)
{
    double total = 0, sum = 0;
    uint32_t kept = 0;

    qsort(ranks, n, sizeof(*ranks), oracle_by_rank);
    if (p->top_k > 0 && p->top_k < n)
        n = p->top_k;
    if (p->top_p < 1) {
        for (uint32_t i = 0; i < n; i++)
            total += exp((double)ranks[i].x);
        while (kept < n && (kept == 0 || sum < (double)p->top_p * total))
            sum += exp((double)ranks[kept++].x);
        n = kept;
    }
    for (kept = 0; kept < n && (p->min_p <= 0 || ranks[kept].x >= logf(p->min_p)); kept++)
        ;
    return kept;
}

static inline uint32_t oracle_choose(float *l, const float *logits, uint32_t n,
                                     const uint32_t *usable, const struct sampler_input *how)
{
    const struct lr_sampling *p = how->sampling;

    memcpy(l, logits, n * sizeof(*l));
    oracle_adjust(l, n, usable, how);
    uint32_t likely = oracle_largest(l, n), found = 0;
    float top = l[likely], best = -INFINITY;
    if (!(top > -INFINITY)) {
        for (uint32_t i = 0; i < n; i++)
            l[i] = oracle_bit(usable, i) ? logits[i] : -INFINITY;
        return oracle_largest(l, n);
    }
    if (!(p->temperature > 0) || top == INFINITY)
        return likely;
    struct oracle_id *ranks = calloc(n, sizeof(*ranks));
    for (uint32_t i = 0; i < n; i++)
        if ((l[i] - top) / p->temperature > -INFINITY)
            ranks[found++] = (struct oracle_id){(l[i] - top) / p->temperature, i};
    uint32_t kept = oracle_filter(ranks, found, p);
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t words[4], id = ranks[i].id;
        sampler_philox(p->seed, id / 4, how->index, words);
        float value = ranks[i].x + sampler_gumbel(words[id % 4]);
        if (value > best || (value == best && id < likely)) {
            best = value;
            likely = id;
        }
    }
    free(ranks);
    return likely;
}

/* Step 1. */
static inline void oracle_report(const float *logits, uint32_t n, const uint32_t *usable,
                                 uint32_t wanted, struct sampler_result *out)
{
    float top = -INFINITY;
    double sum = 0;

    for (uint32_t i = 0; i < n; i++)
        if (oracle_bit(usable, i) && logits[i] > top)
            top = logits[i];
    for (uint32_t i = 0; i < n; i++)
        if (oracle_bit(usable, i))
            sum += exp((double)(logits[i] - top));
    double base = (double)top + log(sum);
    out->logprob = (float)((double)logits[out->id] - base);
    for (out->top_count = 0; out->top_count < wanted; out->top_count++) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            bool listed = !oracle_bit(usable, i);
            for (uint32_t j = 0; j < out->top_count && !listed; j++)
                listed = out->top[j].token == i;
            if (!listed && (best == n || logits[i] > logits[best]))
                best = i;
        }
        if (best == n)
            break;
        out->top[out->top_count] =
            (struct lr_logprob){best, (float)((double)logits[best] - base)};
    }
}

static inline void oracle_sample(const float *logits, uint32_t n, const uint32_t *usable,
                                 const struct sampler_input *how, struct sampler_result *out)
{
    const struct lr_sampling *p = how->sampling;
    float *l = calloc(n, sizeof(*l));

    *out = (struct sampler_result){.id = oracle_choose(l, logits, n, usable, how)};
    if (p->logprobs || p->top_logprobs > 0)
        oracle_report(logits, n, usable, p->top_logprobs, out);
    free(l);
}

#endif
