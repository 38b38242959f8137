/* tests/unit/engine_recorder.h - a host that records an engine's callbacks.  Header only: each
 * test is one program and defines recorder_api(). */
#ifndef TESTS_ENGINE_RECORDER_H
#define TESTS_ENGINE_RECORDER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "llm-router/engine.h"

static inline const struct lr_engine_api *recorder_api(void); /* the engine under test */

enum { RECORDS = 64, RECORD_TOKENS = 1024 };

struct record {
    uint64_t id;
    uint32_t tokens[RECORD_TOKENS];
    float logprobs[RECORD_TOKENS];
    uint32_t count;
    uint32_t top_count;
    struct lr_logprob top[32];
    char text[4096];
    uint32_t prefill_calls, prefill_done;
    uint32_t specials;
    uint32_t done_calls;
    enum lr_finish reason;
    struct lr_usage usage;
    struct lr_error error;
    uint32_t vectors, vector_count;
    float vector[256];
};

struct recorder {
    struct lr_engine_host host;
    struct record records[RECORDS];
    size_t count;
    struct lr_engine_model *model;
    uint64_t cancel_at_token; /* 0: never; else the n-th token of a request cancels it */
    uint32_t mask_ids[4];     /* bits that fill_mask returns */
    uint32_t mask_count;
    lr_code mask_code;
    uint32_t masks_late;    /* times that each mask is not ready */
    uint32_t late;          /* of the mask that is asked for */
    uint32_t library_lines; /* log lines from the library below the engine */
    uint32_t step_reports;
    struct lr_step_report first_step; /* report of it */
};

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
    if (q->count < RECORD_TOKENS) {
        q->tokens[q->count] = token->id;
        q->logprobs[q->count] = token->logprob;
    }
    q->count++;
    q->specials += token->special;
    q->top_count = token->top_count;
    for (uint32_t i = 0; i < token->top_count; i++)
        q->top[i] = token->top[i];
    size_t len = strlen(q->text);
    if (len + token->len < sizeof(q->text))
        memcpy(q->text + len, token->bytes, token->len);
    if (r->cancel_at_token != 0 && q->count == r->cancel_at_token)
        recorder_api()->cancel(r->model, id);
}

static inline void recorder_done(void *ctx, uint64_t id, enum lr_finish reason,
                                 const struct lr_usage *usage, const struct lr_error *error)
{
    struct record *q = record_of(ctx, id);

    q->done_calls++;
    q->reason = reason;
    q->usage = *usage;
    if (error != NULL)
        q->error = *error;
}

static inline void recorder_vector(void *ctx, uint64_t id, const struct lr_vector *vector)
{
    struct record *q = record_of(ctx, id);

    assert_int_equal(q->done_calls, 0);
    q->vectors++;
    q->vector_count = vector->count;
    assert_true(vector->count <= 256);
    memcpy(q->vector, vector->values, vector->count * sizeof(float));
}

static inline void recorder_prefill(void *ctx, uint64_t id, uint32_t done, uint32_t total)
{
    struct record *q = record_of(ctx, id);

    assert_true(done > q->prefill_done && done <= total);
    q->prefill_calls++;
    q->prefill_done = done;
}

static inline lr_code recorder_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words)
{
    struct recorder *r = ctx;

    (void)id;
    for (uint32_t i = 0; i < r->mask_count; i++)
        if (r->mask_ids[i] / 32 < words)
            mask[r->mask_ids[i] / 32] |= 1u << (r->mask_ids[i] % 32);
    return r->mask_code;
}

static inline lr_code recorder_try_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words,
                                        int32_t *ready)
{
    struct recorder *r = ctx;

    *ready = r->late >= r->masks_late;
    r->late = *ready ? 0 : r->late + 1;
    return *ready ? recorder_mask(ctx, id, mask, words) : LR_OK;
}

static inline void recorder_log(void *ctx, int32_t level, const char *event, const char *text)
{
    struct recorder *r = ctx;

    (void)level;
    (void)text;
    r->library_lines += strcmp(event, "llama") == 0;
}

static inline void recorder_step(void *ctx, const struct lr_step_report *report)
{
    struct recorder *r = ctx;

    if (r->step_reports++ == 0)
        r->first_step = *report;
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
        .on_prefill = recorder_prefill,
        .fill_mask = recorder_mask,
        .on_step = recorder_step,
        .try_mask = recorder_try_mask,
        .on_vector = recorder_vector,
    };
    return r;
}

static inline struct recorder *recorder_open(const char *dir,
                                             const struct lr_engine_options *options)
{
    struct recorder *r = recorder_create();
    struct lr_error err = {0};

    if (recorder_api()->open(&r->host, dir, options, &r->model, &err) != LR_OK)
        fail_msg("%s", err.text);
    return r;
}

static inline void recorder_close(struct recorder *r)
{
    recorder_api()->close(r->model);
    free(r);
}

/* Runs steps until no work is left. */
static inline void recorder_run(struct recorder *r)
{
    struct lr_error err = {0};
    int32_t busy = 1;

    while (busy) {
        lr_code code = recorder_api()->step(r->model, &busy, &err);
        if (code != LR_OK)
            fail_msg("%s", err.text);
    }
}

static inline struct lr_engine_stats recorder_stats(const struct recorder *r)
{
    struct lr_engine_stats st = {.size = sizeof(st)};

    recorder_api()->stats(r->model, &st);
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
    };
}

static inline void must_submit(struct recorder *r, const struct lr_engine_request *request)
{
    struct lr_error err = {0};

    if (recorder_api()->submit(r->model, request, &err) != LR_OK)
        fail_msg("%s", err.text);
}

#endif
