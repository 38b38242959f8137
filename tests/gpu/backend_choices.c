/* tests/gpu/backend_choices.c - why single rows of the CUDA backend's logits are far off.
 *
 * Both backends report the input and the choice of each layer's router (struct gptoss_trace).
 * From the input this test computes the router's logits in double precision.  Then it checks:
 *
 *   - every choice is right for the router's input;
 *   - where a row first chooses differently, before it attended to any row that did, the
 *     decision was a near tie: the CPU's distance between the last chosen logit and the first
 *     one that was not chosen is at most 8 times the effect of rounding on a router's logit
 *     (root mean square over all undisturbed rows);
 *   - a row that chose like the CPU in all layers, and attends only to such rows, has only the
 *     error of bf16 activations: at most 8 times the error of the CPU backend when it rounds
 *     activations where the CUDA backend does (or their median: a row may be lucky there).
 *
 * So a row far from float32 is one of three: it chose differently at a near tie, it attends to
 * such a row, or bf16 has a large effect on it.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "tests/gpu/backend_test.h"
#include "tests/gpu/fixture.h"
#include "tests/gpu/reference.h"

#define FAR 3e-2 /* a golden case's limit */

/* The routers' inputs and choices of one backend over a prompt. */
struct record {
    const struct model_config *config;
    uint32_t first;   /* position of the step's first row */
    float *residual;  /* [layer][CONTEXT][hidden] */
    uint32_t *choice; /* [layer][CONTEXT][topk] */
};

static void routed(void *ctx, uint32_t layer, uint32_t rows, const float *residual,
                   const uint32_t *choice)
{
    struct record *r = ctx;
    size_t at = (size_t)layer * CONTEXT + r->first, hidden = r->config->hidden,
           topk = r->config->experts_per_token;
    memcpy(r->residual + at * hidden, residual, rows * hidden * sizeof(*residual));
    memcpy(r->choice + at * topk, choice, rows * topk * sizeof(*choice));
}

static void record_open(struct record *r, const struct model_config *c)
{
    size_t rows = (size_t)c->layers * CONTEXT;
    *r = (struct record){.config = c,
                         .residual = test_alloc(rows * c->hidden, 4),
                         .choice = test_alloc(rows * c->experts_per_token, 4)};
}

static void record_close(struct record *r)
{
    free(r->residual);
    free(r->choice);
}

/* One (layer, position) of a backend. */
struct race {
    double logits[CUDA_EXPERTS_MAX];
    bool chosen[CUDA_EXPERTS_MAX];
    double margin; /* between the last chosen logit and the first not chosen; negative: wrong
                      choice */
};

static void see_race(const struct record *r, const struct model_gptoss *m, uint32_t layer,
                     uint32_t position, struct race *out)
{
    const struct model_config *c = r->config;
    const struct model_gptoss_layer *l = &m->layers[layer];
    size_t row = (size_t)layer * CONTEXT + position;
    double *normed = test_alloc(c->hidden, 8), last = INFINITY, next = -INFINITY;
    reference_norm(c, r->residual + row * c->hidden, l->mlp_norm, normed);
    memset(out->chosen, 0, sizeof(out->chosen));
    for (uint32_t k = 0; k < c->experts_per_token; k++)
        out->chosen[r->choice[row * c->experts_per_token + k]] = true;
    for (uint32_t e = 0; e < c->experts; e++) {
        double sum = test_from_bf16(l->router_bias[e]);
        for (uint32_t d = 0; d < c->hidden; d++)
            sum += test_from_bf16(l->router_weight[(size_t)e * c->hidden + d]) * normed[d];
        out->logits[e] = sum;
        if (out->chosen[e])
            last = fmin(last, sum);
        else
            next = fmax(next, sum);
    }
    out->margin = last - next;
    free(normed);
}

/* The results for one prompt. */
struct found {
    const struct model_gptoss *m;
    const struct record *cpu, *cuda;
    uint32_t rows;
    struct race *races; /* [layer][row][cpu, cuda] */
    bool own[CONTEXT];  /* chose differently in some layer */
    bool met[CONTEXT];  /* own, or attends to a row with met */
    uint32_t wrong;     /* choices that are not the largest logits */
    uint32_t turns;     /* first different choices of undisturbed rows */
    double widest;      /* largest margin of those */
    double noise;       /* root mean square difference of a logit */
};

static void race_task(void *ctx, uint32_t i)
{
    const struct found *f = ctx;
    const struct record *r = i % 2 == 0 ? f->cpu : f->cuda;
    see_race(r, f->m, i / 2 / f->rows, i / 2 % f->rows, &f->races[i]);
}

/* Row i is disturbed by the rows that it attends to. */
static void meet(struct found *f, uint32_t layer)
{
    const struct model_config *c = &f->m->config;
    bool before[CONTEXT];
    memcpy(before, f->met, sizeof(before));
    for (uint32_t i = 0; i < f->rows; i++)
        for (uint32_t j = 0; j < i; j++)
            if (before[j] && (!c->sliding[layer] || j + c->window > i))
                f->met[i] = true;
}

static void find(struct found *f)
{
    const struct model_config *c = &f->m->config;
    double squares = 0;
    size_t count = 0;
    f->races = test_alloc((size_t)c->layers * f->rows * 2, sizeof(*f->races));
    test_parallel(c->layers * f->rows * 2, race_task, f);
    for (uint32_t l = 0; l < c->layers; l++) {
        meet(f, l);
        for (uint32_t i = 0; i < f->rows; i++) {
            const struct race *want = &f->races[((size_t)l * f->rows + i) * 2], *got = want + 1;
            f->wrong += want->margin < -1e-5 || got->margin < -1e-5;
            for (uint32_t e = 0; e < c->experts && !f->met[i]; e++) {
                double d = got->logits[e] - want->logits[e];
                squares += d * d;
                count++;
            }
            if (memcmp(want->chosen, got->chosen, sizeof(want->chosen)) == 0)
                continue;
            if (!f->met[i]) {
                f->turns++;
                f->widest = fmax(f->widest, want->margin);
            }
            f->own[i] = f->met[i] = true;
        }
    }
    f->noise = count != 0 ? sqrt(squares / (double)count) : 0;
    free(f->races);
}

static void row_errors(const float *got, const float *want, uint32_t rows, uint32_t vocab,
                       double *out)
{
    for (uint32_t i = 0; i < rows; i++) {
        double off = 0, size = 0;
        test_distance(got + (size_t)i * vocab, want + (size_t)i * vocab, vocab, &off, &size);
        out[i] = sqrt(off / size);
    }
}

/* errors: of each row; rounding: the error of bf16 activations alone. */
static void judge(const char *name, struct found *f, const double *errors,
                  const double *rounding)
{
    uint32_t count[3] = {0}, far[3] = {0};
    double sorted[CONTEXT], calm[CONTEXT], worst[3] = {0}, excess = 0;
    memcpy(sorted, rounding, f->rows * sizeof(*sorted));
    double usual = test_median(sorted, f->rows);
    find(f);
    for (uint32_t i = 0; i < f->rows; i++) {
        int kind = f->own[i] ? 2 : f->met[i] ? 1 : 0;
        if (kind == 0) {
            calm[count[0]] = errors[i];
            excess = fmax(excess, errors[i] / fmax(rounding[i], usual));
        }
        count[kind]++;
        far[kind] += !(errors[i] <= FAR);
        worst[kind] = fmax(worst[kind], errors[i]);
    }
    printf(
        "     %s: rows above 3e-2 and worst: %u of %u that chose differently, %.1e; %u of %u "
        "that attend to such, %.1e; %u of %u others, %.1e, median %.1e; widest margin %.1e, "
        "noise %.1e\n",
        name, far[2], count[2], worst[2], far[1], count[1], worst[1], far[0], count[0],
        worst[0], test_median(calm, count[0]), f->widest, f->noise);
    test_check(f->wrong, 0, "choices %s: the largest logits", name);
    test_check(f->turns != 0 ? f->widest / f->noise : 0, 8,
               "choices %s: margin of different choices, times noise", name);
    test_check(excess, 8, "choices %s: undisturbed rows, times rounding", name);
}

enum { CPU, CPU_BF16, CUDA, DEVICES };

static void compare(const char *name, const struct model_gptoss *m, const uint32_t *usable,
                    const uint32_t *ids, uint32_t count)
{
    static const uint32_t chunks[] = {CHUNK, 7, 1};
    struct record records[DEVICES];
    struct gptoss_trace traces[DEVICES];
    struct device devices[DEVICES];
    float *logits[DEVICES];
    double rounding[CONTEXT], errors[CONTEXT];
    for (int i = 0; i < DEVICES; i++) {
        record_open(&records[i], &m->config);
        traces[i] = (struct gptoss_trace){.ctx = &records[i], .routed = routed};
        device_open(&devices[i], i == CUDA ? gptoss_backend_cuda() : gptoss_backend_cpu(),
                    i == CUDA ? "cuda:0" : "cpu", m, usable,
                    i == CPU_BF16 ? "{\"activations\": \"bf16\"}" : NULL, &traces[i]);
        logits[i] = test_alloc((size_t)count * m->vocab_rows, 4);
        if (i != CUDA)
            device_forward(&devices[i], &(struct part){0, 0, count, ids, logits[i]}, 1);
    }
    row_errors(logits[CPU_BF16], logits[CPU], count, m->vocab_rows, rounding);
    for (size_t c = 0; c < sizeof(chunks) / sizeof(chunks[0]); c++) {
        struct found f = {.m = m, .cpu = &records[CPU], .cuda = &records[CUDA], .rows = count};
        char what[160];
        for (uint32_t at = 0; at < count; at += chunks[c]) {
            uint32_t n = count - at < chunks[c] ? count - at : chunks[c];
            float *out = logits[CUDA] + (size_t)at * m->vocab_rows;
            records[CUDA].first = at;
            device_forward(&devices[CUDA], &(struct part){1, at, n, ids, out}, 1);
        }
        (void)snprintf(what, sizeof(what), "%s, chunks of %u", name, chunks[c]);
        row_errors(logits[CUDA], logits[CPU], count, m->vocab_rows, errors);
        judge(what, &f, errors, rounding);
    }
    for (int i = 0; i < DEVICES; i++) {
        devices[i].api->close(devices[i].backend);
        record_close(&records[i]);
        free(logits[i]);
    }
}

static void golden_case(const char *name, const struct model_gptoss *m,
                        const struct lr_json *ids)
{
    uint32_t list[CONTEXT], count = ids->count < CHUNK ? ids->count : CHUNK;
    uint32_t *usable = test_alloc(m->vocab_rows / 32 + 1, 4);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t id = 0;
        (void)lr_json_u64(&ids->items[i], &id);
        list[i] = (uint32_t)id;
    }
    compare(name, m, usable, list, count);
    free(usable);
}

static void test_golden(const char *model_dir, const char *golden)
{
    struct lr_error err = {0};
    struct lr_arena arena;
    struct lr_str text;
    const struct lr_json *json;
    struct model_gptoss *m = NULL;
    lr_arena_init(&arena, 64 << 20);
    test_must(lr_file_read(&arena, golden, 16 << 20, &text, &err), &err, golden);
    test_must(lr_json_parse(&arena, text, NULL, &json, &err), &err, golden);
    test_must(model_gptoss_open(model_dir, NULL, &m, &err), &err, model_dir);
    const struct lr_json *cases = lr_json_get(json, "cases");
    for (uint32_t i = 0; cases != NULL && i < cases->count; i++) {
        char name[64];
        (void)snprintf(name, sizeof(name), "%.*s", (int)cases->members[i].key.len,
                       cases->members[i].key.ptr);
        golden_case(name, m, lr_json_get(&cases->members[i].value, "ids"));
    }
    model_gptoss_close(m);
    lr_arena_free(&arena);
}

/* name, layers, hidden, intermediate, heads, kv heads, experts, topk, vocab, window, ties,
 * steady router: in some routers biases decide, in others tokens, which gives many near
 * ties. */
static const struct test_shape shapes[] = {
    {"odd", 3, 192, 160, 3, 1, 5, 3, 517, 32, false, true},
    {"crowded", 4, 160, 96, 16, 1, 32, 8, 1000, 64, false, true},
    {"crowded, unsteady", 4, 160, 96, 16, 1, 32, 8, 1000, 64, false, false},
    {"pairs", 3, 256, 224, 8, 8, 8, 2, 2000, 100, false, true}, /* as in backend_test.c */
    {"2880 experts", 1, 2880, 160, 8, 1, 32, 4, 517, 128, false, true},
    {"pairs, unsteady", 3, 256, 224, 8, 8, 8, 2, 2000, 100, false, false},
};

void test_choices(const char *root)
{
    char model[4096], golden[4096];
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        struct test_model *t = test_model_create(&shapes[i], i);
        struct test_random r = {i + 1000};
        uint32_t ids[200];
        for (uint32_t k = 0; k < 200; k++)
            ids[k] = test_random_below(&r, shapes[i].vocab);
        compare(shapes[i].name, &t->m, t->usable, ids, shapes[i].hidden > 1000 ? 70 : 200);
        test_model_destroy(t);
    }
    (void)snprintf(model, sizeof(model), "%s/models/demo", root);
    (void)snprintf(golden, sizeof(golden), "%s/tests/fixtures/golden/demo/golden.json", root);
    test_golden(model, golden);
    (void)snprintf(model, sizeof(model), "%s/tests/fixtures/golden/odd/model", root);
    (void)snprintf(golden, sizeof(golden), "%s/tests/fixtures/golden/odd/golden/golden.json",
                   root);
    test_golden(model, golden);
}
