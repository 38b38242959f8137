/* tests/gpu/backend_engine.c - the demo model on the GPU through the engine's ABI: the same
 * tokens alone, in a batch of 64, in chunks and with masks; pages freed after cancels; memory
 * limits kept, refused with both numbers, and memory given back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/engine.h"
#include "tests/gpu/backend_test.h"
#include "tests/gpu/fixture.h"

#define API gptoss_engine_api()

enum { BATCH = 64, ANSWER = 40, PROMPTS = 8, LONGEST = 600 };

struct answer {
    uint32_t tokens[ANSWER];
    uint32_t count, done;
    uint32_t unlisted; /* tokens that are not the first in their list of log probabilities */
    enum lr_finish reason;
};

struct host {
    struct lr_engine_host host;
    struct lr_engine_model *model;
    struct answer answers[BATCH];
};

static const char *model_dir;

static void on_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    struct answer *a = &((struct host *)ctx)->answers[id];
    if (a->count < ANSWER)
        a->tokens[a->count++] = token->id;
    a->unlisted += token->top_count == 0 || !(token->logprob <= token->top[0].logprob);
}

/* Forbids every fifth id. */
static lr_code fill_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words)
{
    (void)ctx;
    (void)id;
    memset(mask, 0, words * sizeof(*mask));
    for (size_t i = 0; i < words * 32; i++)
        mask[i / 32] |= (i % 5 != 2 ? 1u : 0) << i % 32;
    return LR_OK;
}

static void on_done(void *ctx, uint64_t id, enum lr_finish reason, const struct lr_usage *usage,
                    const struct lr_error *error)
{
    struct answer *a = &((struct host *)ctx)->answers[id];
    (void)usage;
    (void)error;
    a->done++;
    a->reason = reason;
}

static struct lr_engine_options options_of(uint32_t chunk)
{
    static const char *const device = "cuda:0";
    return (struct lr_engine_options){.size = sizeof(struct lr_engine_options),
                                      .device_count = 1,
                                      .devices = &device,
                                      .max_tokens = BATCH * 1024,
                                      .max_sequences = BATCH,
                                      .max_context = 4096,
                                      .prefill_chunk = chunk};
}

static void engine_open(struct host *h, uint32_t chunk)
{
    const struct lr_engine_options options = options_of(chunk);
    struct lr_error err = {0};
    memset(h, 0, sizeof(*h));
    h->host = (struct lr_engine_host){.size = sizeof(h->host),
                                      .ctx = h,
                                      .on_token = on_token,
                                      .on_done = on_done,
                                      .fill_mask = fill_mask};
    test_must(API->open(&h->host, model_dir, &options, &h->model, &err), &err,
              "open the demo model");
}

/* Questions of several lengths; the longest crosses windows, pages and every chunk. */
static uint32_t prompt_of(const struct host *h, uint32_t which, uint32_t *ids)
{
    static const char *const words[PROMPTS] = {"hello",
                                               "what is 2 + 3?",
                                               "tell me a story about a fox",
                                               "who are you?",
                                               "count from one to ten",
                                               "the quick brown fox jumps over the lazy dog",
                                               "why is the sky blue?",
                                               "say nothing"};
    char text[4096] = "<|start|>user<|message|>";
    for (uint32_t i = 0; i <= which * which; i++) {
        strcat(text, words[(which + i) % PROMPTS]);
        strcat(text, " ");
    }
    strcat(text, "<|end|><|start|>assistant");
    const struct lr_segment segment = {.text = text, .len = strlen(text), .control = 1};
    struct lr_error err = {0};
    size_t count = 0;
    test_must(API->tokenize(h->model, &segment, 1, ids, LONGEST, &count, &err), &err,
              "tokenize");
    return (uint32_t)(count < LONGEST ? count : LONGEST);
}

static void submit_as(struct host *h, uint64_t id, uint32_t which,
                      const struct lr_sampling *sampling, bool constrained)
{
    uint32_t ids[LONGEST], count = prompt_of(h, which, ids);
    const struct lr_engine_request request = {
        .size = sizeof(request),
        .id = id,
        .prompt_ids = ids,
        .prompt_id_count = count,
        .sampling = *sampling,
        .max_tokens = ANSWER,
        .constrained = constrained,
    };
    struct lr_error err = {0};
    h->answers[id] = (struct answer){0};
    test_must(API->submit(h->model, &request, &err), &err, "submit");
}

static void submit(struct host *h, uint64_t id, uint32_t which)
{
    const struct lr_sampling greedy = {
        .size = sizeof(greedy), .top_p = 1, .repetition_penalty = 1};
    submit_as(h, id, which, &greedy, false);
}

static void run(struct host *h, uint32_t steps)
{
    struct lr_error err = {0};
    int32_t busy = 1;
    for (uint32_t i = 0; busy && i < steps; i++)
        test_must(API->step(h->model, &busy, &err), &err, "step");
}

static uint32_t differing(const struct answer *a, const struct answer *b)
{
    return a->count != b->count || a->done != 1 || b->done != 1 ||
           memcmp(a->tokens, b->tokens, a->count * sizeof(a->tokens[0])) != 0;
}

static void test_batches(struct host *h)
{
    static const uint32_t chunks[] = {2048, 64, 7, 1};
    struct answer alone[PROMPTS];
    for (int c = 0; c < 4; c++) {
        uint32_t wrong = 0, empty = 0;
        engine_open(h, chunks[c]);
        for (uint32_t i = 0; i < PROMPTS; i++) {
            submit(h, i, i);
            run(h, UINT32_MAX);
            if (c == 0)
                alone[i] = h->answers[i];
            wrong += differing(&h->answers[i], &alone[i]);
            empty += h->answers[i].count < 2;
        }
        test_check(wrong + empty, 0, "demo model: %d prompts alone, chunks of %u, same tokens",
                   PROMPTS, chunks[c]);
        wrong = 0;
        for (uint32_t i = 0; i < BATCH; i++)
            submit(h, i, i % PROMPTS);
        run(h, UINT32_MAX);
        for (uint32_t i = 0; i < BATCH; i++)
            wrong += differing(&h->answers[i], &alone[i % PROMPTS]);
        test_check(wrong, 0, "demo model: batch of %d, chunks of %u, same tokens", BATCH,
                   chunks[c]);
        API->close(h->model);
    }
}

/* Masks and log probabilities, alone and beside requests with filters and plain ones. */
static void test_filters(struct host *h)
{
    const struct lr_sampling listed = {.size = sizeof(listed),
                                       .top_p = 1,
                                       .repetition_penalty = 1,
                                       .logprobs = 1,
                                       .top_logprobs = 3};
    const struct lr_sampling filtered = {.size = sizeof(filtered),
                                         .temperature = 0.8f,
                                         .top_p = 0.9f,
                                         .top_k = 50,
                                         .repetition_penalty = 1.1f,
                                         .seed = 5};
    struct answer alone[PROMPTS];
    uint32_t wrong = 0, illegal = 0, unlisted = 0;
    engine_open(h, 64);
    for (uint32_t i = 0; i < PROMPTS; i++) {
        submit_as(h, i, i, &listed, true);
        run(h, UINT32_MAX);
        alone[i] = h->answers[i];
    }
    for (uint32_t i = 0; i < BATCH; i++) {
        if (i % 4 == 3)
            submit(h, i, i % PROMPTS);
        else
            submit_as(h, i, i % PROMPTS, i % 4 == 2 ? &filtered : &listed, i % 4 != 2);
    }
    run(h, UINT32_MAX);
    for (uint32_t i = 0; i < BATCH; i++) {
        const struct answer *a = &h->answers[i];
        wrong += a->done != 1 || a->count == 0;
        if (i % 4 >= 2)
            continue;
        wrong += differing(a, &alone[i % PROMPTS]);
        unlisted += a->unlisted;
        for (uint32_t k = 0; k < a->count; k++)
            illegal += a->tokens[k] % 5 == 2;
    }
    test_check(wrong, 0, "demo model: masked, alone and in a batch of %d, same tokens", BATCH);
    test_check(illegal, 0, "demo model: masked, illegal tokens");
    test_check(unlisted, 0, "demo model: masked, tokens without log probabilities");
    API->close(h->model);
}

static void test_cancel(struct host *h)
{
    struct lr_engine_stats st = {.size = sizeof(st)};
    uint32_t wrong = 0;
    engine_open(h, 64);
    for (uint32_t i = 0; i < 16; i++)
        submit(h, i, i % PROMPTS);
    run(h, 5);
    API->stats(h->model, &st);
    test_check(st.pages_in_use == 0 || st.sequences == 0, 0,
               "cancel: pages are in use while requests live");
    for (uint32_t i = 0; i < 16; i++) {
        API->cancel(h->model, i);
        wrong += h->answers[i].done != 1 || (h->answers[i].reason != LR_FINISH_CANCELLED &&
                                             h->answers[i].reason != LR_FINISH_STOP);
    }
    API->stats(h->model, &st);
    test_check(wrong, 0, "cancel: each request ends once");
    test_check((double)(st.sequences + st.pages_in_use + st.kv_bytes_in_use), 0,
               "cancel: no sequence, no page, no KV byte left");
    submit(h, 0, 1);
    run(h, UINT32_MAX);
    API->stats(h->model, &st);
    test_check(h->answers[0].count < 2 || st.pages_in_use != 0, 0,
               "cancel: the next request is served, and leaves nothing");
    API->close(h->model);
}

static uint64_t free_bytes(const struct cuda_driver *cu)
{
    size_t available = 0, total = 0;
    return cu->cuMemGetInfo(&available, &total) == CUDA_SUCCESS ? available : 0;
}

static void test_allotment(struct host *h)
{
    const struct cuda_driver *cu;
    struct cuda_device device;
    CUcontext context;
    struct lr_engine_options options = options_of(256);
    struct lr_engine_need need = {.size = sizeof(need)};
    struct lr_engine_model *model = NULL;
    struct lr_error err = {0};
    test_must(cuda_driver_get(&cu, &err), &err, "driver");
    test_must(cuda_device_find(cu, "cuda:0", &device, &err), &err, "device");
    if (cu->cuDevicePrimaryCtxRetain(&context, device.handle) != CUDA_SUCCESS ||
        cu->cuCtxSetCurrent(context) != CUDA_SUCCESS)
        test_must(lr_fail(&err, LR_INTERNAL, "no context"), &err, "device");
    test_must(API->probe(model_dir, &options, &need, &err), &err, "probe");

    options.vram_limit = 100ull << 20;
    lr_code code = API->open(&h->host, model_dir, &options, &model, &err);
    test_check(code != LR_OUT_OF_VRAM || model != NULL ||
                   strstr(err.text, "may use 104857600") == NULL ||
                   strstr(err.text, "are missing") == NULL,
               0, "allotment: too small is OUT_OF_VRAM with the limit and what is missing");

    CUdeviceptr taken;
    uint64_t most = free_bytes(cu), left = 64ull << 20;
    options.vram_limit = 0;
    if (cu->cuMemAlloc(&taken, most - left) == CUDA_SUCCESS) {
        code = API->open(&h->host, model_dir, &options, &model, &err);
        test_check(code != LR_OUT_OF_VRAM || model != NULL ||
                       strstr(err.text, "bytes of GPU memory") == NULL ||
                       strstr(err.text, "are free") == NULL,
                   0, "a full GPU is OUT_OF_VRAM: %.80s", err.text);
        (void)cu->cuMemFree(taken);
    }

    /* The driver keeps a little memory once a graph has run (2 MiB seen), as long as the
     * context lives.  So the first round does not count; from then on no memory may be
     * missing. */
    for (int round = 0; round < 3; round++) {
        uint64_t before = free_bytes(cu);
        engine_open(h, 256);
        submit(h, 0, 3);
        run(h, UINT32_MAX);
        uint64_t during = free_bytes(cu);
        API->close(h->model);
        uint64_t after = free_bytes(cu);
        test_check(before - during > need.total, 0,
                   "allotment: kept, work included (%llu of %llu)",
                   (unsigned long long)(before - during), (unsigned long long)need.total);
        test_check((double)before - (double)after, round == 0 ? 4 << 20 : 0,
                   "allotment: bytes missing after close %d", round + 1);
    }
    (void)cu->cuDevicePrimaryCtxRelease(device.handle);
}

void test_engine(const char *dir)
{
    model_dir = dir;
    struct host *h = test_alloc(1, sizeof(*h));
    test_allotment(h);
    test_batches(h);
    test_filters(h);
    test_cancel(h);
    free(h);
}

void test_engine_brief(const char *dir)
{
    enum { REQUESTS = 12 };
    struct host *h = test_alloc(1, sizeof(*h));
    uint32_t wrong = 0;
    model_dir = dir;
    engine_open(h, 96);
    for (uint32_t i = 0; i < REQUESTS; i++)
        submit(h, i, i % 5);
    run(h, UINT32_MAX);
    for (uint32_t i = 0; i < REQUESTS; i++)
        wrong += h->answers[i].done != 1 || h->answers[i].count == 0;
    test_check(wrong, 0, "demo model: %d requests at one time", REQUESTS);
    API->close(h->model);
    free(h);
}
