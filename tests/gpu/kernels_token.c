/* tests/gpu/kernels_token.c - the kernels that run all layers of one token or of two, if the
 * GPU has them: one layer at a time, each step compared with its reference from the device's
 * previous values, over contexts that end within a page, at its end, behind the window, and in
 * many blocks; then several layers in one launch, because a layer's first weights are loaded
 * during the one before; and with as many blocks as smaller GPUs have.  In the same way the
 * kernel of attend_layer.cu for 3 to 8 tokens, and whole steps with it. */
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
    uint32_t rows; /* tokens of the step */
    struct token_row {
        uint32_t table[TABLE];
        uint32_t position, id;
        float qkv[2 * TOKEN_QKV_ROWS], out[2 * TOKEN_HIDDEN], residual[TOKEN_HIDDEN];
        uint16_t mixed[WIDTH], inner[TOKEN_TOPK * TOKEN_INNER];
    } row[ATTEND_ROWS_MAX], *o; /* o: the row that is checked */
    double q[WIDTH], wanted[WIDTH];
};

/* K (part 0) or V (part 1) of a position, in the host's copy. */
static uint16_t *key_at(const struct token_case *t, uint32_t part, uint32_t head,
                        uint32_t position)
{
    uint32_t page = t->o->table[position / CUDA_PAGE_TOKENS];
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
    const bool second = both || t->layer->sliding;
    struct cuda_seq seqs[ATTEND_ROWS_MAX] = {0};
    uint32_t ids[ATTEND_ROWS_MAX], slots[ATTEND_ROWS_MAX], at[ATTEND_ROWS_MAX];
    /* The window's entries follow the full ones; a full layer reads only its own. */
    static uint32_t tables[ATTEND_ROWS_MAX][2 * TABLE];
    memset(tables, 0xFF, sizeof(tables));
    for (uint32_t i = 0; i < t->rows; i++) {
        const struct token_row *o = &t->row[i];
        ids[i] = o->id;
        at[i] = o->position;
        slots[i] = o->table[o->position / CUDA_PAGE_TOKENS] * CUDA_PAGE_TOKENS +
                   o->position % CUDA_PAGE_TOKENS;
        seqs[i] = (struct cuda_seq){.position = o->position,
                                    .count = 1,
                                    .first_row = i,
                                    .table_start = i * 2 * TABLE,
                                    .table_count = second ? TABLE : 0};
        memcpy(tables[i] + (second ? TABLE : 0), o->table, sizeof(o->table));
        if (both)
            memcpy(tables[i], o->table, sizeof(o->table));
    }
    fixture_put(fixture, fixture_input(fixture, b->at.tokens), ids, t->rows * 4);
    fixture_put(fixture, fixture_input(fixture, b->at.seqs), seqs, t->rows * sizeof(*seqs));
    fixture_put(fixture, fixture_input(fixture, b->at.tables), tables, sizeof(tables));
    fixture_put(fixture, fixture_input(fixture, b->at.row_pos), at, t->rows * 4);
    fixture_put(fixture, fixture_input(fixture, b->at.row_full), slots, t->rows * 4);
    fixture_put(fixture, fixture_input(fixture, b->at.row_window), slots, t->rows * 4);
}

/* The memory for what blocks exchange, and the number of tokens that it is for. */
static uint32_t set_number(const struct token_case *t)
{
    return t->rows <= 2 ? t->rows - 1 : t->rows <= 4 ? 2 : 3;
}
static struct token_args *set_of(const struct token_case *t)
{
    return &t->fixture->b->token[set_number(t)];
}

/* Words that look like those of the previous layer: all ones except for the round bit `bit`
 * (token_exchange.cuh).  A read before the new value is written gives a wrong result. */
static void poison_old(struct token_case *t, const void *at, size_t words, uint32_t bit)
{
    static uint32_t old[2 * ATTEND_ROWS_MAX * TOKEN_QKV_ROWS];
    uint32_t layers;
    fixture_get(t->fixture, set_of(t)->sync + 2, &layers, 4);
    for (size_t i = 0; i < words; i++)
        old[i] = layers % 2 != 0 ? UINT32_MAX : ~bit;
    fixture_put(t->fixture, at, old, words * 4);
}

static void poison_exchange(struct token_case *t)
{
    const struct token_args *a = set_of(t);
    const struct gptoss_backend *b = t->fixture->b;
    const size_t rows = 1u << set_number(t);
    poison_old(t, a->qkv_sums, 2 * rows * TOKEN_QKV_ROWS, ROUND_OF_SUM);
    poison_old(t, a->out_sums, 2 * rows * TOKEN_HIDDEN, ROUND_OF_SUM);
    poison_old(t, a->down_sums, 2 * rows * TOKEN_HIDDEN, ROUND_OF_SUM);
    poison_old(t, a->router_sums,
               rows * t->fixture->config->experts * (uint32_t)b->device.multiprocessors,
               ROUND_OF_SUM);
    poison_old(t, a->mixed, rows * WIDTH, ROUND_OF_SUM);
    poison_old(t, a->inner, rows * TOKEN_TOPK * TOKEN_INNER / 2, ROUND_OF_PAIR);
}

/* What blocks exchanged, and the residual, to `t`. */
static void collect(struct token_case *t)
{
    struct fixture *fixture = t->fixture;
    const struct token_args *a = set_of(t);
    const size_t rows = 1u << set_number(t);
    for (uint32_t i = 0; i < t->rows; i++) {
        struct token_row *o = &t->row[i];
        static uint32_t words[WIDTH];
        for (uint32_t part = 0; part < 2; part++) {
            fixture_get(fixture, a->qkv_sums + (part * rows + i) * TOKEN_QKV_ROWS,
                        o->qkv + (size_t)part * TOKEN_QKV_ROWS, TOKEN_QKV_ROWS * 4);
            fixture_get(fixture, a->out_sums + (part * rows + i) * TOKEN_HIDDEN,
                        o->out + (size_t)part * TOKEN_HIDDEN, TOKEN_HIDDEN * 4);
        }
        fixture_get(fixture, a->mixed + (size_t)i * WIDTH, words, sizeof(words));
        for (uint32_t k = 0; k < WIDTH; k++)
            o->mixed[k] = (uint16_t)(words[k] >> 16);
        fixture_get(fixture, a->inner + (size_t)i * TOKEN_TOPK * TOKEN_INNER, o->inner,
                    sizeof(o->inner));
        for (uint32_t k = 0; k < TOKEN_TOPK * TOKEN_INNER; k++)
            o->inner[k] &= (uint16_t)~ROUND_OF_PAIR;
        fixture_get(fixture, a->residual + (size_t)i * TOKEN_HIDDEN, o->residual,
                    sizeof(o->residual));
    }
}

/* Runs layers of a table on the device; the last layer's results go to `t`. */
static void launch(struct token_case *t, const struct token_layer *layers, uint32_t count)
{
    struct token_args *a = set_of(t), all = *a;
    struct lr_error err = {0};
    a->layers = layers;
    a->layer_count = count;
    poison_exchange(t);
    fixture_poison(t->fixture, a->residual, (size_t)t->rows * TOKEN_HIDDEN * 4);
    test_must(cuda_token_launch(t->fixture->b, t->rows, &err), &err, "the layers of a step");
    collect(t);
    *a = all;
}

/* The written K and V of all tokens, to the host's copy. */
static void collect_pages(struct token_case *t)
{
    struct fixture *fixture = t->fixture;
    struct gptoss_backend *b = fixture->b;
    uint64_t head_bytes = CUDA_PAGE_TOKENS * 128;
    for (t->o = t->row; t->o < t->row + t->rows; t->o++) {
        const char *page =
            (const char *)(uintptr_t)(t->layer->sliding ? b->window_memory : b->full_memory) +
            t->o->table[t->o->position / CUDA_PAGE_TOKENS] * t->page_bytes +
            t->layer->kind_index * 2 * TOKEN_KV_HEADS * head_bytes;
        for (uint32_t i = 0; i < 2 * TOKEN_KV_HEADS; i++)
            fixture_get(fixture,
                        page + i * head_bytes + t->o->position % CUDA_PAGE_TOKENS * 128,
                        key_at(t, i / TOKEN_KV_HEADS, i % TOKEN_KV_HEADS, t->o->position), 128);
    }
}

static void run_layer(struct token_case *t, uint32_t index)
{
    launch(t, set_of(t)->layers + index, 1);
    collect_pages(t);
}

/* A head of the device's qkv, by dimension: sums of both blocks and bias, not rotated. */
static void device_head(const struct token_case *t, uint32_t head, const uint16_t *bias,
                        double out[64])
{
    for (uint32_t d = 0; d < 64; d++) {
        uint32_t row = (head * 4 + d % 32 / 8) * 16 + d % 8 + d / 32 * 8;
        out[d] = (double)t->o->qkv[row] + (double)t->o->qkv[TOKEN_QKV_ROWS + row] +
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
            reference_rope(t->fixture->config, t->o->position, head);
        worst = fmax(worst, test_error_bf16(key_at(t, h / 8, h % 8, t->o->position), head, 64));
    }
    test_check(worst, TEST_LIMIT, "%s: K and V in their page", name);
}

static void attend_head(void *ctx, uint32_t h)
{
    struct token_case *t = ctx;
    uint32_t window = t->layer->sliding ? t->fixture->config->window : 0;
    uint32_t low = window != 0 && t->o->position >= window ? t->o->position + 1 - window : 0;
    double *scores = test_alloc(t->o->position + 1, 8), sink = test_from_bf16(t->l->sinks[h]);
    double top = sink, *q = t->q + (size_t)h * 64, *out = t->wanted + (size_t)h * 64;
    device_head(t, h, t->l->q_bias + h * 64, q);
    reference_rope(t->fixture->config, t->o->position, q);
    for (uint32_t d = 0; d < 64; d++) {
        q[d] = test_from_bf16(test_to_bf16(q[d]));
        out[d] = 0;
    }
    for (uint32_t p = low; p <= t->o->position; p++) {
        const uint16_t *k = key_at(t, 0, h / 8, p);
        scores[p] = 0;
        for (uint32_t d = 0; d < 64; d++)
            scores[p] += q[d] * test_from_bf16(k[d]) / 8;
        top = fmax(top, scores[p]);
    }
    double sum = exp(sink - top);
    for (uint32_t p = low; p <= t->o->position; p++) {
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
        reference_widen(t->o->inner + k * TOKEN_INNER, x, TOKEN_INNER);
        for (uint32_t i = 0; i < TOKEN_INNER; i++)
            x[i] *= (double)TOKEN_INNER_SCALE;
        reference_expert(&down, choice[k], x, 1, y);
        for (uint32_t d = 0; d < c->hidden; d++)
            want[d] +=
                y[d] +
                weight[k] * test_from_bf16(t->l->down.bias[(size_t)choice[k] * c->hidden + d]);
    }
    free(none);
    test_check(test_error_bf16(t->o->inner, inner, TOKEN_TOPK * TOKEN_INNER), HIDDEN_LIMIT,
               "%s: router, gate and up", name);
    test_check(test_error_f32(t->o->residual, want, TOKEN_HIDDEN), TEST_LIMIT, "%s: down",
               name);
}

/* q, k, v, attention and output; afterwards `before` is the residual with the output. */
static void check_attention(struct token_case *t, const char *name, float before[TOKEN_HIDDEN])
{
    const struct model_config *c = t->fixture->config;
    static float got[TOKEN_HIDDEN];
    static double x[WIDTH], want[TOKEN_HIDDEN];
    const struct token_row *o = t->o;
    for (uint32_t i = 0; i < TOKEN_HIDDEN; i++)
        before[i] =
            (float)test_from_bf16(t->fixture->model->m.embed[(size_t)o->id * c->hidden + i]);
    check_qkv(t, name, before);
    check_pages(t, name);
    test_parallel(TOKEN_HEADS, attend_head, t);
    test_check(test_error_bf16(o->mixed, t->wanted, WIDTH), HIDDEN_LIMIT, "%s: attention",
               name);
    reference_widen(o->mixed, x, WIDTH);
    reference_dense(t->l->o_weight, t->l->o_bias, c->hidden, WIDTH, x, 1, want);
    for (uint32_t i = 0; i < TOKEN_HIDDEN; i++) {
        got[i] = o->out[i] + o->out[TOKEN_HIDDEN + i];
        before[i] += got[i];
    }
    test_check(test_error_f32(got, want, TOKEN_HIDDEN), TEST_LIMIT, "%s: output", name);
}

static void name_row(const struct token_case *t, const char *shape, char name[128])
{
    (void)snprintf(name, 128, "token %s, %d blocks, row %u of %u, %s layer, position %u", shape,
                   t->fixture->b->device.multiprocessors, (uint32_t)(t->o - t->row) + 1,
                   t->rows, t->layer->sliding ? "sliding" : "full", t->o->position);
}

static void check_layer(struct token_case *t, const char *shape, uint32_t index)
{
    static float again[TOKEN_ROWS_MAX][TOKEN_HIDDEN];
    put_inputs(t, false);
    run_layer(t, index);
    for (t->o = t->row; t->o < t->row + t->rows; t->o++) {
        static float before[TOKEN_HIDDEN];
        char name[128];
        name_row(t, shape, name);
        memcpy(again[t->o - t->row], t->o->residual, sizeof(again[0]));
        check_attention(t, name, before);
        check_experts(t, name, before);
    }
    run_layer(t, index);
    for (uint32_t i = 0; i < t->rows; i++)
        test_check(memcmp(again[i], t->row[i].residual, sizeof(again[i])) != 0, 0,
                   "token %s, %u rows, position %u: the same bits again", shape, t->rows,
                   t->row[i].position);
}

/* A slot of the ring that is refilled too early, or a word that is read too early, shows only
 * in some runs. */
static void test_repeats(struct token_case *t, const char *shape,
                         const struct token_layer *table, uint32_t count)
{
    enum { REPEATS = 1000 };
    struct gptoss_backend *b = t->fixture->b;
    struct token_args *a = set_of(t), all = *a;
    struct lr_error err = {0};
    static float residual[TOKEN_ROWS_MAX][TOKEN_HIDDEN];
    uint32_t wrong = 0;
    a->layers = table;
    a->layer_count = count;
    for (uint32_t i = 0; i < REPEATS; i++) {
        test_must(cuda_token_launch(b, t->rows, &err), &err, "the layers of a step");
        fixture_get(t->fixture, a->residual, residual, t->rows * sizeof(residual[0]));
        for (uint32_t k = 0; k < t->rows; k++)
            wrong += memcmp(residual[k], t->row[k].residual, sizeof(residual[k])) != 0;
    }
    *a = all;
    test_check(wrong, 0, "token %s, %u rows: %d runs of %u layers give the same bits", shape,
               t->rows, REPEATS, count);
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
    static float before[TOKEN_ROWS_MAX][TOKEN_HIDDEN];
    for (uint32_t i = 0; i < CHAIN; i++)
        fixture_get(t->fixture, set_of(t)->layers + i % layers, &chain[i], sizeof(chain[i]));
    fixture_put(t->fixture, table, chain, sizeof(chain));
    for (uint32_t i = 0; i < t->rows; i++) {
        t->row[i].position = 200 - 70 * i;
        for (uint32_t k = 0; k < TABLE; k++)
            t->row[i].table[k] = k % 4 + 4 * i;
    }
    put_inputs(t, true);
    launch(t, table, 1);
    for (uint32_t count = 2; count <= CHAIN; count++) {
        t->l = &t->fixture->model->layers[(count - 1) % layers];
        for (uint32_t i = 0; i < t->rows; i++)
            memcpy(before[i], t->row[i].residual, sizeof(before[i]));
        launch(t, table, count);
        for (t->o = t->row; t->o < t->row + t->rows; t->o++) {
            char name[96];
            (void)snprintf(name, sizeof(name), "token %s, row %u of %u, %u layers", shape,
                           (uint32_t)(t->o - t->row) + 1, t->rows, count);
            check_qkv(t, name, before[t->o - t->row]);
        }
    }
    test_repeats(t, shape, table, CHAIN);
}

/* ---- attend_layer.cu ---- */

/* The inputs of the kernel: the embeddings of the tokens as the residual, and the normalized
 * residual. */
static void put_residual(struct token_case *t)
{
    const struct model_config *c = t->fixture->config;
    const struct gptoss_backend *b = t->fixture->b;
    static float residual[TOKEN_HIDDEN];
    static double x[TOKEN_HIDDEN];
    static uint16_t normed[TOKEN_HIDDEN];
    for (uint32_t n = 0; n < t->rows; n++) {
        for (uint32_t i = 0; i < TOKEN_HIDDEN; i++)
            residual[i] = (float)test_from_bf16(
                t->fixture->model->m.embed[(size_t)t->row[n].id * c->hidden + i]);
        reference_norm(c, residual, t->l->attn_norm, x);
        for (uint32_t i = 0; i < TOKEN_HIDDEN; i++)
            normed[i] = test_to_bf16(x[i]);
        fixture_put(t->fixture, b->ws.residual + (size_t)n * TOKEN_HIDDEN, residual,
                    sizeof(residual));
        fixture_put(t->fixture, b->ws.normed + (size_t)n * TOKEN_HIDDEN, normed,
                    sizeof(normed));
    }
}

static void check_choice(struct token_case *t, const char *name, const float *residual)
{
    const struct model_config *c = t->fixture->config;
    const struct gptoss_backend *b = t->fixture->b;
    const size_t row = (size_t)(t->o - t->row);
    static double normalized[TOKEN_HIDDEN], wanted[TOKEN_HIDDEN];
    static uint16_t normed[TOKEN_HIDDEN];
    uint32_t choice[TOKEN_TOPK], got[TOKEN_TOPK], different = 0;
    double weight[TOKEN_TOPK];
    float got_weight[TOKEN_TOPK];
    reference_norm(c, residual, t->l->mlp_norm, normalized);
    (void)reference_route(c, t->l, normalized, choice, weight);
    fixture_get(t->fixture, b->ws.choice + row * TOKEN_TOPK, got, sizeof(got));
    fixture_get(t->fixture, b->ws.weight + row * TOKEN_TOPK, got_weight, sizeof(got_weight));
    fixture_get(t->fixture, b->ws.normed + row * TOKEN_HIDDEN, normed, sizeof(normed));
    for (uint32_t k = 0; k < TOKEN_TOPK; k++)
        different += got[k] != choice[k];
    for (uint32_t i = 0; i < TOKEN_HIDDEN; i++)
        wanted[i] = (double)residual[i];
    test_check(test_error_f32(t->o->residual, wanted, TOKEN_HIDDEN), TEST_LIMIT, "%s: residual",
               name);
    test_check(test_error_bf16(normed, normalized, TOKEN_HIDDEN), TEST_LIMIT, "%s: norm", name);
    test_check(different, 0, "%s: choice of experts", name);
    test_check(test_error_f32(got_weight, weight, TOKEN_TOPK), TEST_LIMIT,
               "%s: weights of experts", name);
}

static void run_attend(struct token_case *t, uint32_t index)
{
    struct lr_error err = {0};
    put_residual(t);
    poison_exchange(t);
    test_must(cuda_attend_launch(t->fixture->b, index, t->rows, &err), &err,
              "a layer without its experts");
    collect(t);
}

static void check_attend(struct token_case *t, const char *shape, uint32_t index)
{
    put_inputs(t, false);
    run_attend(t, index);
    collect_pages(t);
    for (t->o = t->row; t->o < t->row + t->rows; t->o++) {
        static float before[TOKEN_HIDDEN];
        char name[128];
        name_row(t, shape, name);
        check_attention(t, name, before);
        check_choice(t, name, before);
    }
}

/* Whole steps, in which each kernel may start before the one ahead of it ends: the same bits
 * again and again, and nearly those of the separate kernels. */
static void test_steps(struct token_case *t, const char *shape)
{
    enum { REPEATS = 300 };
    struct gptoss_backend *b = t->fixture->b;
    const struct cuda_shape step = {.rows = t->rows, .decode_rows = t->rows};
    const size_t count = (size_t)t->rows * TOKEN_HIDDEN;
    float *first = test_alloc(count, 4), *again = test_alloc(count, 4);
    double *apart = test_alloc(count, 8);
    struct lr_error err = {0};
    uint32_t wrong = 0, rows = b->attend_rows;
    put_inputs(t, true);
    for (uint32_t i = 0; i <= REPEATS; i++) {
        test_must(cuda_launch_layers(b, &step, &err), &err, "the layers of a step");
        fixture_get(t->fixture, b->ws.residual, i == 0 ? first : again, count * 4);
        wrong += i != 0 && memcmp(first, again, count * 4) != 0;
    }
    test_check(wrong, 0, "token %s, %u rows: %d steps give the same bits", shape, t->rows,
               REPEATS);
    b->attend_rows = 0;
    test_must(cuda_launch_layers(b, &step, &err), &err, "the layers of a step");
    b->attend_rows = rows;
    fixture_get(t->fixture, b->ws.residual, again, count * 4);
    for (size_t i = 0; i < count; i++)
        apart[i] = (double)again[i];
    test_check(test_error_f32(first, apart, count), 2e-2,
               "token %s, %u rows: a step like that of separate kernels", shape, t->rows);
    free(first);
    free(again);
    free(apart);
}

/* ---- positions ---- */

enum { POSITIONS = 10 };
/* Of the first token; each token after it has that of the next entry. */
static const uint32_t long_positions[POSITIONS] = {0,   1,   63,   64,   127,
                                                   128, 200, 1000, 5000, 8100};
/* Where eight tokens need pages of their own. */
static const uint32_t short_positions[POSITIONS] = {0,   1,   63,   64,   127,
                                                    128, 200, 1000, 1500, 2000};

static void test_positions(struct fixture *fixture, const char *shape, uint32_t rows,
                           uint32_t first_position, struct test_random *r)
{
    struct token_case *t = test_alloc(1, sizeof(*t));
    const uint32_t *positions = rows <= 2 ? long_positions : short_positions;
    t->fixture = fixture;
    t->rows = rows;
    for (uint32_t index = 0; index < fixture->config->layers; index++) {
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
        for (uint32_t i = first_position; i < POSITIONS; i++) {
            for (uint32_t n = 0; n < rows; n++) {
                struct token_row *o = &t->row[n];
                o->position = positions[(i + n) % POSITIONS];
                o->id = test_random_below(r, fixture->config->vocab);
                /* Each token has pages of its own; its last page is used only once. */
                for (uint32_t k = 0; k < TABLE; k++)
                    o->table[k] = (k * 37 + 5) % (pages / rows) * rows + n;
            }
            if (rows <= fixture->b->token_rows)
                check_layer(t, shape, index);
            else
                check_attend(t, shape, index);
        }
        free(t->pool);
    }
    if (rows <= fixture->b->token_rows)
        test_chain(t, shape);
    else
        test_steps(t, shape);
    free(t);
}

/* As on GPUs with fewer multiprocessors: long contexts have fewer blocks. */
static void test_blocks(struct fixture *fixture, const char *shape, uint32_t rows,
                        struct test_random *r)
{
    static const int blocks[] = {TOKEN_SMS_MIN, 114, 0};
    const int all = fixture->b->device.multiprocessors;
    test_positions(fixture, shape, rows, 0, r);
    for (uint32_t i = 0; blocks[i] != 0 && blocks[i] < all; i++) {
        fixture->b->device.multiprocessors = blocks[i];
        test_positions(fixture, shape, rows, POSITIONS - 2, r);
    }
    fixture->b->device.multiprocessors = all;
}

void test_token(struct test_random *r)
{
    static const struct test_shape shapes[] = {
        {"20b", 2, 2880, 2880, 64, 8, 32, 4, 100, 128, false, false},
        {"64 experts, ties", 1, 2880, 2880, 64, 8, 64, 4, 100, 128, true, false},
        {"128 experts", 1, 2880, 2880, 64, 8, 128, 4, 100, 128, false, false},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct fixture fixture;
        fixture_open(&fixture, &shapes[i], 300 + i);
        int sms = fixture.b->device.multiprocessors;
        bool there = fixture.b->target.has[CUDA_token_layers];
        test_check((fixture.b->token_rows == TOKEN_ROWS_MAX) !=
                       (there && sms >= TOKEN_SMS_MIN && sms <= TOKEN_SMS_MAX),
                   0, "token %s: runs where it can", shapes[i].name);
        if (!there)
            printf("     not in the code for this GPU, so not tested: token_layers\n");
        test_check((fixture.b->attend_rows == ATTEND_ROWS_MAX) !=
                       (fixture.b->token_rows == TOKEN_ROWS_MAX),
                   0, "token %s: attend_layer runs where it can", shapes[i].name);
        for (uint32_t rows = 1; rows <= fixture.b->token_rows; rows++)
            test_blocks(&fixture, shapes[i].name, rows, r);
        for (uint32_t rows = 3; rows <= fixture.b->attend_rows; rows += rows == 5 ? 3 : 1)
            test_blocks(&fixture, shapes[i].name, rows, r);
        fixture_close(&fixture);
    }
}
