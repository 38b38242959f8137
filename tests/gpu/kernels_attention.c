/* tests/gpu/kernels_attention.c - attention: single tokens over long contexts, prompts in
 * chunks, both kinds of layer, groups of heads, sinks that take everything or nothing.
 *
 * Each case is also run with zero queries: then every probability is exactly 1, and only the
 * set of visible keys matters.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/fixture.h"
#include "tests/gpu/reference.h"

enum { NAME_MAX_BYTES = 120 };

enum { TABLE = FIXTURE_CONTEXT / CUDA_PAGE_TOKENS, SEQS_MAX = 100 };

struct attention {
    struct fixture *fixture;
    const struct cuda_layer *layer;
    const uint16_t *pool[2]; /* full pages, window pages */
    uint32_t pool_pages[2];
    uint32_t window; /* 0: none */
    struct cuda_seq seqs[SEQS_MAX];
    uint32_t seq_count, rows;
    uint32_t *tables; /* [seq][2][TABLE] */
    uint32_t row_seq[FIXTURE_TOKENS];
    uint16_t *q, *got, *sinks;
    double *want;
};

static const uint16_t *key_at(const struct attention *a, uint32_t seq, uint32_t position,
                              uint32_t head)
{
    int kind = a->layer->sliding ? 1 : 0;
    uint32_t kv_heads = a->fixture->config->kv_heads;
    uint64_t page_bytes =
        kind ? a->fixture->plan.window_page_bytes : a->fixture->plan.full_page_bytes;
    uint32_t page = a->tables[(seq * 2 + (uint32_t)kind) * TABLE + position / 64];
    return a->pool[kind] + page * (page_bytes / 2) +
           (size_t)a->layer->kind_index * 2 * kv_heads * 4096 +
           ((size_t)head * 64 + position % 64) * 64;
}

/* One row: every head. */
static void expect_row(void *ctx, uint32_t row)
{
    struct attention *a = ctx;
    const struct model_config *c = a->fixture->config;
    uint32_t seq = a->row_seq[row], group = c->heads / c->kv_heads;
    uint32_t position = a->seqs[seq].position + row - a->seqs[seq].first_row;
    uint32_t low = a->window != 0 && position >= a->window ? position + 1 - a->window : 0;
    double *scores = test_alloc(position + 1, 8);
    for (uint32_t h = 0; h < c->heads; h++) {
        const uint16_t *q = a->q + ((size_t)row * c->heads + h) * 64;
        double sink = test_from_bf16(a->sinks[h]), top = sink, out[64] = {0};
        for (uint32_t p = low; p <= position; p++) {
            const uint16_t *k = key_at(a, seq, p, h / group);
            double s = 0;
            for (uint32_t d = 0; d < 64; d++)
                s += test_from_bf16(q[d]) * test_from_bf16(k[d]);
            scores[p] = s / 8;
            top = fmax(top, scores[p]);
        }
        double sum = exp(sink - top);
        for (uint32_t p = low; p <= position; p++) {
            const uint16_t *v = key_at(a, seq, p, c->kv_heads + h / group);
            double e = exp(scores[p] - top);
            sum += e;
            for (uint32_t d = 0; d < 64; d++)
                out[d] += e * test_from_bf16(v[d]);
        }
        for (uint32_t d = 0; d < 64; d++)
            a->want[((size_t)row * c->heads + h) * 64 + d] = out[d] / sum;
    }
    free(scores);
}

/* Random pages for positions that the sequence may read; none for positions outside of the
 * window. */
static void add_seq(struct attention *a, struct test_random *r, uint32_t position,
                    uint32_t count)
{
    uint32_t seq = a->seq_count++, used = (position + count + 63) / 64;
    uint32_t low = a->window != 0 && position >= a->window ? position + 1 - a->window : 0;
    a->seqs[seq] = (struct cuda_seq){.position = position,
                                     .count = count,
                                     .first_row = a->rows,
                                     .table_start = seq * 2 * TABLE,
                                     .table_count = TABLE};
    for (uint32_t i = 0; i < TABLE; i++) {
        uint32_t *at = &a->tables[seq * 2 * TABLE + i];
        at[0] = i < used ? test_random_below(r, a->pool_pages[0]) : GPTOSS_NO_PAGE;
        at[TABLE] =
            i < used && i >= low / 64 ? test_random_below(r, a->pool_pages[1]) : GPTOSS_NO_PAGE;
    }
    for (uint32_t i = 0; i < count; i++)
        a->row_seq[a->rows++] = seq;
}

/* Runs the added sequences; single tokens must come first. */
static double run_once(struct attention *a, struct test_random *r, double sink,
                       double query_size)
{
    struct fixture *fixture = a->fixture;
    struct gptoss_backend *b = fixture->b;
    const struct model_config *c = fixture->config;
    size_t cells = (size_t)a->rows * c->heads * 64;
    uint32_t tile_seq[FIXTURE_TOKENS], tile_first[FIXTURE_TOKENS],
        per_tile = cuda_target_query_tokens(&b->target, b->config);
    struct cuda_shape shape = {.rows = a->rows};
    struct lr_error err = {0};
    for (uint32_t s = 0; s < a->seq_count; s++) {
        shape.decode_rows += a->seqs[s].count == 1;
        for (uint32_t i = 0; a->seqs[s].count > 1 && i < a->seqs[s].count; i += per_tile) {
            tile_seq[shape.query_tiles] = s;
            tile_first[shape.query_tiles++] = i;
        }
    }
    uint32_t parts[CUDA_PARTS];
    shape.parts = cuda_split_contexts(a->seqs, shape.decode_rows, parts);
    fixture_put(fixture, fixture_input(fixture, b->at.parts), parts, sizeof(parts));
    for (uint32_t h = 0; h < c->heads; h++)
        a->sinks[h] = test_to_bf16(sink + 0.5 * test_random_normal(r));
    test_fill_bf16(r, a->q, cells, query_size);
    fixture_put(fixture, a->layer->sinks, a->sinks, c->heads * 2);
    fixture_put(fixture, b->ws.q, a->q, cells * 2);
    fixture_put(fixture, fixture_input(fixture, b->at.seqs), a->seqs,
                a->seq_count * sizeof(a->seqs[0]));
    fixture_put(fixture, fixture_input(fixture, b->at.tables), a->tables,
                (size_t)a->seq_count * 2 * TABLE * 4);
    if (shape.query_tiles != 0) {
        fixture_put(fixture, fixture_input(fixture, b->at.tile_seq), tile_seq,
                    shape.query_tiles * 4);
        fixture_put(fixture, fixture_input(fixture, b->at.tile_first), tile_first,
                    shape.query_tiles * 4);
    }
    fixture_poison(fixture, b->ws.mixed, cells * 2);
    test_must(cuda_launch_attention(b, a->layer, &shape, &err), &err, "attention");
    fixture_get(fixture, b->ws.mixed, a->got, cells * 2);
    test_parallel(a->rows, expect_row, a);
    return test_error_bf16(a->got, a->want, cells);
}

__attribute__((format(printf, 4, 5))) static void
run(struct attention *a, struct test_random *r, double sink, const char *format, ...)
{
    char name[NAME_MAX_BYTES];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(name, sizeof(name), format, args);
    va_end(args);
    test_check(run_once(a, r, sink, 0), TEST_LIMIT, "attention %s, even", name);
    test_check(run_once(a, r, sink, 1.5), TEST_LIMIT, "attention %s", name);
    a->seq_count = a->rows = 0;
}

/* The layer of the given kind; the window is set in the config, which the launches read. */
static void use_window(struct attention *a, uint32_t window)
{
    a->window = window;
    a->layer = &a->fixture->b->layers[window != 0 ? 0 : a->fixture->config->layers - 1];
    if (window != 0)
        a->fixture->model->m.config.window = window;
}

static void test_decode(struct attention *a, struct test_random *r, uint32_t group)
{
    static const uint32_t contexts[] = {1, 15, 16, 17, 63, 64, 65, 127, 128, 129, 1000, 5000};
    static const uint32_t windows[] = {0, 16, 64, 128}, rows[] = {2, 3, 5, 8, 17, 33, 64, 100};
    for (int w = 0; w < 4; w++) {
        use_window(a, windows[w]);
        for (size_t i = 0; i < sizeof(contexts) / sizeof(contexts[0]) * 2; i++) {
            uint32_t context = contexts[i / 2],
                     count = i % 2 == 0 ? 1 : 3; /* selects two kernels */
            double sink = i / 2 % 3 == 0 ? 30 : i / 2 % 3 == 1 ? -30 : 0;
            for (uint32_t k = 0; k < count; k++)
                add_seq(a, r, context - 1, 1);
            run(a, r, sink, "decode group %u window %u context %u sink %+.0f rows %u", group,
                windows[w], context, sink, count);
        }
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
            for (uint32_t k = 0; k < rows[i]; k++)
                add_seq(a, r, k % 5 == 0 ? contexts[k % 12] - 1 : test_random_below(r, 3000),
                        1);
            run(a, r, 0, "decode group %u window %u rows %u", group, windows[w], rows[i]);
        }
    }
}

static void test_prefill(struct attention *a, struct test_random *r, uint32_t group)
{
    static const uint32_t windows[] = {0, 16, 64, 128};
    static const uint32_t chunks[][2] = {{0, 2},     {0, 16},    {0, 64},  {63, 2},    {60, 9},
                                         {100, 129}, {500, 257}, {0, 300}, {4900, 100}};
    for (int w = 0; w < 4; w++) {
        use_window(a, windows[w]);
        for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
            double sink = i % 3 == 0 ? 0 : i % 3 == 1 ? 30 : -30;
            add_seq(a, r, chunks[i][0], chunks[i][1]);
            run(a, r, sink, "prefill group %u window %u position %u tokens %u sink %+.0f",
                group, windows[w], chunks[i][0], chunks[i][1], sink);
        }
        add_seq(a, r, 700, 1);
        add_seq(a, r, 3, 1);
        add_seq(a, r, 0, 33);
        add_seq(a, r, 129, 70);
        add_seq(a, r, 64, 64);
        run(a, r, 0, "group %u window %u: tokens and prompts together", group, windows[w]);
    }
}

static uint16_t *fill_pool(struct fixture *fixture, struct test_random *r, CUdeviceptr memory,
                           uint64_t bytes)
{
    uint16_t *pool = test_alloc(bytes / 2, 2);
    test_fill_bf16(r, pool, bytes / 2, 1);
    fixture_put(fixture, (const void *)(uintptr_t)memory, pool, bytes);
    return pool;
}

void test_attention(struct test_random *r)
{
    static const struct test_shape shapes[] = {
        {"group 1", 3, 32, 32, 2, 2, 1, 1, 17, 128, false, false},
        {"group 3", 3, 32, 32, 6, 2, 1, 1, 17, 128, false, false},
        {"group 8", 3, 32, 32, 16, 2, 1, 1, 17, 128, false, false},
        {"group 16", 3, 32, 32, 16, 1, 1, 1, 17, 128, false, false},
    };
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct fixture fixture;
        fixture_open(&fixture, &shapes[i], 100 + i);
        uint32_t group = shapes[i].heads / shapes[i].kv_heads;
        size_t cells = (size_t)FIXTURE_TOKENS * shapes[i].heads * 64;
        /* As many window pages as full pages are enough, and faster to fill. */
        uint32_t windows = fixture.plan.window_pages < FIXTURE_PAGES ? fixture.plan.window_pages
                                                                     : FIXTURE_PAGES;
        struct attention a = {.fixture = &fixture,
                              .pool_pages = {fixture.plan.full_pages, windows},
                              .tables = test_alloc((size_t)SEQS_MAX * 2 * TABLE, 4),
                              .q = test_alloc(cells, 2),
                              .got = test_alloc(cells, 2),
                              .sinks = test_alloc(shapes[i].heads, 2),
                              .want = test_alloc(cells, 8)};
        uint16_t *full = fill_pool(&fixture, r, fixture.b->full_memory,
                                   fixture.plan.full_pages * fixture.plan.full_page_bytes);
        uint16_t *window = fill_pool(&fixture, r, fixture.b->window_memory,
                                     windows * fixture.plan.window_page_bytes);
        a.pool[0] = full;
        a.pool[1] = window;
        test_decode(&a, r, group);
        test_prefill(&a, r, group);
        fixture_act_smaller(fixture.b);
        test_prefill(&a, r, group);
        free(a.tables), free(a.q), free(a.got), free(a.sinks), free(a.want);
        free(full), free(window);
        fixture_close(&fixture);
    }
}
