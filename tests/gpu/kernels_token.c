/* tests/gpu/kernels_token.c - the kernel that runs all layers of a single token, if the GPU has
 * it: one layer at a time, each step compared with its reference from the device's previous
 * values, over contexts that end within a page, at its end, behind the window, and in many
 * blocks; then several layers in one launch, because a layer's first weights are loaded during
 * the one before. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fixture.h"
#include "tests/gpu/reference.h"

/* After a rounding to bf16 that the test cannot see: a value in the middle may go either
 * way. */
#define HIDDEN_LIMIT 5e-4

/* As in token_exchange.cuh. */
enum { ROUND_OF_SUM = 2, ROUND_OF_PAIR = 0x4000 };

enum { TABLE = FIXTURE_CONTEXT / CUDA_PAGE_TOKENS, WIDTH = TOKEN_HEADS * 64 };

struct token_case {
    struct fixture *fixture;
    const struct cuda_layer *layer;
    const struct model_gptoss_layer *l;
    uint16_t *pool; /* pages of this layer's kind, as on the device */
    uint64_t page_bytes;
    uint32_t table[TABLE];
    uint32_t position, id;
    float qkv[2 * TOKEN_QKV_ROWS], out[2 * TOKEN_HIDDEN], residual[TOKEN_HIDDEN];
    uint32_t words[WIDTH]; /* of mixed, as on the device */
    uint16_t mixed[WIDTH], inner[TOKEN_TOPK * TOKEN_INNER];
    double q[WIDTH], wanted[WIDTH];
};

/* K (part 0) or V (part 1) of a position, in the host's copy. */
static uint16_t *key_at(const struct token_case *t, uint32_t part, uint32_t head,
                        uint32_t position)
{
    uint32_t page = t->table[position / CUDA_PAGE_TOKENS];
    return t->pool + page * (t->page_bytes / 2) +
           (size_t)t->layer->kind_index * 2 * TOKEN_KV_HEADS * CUDA_PAGE_TOKENS * 64 +
           (((size_t)part * TOKEN_KV_HEADS + head) * CUDA_PAGE_TOKENS +
            position % CUDA_PAGE_TOKENS) *
               64;
}

/* both: the table and its page serve layers of either kind. */
static void put_inputs(struct token_case *t, bool both)
{
    struct fixture *fixture = t->fixture;
    const struct gptoss_backend *b = fixture->b;
    uint32_t slot = t->table[t->position / CUDA_PAGE_TOKENS] * CUDA_PAGE_TOKENS +
                    t->position % CUDA_PAGE_TOKENS;
    const bool second = both || t->layer->sliding;
    const struct cuda_seq seq = {
        .position = t->position, .count = 1, .table_count = second ? TABLE : 0};
    /* The window's entries follow the full ones; a full layer reads only its own. */
    uint32_t tables[2 * TABLE];
    memset(tables, 0xFF, sizeof(tables));
    memcpy(tables + (second ? TABLE : 0), t->table, sizeof(t->table));
    if (both)
        memcpy(tables, t->table, sizeof(t->table));
    fixture_put(fixture, fixture_input(fixture, b->at.tokens), &t->id, 4);
    fixture_put(fixture, fixture_input(fixture, b->at.seqs), &seq, sizeof(seq));
    fixture_put(fixture, fixture_input(fixture, b->at.tables), tables, sizeof(tables));
    fixture_put(fixture, fixture_input(fixture, b->at.row_full), &slot, 4);
    fixture_put(fixture, fixture_input(fixture, b->at.row_window), &slot, 4);
}

/* Words that look like those of the previous layer: all ones except for the round bit `bit`
 * (token_exchange.cuh).  A read before the new value is written gives a wrong result. */
static void poison_old(struct fixture *fixture, const void *at, size_t bytes, uint32_t bit)
{
    static uint32_t words[2 * TOKEN_QKV_ROWS];
    uint32_t layers;
    fixture_get(fixture, fixture->b->token.sync + 2, &layers, 4);
    for (size_t i = 0; i < bytes / 4; i++)
        words[i] = layers % 2 != 0 ? UINT32_MAX : ~bit;
    fixture_put(fixture, at, words, bytes);
}

/* Runs layers of a table on the device; the last layer's results go to `t`. */
static void launch(struct token_case *t, const struct token_layer *layers, uint32_t count)
{
    struct fixture *fixture = t->fixture;
    struct gptoss_backend *b = fixture->b;
    struct token_args all = b->token, *a = &b->token;
    struct lr_error err = {0};
    a->layers = layers;
    a->layer_count = count;
    poison_old(fixture, a->qkv_sums, sizeof(t->qkv), ROUND_OF_SUM);
    poison_old(fixture, a->out_sums, sizeof(t->out), ROUND_OF_SUM);
    poison_old(fixture, a->down_sums, 2 * TOKEN_HIDDEN * 4, ROUND_OF_SUM);
    poison_old(fixture, a->router_sums, (size_t)TOKEN_SMS_MIN * fixture->config->experts * 4,
               ROUND_OF_SUM);
    poison_old(fixture, a->mixed, sizeof(t->words), ROUND_OF_SUM);
    poison_old(fixture, a->inner, sizeof(t->inner), ROUND_OF_PAIR);
    fixture_poison(fixture, a->residual, sizeof(t->residual));
    test_must(cuda_token_launch(b, &err), &err, "one token");
    fixture_get(fixture, a->qkv_sums, t->qkv, sizeof(t->qkv));
    fixture_get(fixture, a->out_sums, t->out, sizeof(t->out));
    fixture_get(fixture, a->mixed, t->words, sizeof(t->words));
    for (uint32_t i = 0; i < WIDTH; i++)
        t->mixed[i] = (uint16_t)(t->words[i] >> 16);
    fixture_get(fixture, a->inner, t->inner, sizeof(t->inner));
    for (uint32_t i = 0; i < TOKEN_TOPK * TOKEN_INNER; i++)
        t->inner[i] &= (uint16_t)~ROUND_OF_PAIR;
    fixture_get(fixture, a->residual, t->residual, sizeof(t->residual));
    *a = all;
}

static void run_layer(struct token_case *t, uint32_t index)
{
    struct fixture *fixture = t->fixture;
    struct gptoss_backend *b = fixture->b;
    uint64_t head_bytes = CUDA_PAGE_TOKENS * 128;
    launch(t, b->token.layers + index, 1);
    const char *page =
        (const char *)(uintptr_t)(t->layer->sliding ? b->window_memory : b->full_memory) +
        t->table[t->position / CUDA_PAGE_TOKENS] * t->page_bytes +
        t->layer->kind_index * 2 * TOKEN_KV_HEADS * head_bytes;
    for (uint32_t i = 0; i < 2 * TOKEN_KV_HEADS; i++)
        fixture_get(fixture, page + i * head_bytes + t->position % CUDA_PAGE_TOKENS * 128,
                    key_at(t, i / TOKEN_KV_HEADS, i % TOKEN_KV_HEADS, t->position), 128);
}

/* A head of the device's qkv, by dimension: sums of both blocks and bias, not rotated. */
static void device_head(const struct token_case *t, uint32_t head, const uint16_t *bias,
                        double out[64])
{
    for (uint32_t d = 0; d < 64; d++) {
        uint32_t row = (head * 4 + d % 32 / 8) * 16 + d % 8 + d / 32 * 8;
        out[d] = (double)t->qkv[row] + (double)t->qkv[TOKEN_QKV_ROWS + row] +
                 test_from_bf16(bias[d]);
    }
}

static void check_qkv(struct token_case *t, const char *name, const float *residual)
{
    const struct model_config *c = t->fixture->config;
    static double x[TOKEN_HIDDEN], want[WIDTH + 1024];
    static float got[WIDTH + 1024];
    reference_norm(c, residual, t->l->attn_norm, x);
    for (uint32_t i = 0; i < c->hidden; i++)
        x[i] = test_from_bf16(test_to_bf16(x[i]));
    reference_dense(t->l->q_weight, t->l->q_bias, WIDTH, c->hidden, x, 1, want);
    reference_dense(t->l->k_weight, t->l->k_bias, 512, c->hidden, x, 1, want + WIDTH);
    reference_dense(t->l->v_weight, t->l->v_bias, 512, c->hidden, x, 1, want + WIDTH + 512);
    for (uint32_t h = 0; h < TOKEN_HEADS + 2 * TOKEN_KV_HEADS; h++) {
        const uint16_t *bias = h < 64   ? t->l->q_bias + h * 64
                               : h < 72 ? t->l->k_bias + (h - 64) * 64
                                        : t->l->v_bias + (h - 72) * 64;
        double head[64];
        device_head(t, h, bias, head);
        for (uint32_t d = 0; d < 64; d++)
            got[h * 64 + d] = (float)head[d];
    }
    test_check(test_error_f32(got, want, WIDTH + 1024), HIDDEN_LIMIT, "%s: q, k, v", name);
}

static void check_pages(struct token_case *t, const char *name)
{
    double head[64], worst = 0;
    for (uint32_t h = 0; h < 2 * TOKEN_KV_HEADS; h++) {
        const uint16_t *bias = h < 8 ? t->l->k_bias + h * 64 : t->l->v_bias + (h - 8) * 64;
        device_head(t, TOKEN_HEADS + h, bias, head);
        if (h < 8)
            reference_rope(t->fixture->config, t->position, head);
        worst = fmax(worst, test_error_bf16(key_at(t, h / 8, h % 8, t->position), head, 64));
    }
    test_check(worst, TEST_LIMIT, "%s: K and V in their page", name);
}

static void attend_head(void *ctx, uint32_t h)
{
    struct token_case *t = ctx;
    uint32_t window = t->layer->sliding ? t->fixture->config->window : 0;
    uint32_t low = window != 0 && t->position >= window ? t->position + 1 - window : 0;
    double *scores = test_alloc(t->position + 1, 8), sink = test_from_bf16(t->l->sinks[h]);
    double top = sink, *q = t->q + (size_t)h * 64, *out = t->wanted + (size_t)h * 64;
    device_head(t, h, t->l->q_bias + h * 64, q);
    reference_rope(t->fixture->config, t->position, q);
    for (uint32_t d = 0; d < 64; d++) {
        q[d] = test_from_bf16(test_to_bf16(q[d]));
        out[d] = 0;
    }
    for (uint32_t p = low; p <= t->position; p++) {
        const uint16_t *k = key_at(t, 0, h / 8, p);
        scores[p] = 0;
        for (uint32_t d = 0; d < 64; d++)
            scores[p] += q[d] * test_from_bf16(k[d]) / 8;
        top = fmax(top, scores[p]);
    }
    double sum = exp(sink - top);
    for (uint32_t p = low; p <= t->position; p++) {
        const uint16_t *v = key_at(t, 1, h / 8, p);
        double e = exp(scores[p] - top);
        sum += e;
        for (uint32_t d = 0; d < 64; d++)
            out[d] += e * test_from_bf16(v[d]);
    }
    for (uint32_t d = 0; d < 64; d++)
        out[d] /= sum;
    free(scores);
}

/* The experts' part, from the device's residual; returns what is added to it. */
static void check_experts(struct token_case *t, const char *name, const float *before)
{
    const struct model_config *c = t->fixture->config;
    static double normalized[TOKEN_HIDDEN], x[TOKEN_INNER], y[2 * TOKEN_INNER];
    static double inner[TOKEN_TOPK * TOKEN_INNER], want[TOKEN_HIDDEN];
    uint32_t choice[TOKEN_TOPK];
    double weight[TOKEN_TOPK];
    reference_norm(c, before, t->l->mlp_norm, normalized);
    (void)reference_route(c, t->l, normalized, choice, weight);
    for (uint32_t d = 0; d < c->hidden; d++)
        want[d] = (double)before[d];
    struct model_experts down = t->l->down;
    uint16_t *none = test_alloc((size_t)down.rows * c->experts, 2);
    down.bias = none;
    for (uint32_t k = 0; k < TOKEN_TOPK; k++) {
        for (uint32_t i = 0; i < c->hidden; i++)
            x[i] = test_from_bf16(test_to_bf16(normalized[i]));
        reference_expert(&t->l->gate_up, choice[k], x, 1, y);
        for (uint32_t i = 0; i < TOKEN_INNER; i++)
            inner[k * TOKEN_INNER + i] = reference_swiglu(c, y[2 * i], y[2 * i + 1]) *
                                         weight[k] / (double)TOKEN_INNER_SCALE;
        reference_widen(t->inner + k * TOKEN_INNER, x, TOKEN_INNER);
        for (uint32_t i = 0; i < TOKEN_INNER; i++)
            x[i] *= (double)TOKEN_INNER_SCALE;
        reference_expert(&down, choice[k], x, 1, y);
        for (uint32_t d = 0; d < c->hidden; d++)
            want[d] +=
                y[d] +
                weight[k] * test_from_bf16(t->l->down.bias[(size_t)choice[k] * c->hidden + d]);
    }
    free(none);
    test_check(test_error_bf16(t->inner, inner, TOKEN_TOPK * TOKEN_INNER), HIDDEN_LIMIT,
               "%s: router, gate and up", name);
    test_check(test_error_f32(t->residual, want, TOKEN_HIDDEN), TEST_LIMIT, "%s: down", name);
}

static void check_layer(struct token_case *t, const char *shape, uint32_t index)
{
    const struct model_config *c = t->fixture->config;
    static float got[TOKEN_HIDDEN], before[TOKEN_HIDDEN], again[TOKEN_HIDDEN];
    static double x[WIDTH], want[TOKEN_HIDDEN];
    char name[96];
    (void)snprintf(name, sizeof(name), "token %s, %s layer, position %u", shape,
                   t->layer->sliding ? "sliding" : "full", t->position);
    put_inputs(t, false);
    run_layer(t, index);
    memcpy(again, t->residual, sizeof(again));
    for (uint32_t i = 0; i < TOKEN_HIDDEN; i++)
        before[i] =
            (float)test_from_bf16(t->fixture->model->m.embed[(size_t)t->id * c->hidden + i]);
    check_qkv(t, name, before);
    check_pages(t, name);
    test_parallel(TOKEN_HEADS, attend_head, t);
    test_check(test_error_bf16(t->mixed, t->wanted, WIDTH), HIDDEN_LIMIT, "%s: attention",
               name);
    reference_widen(t->mixed, x, WIDTH);
    reference_dense(t->l->o_weight, t->l->o_bias, c->hidden, WIDTH, x, 1, want);
    for (uint32_t i = 0; i < TOKEN_HIDDEN; i++) {
        got[i] = t->out[i] + t->out[TOKEN_HIDDEN + i];
        before[i] += got[i];
    }
    test_check(test_error_f32(got, want, TOKEN_HIDDEN), TEST_LIMIT, "%s: output", name);
    check_experts(t, name, before);
    run_layer(t, index);
    test_check(memcmp(again, t->residual, sizeof(again)) != 0, 0, "%s: the same bits again",
               name);
}

/* A slot of the ring that is refilled too early, or a word that is read too early, shows only
 * in some runs. */
static void test_repeats(struct token_case *t, const char *shape,
                         const struct token_layer *table, uint32_t count)
{
    enum { REPEATS = 1000 };
    struct gptoss_backend *b = t->fixture->b;
    struct token_args all = b->token;
    struct lr_error err = {0};
    static float residual[TOKEN_HIDDEN];
    uint32_t wrong = 0;
    b->token.layers = table;
    b->token.layer_count = count;
    for (uint32_t i = 0; i < REPEATS; i++) {
        test_must(cuda_token_launch(b, &err), &err, "one token");
        fixture_get(t->fixture, b->token.residual, residual, sizeof(residual));
        wrong += memcmp(residual, t->residual, sizeof(residual)) != 0;
    }
    b->token = all;
    test_check(wrong, 0, "token %s: %d runs of %u layers give the same bits", shape, REPEATS,
               count);
}

/* The model's layers in turn, more and more in one launch: compares the q, k, v of the last
 * with those computed from the residual that the other layers gave in a launch of their own.
 * All pages have been filled. */
static void test_chain(struct token_case *t, const char *shape)
{
    enum { CHAIN = 6 };
    const struct gptoss_backend *b = t->fixture->b;
    const uint32_t layers = t->fixture->config->layers;
    struct token_layer chain[CHAIN];
    const struct token_layer *table =
        (const void *)b->ws.expert_out; /* memory that this kernel does not use */
    static float before[TOKEN_HIDDEN];
    for (uint32_t i = 0; i < CHAIN; i++)
        fixture_get(t->fixture, b->token.layers + i % layers, &chain[i], sizeof(chain[i]));
    fixture_put(t->fixture, table, chain, sizeof(chain));
    t->position = 200;
    for (uint32_t k = 0; k < TABLE; k++)
        t->table[k] = k % 4;
    put_inputs(t, true);
    launch(t, table, 1);
    for (uint32_t count = 2; count <= CHAIN; count++) {
        char name[96];
        (void)snprintf(name, sizeof(name), "token %s, %u layers", shape, count);
        t->l = &t->fixture->model->layers[(count - 1) % layers];
        memcpy(before, t->residual, sizeof(before));
        launch(t, table, count);
        check_qkv(t, name, before);
    }
    test_repeats(t, shape, table, CHAIN);
}

static void test_positions(struct fixture *fixture, const char *shape, struct test_random *r)
{
    static const uint32_t positions[] = {0, 1, 63, 64, 127, 128, 200, 1000, 5000, 8100};
    struct token_case *t = test_alloc(1, sizeof(*t));
    for (uint32_t index = 0; index < fixture->config->layers; index++) {
        t->fixture = fixture;
        t->layer = &fixture->b->layers[index];
        t->l = &fixture->model->layers[index];
        bool sliding = t->layer->sliding;
        uint32_t pages = sliding ? fixture->plan.window_pages : fixture->plan.full_pages;
        pages = pages < FIXTURE_PAGES ? pages : FIXTURE_PAGES;
        t->page_bytes =
            sliding ? fixture->plan.window_page_bytes : fixture->plan.full_page_bytes;
        t->pool = test_alloc(pages, t->page_bytes);
        test_fill_bf16(r, t->pool, pages * t->page_bytes / 2, 1);
        fixture_put(fixture,
                    (const void *)(uintptr_t)(sliding ? fixture->b->window_memory
                                                      : fixture->b->full_memory),
                    t->pool, pages * t->page_bytes);
        for (size_t i = 0; i < sizeof(positions) / sizeof(positions[0]); i++) {
            t->position = positions[i];
            t->id = test_random_below(r, fixture->config->vocab);
            for (uint32_t k = 0; k < TABLE; k++)
                t->table[k] = (k * 37 + 5) % pages; /* the last page is used only once */
            check_layer(t, shape, index);
        }
        free(t->pool);
    }
    test_chain(t, shape);
    free(t);
}

void test_token(struct test_random *r)
{
    static const struct test_shape shapes[] = {
        {"20b", 2, 2880, 2880, 64, 8, 32, 4, 100, 128, false, false},
        {"64 experts, ties", 1, 2880, 2880, 64, 8, 64, 4, 100, 128, true, false},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct fixture fixture;
        fixture_open(&fixture, &shapes[i], 300 + i);
        int sms = fixture.b->device.multiprocessors;
        bool there = fixture.b->target.has[CUDA_token_layers];
        test_check(fixture.b->has_token !=
                       (there && sms >= TOKEN_SMS_MIN && sms <= TOKEN_SMS_MAX),
                   0, "token %s: runs where it can", shapes[i].name);
        if (!there)
            printf("     not in the code for this GPU, so not tested: token_layers\n");
        if (fixture.b->has_token)
            test_positions(&fixture, shapes[i].name, r);
        fixture_close(&fixture);
    }
}
