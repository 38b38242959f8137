/* bench/llamacpp/bench_llamacpp.c - the engine ABI against a plain loop over llama_decode.
 *
 *   bench_llamacpp MODEL_DIR [THREADS [ROUNDS [DEVICE]]]
 *
 * Both do the same work with the same context, threads and batches: sequences of PROMPT
 * tokens are read in, then all decode together, greedily.  Rounds alternate between the
 * two, so that other work on the machine affects both; medians are compared.  Besides wall
 * time the program prints tokens per second of CPU time, which a busy machine hardly
 * changes as long as one thread computes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "engines/llamacpp/engine.h"
#include "engines/llamacpp/model.h"

enum { SEQUENCES = 16, PROMPT = 32, GENERATE = 64, ROUNDS_MAX = 99 };

static void die(const char *what, const struct lr_error *err)
{
    (void)fprintf(stderr, "bench_llamacpp: %s: %s\n", what, err->text);
    exit(1);
}

static uint32_t prompt_id(uint32_t sequence, uint32_t i)
{
    return 33 + (sequence * 131 + i * 17) % 200;
}

/* ---- the plain loop ---- */

struct plain {
    const struct llamacpp_library *lib;
    struct llama_context *context; /* borrowed from an open model: the same one */
    uint32_t vocab;
    struct llama_batch batch;
};

static void put(struct llama_batch *b, uint32_t id, uint32_t pos, uint32_t sequence, bool last)
{
    int32_t n = b->n_tokens++;

    b->token[n] = (llama_token)id;
    b->pos[n] = (llama_pos)pos;
    b->n_seq_id[n] = 1;
    b->seq_id[n][0] = (llama_seq_id)sequence;
    b->logits[n] = last;
}

static uint32_t largest(const float *row, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (row[i] > row[best])
            best = i;
    return best;
}

static void plain_run(struct plain *p, uint64_t *sum)
{
    uint32_t next[SEQUENCES];

    p->batch.n_tokens = 0;
    for (uint32_t s = 0; s < SEQUENCES; s++)
        for (uint32_t i = 0; i < PROMPT; i++)
            put(&p->batch, prompt_id(s, i), i, s, i == PROMPT - 1);
    for (uint32_t step = 0; step < GENERATE; step++) {
        if (p->lib->llama_decode(p->context, p->batch) != 0)
            exit(1);
        for (uint32_t s = 0; s < SEQUENCES; s++) {
            int32_t row = step == 0 ? (int32_t)((s + 1) * PROMPT - 1) : (int32_t)s;
            next[s] = largest(p->lib->llama_get_logits_ith(p->context, row), p->vocab);
            *sum += next[s];
        }
        p->batch.n_tokens = 0;
        for (uint32_t s = 0; s < SEQUENCES; s++)
            put(&p->batch, next[s], PROMPT + step, s, true);
    }
    for (uint32_t s = 0; s < SEQUENCES; s++)
        (void)p->lib->llama_memory_seq_rm(p->lib->llama_get_memory(p->context), (llama_seq_id)s,
                                          -1, -1);
}

/* ---- the engine ---- */

static void on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    uint64_t *sum = ctx;

    (void)id;
    *sum += token->id;
}

static void on_done(void *ctx, uint64_t id, enum lr_finish reason, const struct lr_usage *usage,
                    const struct lr_error *error)
{
    (void)ctx;
    (void)id;
    if (reason != LR_FINISH_LENGTH || usage->completion_tokens != GENERATE)
        die("a request ended early", error);
}

static void engine_run(const struct lr_engine_api *api, struct lr_engine_model *model)
{
    struct lr_error err = {0};
    int32_t busy = 1;

    for (uint32_t s = 0; s < SEQUENCES; s++) {
        uint32_t ids[PROMPT];
        for (uint32_t i = 0; i < PROMPT; i++)
            ids[i] = prompt_id(s, i);
        const struct lr_engine_request request = {
            .size = sizeof(request),
            .id = s + 1,
            .prompt_ids = ids,
            .prompt_id_count = PROMPT,
            .sampling = {.size = sizeof(struct lr_sampling),
                         .top_p = 1.0f,
                         .repetition_penalty = 1.0f},
            .max_tokens = GENERATE,
            .ignore_stop = 1,
        };
        if (api->submit(model, &request, &err) != LR_OK)
            die("submit", &err);
    }
    while (busy)
        if (api->step(model, &busy, &err) != LR_OK)
            die("step", &err);
}

/* ---- both ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof(*values), by_value);
    return values[count / 2];
}

struct watch {
    double wall[ROUNDS_MAX], cpu[ROUNDS_MAX]; /* tokens per second */
    uint64_t wall_ns, cpu_ns;
};

static uint64_t cpu_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void begin(struct watch *w)
{
    w->wall_ns = lr_clock_ns(NULL);
    w->cpu_ns = cpu_ns();
}

static void end(struct watch *w, int round)
{
    const double tokens = SEQUENCES * GENERATE * 1e9;

    w->wall[round] = tokens / (double)(lr_clock_ns(NULL) - w->wall_ns);
    w->cpu[round] = tokens / (double)(cpu_ns() - w->cpu_ns);
}

int main(int argc, char **argv)
{
    static struct watch by_plain, by_engine;
    const struct lr_engine_api *api = llamacpp_engine_api();
    uint64_t sums[2] = {0, 0};
    struct lr_engine_host host = {
        .size = sizeof(host), .ctx = &sums[1], .on_token = on_token, .on_done = on_done};
    const char *device = argc > 4 ? argv[4] : "cpu";
    struct lr_engine_options options = {
        .size = sizeof(options),
        .max_sequences = SEQUENCES,
        .max_context = 256,
        .prefill_chunk = SEQUENCES * PROMPT,
        .threads = argc > 2 ? (uint32_t)atoi(argv[2]) : 0,
        .device_count = 1,
        .devices = &device,
    };
    int rounds = argc > 3 ? atoi(argv[3]) : 5;
    struct lr_engine_model *model;
    struct lr_error err = {0};

    if (argc < 2 || rounds < 1 || rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: bench_llamacpp MODEL_DIR [THREADS [ROUNDS [DEVICE]]]\n");
        return 2;
    }
    if (api->open(&host, argv[1], &options, &model, &err) != LR_OK)
        die(argv[1], &err);
    printf("stated: %llu bytes (weights %llu, KV cache %llu, workspace %llu, fixed %llu)\n",
           (unsigned long long)model->plan.total, (unsigned long long)model->plan.weights,
           (unsigned long long)model->plan.kv, (unsigned long long)model->plan.workspace,
           (unsigned long long)model->plan.fixed);
    (void)fflush(stdout);
    struct plain plain = {model->lib, model->context, model->vocabulary.count,
                          model->lib->llama_batch_init(SEQUENCES * PROMPT, 0, 1)};
    plain_run(&plain, &sums[0]); /* both warm */
    engine_run(api, model);
    for (int i = 0; i < rounds; i++) {
        begin(&by_plain);
        plain_run(&plain, &sums[0]);
        end(&by_plain, i);
        begin(&by_engine);
        engine_run(api, model);
        end(&by_engine, i);
        printf("round %d: plain %.0f, engine %.0f tokens/s; of CPU time %.0f, %.0f\n", i + 1,
               by_plain.wall[i], by_engine.wall[i], by_plain.cpu[i], by_engine.cpu[i]);
        (void)fflush(stdout);
    }
    double plain_wall = median(by_plain.wall, rounds), wall = median(by_engine.wall, rounds);
    double plain_cpu = median(by_plain.cpu, rounds), cpu = median(by_engine.cpu, rounds);
    printf(
        "%s, %d sequences, %u threads, medians of %d: plain %.0f, engine %.0f tokens/s (ratio "
        "%.3f); of CPU time %.0f, %.0f (ratio %.3f); %s\n",
        device, SEQUENCES, model->plan.threads, rounds, plain_wall, wall, wall / plain_wall,
        plain_cpu, cpu, cpu / plain_cpu,
        sums[0] == sums[1] ? "the same tokens" : "the tokens differ");
    model->lib->llama_batch_free(plain.batch);
    api->close(model);
    return 0;
}
