/* native/cpu/route.c - which experts compute a token, and with which weights. */
#include <string.h>

#include "engines/native/cpu/cpu.h"
#include "engines/native/cpu/scalar.h"

enum { EXPERTS_MAX = 4096 };
static const float never = -3.0e38f;

static void softmax(float *x, uint32_t n)
{
    float top = x[0], sum = 0;

    for (uint32_t i = 1; i < n; i++)
        top = x[i] > top ? x[i] : top;
    for (uint32_t i = 0; i < n; i++) {
        x[i] = scalar_exp(x[i] - top);
        sum += x[i];
    }
    for (uint32_t i = 0; i < n; i++)
        x[i] /= sum;
}

/* The index of the largest value; equal values: the first. */
static uint32_t largest(const float *x, uint32_t n)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

/* Only the best groups stay; a group counts by its two largest scores, or by its largest. */
static void keep_groups(const struct native_route *how, float *score)
{
    uint32_t size = how->experts / how->groups;
    float of_group[EXPERTS_MAX];
    bool kept[EXPERTS_MAX] = {false};

    for (uint32_t g = 0; g < how->groups; g++) {
        float first = never, second = never;
        for (uint32_t i = g * size; i < (g + 1) * size; i++) {
            float v = score[i];
            second = v > first ? first : v > second ? v : second;
            first = v > first ? v : first;
        }
        of_group[g] = size > 1 && !how->by_best ? first + second : first;
    }
    for (uint32_t n = 0; n < how->group_count; n++) {
        uint32_t g = largest(of_group, how->groups);
        kept[g] = true;
        of_group[g] = never;
    }
    for (uint32_t i = 0; i < how->experts; i++)
        score[i] = kept[i / size] ? score[i] : never;
}

/* A chosen expert's weight is its softmax among the scores near its own. */
static void sparsemixer(const struct native_route *how, const float *logits, float *left,
                        uint32_t *choice, float *weight)
{
    memcpy(left, logits, how->experts * sizeof(*left));
    for (uint32_t n = 0; n < how->chosen; n++) {
        uint32_t best = largest(left, how->experts);
        float top = left[best], sum = 0;
        for (uint32_t i = 0; i < how->experts; i++) {
            float size = logits[i] < 0 ? -logits[i] : logits[i];
            float unit = size > top ? size : top;
            if (left[i] > never && !((top - logits[i]) / unit > 2 * how->jitter))
                sum += scalar_exp(left[i] - top);
        }
        choice[n] = best;
        weight[n] = 1.0f / sum;
        left[best] = never;
    }
}

static void choose(const struct native_route *how, float *score, uint32_t *choice)
{
    if (how->groups > 1 && how->group_count < how->groups)
        keep_groups(how, score);
    for (uint32_t n = 0; n < how->chosen; n++) {
        choice[n] = largest(score, how->experts);
        score[choice[n]] = -3.3e38f;
    }
}

static void weigh(const struct native_route *how, const float *scales, const uint32_t *choice,
                  float *weight)
{
    float sum = 0;

    for (uint32_t n = 0; n < how->chosen; n++)
        sum += weight[n];
    if (how->epsilon < 0)
        sum = sum < -how->epsilon ? -how->epsilon : sum;
    else
        sum += how->epsilon;
    for (uint32_t n = 0; n < how->chosen; n++) {
        if (how->normalize)
            weight[n] /= sum;
        weight[n] *= how->scale;
        if (scales != NULL)
            weight[n] *= scales[choice[n]];
    }
}

void native_route_rows(const struct native_run *run, uint32_t from, uint32_t to)
{
    const struct native_op *op = run->op;
    const struct native_route *how = &op->route;
    const float *bias = native_values(run, op->vector[0]),
                *scales = native_values(run, op->vector[1]);
    float score[EXPERTS_MAX], sorted[EXPERTS_MAX];
    uint32_t choice[64];

    for (uint32_t t = from; t < to; t++) {
        const float *logits = native_row(run, op->in[0], t);
        float *weight = native_row(run, op->out, t);
        memcpy(score, logits, how->experts * sizeof(*score));
        if (how->score == NATIVE_SOFTMAX)
            softmax(score, how->experts);
        else if (how->score == NATIVE_SIGMOID_SCORE)
            run->b->kernels->act(NATIVE_SIGMOID, score, how->experts);
        for (uint32_t i = 0; i < how->experts; i++)
            sorted[i] = score[i] + (bias != NULL ? bias[i] : 0.0f);
        if (how->score == NATIVE_SPARSEMIXER) {
            sparsemixer(how, logits, sorted, choice, weight);
        } else {
            choose(how, sorted, choice);
            for (uint32_t n = 0; n < how->chosen; n++)
                weight[n] = score[choice[n]];
        }
        weigh(how, scales, choice, weight);
        memcpy(weight + how->chosen, choice, how->chosen * sizeof(*choice));
    }
}
