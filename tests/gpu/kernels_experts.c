/* tests/gpu/kernels_experts.c - the experts of a layer: per assignment (1 to 4 tokens), per
 * expert (5 to 64) and in tiles (more; few or many tokens of an expert), for choices that are
 * spread, that crowd on one expert, and that leave experts without tokens. */
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fixture.h"
#include "tests/gpu/reference.h"

enum choices { SPREAD, CROWDED, HALF, CHOICES };
static const char *const choice_names[] = {"spread", "crowded", "half unused"};

/* topk different experts a row. */
static void choose(const struct model_config *c, struct test_random *r, enum choices how,
                   uint32_t rows, uint32_t *choice, float *weight)
{
    uint32_t topk = c->experts_per_token, order[CUDA_EXPERTS_MAX];
    uint32_t usable = how == HALF && c->experts / 2 >= topk ? c->experts / 2 : c->experts;
    for (uint32_t i = 0; i < rows; i++) {
        float sum = 0;
        for (uint32_t e = 0; e < c->experts; e++)
            order[e] = how == HALF && usable < c->experts ? e * 2 : e;
        for (uint32_t k = 0; k < topk; k++) {
            uint32_t j = how == CROWDED ? k : k + test_random_below(r, usable - k),
                     e = order[j];
            order[j] = order[k];
            order[k] = choice[i * topk + k] = e;
            sum += weight[i * topk + k] = 0.1f + (float)test_random_below(r, 1000) / 1000;
        }
        for (uint32_t k = 0; k < topk; k++)
            weight[i * topk + k] /= sum;
    }
}

/* Every assignment of one matrix, expert by expert: y[assignment][rows of e]. */
static void run_experts(const struct model_config *c, const struct model_experts *e,
                        const uint32_t *choice, uint32_t pairs, const double *x, double *y)
{
    double *in = test_alloc((size_t)pairs * e->columns, 8),
           *out = test_alloc((size_t)pairs * e->rows, 8);
    uint32_t *list = test_alloc(pairs, 4);
    for (uint32_t expert = 0; expert < c->experts; expert++) {
        uint32_t count = 0;
        for (uint32_t i = 0; i < pairs; i++)
            if (choice[i] == expert)
                list[count++] = i;
        for (uint32_t i = 0; i < count; i++)
            memcpy(in + (size_t)i * e->columns, x + (size_t)list[i] * e->columns,
                   e->columns * 8);
        if (count != 0)
            reference_expert(e, expert, in, count, out);
        for (uint32_t i = 0; i < count; i++)
            memcpy(y + (size_t)list[i] * e->rows, out + (size_t)i * e->rows, e->rows * 8);
    }
    free(in), free(out), free(list);
}

struct expert_case {
    uint32_t rows, pairs;
    uint32_t *choice;
    float *weight, *residual, *got;
    uint16_t *normed, *inner;
    double *x, *up, *inner_want, *want;
};

static void case_open(struct expert_case *t, const struct model_config *c, uint32_t rows)
{
    uint32_t pairs = rows * c->experts_per_token;
    size_t cells = (size_t)rows * c->hidden, inner = (size_t)pairs * c->intermediate;
    size_t wide = (size_t)pairs * (c->hidden > c->intermediate ? c->hidden : c->intermediate);
    *t = (struct expert_case){.rows = rows,
                              .pairs = pairs,
                              .choice = test_alloc(pairs, 4),
                              .weight = test_alloc(pairs, 4),
                              .residual = test_alloc(cells, 4),
                              .got = test_alloc(cells, 4),
                              .normed = test_alloc(cells, 2),
                              .inner = test_alloc(inner, 2),
                              .x = test_alloc(wide, 8),
                              .up = test_alloc(inner * 2 + (size_t)pairs * c->hidden, 8),
                              .inner_want = test_alloc(inner, 8),
                              .want = test_alloc(cells, 8)};
}

static void case_close(struct expert_case *t)
{
    free(t->choice), free(t->weight), free(t->residual), free(t->got), free(t->normed);
    free(t->inner), free(t->x), free(t->up), free(t->inner_want), free(t->want);
}

/* The expected result of gate, up and SwiGLU; then of down, from the device's values. */
static void expect_experts(const struct fixture *fixture, struct expert_case *t)
{
    const struct model_config *c = fixture->config;
    const struct model_gptoss_layer *l = &fixture->model->layers[0];
    uint32_t topk = c->experts_per_token;
    for (uint32_t i = 0; i < t->pairs; i++)
        reference_widen(t->normed + (size_t)(i / topk) * c->hidden,
                        t->x + (size_t)i * c->hidden, c->hidden);
    run_experts(c, &l->gate_up, t->choice, t->pairs, t->x, t->up);
    for (size_t i = 0; i < (size_t)t->pairs * c->intermediate; i++)
        t->inner_want[i] = reference_swiglu(c, t->up[2 * i], t->up[2 * i + 1]) *
                           (double)t->weight[i / c->intermediate];

    /* The bias is multiplied by the routing weight here; the product already includes it. */
    struct model_experts down = l->down;
    uint16_t *none = test_alloc((size_t)down.rows * c->experts, 2);
    down.bias = none;
    reference_widen(t->inner, t->x, (size_t)t->pairs * c->intermediate);
    run_experts(c, &down, t->choice, t->pairs, t->x, t->up);
    free(none);
    for (uint32_t i = 0; i < t->rows; i++)
        for (uint32_t d = 0; d < c->hidden; d++) {
            double sum = (double)t->residual[(size_t)i * c->hidden + d];
            for (uint32_t k = i * topk; k < (i + 1) * topk; k++)
                sum += t->up[(size_t)k * c->hidden + d] +
                       (double)t->weight[k] *
                           test_from_bf16(l->down.bias[(size_t)t->choice[k] * c->hidden + d]);
            t->want[(size_t)i * c->hidden + d] = sum;
        }
}

/* Random inputs, copied to the device except for the residual, which a run adds to. */
static void case_put(struct fixture *fixture, struct expert_case *t, struct test_random *r,
                     enum choices how)
{
    const struct model_config *c = fixture->config;
    struct gptoss_backend *b = fixture->b;
    size_t cells = (size_t)t->rows * c->hidden;
    choose(c, r, how, t->rows, t->choice, t->weight);
    test_fill_bf16(r, t->normed, cells, 1);
    test_fill_float(r, t->residual, cells, 1);
    fixture_put_rows(fixture, b->ws.normed, t->normed, t->rows, t->rows, c->hidden);
    fixture_put(fixture, b->ws.choice, t->choice, t->pairs * 4);
    fixture_put(fixture, b->ws.weight, t->weight, t->pairs * 4);
}

/* The rows that the next layer begins with, if the kernel that adds up the experts makes
 * them. */
static void check_norm(struct fixture *fixture, const struct expert_case *t, const char *name)
{
    const struct model_config *c = fixture->config;
    struct gptoss_backend *b = fixture->b;
    const struct cuda_choices chosen =
        cuda_select_experts(&b->target, c, &b->layers[0].gate_up, &b->layers[0].down, t->rows);
    if (chosen.at[chosen.count - 1].operand != CUDA_ON_SUM)
        return;
    size_t cells = (size_t)t->rows * c->hidden;
    double *want = test_alloc(cells, 8);
    uint16_t *got = test_alloc(cells, 2);
    fixture_get(fixture, b->ws.normed, got, cells * 2);
    for (uint32_t i = 0; i < t->rows; i++)
        reference_norm(c, t->got + (size_t)i * c->hidden, fixture->model->layers[0].attn_norm,
                       want + (size_t)i * c->hidden);
    test_check(test_error_bf16(got, want, cells), TEST_LIMIT,
               "norm behind experts %s tokens %u", name, t->rows);
    free(want), free(got);
}

static void test_case(struct fixture *fixture, const char *name, struct test_random *r,
                      enum choices how, uint32_t rows)
{
    const struct model_config *c = fixture->config;
    struct gptoss_backend *b = fixture->b;
    struct expert_case t;
    struct lr_error err = {0};
    case_open(&t, c, rows);
    size_t cells = (size_t)rows * c->hidden, inner = (size_t)t.pairs * c->intermediate;
    case_put(fixture, &t, r, how);
    fixture_put(fixture, b->ws.residual, t.residual, cells * 4);
    fixture_poison(fixture, b->ws.inner, inner * 2);
    fixture_poison(fixture, b->ws.expert_out, (size_t)t.pairs * c->hidden * 4);
    test_must(cuda_launch_experts(b, &b->layers[0], rows, b->layers[0].attn_norm, &err), &err,
              name);
    fixture_get_rows(fixture, b->ws.inner, t.inner, rows, t.pairs, c->intermediate);
    fixture_get(fixture, b->ws.residual, t.got, cells * 4);
    expect_experts(fixture, &t);
    check_norm(fixture, &t, name);
    test_check(test_error_bf16(t.inner, t.inner_want, inner), TEST_LIMIT,
               "gate_up %s %s top %u of %u tokens %u", name, choice_names[how],
               c->experts_per_token, c->experts, rows);
    test_check(test_error_f32(t.got, t.want, cells), TEST_LIMIT,
               "down %s %s top %u of %u tokens %u", name, choice_names[how],
               c->experts_per_token, c->experts, rows);
    case_close(&t);
}

/* A kernel that reads shared memory while the next copy arrives there is nearly always right:
 * comparing the bits of many runs detects it. */
static void test_repeats(struct fixture *fixture, const char *name, struct test_random *r,
                         uint32_t rows)
{
    enum { RUNS = 300 };
    const struct model_config *c = fixture->config;
    struct gptoss_backend *b = fixture->b;
    struct expert_case first, t;
    struct lr_error err = {0};
    uint32_t other = 0;
    case_open(&first, c, rows);
    case_open(&t, c, rows);
    size_t cells = (size_t)rows * c->hidden, inner = (size_t)t.pairs * c->intermediate;
    case_put(fixture, &t, r, SPREAD);
    for (int run = 0; run < RUNS; run++) {
        struct expert_case *to = run == 0 ? &first : &t;
        fixture_put(fixture, b->ws.residual, t.residual, cells * 4);
        /* The results of the previous run must be overwritten by this one. */
        fixture_poison(fixture, b->ws.inner, inner * 2);
        fixture_poison(fixture, b->ws.expert_out, (size_t)t.pairs * c->hidden * 4);
        test_must(cuda_launch_experts(b, &b->layers[0], rows, NULL, &err), &err, name);
        fixture_get_rows(fixture, b->ws.inner, to->inner, rows, t.pairs, c->intermediate);
        fixture_get(fixture, b->ws.residual, to->got, cells * 4);
        if (run != 0)
            other += memcmp(first.inner, t.inner, inner * 2) != 0 ||
                     memcmp(first.got, t.got, cells * 4) != 0;
    }
    test_check((double)other, TEST_LIMIT, "experts %s: %d runs of %u tokens give the same bits",
               name, RUNS, rows);
    case_close(&first);
    case_close(&t);
}

void test_experts(struct fixture *fixture, const char *name, struct test_random *r,
                  uint32_t from)
{
    static const uint32_t counts[] = {1,  2,  3,  4,  5,  7,   8,   9,
                                      16, 17, 33, 64, 65, 128, 129, 300};
    /* Other tiles do not depend on the width, and the reference takes long: with the published
     * width only tokens that select the kernels for few tokens of an expert, and once others.
     */
    bool large = (uint64_t)fixture->config->hidden * fixture->config->intermediate > 4u << 20,
         hopper = fixture->b->target.has[CUDA_few_gate_up];
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        for (int how = 0; counts[i] >= from && how < CHOICES; how++)
            if (!large || counts[i] <= 65 ||
                (hopper && (counts[i] == 129 || (counts[i] == 300 && how == SPREAD))))
                test_case(fixture, name, r, (enum choices)how, counts[i]);
    if (large && from <= 64 && hopper)
        for (uint32_t rows = 8; rows <= 256; rows *= 2)
            test_repeats(fixture, name, r, rows);
}
