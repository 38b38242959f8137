/* tests/gpu/backend_test.c - the CUDA backend as a whole, against the CPU backend on random
 * models of odd shapes, and through the engine on the demo model (backend_engine.c).
 *
 * Logits: |difference| / |CPU| is at most 3e-2 over a case and 6e-3 at the median row.  A row
 * that is further off comes from an expert chosen differently at a near tie; the models'
 * routers are made so that those are rare. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/gpu/backend_test.h"
#include "tests/gpu/bed.h"

enum { SEQUENCES = 4, CONTEXT = 512, CHUNK = 400, PAGES_MAX = CONTEXT / 16 };

struct device {
    const struct gptoss_backend_api *api;
    struct gptoss_plan plan;
    struct gptoss_backend *backend;
};

static void device_open(struct device *d, const struct gptoss_backend_api *api,
                        const char *name, const struct test_model *model)
{
    const struct gptoss_backend_options options = {.device = name,
                                                   .kv_tokens = SEQUENCES * CONTEXT,
                                                   .max_sequences = SEQUENCES,
                                                   .max_context = CONTEXT,
                                                   .prefill_chunk = CHUNK};
    const struct gptoss_backend_host host = {0};
    struct lr_error err = {0};
    *d = (struct device){.api = api};
    test_must(api->plan(&model->m.config, &options, &d->plan, &err), &err, name);
    test_must(api->open(&host, &model->m, model->usable, &options, &d->plan, &d->backend, &err),
              &err, name);
}

/* One sequence's part in a step: `count` tokens from `from` on, logits to `out`. */
struct part {
    uint32_t slot, from, count;
    const uint32_t *ids; /* the sequence's */
    float *out;
};

static void forward(struct device *d, const struct part *parts, uint32_t count)
{
    struct gptoss_step steps[SEQUENCES];
    uint32_t full[SEQUENCES][PAGES_MAX], window[SEQUENCES][PAGES_MAX];
    struct gptoss_batch batch = {.steps = steps, .count = count};
    uint32_t page = d->plan.page_tokens, own = d->plan.window_pages / SEQUENCES;
    struct lr_error err = {0};
    for (uint32_t i = 0; i < count; i++) {
        const struct part *p = &parts[i];
        uint32_t pages = (p->from + p->count + page - 1) / page;
        for (uint32_t k = 0; k < pages; k++) {
            full[i][k] = p->slot * (CONTEXT / page) + k;
            window[i][k] = p->slot * own + k % own;
        }
        steps[i] = (struct gptoss_step){.slot = p->slot,
                                        .position = p->from,
                                        .count = p->count,
                                        .page_count = pages,
                                        .tokens = p->ids + p->from,
                                        .full_pages = full[i],
                                        .window_pages = window[i],
                                        .logits = p->out};
        batch.tokens += p->count;
    }
    test_must(d->api->forward(d->backend, &batch, &err), &err, d->api->name);
}

/* One token of each of `count` sequences, drawn greedily: the step that is replayed as a
 * graph.  Its logits are read from the device, one row a sequence; returns how many draws are
 * not the largest logit. */
static uint32_t forward_drawn(struct device *d, const uint32_t *ids, uint32_t from,
                              uint32_t count, float *logits, uint32_t vocab)
{
    struct gptoss_step steps[SEQUENCES];
    struct gptoss_sampled drawn[SEQUENCES];
    uint32_t full[SEQUENCES][PAGES_MAX], window[SEQUENCES][PAGES_MAX], wrong = 0;
    const struct gptoss_batch batch = {.steps = steps, .count = count, .tokens = count};
    const struct lr_sampling sampling = {.size = sizeof(sampling), .top_p = 1};
    const struct gptoss_sample greedy = {.sampling = &sampling};
    uint32_t page = d->plan.page_tokens, own = d->plan.window_pages / SEQUENCES;
    struct bed bed = {.b = d->backend};
    struct lr_error err = {0};
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k <= from / page; k++) {
            full[i][k] = i * (CONTEXT / page) + k;
            window[i][k] = i * own + k % own;
        }
        steps[i] = (struct gptoss_step){.slot = i,
                                        .position = from,
                                        .count = 1,
                                        .page_count = from / page + 1,
                                        .tokens = ids + from,
                                        .full_pages = full[i],
                                        .window_pages = window[i],
                                        .sample = &greedy,
                                        .sampled = &drawn[i]};
    }
    test_must(d->api->forward(d->backend, &batch, &err), &err, d->api->name);
    for (uint32_t i = 0; i < count; i++) {
        float *row = logits + (size_t)i * vocab;
        uint32_t best = 0;
        bed_get(&bed, d->backend->ws.logits + (size_t)i * d->backend->logit_stride, row,
                vocab * 4);
        for (uint32_t k = 1; k < vocab; k++)
            best = row[k] > row[best] ? k : best;
        wrong += drawn[i].id != best;
    }
    return wrong;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void compare(const char *shape, const char *what, const float *got, const float *want,
                    uint32_t rows, uint32_t vocab)
{
    double *error = test_alloc(rows, 8), off = 0, size = 0;
    uint32_t far = 0;
    for (uint32_t i = 0; i < rows; i++) {
        double row_off = 0, row_size = 0;
        for (uint32_t k = 0; k < vocab; k++) {
            double w = (double)want[(size_t)i * vocab + k],
                   d = (double)got[(size_t)i * vocab + k] - w;
            row_off += d * d;
            row_size += w * w;
        }
        error[i] = sqrt(row_off / row_size);
        far += !(error[i] <= 3e-2);
        off += row_off;
        size += row_size;
    }
    qsort(error, rows, sizeof(*error), by_value);
    test_check(sqrt(off / size), 3e-2, "%s, %s: logits of %u rows, %u above 3e-2", shape, what,
               rows, far);
    test_check(error[rows / 2], 6e-3, "%s, %s: median row", shape, what);
    free(error);
}

static void run_shape(const struct test_shape *shape, uint64_t seed, uint32_t length)
{
    struct test_model *model = test_model_create(shape, seed);
    struct test_random r = {seed + 1000};
    struct device cpu, cuda;
    uint32_t vocab = shape->vocab, *ids = test_alloc((size_t)SEQUENCES * CONTEXT, 4);
    float *want = test_alloc((size_t)length * vocab, 4),
          *got = test_alloc((size_t)length * vocab, 4);
    for (uint32_t i = 0; i < SEQUENCES * CONTEXT; i++)
        ids[i] = test_random_below(&r, vocab);
    device_open(&cpu, gptoss_backend_cpu(), "cpu", model);
    device_open(&cuda, gptoss_backend_cuda(), "cuda:0", model);

    forward(&cpu, &(struct part){0, 0, length, ids, want}, 1);
    forward(&cuda, &(struct part){0, 0, length, ids, got}, 1);
    compare(shape->name, "one prompt", got, want, length, vocab);

    static const uint32_t chunks[] = {1, 7, 64};
    for (int c = 0; c < 3; c++) {
        char what[32];
        uint32_t rows = chunks[c] == 1 && length > 70 ? 70 : length;
        memset(got, 0xFF, (size_t)length * vocab * 4);
        for (uint32_t at = 0; at < rows; at += chunks[c]) {
            uint32_t n = rows - at < chunks[c] ? rows - at : chunks[c];
            forward(&cuda, &(struct part){1, at, n, ids, got + (size_t)at * vocab}, 1);
        }
        (void)snprintf(what, sizeof(what), "chunks of %u", chunks[c]);
        compare(shape->name, what, got, want, rows, vocab);
    }

    /* Token by token as graphs: alone, then SEQUENCES times the same. */
    for (uint32_t n = 1; n <= SEQUENCES; n += SEQUENCES - 1) {
        uint32_t rows = length < 70 ? length : 70, wrong = 0;
        float *drawn = test_alloc((size_t)SEQUENCES * vocab, 4);
        char what[48];
        for (uint32_t at = 0; at < rows; at++) {
            wrong += forward_drawn(&cuda, ids, at, n, drawn, vocab);
            memcpy(got + (size_t)at * vocab, drawn + (size_t)(n - 1) * vocab, vocab * 4);
        }
        (void)snprintf(what, sizeof(what), "graphs of %u sequence(s)", n);
        compare(shape->name, what, got, want, rows, vocab);
        test_check(wrong, 0, "%s, %s: greedy draws", shape->name, what);
        free(drawn);
    }

    /* A token, a prompt and a chunk at one time: the rows of the first prompt again. */
    uint32_t half = length / 2;
    const struct part before[] = {{2, 0, length - 1, ids, got}, {3, 0, half, ids, got}};
    forward(&cuda, &before[0], 1);
    forward(&cuda, &before[1], 1);
    memset(got, 0xFF, (size_t)length * vocab * 4);
    float *other = test_alloc((size_t)length * vocab, 4), last[2048];
    const struct part mixed[] = {{0, 0, length, ids, other},
                                 {2, length - 1, 1, ids, last},
                                 {3, half, length - half, ids, got}};
    forward(&cuda, mixed, 3);
    compare(shape->name, "mixed batch, prompt", other, want, length, vocab);
    compare(shape->name, "mixed batch, token", last, want + (size_t)(length - 1) * vocab, 1,
            vocab);
    compare(shape->name, "mixed batch, chunk", got, want + (size_t)half * vocab, length - half,
            vocab);
    cpu.api->close(cpu.backend);
    cuda.api->close(cuda.backend);
    free(ids), free(want), free(got), free(other);
    test_model_destroy(model);
}

/* name, layers, hidden, intermediate, heads, kv heads, experts, topk, vocab, window, ties,
 * steady router. */
static const struct test_shape shapes[] = {
    {"odd", 3, 192, 160, 3, 1, 5, 3, 517, 32, false, true},
    {"narrow", 2, 32, 32, 1, 1, 1, 1, 17, 16, false, true},
    {"crowded", 4, 160, 96, 16, 1, 32, 8, 1000, 64, false, true},
    {"pairs", 3, 256, 224, 8, 8, 8, 2, 2000, 100, false, true},
    {"2880", 1, 2880, 2880, 64, 8, 4, 2, 517, 128, false, true},
    {"2880 experts", 1, 2880, 160, 8, 1, 32, 4, 517, 128, false, true},
};

/* backend_test [backend|engine|all] [DEMO MODEL] */
int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    for (size_t i = 0; strcmp(part, "engine") != 0 && i < sizeof(shapes) / sizeof(shapes[0]);
         i++)
        run_shape(&shapes[i], i, shapes[i].hidden > 1000 ? 70 : 200);
    if (strcmp(part, "backend") != 0)
        test_engine(argc > 2 ? argv[2] : LR_SOURCE_DIR "/models/demo");
    return test_verdict();
}
