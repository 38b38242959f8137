/* tests/unit/llamacpp/support.h - what the engine's tests share: a host that records what
 * it is told, and libllama used directly.  Header only: each test is one program.  The
 * model is made by `llm-router debug write-gguf` (a fixture of ctest). */
#ifndef TESTS_LLAMACPP_SUPPORT_H
#define TESTS_LLAMACPP_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "engines/llamacpp/engine.h"
#include "engines/llamacpp/library.h"

enum { RECORDS = 64, RECORD_TOKENS = 1024 };

struct record {
    uint64_t id;
    uint32_t tokens[RECORD_TOKENS];
    uint32_t count, specials, done_calls;
    enum lr_finish reason;
    struct lr_usage usage;
    struct lr_error error;
};

struct recorder {
    struct lr_engine_host host;
    struct record records[RECORDS];
    size_t count;
    struct lr_engine_model *model;
    uint64_t cancel_at_token; /* 0: never; else the n-th token of a request cancels it */
    uint32_t mask_ids[4];     /* what fill_mask allows */
    uint32_t mask_count;
    uint32_t llama_lines; /* of the log, that came from libllama */
};

static inline const struct lr_engine_api *api(void)
{
    return llamacpp_engine_api();
}

static inline struct record *record_of(struct recorder *r, uint64_t id)
{
    for (size_t i = 0; i < r->count; i++)
        if (r->records[i].id == id)
            return &r->records[i];
    assert_true(r->count < RECORDS);
    r->records[r->count].id = id;
    return &r->records[r->count++];
}

static inline void recorder_token(void *ctx, uint64_t id, const struct lr_token *token)
{
    struct recorder *r = ctx;
    struct record *q = record_of(r, id);

    assert_int_equal(q->done_calls, 0);
    assert_true(q->count < RECORD_TOKENS);
    q->tokens[q->count++] = token->id;
    q->specials += token->special;
    if (r->cancel_at_token != 0 && q->count == r->cancel_at_token)
        api()->cancel(r->model, id);
}

static inline void recorder_done(void *ctx, uint64_t id, enum lr_finish reason,
                                 const struct lr_usage *usage, const struct lr_error *error)
{
    struct record *q = record_of(ctx, id);

    q->done_calls++;
    q->reason = reason;
    q->usage = *usage;
    q->error = *error;
}

static inline void recorder_log(void *ctx, int32_t level, const char *event, const char *text)
{
    struct recorder *r = ctx;

    (void)level;
    (void)text;
    r->llama_lines += strcmp(event, "llama") == 0;
}

static inline lr_code recorder_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words)
{
    struct recorder *r = ctx;

    (void)id;
    for (uint32_t i = 0; i < r->mask_count; i++)
        if (r->mask_ids[i] / 32 < words)
            mask[r->mask_ids[i] / 32] |= 1u << (r->mask_ids[i] % 32);
    return LR_OK;
}

static inline struct recorder *recorder_create(void)
{
    struct recorder *r = calloc(1, sizeof(*r));

    assert_non_null(r);
    r->host = (struct lr_engine_host){
        .size = sizeof(r->host),
        .ctx = r,
        .log = recorder_log,
        .on_token = recorder_token,
        .on_done = recorder_done,
        .fill_mask = recorder_mask,
    };
    return r;
}

static inline struct recorder *recorder_open(const struct lr_engine_options *options)
{
    struct recorder *r = recorder_create();
    struct lr_error err = {0};

    if (api()->open(&r->host, LLAMACPP_MODEL, options, &r->model, &err) != LR_OK)
        fail_msg("%s", err.text);
    return r;
}

static inline void recorder_close(struct recorder *r)
{
    api()->close(r->model);
    free(r);
}

/* Steps until nothing waits. */
static inline void recorder_run(struct recorder *r)
{
    struct lr_error err = {0};
    int32_t busy = 1;

    while (busy)
        if (api()->step(r->model, &busy, &err) != LR_OK)
            fail_msg("%s", err.text);
}

static inline struct lr_engine_stats recorder_stats(const struct recorder *r)
{
    struct lr_engine_stats st = {.size = sizeof(st)};

    api()->stats(r->model, &st);
    return st;
}

static inline struct lr_engine_request plain_request(uint64_t id, const uint32_t *ids,
                                                     size_t count, uint32_t max_tokens)
{
    return (struct lr_engine_request){
        .size = sizeof(struct lr_engine_request),
        .id = id,
        .prompt_ids = ids,
        .prompt_id_count = count,
        .sampling = {.size = sizeof(struct lr_sampling),
                     .top_p = 1.0f,
                     .repetition_penalty = 1.0f},
        .max_tokens = max_tokens,
        .ignore_stop = 1,
    };
}

static inline void must_submit(struct recorder *r, const struct lr_engine_request *request)
{
    struct lr_error err = {0};

    if (api()->submit(r->model, request, &err) != LR_OK)
        fail_msg("%s", err.text);
}

/* The id of a token by its text. */
static inline uint32_t token_named(const struct recorder *r, const char *text)
{
    const char *bytes;
    uint32_t len, flags;

    for (uint32_t id = 0; api()->vocab(r->model, id, &bytes, &len, &flags) == LR_OK; id++)
        if (len == strlen(text) && memcmp(bytes, text, len) == 0)
            return id;
    fail_msg("no token %s", text);
    return 0;
}

static inline struct lr_engine_options small_options(void)
{
    return (struct lr_engine_options){
        .size = sizeof(struct lr_engine_options),
        .max_sequences = 4,
        .max_context = 256,
        .prefill_chunk = 16,
        .threads = 1,
    };
}

/* ---- libllama, without the engine ---- */

struct direct {
    const struct llamacpp_library *lib;
    struct llama_model *model;
    struct llama_context *context;
    const struct llama_vocab *vocab;
    uint32_t rows;
};

static inline struct direct direct_open(uint32_t context)
{
    struct direct d = {0};
    struct lr_error err = {0};
    ggml_backend_dev_t none[] = {NULL};

    if (llamacpp_library_get(&d.lib, &err) != LR_OK)
        fail_msg("%s", err.text);
    struct llama_model_params mp = d.lib->llama_model_default_params();
    mp.devices = none;
    d.model = d.lib->llama_model_load_from_file(LLAMACPP_MODEL "/model.gguf", mp);
    assert_non_null(d.model);
    struct llama_context_params cp = d.lib->llama_context_default_params();
    cp.n_ctx = cp.n_batch = cp.n_ubatch = context;
    cp.n_outputs_max = cp.n_outputs_max_per_seq = context;
    cp.n_threads = cp.n_threads_batch = 1;
    d.context = d.lib->llama_init_from_model(d.model, cp);
    assert_non_null(d.context);
    d.vocab = d.lib->llama_model_get_vocab(d.model);
    d.rows = (uint32_t)d.lib->llama_vocab_n_tokens(d.vocab);
    return d;
}

static inline void direct_close(struct direct *d)
{
    d->lib->llama_free(d->context);
    d->lib->llama_model_free(d->model);
}

/* Decodes ids from position `at`; logits of all of them can be asked for afterwards. */
static inline void direct_decode(const struct direct *d, const uint32_t *ids, int32_t count,
                                 int32_t at)
{
    struct llama_batch batch = d->lib->llama_batch_init(count, 0, 1);

    batch.n_tokens = count;
    for (int32_t i = 0; i < count; i++) {
        batch.token[i] = (llama_token)ids[i];
        batch.pos[i] = at + i;
        batch.n_seq_id[i] = 1;
        batch.seq_id[i][0] = 0;
        batch.logits[i] = 1;
    }
    assert_int_equal(d->lib->llama_decode(d->context, batch), 0);
    d->lib->llama_batch_free(batch);
}

#endif
