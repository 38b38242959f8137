/* sampler/sampler.c - the definition in sampler.h, step by step, on the host. */
#include "engines/sampler/sampler.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "engines/sampler/state.h"

#define IN_HISTORY (1u << 31)

/* ---- memory ---- */

static uint32_t whole_blocks(uint32_t count)
{
    return (count + SCAN_BLOCK - 1) / SCAN_BLOCK * SCAN_BLOCK;
}

struct sampler *sampler_create_with(uint32_t vocab, const struct scan_kernels *scan)
{
    struct sampler *s = calloc(1, sizeof(*s));
    uint32_t values = whole_blocks(vocab), peaks = whole_blocks(values / SCAN_BLOCK);

    if (s == NULL)
        return NULL;
    s->scan = scan;
    s->vocab = vocab;
    s->blocks = values / SCAN_BLOCK;
    s->values = calloc(values, sizeof(*s->values));
    s->peaks = calloc(peaks, sizeof(*s->peaks));
    s->counts = calloc(vocab, sizeof(*s->counts));
    s->touched = calloc(peaks / 64, sizeof(*s->touched));
    s->list_x = calloc(values, sizeof(*s->list_x));
    s->list_id = calloc(values, sizeof(*s->list_id));
    s->sums = calloc((SCAN_BUCKETS + 1) * SCAN_LANES, sizeof(*s->sums));
    if (s->values == NULL || s->peaks == NULL || s->counts == NULL || s->touched == NULL ||
        s->list_x == NULL || s->list_id == NULL || s->sums == NULL) {
        sampler_destroy(s);
        return NULL;
    }
    for (uint32_t i = s->blocks; i < peaks; i++)
        s->peaks[i] = -INFINITY;
    return s;
}

struct sampler *sampler_create(uint32_t vocab)
{
    const struct scan_kernels *avx2 = scan_kernels_avx2();

    return sampler_create_with(vocab, avx2 != NULL ? avx2 : scan_kernels_plain());
}

void sampler_destroy(struct sampler *s)
{
    if (s == NULL)
        return;
    free(s->values);
    free(s->peaks);
    free(s->counts);
    free(s->touched);
    free(s->list_x);
    free(s->list_id);
    free(s->sums);
    free(s);
}

/* ---- penalties, bias, mask ---- */

static bool bit(const uint32_t *words, uint32_t i)
{
    return words == NULL || (words[i >> 5] >> (i & 31) & 1u) != 0;
}

bool sampler_fill(struct sampler *s, const float *logits, const uint32_t *usable,
                  const uint32_t *mask)
{
    uint32_t words = (s->vocab + 31) / 32;
    float end[SCAN_BLOCK]; /* padding: not read from logits, and never legal */
    bool odd = false;

    for (uint32_t b = 0; b < s->blocks; b++) {
        uint32_t first = b * SCAN_BLOCK, w = first / 32, left = s->vocab - first;
        uint64_t legal = usable[w] & (mask != NULL ? mask[w] : UINT32_MAX);
        const float *in = logits + first;
        if (w + 1 < words)
            legal |= (uint64_t)(usable[w + 1] & (mask != NULL ? mask[w + 1] : UINT32_MAX))
                     << 32;
        if (left < SCAN_BLOCK) {
            memset(end, 0, sizeof(end));
            memcpy(end, in, left * sizeof(*in));
            in = end;
            legal &= ((uint64_t)1 << left) - 1;
        }
        s->peaks[b] = s->scan->mask(in, legal, s->values + first, &odd);
    }
    return odd;
}

static void touch(struct sampler *s, uint32_t id)
{
    uint32_t block = id / SCAN_BLOCK;

    s->touched[block / 64] |= (uint64_t)1 << block % 64;
}

/* Recomputes the peaks of blocks with changed values. */
static void renew_peaks(struct sampler *s)
{
    bool odd = false;

    for (uint32_t w = 0; w < (s->blocks + 63) / 64; w++) {
        for (; s->touched[w] != 0; s->touched[w] &= s->touched[w] - 1) {
            uint32_t b = w * 64 + (uint32_t)__builtin_ctzll(s->touched[w]);
            float *values = s->values + (size_t)b * SCAN_BLOCK;
            s->peaks[b] = s->scan->mask(values, UINT64_MAX, values, &odd);
        }
    }
}

static void penalise(struct sampler *s, const uint32_t *usable, const struct sampler_input *how)
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
        s->counts[id] =
            0; /* processes each id once, and leaves the counts zero for the next call */
        if (!bit(usable, id) || !bit(how->mask, id))
            continue;
        float *l = &s->values[id];
        *l = *l > 0 ? *l / repetition : *l * repetition;
        if (count > 0)
            *l -= p->presence_penalty + (float)count * p->frequency_penalty;
        touch(s, id);
    }
}

static bool wants_penalties(const struct lr_sampling *p)
{
    return (p->repetition_penalty > 0 && p->repetition_penalty != 1.0f) ||
           p->presence_penalty != 0 || p->frequency_penalty != 0;
}

/* Fills values with l; ids that must not be sampled get -infinity. */
static void sampler_prepare(struct sampler *s, const float *logits, const uint32_t *usable,
                            const struct sampler_input *how)
{
    const struct lr_sampling *p = how->sampling;

    (void)sampler_fill(s, logits, usable, how->mask);
    if (wants_penalties(p))
        penalise(s, usable, how);
    for (uint32_t i = 0; i < p->logit_bias_count; i++) {
        uint32_t id = p->logit_bias[i].token;
        if (id >= s->vocab || !bit(usable, id) || !bit(how->mask, id))
            continue;
        s->values[id] += p->logit_bias[i].bias;
        touch(s, id);
    }
    renew_peaks(s);
}

/* ---- the choice ---- */

/* The lowest id of the largest value; if no value is a number, the last id. */
static uint32_t largest(const struct sampler *s)
{
    float top = -INFINITY;
    uint32_t b = 0;

    for (uint32_t i = 0; i < s->blocks; i++)
        top = s->peaks[i] > top ? s->peaks[i] : top;
    while (b < s->blocks && s->peaks[b] != top)
        b++;
    for (uint32_t i = b * SCAN_BLOCK; i < s->vocab; i++)
        if (s->values[i] == top)
            return i;
    return s->vocab - 1;
}

/* The largest x + g within the border.  Visits the block of the most likely id first: the
 * higher the best value, the fewer ids can still beat it. */
static uint32_t choose_with_noise(const struct sampler *s, const struct scan_row *row,
                                  const struct sampler_input *how,
                                  const struct sampler_border *border, uint32_t likely)
{
    const struct lr_sampling *p = how->sampling;
    float floor = p->min_p > 0 ? logf(p->min_p) : -FLT_MAX;
    struct scan_noise n = {.seed = p->seed,
                           .index = how->index,
                           .low = floor > border->x ? floor : border->x,
                           .best = -INFINITY};
    uint32_t id = likely;

    scan_noise_keys(&n);
    for (uint32_t turn = 0; turn <= s->blocks; turn++) {
        uint32_t words[SCAN_BLOCK], b = turn == 0 ? likely / SCAN_BLOCK : turn - 1;
        float peak = scan_x(row, s->peaks[b]);
        if (!(peak >= n.low && peak + SCAN_NOISE_MAX >= n.best))
            continue;
        uint64_t found = s->scan->noise(row, b, &n, words);
        for (; found != 0; found &= found - 1) {
            uint32_t at = (uint32_t)__builtin_ctzll(found), i = b * SCAN_BLOCK + at;
            float x = scan_x(row, s->values[i]);
            if (x == border->x && i > border->id)
                continue;
            float value = x + sampler_gumbel(words[at]);
            if (value > n.best || (value == n.best && i < id)) {
                n.best = value;
                id = i;
            }
        }
    }
    return id;
}

/* Replaces l by x if most of the row will be read more than once, because division takes
 * time. */
static void sampler_scale(struct sampler *s, struct scan_row *row, float least)
{
    uint32_t often = 0;

    for (uint32_t b = 0; b < s->blocks; b++)
        often += scan_x(row, s->peaks[b]) >= least;
    if (often < s->blocks / 4)
        return;
    s->scan->scale(s->values, s->blocks, row->top, row->temperature);
    s->scan->scale(s->peaks, (s->blocks + SCAN_BLOCK - 1) / SCAN_BLOCK, row->top,
                   row->temperature);
    row->top = 0;
    row->temperature = 1;
}

static uint32_t sampler_choose(struct sampler *s, const float *logits, const uint32_t *usable,
                               const struct sampler_input *how)
{
    const struct lr_sampling *p = how->sampling;
    struct sampler_border border = {-FLT_MAX, UINT32_MAX};

    sampler_prepare(s, logits, usable, how);
    uint32_t likely = largest(s);
    float top = s->values[likely];
    if (!(top > -INFINITY)) { /* no id is legal, or the row has no numbers */
        (void)sampler_fill(s, logits, usable, NULL);
        return largest(s);
    }
    if (!(p->temperature > 0) || top == INFINITY)
        return likely;
    struct scan_row row = {.values = s->values,
                           .peaks = s->peaks,
                           .blocks = s->blocks,
                           .top = top,
                           .temperature = p->temperature};
    if (p->top_p < 1.0f && p->temperature != 1)
        sampler_scale(s, &row, sampler_least(s, p->top_p));
    if (p->top_k > 0 || p->top_p < 1.0f)
        border = sampler_filter(s, &row, p);
    return choose_with_noise(s, &row, how, &border, likely);
}

void sampler_sample(struct sampler *s, const float *logits, const uint32_t *usable,
                    const struct sampler_input *how, struct sampler_result *out)
{
    out->id = sampler_choose(s, logits, usable, how);
    out->logprob = 0;
    out->top_count = 0;
    if (how->sampling->logprobs || how->sampling->top_logprobs > 0)
        sampler_report(s, logits, usable, how->sampling, out);
}
