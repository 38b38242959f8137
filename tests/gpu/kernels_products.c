/* tests/gpu/kernels_products.c - repacked weights, dense products, norms, router, embedding:
 * each compared with its reference, for every number of tokens that selects another kernel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fixture.h"
#include "tests/gpu/reference.h"

static const uint32_t token_counts[] = {1,  2,  3,  7,   8,   9,   16,  17, 32,
                                        33, 64, 65, 100, 128, 129, 200, 300};
enum { COUNTS = sizeof(token_counts) / sizeof(token_counts[0]) };

/* ---- repack ---- */

enum { ORDER_PLAIN, ORDER_ROPE, ORDER_GATE_UP };

/* Row of the model's matrix at (tile, row in tile), see args.h. */
static uint32_t source_row(int order, uint32_t tile, uint32_t r)
{
    if (order == ORDER_ROPE)
        return tile / 4 * 64 + tile % 4 * 8 + r % 8 + r / 8 * 32;
    if (order == ORDER_GATE_UP)
        return 2 * (tile * 8 + r % 8) + r / 8;
    return tile * 16 + r;
}

static double differing_bf16(struct fixture *fixture, const struct cuda_matrix *m,
                             uint32_t first_row, const uint16_t *want, uint32_t rows, int order)
{
    uint32_t first_tile = first_row / 16, tiles = (rows + 15) / 16;
    size_t bytes = (size_t)tiles * m->blocks * 1024, wrong = 0;
    uint16_t *got = test_alloc(1, bytes);
    fixture_get(fixture, (const char *)m->weights + (size_t)first_tile * m->blocks * 1024, got,
                bytes);
    for (size_t i = 0; i < bytes / 2; i++) {
        uint32_t k = i % 8, lane = i / 8 % 32, half = i / 256 % 2;
        uint32_t block = (uint32_t)(i / 512 % m->blocks),
                 tile = (uint32_t)(i / 512 / m->blocks);
        uint32_t row = source_row(order, tile, lane / 4 + half * 8);
        uint32_t column = block * 32 + lane % 4 * 8 + k;
        wrong += got[i] != (row < rows ? want[(size_t)row * m->blocks * 32 + column] : 0);
    }
    free(got);
    return (double)wrong;
}

static double differing_bias(struct fixture *fixture, const uint16_t *bias,
                             const uint16_t *want, uint32_t rows, int order)
{
    uint32_t count = (rows + 15) / 16 * 16;
    uint16_t *got = test_alloc(count, sizeof(*got));
    double wrong = 0;
    fixture_get(fixture, bias, got, count * sizeof(*got));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = source_row(order, i / 16, i % 16);
        wrong += got[i] != (row < rows ? want[row] : 0);
    }
    free(got);
    return wrong;
}

/* The code of element e within a word of eight. */
static uint32_t unspread(uint32_t word, uint32_t e)
{
    static const uint32_t magnitude_at[4] = {6, 3, 0, 9}, sign_at[4] = {15, 12, 14, 13};
    uint32_t half = word >> e % 2 * 16;
    return (half >> magnitude_at[e / 2] & 7) | (half >> sign_at[e / 2] & 1) << 3;
}

static double differing_codes(struct fixture *fixture, const struct cuda_matrix *m,
                              const struct model_experts *e, uint32_t expert, int order)
{
    uint32_t pairs = (m->blocks + 1) / 2;
    size_t words = (size_t)m->expert_weights / 4;
    uint32_t *got = test_alloc(words, 4);
    const uint8_t *want = e->blocks + expert * e->blocks_stride;
    double wrong = 0;
    fixture_get(fixture, (const char *)m->weights + expert * m->expert_weights, got, words * 4);
    for (size_t i = 0; i < words; i++) {
        uint32_t part = i % 4, lane = i / 4 % 32;
        uint32_t block = (uint32_t)(i / 128 % pairs) * 2 + part / 2;
        uint32_t row = source_row(order, (uint32_t)(i / 128 / pairs), lane / 4 + part % 2 * 8);
        for (uint32_t k = 0; k < 8; k++) {
            uint32_t column = lane % 4 * 8 + k, code = 0;
            if (row < e->rows && block < m->blocks)
                code = want[((size_t)row * m->blocks + block) * 16 + column / 2] >>
                           column % 2 * 4 &
                       15;
            wrong += unspread(got[i], k) != code;
        }
    }
    free(got);
    return wrong;
}

static double differing_scales(struct fixture *fixture, const struct cuda_matrix *m,
                               const struct model_experts *e, uint32_t expert, int order)
{
    uint32_t fours = (m->blocks + 3) / 4;
    size_t bytes = (size_t)m->expert_scales;
    uint8_t *got = test_alloc(bytes, 1);
    const uint8_t *want = e->scales + expert * e->scales_stride;
    double wrong = 0;
    fixture_get(fixture, (const char *)m->scales + expert * m->expert_scales, got, bytes);
    for (size_t i = 0; i < bytes; i++) {
        uint32_t block = (uint32_t)(i / 64 % fours) * 4 + i % 4;
        uint32_t row = source_row(order, (uint32_t)(i / 64 / fours),
                                  (uint32_t)(i / 8 % 8 + i / 4 % 2 * 8));
        if (row < e->rows && block < m->blocks)
            wrong += got[i] != want[(size_t)row * m->blocks + block] + 126;
    }
    free(got);
    return wrong;
}

void test_repack(struct fixture *fixture, const char *name)
{
    const struct model_config *c = fixture->config;
    const struct model_gptoss *m = &fixture->model->m;
    uint32_t q = c->heads * 64, kv = c->kv_heads * 64, last = c->experts - 1;
    for (uint32_t i = 0; i < c->layers; i++) {
        const struct cuda_layer *to = &fixture->b->layers[i];
        const struct model_gptoss_layer *l = &m->layers[i];
        double dense =
            differing_bf16(fixture, &to->qkv, 0, l->q_weight, q, ORDER_ROPE) +
            differing_bf16(fixture, &to->qkv, q, l->k_weight, kv, ORDER_ROPE) +
            differing_bf16(fixture, &to->qkv, q + kv, l->v_weight, kv, ORDER_ROPE) +
            differing_bf16(fixture, &to->out, 0, l->o_weight, c->hidden, ORDER_PLAIN);
        double bias =
            differing_bias(fixture, to->qkv.bias, l->q_bias, q, ORDER_ROPE) +
            differing_bias(fixture, to->qkv.bias + q, l->k_bias, kv, ORDER_ROPE) +
            differing_bias(fixture, to->qkv.bias + q + kv, l->v_bias, kv, ORDER_ROPE) +
            differing_bias(fixture, to->out.bias, l->o_bias, c->hidden, ORDER_PLAIN) +
            differing_bias(fixture, to->gate_up.bias + last * to->gate_up.expert_bias,
                           l->gate_up.bias + (size_t)last * l->gate_up.rows, l->gate_up.rows,
                           ORDER_GATE_UP) +
            differing_bias(fixture, to->down.bias + last * to->down.expert_bias,
                           l->down.bias + (size_t)last * l->down.rows, l->down.rows,
                           ORDER_PLAIN);
        double codes =
            differing_codes(fixture, &to->gate_up, &l->gate_up, last, ORDER_GATE_UP) +
            differing_codes(fixture, &to->down, &l->down, last, ORDER_PLAIN);
        double scales =
            differing_scales(fixture, &to->gate_up, &l->gate_up, last, ORDER_GATE_UP) +
            differing_scales(fixture, &to->down, &l->down, last, ORDER_PLAIN);
        test_check(dense, 0, "repack %s layer %u: bf16 matrices", name, i);
        test_check(bias, 0, "repack %s layer %u: biases", name, i);
        test_check(codes, 0, "repack %s layer %u: mxfp4 codes", name, i);
        test_check(scales, 0, "repack %s layer %u: mxfp4 scales", name, i);
    }
    test_check(
        differing_bf16(fixture, &fixture->b->unembed, 0, m->unembed, c->vocab, ORDER_PLAIN), 0,
        "repack %s: vocabulary", name);
}

/* ---- norms ---- */

static void put_residual(struct fixture *fixture, struct test_random *r, float *host,
                         uint32_t rows)
{
    test_fill_float(r, host, (size_t)rows * fixture->config->hidden, 2);
    fixture_put(fixture, fixture->b->ws.residual, host,
                (size_t)rows * fixture->config->hidden * 4);
}

static void test_norm_route(struct fixture *fixture, const char *name, struct test_random *r,
                            uint32_t rows)
{
    const struct model_config *c = fixture->config;
    const struct model_gptoss_layer *l = &fixture->model->layers[0];
    struct gptoss_backend *b = fixture->b;
    size_t cells = (size_t)rows * c->hidden, pairs = (size_t)rows * c->experts_per_token;
    float *residual = test_alloc(cells, 4), *weight = test_alloc(pairs, 4);
    double *want = test_alloc(cells, 8), *want_weight = test_alloc(pairs, 8);
    uint16_t *normed = test_alloc(cells, 2);
    uint32_t *choice = test_alloc(pairs, 4), *want_choice = test_alloc(pairs, 4);
    struct lr_error err = {0};
    put_residual(fixture, r, residual, rows);
    fixture_poison(fixture, b->ws.normed, cells * 2);
    fixture_poison(fixture, b->ws.choice, pairs * 4);
    fixture_poison(fixture, b->ws.weight, pairs * 4);
    test_must(cuda_launch_norm(b, b->layers[0].mlp_norm, &b->layers[0], b->ws.normed, NULL,
                               rows, &err),
              &err, name);
    fixture_get_rows(fixture, b->ws.normed, normed, rows, rows, c->hidden);
    fixture_get(fixture, b->ws.choice, choice, pairs * 4);
    fixture_get(fixture, b->ws.weight, weight, pairs * 4);
    uint32_t wrong = 0, near = 0;
    for (uint32_t i = 0; i < rows; i++) {
        size_t at = (size_t)i * c->experts_per_token;
        reference_norm(c, residual + (size_t)i * c->hidden, l->mlp_norm,
                       want + (size_t)i * c->hidden);
        double margin = reference_route(c, l, want + (size_t)i * c->hidden, want_choice + at,
                                        want_weight + at);
        bool same = memcmp(choice + at, want_choice + at, c->experts_per_token * 4) == 0;
        near += !same && margin < 1e-5;
        wrong += !same && margin >= 1e-5;
        for (uint32_t k = 0; !same && margin < 1e-5 && k < c->experts_per_token; k++)
            want_weight[at + k] = (double)weight[at + k]; /* a tie too close to decide */
    }
    test_check(test_error_bf16(normed, want, cells), TEST_LIMIT, "norm %s tokens %u", name,
               rows);
    test_check(wrong + (near > 1 ? near : 0), 0, "router choice %s tokens %u", name, rows);
    test_check(test_error_f32(weight, want_weight, pairs), TEST_LIMIT,
               "router weight %s tokens %u", name, rows);
    free(residual), free(weight), free(want), free(want_weight), free(normed), free(choice);
    free(want_choice);
}

/* ---- q, k, v ---- */

/* True for a row whose normalized values are far enough from the middle between two bf16 values
 * that float32 rounds each like double: a value rounded differently would be an error of up to
 * 1e-3 in the product.  The error of float32 there is at most 5e-7, 1.3e-4 of a unit. */
static bool rounds_clearly(const double *x, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        int exponent;
        (void)frexp(x[i], &exponent);
        double units = ldexp(fabs(x[i]), 8 - exponent), rest = units - floor(units);
        if (fabs(rest - 0.5) < 3e-4)
            return false;
    }
    return true;
}

/* Random rows and their normalized values.  If the product normalizes them itself, the test
 * cannot see how they were rounded, so only rows with an unambiguous rounding are used. */
static void put_rows(struct fixture *fixture, struct test_random *r, const uint16_t *norm,
                     float *host, double *normalized, uint32_t rows)
{
    const struct model_config *c = fixture->config;
    for (uint32_t i = 0; i < rows; i++)
        do {
            test_fill_float(r, host + (size_t)i * c->hidden, c->hidden, 2);
            reference_norm(c, host + (size_t)i * c->hidden, norm,
                           normalized + (size_t)i * c->hidden);
        } while (rows <= CUDA_FUSED_NORM_TOKENS &&
                 !rounds_clearly(normalized + (size_t)i * c->hidden, c->hidden));
    fixture_put(fixture, fixture->b->ws.residual, host, (size_t)rows * c->hidden * 4);
}

/* A separate slot for each row, in random order. */
static void random_slots(struct test_random *r, uint32_t *slots, uint32_t rows, uint32_t all)
{
    uint32_t *order = test_alloc(all, 4);
    for (uint32_t i = 0; i < all; i++)
        order[i] = i;
    for (uint32_t i = 0; i < rows; i++) {
        uint32_t j = i + test_random_below(r, all - i), v = order[j];
        order[j] = order[i];
        slots[i] = order[i] = v;
    }
    free(order);
}

/* Adds what a row must have written to its page to the expected image of all pages. */
static void expect_page(const struct fixture *fixture, const struct cuda_layer *l,
                        uint32_t slot, const double *kv, uint16_t *pages, double *want)
{
    uint64_t page_bytes =
        l->sliding ? fixture->plan.window_page_bytes : fixture->plan.full_page_bytes;
    uint32_t heads = 2 * fixture->config->kv_heads;
    for (uint32_t h = 0; h < heads; h++)
        for (uint32_t d = 0; d < 64; d++) {
            size_t at = (size_t)(slot / 64) * (page_bytes / 2) +
                        (size_t)l->kind_index * heads * 64 * 64 +
                        ((size_t)h * 64 + slot % 64) * 64 + d;
            want[at] = kv[h * 64 + d];
            pages[at] = 1; /* expected here; 0: must be unchanged */
        }
}

static void test_qkv(struct fixture *fixture, const char *name, struct test_random *r,
                     uint32_t layer, uint32_t rows)
{
    const struct model_config *c = fixture->config;
    const struct model_gptoss_layer *m = &fixture->model->layers[layer];
    struct gptoss_backend *b = fixture->b;
    const struct cuda_layer *l = &b->layers[layer];
    uint32_t q = c->heads * 64, kv = c->kv_heads * 64, positions[FIXTURE_TOKENS],
             slots[FIXTURE_TOKENS];
    uint32_t pages = l->sliding ? fixture->plan.window_pages : fixture->plan.full_pages;
    pages = pages < 16 ? pages : 16;
    size_t cells = (size_t)rows * c->hidden;
    size_t pool =
        (size_t)pages *
        (l->sliding ? fixture->plan.window_page_bytes : fixture->plan.full_page_bytes) / 2;
    const void *memory =
        (const void *)(uintptr_t)(l->sliding ? b->window_memory : b->full_memory);
    float *residual = test_alloc(cells, 4);
    uint16_t *got_q = test_alloc((size_t)rows * q, 2), *got_pages = test_alloc(pool, 2),
             *expected = test_alloc(pool, 2), *normed = test_alloc(cells, 2);
    double *x = test_alloc(cells, 8), *want_q = test_alloc((size_t)rows * q, 8),
           *want_k = test_alloc((size_t)rows * kv, 8),
           *want_v = test_alloc((size_t)rows * kv, 8), *want_pages = test_alloc(pool, 8);
    struct lr_error err = {0};
    put_rows(fixture, r, m->attn_norm, residual, x, rows);
    for (uint32_t i = 0; i < rows; i++)
        positions[i] = test_random_below(r, FIXTURE_CONTEXT);
    random_slots(r, slots, rows, pages * 64);
    fixture_put(fixture, fixture_input(fixture, b->at.row_pos), positions, rows * 4);
    fixture_put(fixture, fixture_input(fixture, l->sliding ? b->at.row_window : b->at.row_full),
                slots, rows * 4);
    fixture_poison(fixture, b->ws.q, (size_t)rows * q * 2);
    fixture_poison(fixture, b->ws.normed, cells * 2);
    fixture_poison(fixture, memory, pool * 2);
    test_must(cuda_launch_qkv(b, l, rows, false, &err), &err, name);
    fixture_get(fixture, b->ws.q, got_q, (size_t)rows * q * 2);
    fixture_get(fixture, memory, got_pages, pool * 2);
    fixture_get(fixture, b->ws.normed, normed, cells * 2);
    if (rows > CUDA_FUSED_NORM_TOKENS) { /* normalized by a separate kernel */
        test_check(test_error_bf16(normed, x, cells), TEST_LIMIT,
                   "norm before qkv %s tokens %u", name, rows);
        reference_widen(normed, x, cells);
    }
    for (size_t i = 0; i < cells; i++)
        x[i] = test_from_bf16(test_to_bf16(x[i]));
    reference_dense(m->q_weight, m->q_bias, q, c->hidden, x, rows, want_q);
    reference_dense(m->k_weight, m->k_bias, kv, c->hidden, x, rows, want_k);
    reference_dense(m->v_weight, m->v_bias, kv, c->hidden, x, rows, want_v);
    for (uint32_t i = 0; i < rows; i++) {
        double both[2 * 64 * 64];
        for (uint32_t h = 0; h < c->heads; h++)
            reference_rope(c, positions[i], want_q + (size_t)i * q + h * 64);
        for (uint32_t h = 0; h < c->kv_heads; h++)
            reference_rope(c, positions[i], want_k + (size_t)i * kv + h * 64);
        memcpy(both, want_k + (size_t)i * kv, kv * 8);
        memcpy(both + kv, want_v + (size_t)i * kv, kv * 8);
        expect_page(fixture, l, slots[i], both, expected, want_pages);
    }
    double stray = 0;
    size_t written = 0;
    for (size_t i = 0; i < pool; i++) {
        stray += !expected[i] && got_pages[i] != 0xFFFF;
        if (expected[i]) { /* compacted: the written values, in order */
            got_pages[written] = got_pages[i];
            want_pages[written++] = want_pages[i];
        }
    }
    test_check(test_error_bf16(got_q, want_q, (size_t)rows * q), TEST_LIMIT,
               "qkv %s layer %u tokens %u: q", name, layer, rows);
    test_check(test_error_bf16(got_pages, want_pages, written), TEST_LIMIT,
               "qkv %s layer %u tokens %u: k, v in pages", name, layer, rows);
    test_check(stray, 0, "qkv %s layer %u tokens %u: nothing else written", name, layer, rows);
    free(residual), free(got_q), free(got_pages), free(expected), free(normed), free(x);
    free(want_q), free(want_k), free(want_v), free(want_pages);
}

/* ---- attention's output, vocabulary ---- */

static void test_out(struct fixture *fixture, const char *name, struct test_random *r,
                     uint32_t rows)
{
    const struct model_config *c = fixture->config;
    const struct model_gptoss_layer *m = &fixture->model->layers[0];
    struct gptoss_backend *b = fixture->b;
    uint32_t q = c->heads * 64;
    size_t cells = (size_t)rows * c->hidden;
    float *residual = test_alloc(cells, 4), *got = test_alloc(cells, 4);
    uint16_t *mixed = test_alloc((size_t)rows * q, 2);
    double *x = test_alloc((size_t)rows * q, 8), *want = test_alloc(cells, 8);
    struct lr_error err = {0};
    put_residual(fixture, r, residual, rows);
    test_fill_bf16(r, mixed, (size_t)rows * q, 1);
    fixture_put(fixture, b->ws.mixed, mixed, (size_t)rows * q * 2);
    test_must(cuda_launch_out(b, &b->layers[0], rows, &err), &err, name);
    fixture_get(fixture, b->ws.residual, got, cells * 4);
    reference_widen(mixed, x, (size_t)rows * q);
    reference_dense(m->o_weight, m->o_bias, c->hidden, q, x, rows, want);
    for (size_t i = 0; i < cells; i++)
        want[i] += (double)residual[i];
    test_check(test_error_f32(got, want, cells), TEST_LIMIT, "out %s tokens %u", name, rows);
    free(residual), free(got), free(mixed), free(x), free(want);
}

static void test_logits(struct fixture *fixture, const char *name, struct test_random *r,
                        uint32_t rows)
{
    const struct model_config *c = fixture->config;
    struct gptoss_backend *b = fixture->b;
    size_t cells = (size_t)rows * c->hidden, out = (size_t)rows * b->logit_stride;
    float *residual = test_alloc((size_t)FIXTURE_TOKENS * c->hidden, 4),
          *got = test_alloc(out, 4);
    uint16_t *final = test_alloc(cells, 2);
    double *x = test_alloc(cells, 8), *want = test_alloc((size_t)rows * c->vocab, 8);
    uint32_t gathered[CUDA_LOGIT_ROWS];
    const struct cuda_shape shape = {.rows = FIXTURE_TOKENS, .gather = true};
    struct lr_error err = {0};
    put_residual(fixture, r, residual, FIXTURE_TOKENS);
    random_slots(r, gathered, rows, FIXTURE_TOKENS);
    fixture_put(fixture, fixture_input(fixture, b->at.out_rows), gathered, rows * 4);
    fixture_poison(fixture, b->ws.final, cells * 2);
    fixture_poison(fixture, b->ws.logits, out * 4);
    test_must(cuda_launch_logits(b, &shape, 0, rows, &err), &err, name);
    fixture_get(fixture, b->ws.final, final, cells * 2);
    fixture_get(fixture, b->ws.logits, got, out * 4);
    for (uint32_t i = 0; i < rows; i++)
        reference_norm(c, residual + (size_t)gathered[i] * c->hidden, fixture->model->m.norm,
                       x + (size_t)i * c->hidden);
    test_check(test_error_bf16(final, x, cells), TEST_LIMIT, "final norm %s rows %u", name,
               rows);
    reference_widen(final, x, cells);
    reference_dense(fixture->model->m.unembed, NULL, c->vocab, c->hidden, x, rows, want);
    for (uint32_t i = 1; i < rows; i++) /* removes the padding */
        memmove(got + (size_t)i * c->vocab, got + (size_t)i * b->logit_stride, c->vocab * 4);
    test_check(test_error_f32(got, want, (size_t)rows * c->vocab), TEST_LIMIT,
               "logits %s rows %u", name, rows);
    free(residual), free(got), free(final), free(x), free(want);
}

static void test_embed(struct fixture *fixture, const char *name, struct test_random *r)
{
    const struct model_config *c = fixture->config;
    struct gptoss_backend *b = fixture->b;
    uint32_t tokens[65], rows = 65, hidden = c->hidden, wrong = 0;
    uint32_t *at = fixture_input(fixture, b->at.tokens);
    float *got = test_alloc((size_t)rows * hidden, 4);
    void *arguments[] = {&at, &b->embed, &b->ws.residual, &hidden};
    struct lr_error err = {0};
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = test_random_below(r, c->vocab);
    fixture_put(fixture, at, tokens, sizeof(tokens));
    fixture_poison(fixture, b->ws.residual, (size_t)rows * hidden * 4);
    test_must(cuda_launch(b, CUDA_embed, rows, 1, 1, 256, 0, arguments, &err), &err, name);
    fixture_get(fixture, b->ws.residual, got, (size_t)rows * hidden * 4);
    for (size_t i = 0; i < (size_t)rows * hidden; i++)
        wrong += (double)got[i] !=
                 test_from_bf16(
                     fixture->model->m.embed[(size_t)tokens[i / hidden] * hidden + i % hidden]);
    test_check(wrong, 0, "embed %s", name);
    free(got);
}

void test_products(struct fixture *fixture, const char *name, struct test_random *r,
                   uint32_t from)
{
    test_embed(fixture, name, r);
    for (int i = 0; i < COUNTS; i++) {
        if (token_counts[i] < from)
            continue;
        test_qkv(fixture, name, r, (uint32_t)i % fixture->config->layers, token_counts[i]);
        test_out(fixture, name, r, token_counts[i]);
        test_norm_route(fixture, name, r, token_counts[i]);
        if (token_counts[i] <= cuda_logit_rows(&fixture->plan))
            test_logits(fixture, name, r, token_counts[i]);
    }
}
