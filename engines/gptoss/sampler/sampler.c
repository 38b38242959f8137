/* gptoss/sampler/sampler.c - the definition in sampler.h, step by step, on the host. */
#include "engines/gptoss/sampler/sampler.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* No noise is larger: -log(-log(1 - 2^-24)), rounded up. */
#define GUMBEL_MAX 16.64f

struct candidate {
    float x;
    uint32_t id;
};

struct gptoss_sampler {
    uint32_t vocab;
    float *values;          /* l, then x; -infinity: not there */
    uint32_t *counts;       /* all zero between calls */
    struct candidate *heap; /* of the filters */
};

#define IN_HISTORY (1u << 31)

struct gptoss_sampler *gptoss_sampler_create(uint32_t vocab)
{
    struct gptoss_sampler *s = calloc(1, sizeof(*s));

    if (s == NULL)
        return NULL;
    s->vocab = vocab;
    s->values = calloc(vocab, sizeof(*s->values));
    s->counts = calloc(vocab, sizeof(*s->counts));
    s->heap = calloc(vocab, sizeof(*s->heap));
    if (s->values == NULL || s->counts == NULL || s->heap == NULL) {
        gptoss_sampler_destroy(s);
        return NULL;
    }
    return s;
}

void gptoss_sampler_destroy(struct gptoss_sampler *s)
{
    if (s == NULL)
        return;
    free(s->values);
    free(s->counts);
    free(s->heap);
    free(s);
}

static bool bit(const uint32_t *words, uint32_t i)
{
    return (words[i >> 5] >> (i & 31) & 1u) != 0;
}

/* ---- log probabilities of the raw row ---- */

static void insert_top(struct gptoss_sampled *out, uint32_t wanted, uint32_t id, float logit)
{
    uint32_t at = out->top_count;

    if (at == wanted && !(logit > out->top[at - 1].logprob))
        return;
    if (at < wanted)
        out->top_count++;
    else
        at--;
    for (; at > 0 && logit > out->top[at - 1].logprob; at--)
        out->top[at] = out->top[at - 1];
    out->top[at] = (struct lr_logprob){id, logit};
}

/* The top list holds logits until the last loop turns them into log probabilities. */
static void report(const struct gptoss_sampler *s, const float *logits, const uint32_t *usable,
                   const struct lr_sampling *how, struct gptoss_sampled *out)
{
    uint32_t wanted = how->top_logprobs < GPTOSS_TOP_LOGPROBS_MAX ? how->top_logprobs
                                                                  : GPTOSS_TOP_LOGPROBS_MAX;
    float top = -INFINITY;
    double sum = 0;

    for (uint32_t i = 0; i < s->vocab; i++)
        if (bit(usable, i) && logits[i] > top)
            top = logits[i];
    for (uint32_t i = 0; i < s->vocab; i++) {
        if (!bit(usable, i))
            continue;
        sum += (double)expf(logits[i] - top);
        if (wanted > 0)
            insert_top(out, wanted, i, logits[i]);
    }
    double base = (double)top + log(sum);
    out->logprob = (float)((double)logits[out->id] - base);
    for (uint32_t i = 0; i < out->top_count; i++)
        out->top[i].logprob = (float)((double)out->top[i].logprob - base);
}

/* ---- penalties, bias, mask ---- */

static void penalise(struct gptoss_sampler *s, const struct gptoss_sample *how)
{
    const struct lr_sampling *p = how->sampling;
    float repetition = p->repetition_penalty > 0 ? p->repetition_penalty : 1.0f;

    for (uint32_t i = 0; i < how->history_count; i++) {
        uint32_t id = how->history[i];
        if (id >= s->vocab)
            continue;
        s->counts[id] |= IN_HISTORY;
        s->counts[id] += i >= how->prompt_count ? 1 : 0;
    }
    for (uint32_t i = 0; i < how->history_count; i++) {
        uint32_t id = how->history[i];
        if (id >= s->vocab || s->counts[id] == 0)
            continue;
        uint32_t count = s->counts[id] & ~IN_HISTORY;
        float *l = &s->values[id];
        *l = *l > 0 ? *l / repetition : *l * repetition;
        if (count > 0)
            *l -= p->presence_penalty + (float)count * p->frequency_penalty;
        s->counts[id] = 0; /* once for each id, and clean for the next call */
    }
}

static bool wants_penalties(const struct lr_sampling *p)
{
    return (p->repetition_penalty > 0 && p->repetition_penalty != 1.0f) ||
           p->presence_penalty != 0 || p->frequency_penalty != 0;
}

/* Fills values with l; ids that may not be drawn get -infinity. */
static void prepare(struct gptoss_sampler *s, const float *logits, const uint32_t *usable,
                    const struct gptoss_sample *how)
{
    const struct lr_sampling *p = how->sampling;

    memcpy(s->values, logits, s->vocab * sizeof(*logits));
    if (wants_penalties(p))
        penalise(s, how);
    for (uint32_t i = 0; i < p->logit_bias_count; i++)
        if (p->logit_bias[i].token < s->vocab)
            s->values[p->logit_bias[i].token] += p->logit_bias[i].bias;
    for (uint32_t w = 0; w < (s->vocab + 31) / 32; w++) {
        uint32_t legal = usable[w] & (how->mask != NULL ? how->mask[w] : UINT32_MAX);
        if (legal == UINT32_MAX)
            continue;
        for (uint32_t i = w * 32; i < s->vocab && i < w * 32 + 32; i++)
            if ((legal >> (i & 31) & 1u) == 0)
                s->values[i] = -INFINITY;
    }
}

static uint32_t largest(const float *values, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        if (values[i] > values[best] || values[best] != values[best])
            best = i;
    return best;
}

/* ---- filters ---- */

static bool ranks_before(struct candidate a, struct candidate b)
{
    return a.x > b.x || (a.x == b.x && a.id < b.id);
}

static void sift(struct candidate *heap, uint32_t n, uint32_t at)
{
    struct candidate moving = heap[at];

    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= n)
            break;
        if (child + 1 < n && ranks_before(heap[child + 1], heap[child]))
            child++;
        if (!ranks_before(heap[child], moving))
            break;
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = moving;
}

/* Moves candidates to the end of the heap array in rank order, the first at heap[n - 1],
 * and stops after `most` of them or once their weight reaches `enough`; at least one. */
static uint32_t take_ranks(struct candidate *heap, uint32_t n, uint32_t most, double enough)
{
    uint32_t taken = 0;
    double sum = 0;

    while (taken < n && (taken == 0 || (taken < most && sum < enough))) {
        uint32_t last = n - 1 - taken;
        struct candidate first = heap[0];
        heap[0] = heap[last];
        heap[last] = first;
        sift(heap, last, 0);
        sum += exp((double)first.x);
        taken++;
    }
    return taken;
}

/* Leaves in values only what top_k and top_p keep. */
static void keep_likely(struct gptoss_sampler *s, const struct lr_sampling *p)
{
    struct candidate *heap = s->heap;
    uint32_t n = 0, taken;
    double total = 0;

    for (uint32_t i = 0; i < s->vocab; i++)
        if (s->values[i] > -INFINITY)
            heap[n++] = (struct candidate){s->values[i], i};
    if (n == 0)
        return; /* not numbers: draw() falls back on its own */
    for (uint32_t i = n / 2; i-- > 0;)
        sift(heap, n, i);
    taken = n;
    if (p->top_k > 0 && p->top_k < n) {
        taken = take_ranks(heap, n, p->top_k, INFINITY);
        for (uint32_t i = 0; i < taken; i++)
            total += exp((double)heap[n - 1 - i].x);
    } else {
        for (uint32_t i = 0; i < n; i++)
            total += exp((double)heap[i].x);
    }
    if (p->top_p < 1.0f) {
        double enough = (double)p->top_p * total;
        if (taken == n) {
            taken = take_ranks(heap, n, n, enough);
        } else {
            double sum = 0;
            uint32_t kept = 0;
            while (kept < taken && (kept == 0 || sum < enough))
                sum += exp((double)heap[n - 1 - kept++].x);
            taken = kept;
        }
    } else if (taken == n) {
        return;
    }
    for (uint32_t i = 0; i < s->vocab; i++)
        s->values[i] = -INFINITY;
    for (uint32_t i = 0; i < taken; i++)
        s->values[heap[n - 1 - i].id] = heap[n - 1 - i].x;
}

/* ---- the draw ---- */

static uint32_t draw(const struct gptoss_sampler *s, uint64_t seed, uint32_t index, float floor)
{
    float best = -INFINITY;
    uint32_t id = largest(s->values, s->vocab);

    for (uint32_t i = 0; i < s->vocab; i += 4) {
        uint32_t words[4], end = i + 4 < s->vocab ? i + 4 : s->vocab;
        bool needed = false;
        /* An id that could not win with the largest noise needs none. */
        for (uint32_t j = i; j < end; j++)
            needed = needed || (s->values[j] >= floor && s->values[j] + GUMBEL_MAX >= best);
        if (!needed)
            continue;
        gptoss_philox(seed, i / 4, index, words);
        for (uint32_t j = i; j < end; j++) {
            if (!(s->values[j] >= floor) || s->values[j] == -INFINITY)
                continue;
            float value = s->values[j] + gptoss_gumbel(words[j - i]);
            if (value > best) {
                best = value;
                id = j;
            }
        }
    }
    return id;
}

static uint32_t choose(struct gptoss_sampler *s, const float *logits, const uint32_t *usable,
                       const struct gptoss_sample *how)
{
    const struct lr_sampling *p = how->sampling;

    prepare(s, logits, usable, how);
    uint32_t best = largest(s->values, s->vocab);
    float top = s->values[best];
    if (!(top > -INFINITY)) { /* nothing is legal, or the row is not numbers */
        memcpy(s->values, logits, s->vocab * sizeof(*logits));
        for (uint32_t i = 0; i < s->vocab; i++)
            if (!bit(usable, i))
                s->values[i] = -INFINITY;
        return largest(s->values, s->vocab);
    }
    if (!(p->temperature > 0))
        return best;
    for (uint32_t i = 0; i < s->vocab; i++)
        s->values[i] = (s->values[i] - top) / p->temperature;
    if (p->top_k > 0 || p->top_p < 1.0f)
        keep_likely(s, p);
    return draw(s, p->seed, how->index, p->min_p > 0 ? logf(p->min_p) : -INFINITY);
}

void gptoss_sample(struct gptoss_sampler *s, const float *logits, const uint32_t *usable,
                   const struct gptoss_sample *how, struct gptoss_sampled *out)
{
    out->id = choose(s, logits, usable, how);
    out->logprob = 0;
    out->top_count = 0;
    if (how->sampling->logprobs || how->sampling->top_logprobs > 0)
        report(s, logits, usable, how->sampling, out);
}
