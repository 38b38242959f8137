/* tests/gpu/kernels_time.c - the time of a decode step: each operation of a layer alone, over
 * all layers of a full-size model with random weights, then the whole step.
 *
 * kernels_time [SHAPE [CONTEXT [ROWS...]]]: by default "20b", 576 and 8 32 64.  "pROWS", up to
 * p2048, are one prompt's, the first at position CONTEXT; "sROWS" are computed without the
 * kernels of token.cu and attend_layer.cu.  An operation is captured
 * as a graph of one launch a layer, so weights come from memory and not from L2; times include
 * the cost of a dependent launch.  At the end, the sampling with filters.  Needs an NVIDIA GPU.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "model/shape.h"
#include "tests/gpu/fixture.h"

enum { REPEATS = 10, PROMPT_MAX = 2048, STEP_MAX = 512 };

struct timed {
    struct gptoss_backend *b;
    struct cuda_shape shape;
    const char *name;
    lr_code (*launch)(struct gptoss_backend *b, const struct cuda_layer *l,
                      const struct cuda_shape *s, struct lr_error *err);
};

static lr_code run_qkv(struct gptoss_backend *b, const struct cuda_layer *l,
                       const struct cuda_shape *s, struct lr_error *err)
{
    return cuda_launch_qkv(b, l, s->rows, false, err);
}

static lr_code run_out(struct gptoss_backend *b, const struct cuda_layer *l,
                       const struct cuda_shape *s, struct lr_error *err)
{
    return cuda_launch_out(b, l, s->rows, err);
}

static lr_code run_route(struct gptoss_backend *b, const struct cuda_layer *l,
                         const struct cuda_shape *s, struct lr_error *err)
{
    return cuda_launch_norm(b, l->mlp_norm, l, b->ws.normed, NULL, s->rows, err);
}

static lr_code run_norm(struct gptoss_backend *b, const struct cuda_layer *l,
                        const struct cuda_shape *s, struct lr_error *err)
{
    return cuda_launch_norm(b, l->attn_norm, NULL, b->ws.normed, NULL, s->rows, err);
}

static lr_code run_experts(struct gptoss_backend *b, const struct cuda_layer *l,
                           const struct cuda_shape *s, struct lr_error *err)
{
    return cuda_launch_experts(b, l, s->rows, NULL, err);
}

static lr_code run_sampling(struct gptoss_backend *b, const struct cuda_layer *l,
                            const struct cuda_shape *s, struct lr_error *err)
{
    (void)l;
    return cuda_launch_sampling(b, s->out_rows, err);
}

static lr_code run_logits(struct gptoss_backend *b, const struct cuda_layer *l,
                          const struct cuda_shape *s, struct lr_error *err)
{
    struct cuda_shape quiet = *s;
    quiet.sample = false;
    (void)l;
    return cuda_launch_logits(b, &quiet, 0, s->out_rows, err);
}

/* One launch a layer; NULL launch: the whole step.  Returns microseconds of the graph. */
static double time_graph(const struct timed *t, bool sliding, bool full)
{
    struct gptoss_backend *b = t->b;
    const struct cuda_driver *cu = b->cu;
    struct lr_error err = {0};
    CUgraph graph = NULL;
    CUgraphExec exec = NULL;
    double best = 1e30;
    if (cu->cuStreamBeginCapture(b->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) != 0)
        return 0;
    lr_code code = t->launch == NULL ? cuda_launch_layers(b, &t->shape, &err) : LR_OK;
    for (uint32_t i = 0; t->launch != NULL && i < b->config->layers && code == LR_OK; i++)
        if (b->layers[i].sliding ? sliding : full)
            code = t->launch(b, &b->layers[i], &t->shape, &err);
    if (code == LR_OK && t->launch == NULL)
        code = cuda_launch_logits(b, &t->shape, 0, t->shape.out_rows, &err);
    (void)cu->cuStreamEndCapture(b->stream, &graph);
    test_must(code, &err, t->name);
    (void)cu->cuGraphInstantiateWithFlags(&exec, graph, 0);
    (void)cu->cuGraphDestroy(graph);
    for (int i = 0; i < REPEATS; i++) {
        uint64_t start = lr_clock_ns(NULL);
        for (int k = 0; k < 3; k++)
            (void)cu->cuGraphLaunch(exec, b->stream);
        CUresult ended = cu->cuStreamSynchronize(b->stream);
        if (ended != CUDA_SUCCESS)
            test_must(cuda_fail(cu, ended, t->name, &err), &err, t->name);
        double us = (double)(lr_clock_ns(NULL) - start) / 3e3;
        best = us < best ? us : best;
    }
    (void)cu->cuGraphExecDestroy(exec);
    return best;
}

/* One prompt of `rows` tokens from position `context` on. */
static void real_prompt(struct gptoss_backend *b, uint32_t rows, uint32_t context)
{
    static uint32_t tokens[PROMPT_MAX];
    uint32_t count = (context + rows) / CUDA_PAGE_TOKENS + 1;
    uint32_t *pages = test_alloc(count, 4);
    struct lr_error err = {0};
    for (uint32_t k = 0; k < count; k++)
        pages[k] = k % b->plan.window_pages;
    for (uint32_t i = 0; i < rows; i++)
        tokens[i] = (i + 1) * 2654435761u % b->vocab_rows;
    struct gptoss_step step = {.position = context,
                               .count = rows,
                               .page_count = count,
                               .tokens = tokens,
                               .full_pages = pages,
                               .window_pages = pages};
    const struct gptoss_batch batch = {.steps = &step, .count = 1, .tokens = rows};
    test_must(gptoss_backend_cuda()->forward(b, &batch, &err), &err, "a prompt");
    free(pages);
}

/* A real step of `rows` sequences at position `context`, so that rows and choices are
 * realistic. */
static void real_step(struct gptoss_backend *b, uint32_t rows, uint32_t context)
{
    static struct gptoss_step steps[STEP_MAX];
    static struct sampler_result sampled[STEP_MAX];
    static uint32_t tokens[STEP_MAX];
    const struct lr_sampling sampling = {.size = sizeof(sampling), .top_p = 1};
    const struct sampler_input how = {.sampling = &sampling};
    uint32_t count = context / CUDA_PAGE_TOKENS + 1;
    uint32_t *pages = test_alloc((size_t)rows * count, 4),
             *windows = test_alloc((size_t)rows * count, 4);
    struct lr_error err = {0};
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t k = 0; k < count; k++) {
            pages[i * count + k] = i * count + k;
            windows[i * count + k] = (i * count + k) % b->plan.window_pages;
        }
        tokens[i] = (i + 1) * 2654435761u % b->vocab_rows;
        steps[i] = (struct gptoss_step){.slot = i,
                                        .position = context,
                                        .count = 1,
                                        .page_count = count,
                                        .tokens = &tokens[i],
                                        .full_pages = pages + (size_t)i * count,
                                        .window_pages = windows + (size_t)i * count,
                                        .sample = &how,
                                        .sampled = &sampled[i]};
    }
    const struct gptoss_batch batch = {.steps = steps, .count = rows, .tokens = rows};
    test_must(gptoss_backend_cuda()->forward(b, &batch, &err), &err, "a step");
    free(pages);
    free(windows);
}

static void print_spread(struct gptoss_backend *b, uint32_t rows)
{
    static uint32_t choice[PROMPT_MAX * CUDA_TOPK_MAX];
    uint32_t load[CUDA_EXPERTS_MAX] = {0}, used = 0, most = 0, groups = 0;
    uint32_t pairs = rows * b->config->experts_per_token;
    (void)b->cu->cuMemcpyDtoHAsync(choice, (CUdeviceptr)(uintptr_t)b->ws.choice, pairs * 4,
                                   b->stream);
    (void)b->cu->cuStreamSynchronize(b->stream);
    for (uint32_t i = 0; i < pairs; i++)
        load[choice[i] % CUDA_EXPERTS_MAX]++;
    for (uint32_t e = 0; e < b->config->experts; e++) {
        used += load[e] != 0;
        most = load[e] > most ? load[e] : most;
        groups += (load[e] + 15) / 16;
    }
    printf("rows %u, last layer: %u experts used, most tokens %u, groups of 16: %u\n", rows,
           used, most, groups);
}

/* Even choices, so that the experts' time does not depend on how a random model routes. */
static void put_choices(struct gptoss_backend *b, uint32_t rows)
{
    static uint32_t choice[PROMPT_MAX * CUDA_TOPK_MAX];
    uint32_t topk = b->config->experts_per_token;
    struct test_random r = {rows};
    for (uint32_t i = 0; i < rows * topk; i++) {
        bool taken;
        do {
            choice[i] = test_random_below(&r, b->config->experts);
            taken = false;
            for (uint32_t k = i / topk * topk; k < i; k++)
                taken = taken || choice[k] == choice[i];
        } while (taken);
    }
    (void)b->cu->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)b->ws.choice, choice,
                                   (size_t)rows * topk * 4, b->stream);
    (void)b->cu->cuStreamSynchronize(b->stream);
}

static void time_rows(struct gptoss_backend *b, uint32_t rows, bool prompt, uint32_t context)
{
    static const struct timed ops[] = {{.name = "norm + qkv", .launch = run_qkv},
                                       {.name = "norm alone", .launch = run_norm},
                                       {.name = "attention", .launch = cuda_launch_attention},
                                       {.name = "out", .launch = run_out},
                                       {.name = "norm + route", .launch = run_route},
                                       {.name = "experts", .launch = run_experts},
                                       {.name = "logits", .launch = run_logits},
                                       {.name = "sampling", .launch = run_sampling}};
    double layers = b->config->layers;
    struct cuda_shape shape = {.rows = rows, .decode_rows = rows, .out_rows = rows};
    if (prompt) {
        shape = (struct cuda_shape){.rows = rows, .out_rows = 1};
        uint32_t per_tile = cuda_target_query_tokens(&b->target, b->config);
        shape.query_tiles = (rows + per_tile - 1) / per_tile;
        real_prompt(b, rows, context);
    } else {
        real_step(b, rows, context);
    }
    print_spread(b, rows);
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) {
        struct timed t = ops[i];
        t.b = b;
        t.shape = shape;
        if (t.launch == run_experts)
            put_choices(b, rows);
        if (t.launch == cuda_launch_attention)
            printf("  %-14s %8.2f us a layer sliding, %.2f full\n", t.name,
                   time_graph(&t, true, false) / (layers / 2),
                   time_graph(&t, false, true) / (layers / 2));
        else
            printf("  %-14s %8.2f us a layer\n", t.name, time_graph(&t, true, true) / layers);
        (void)fflush(stdout);
    }
    struct timed all = {.b = b, .name = "step", .shape = shape};
    all.shape.sample = true;
    double us = time_graph(&all, true, true);
    printf("  %-14s %8.1f us, %.0f tokens/s\n", all.name, us, rows * 1e6 / us);
    (void)fflush(stdout);
}

int main(int argc, char **argv)
{
    const struct gptoss_backend_api *api = gptoss_backend_cuda();
    uint32_t context = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 576;
    uint32_t sequences = 64;
    for (int i = 3; i < argc; i++)
        if (strtoul(argv[i], NULL, 10) > sequences)
            sequences = STEP_MAX;
    const struct gptoss_backend_options options = {.device = "cuda:0",
                                                   .kv_tokens =
                                                       (uint64_t)sequences * (context + 64),
                                                   .max_sequences = sequences,
                                                   .max_context = context + PROMPT_MAX + 64,
                                                   .prefill_chunk = PROMPT_MAX};
    const struct gptoss_backend_host host = {0};
    struct model_gptoss *model = NULL;
    struct gptoss_backend *b = NULL;
    struct gptoss_plan plan;
    struct lr_error err = {0};
    test_must(model_shape_open(argc > 1 ? argv[1] : "20b", &model, &err), &err, "shape");
    uint32_t *usable = test_alloc((size_t)(model->vocab_rows + 31) / 32, 4);
    memset(usable, 0xFF, (size_t)(model->vocab_rows + 31) / 32 * 4);
    test_must(api->plan(&model->config, &options, &plan, &err), &err, "plan");
    test_must(api->open(&host, model, usable, &options, &plan, &b, &err), &err, "open");
    const uint32_t token_rows = b->token_rows, attend_rows = b->attend_rows;
    if (argc > 3)
        for (int i = 3; i < argc; i++) {
            const bool prompt = argv[i][0] == 'p', separate = argv[i][0] == 's';
            b->token_rows = separate ? 0 : token_rows;
            b->attend_rows = separate ? 0 : attend_rows;
            time_rows(b, (uint32_t)strtoul(argv[i] + (prompt || separate), NULL, 10), prompt,
                      context);
        }
    else
        for (uint32_t rows = 8; rows <= 64; rows *= rows == 8 ? 4 : 2)
            time_rows(b, rows, false, context);
    time_filters(b);
    api->close(b);
    model_gptoss_close(model);
    free(usable);
    return 0;
}
