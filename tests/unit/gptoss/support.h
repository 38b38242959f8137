/* tests/unit/gptoss/support.h - what the engine's tests share: models, golden cases, a host
 * that records what it is told.  Header only: each test is one program. */
#ifndef TESTS_GPTOSS_SUPPORT_H
#define TESTS_GPTOSS_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "engines/gptoss/engine.h"

#define DEMO_MODEL  LR_SOURCE_DIR "/models/demo"
#define DEMO_GOLDEN LR_SOURCE_DIR "/tests/fixtures/golden/demo"
#define ODD_MODEL   LR_SOURCE_DIR "/tests/fixtures/golden/odd/model"
#define ODD_GOLDEN  LR_SOURCE_DIR "/tests/fixtures/golden/odd/golden"

/* ---- golden cases ---- */

struct golden_case {
    const char *name;
    uint32_t *ids;
    size_t count;
    uint32_t *greedy;
    size_t greedy_count;
    const float *logits; /* every position, or the last one */
    size_t logit_count;
};

struct golden {
    struct lr_arena arena;
    struct golden_case cases[32];
    size_t count;
};

static inline uint32_t *golden_ids(struct lr_arena *arena, const struct lr_json *list,
                                   size_t *count)
{
    uint32_t *ids = lr_arena_array(arena, list->count, sizeof(*ids));

    assert_non_null(ids);
    for (uint32_t i = 0; i < list->count; i++) {
        uint64_t id;
        assert_true(lr_json_u64(&list->items[i], &id));
        ids[i] = (uint32_t)id;
    }
    *count = list->count;
    return ids;
}

static inline void golden_load(struct golden *g, const char *folder)
{
    char path[LR_PATH_MAX];
    const struct lr_json *root, *cases;
    struct lr_str text;

    memset(g, 0, sizeof(*g));
    lr_arena_init(&g->arena, 256u << 20);
    snprintf(path, sizeof(path), "%s/golden.json", folder);
    assert_int_equal(lr_file_read(&g->arena, path, 64u << 20, &text, NULL), LR_OK);
    assert_int_equal(lr_json_parse(&g->arena, text, NULL, &root, NULL), LR_OK);
    cases = lr_json_get(root, "cases");
    assert_true(cases != NULL && cases->count <= 32);
    for (; g->count < cases->count; g->count++) {
        const struct lr_json *v = &cases->members[g->count].value;
        struct golden_case *c = &g->cases[g->count];
        struct lr_str file, bytes;
        c->name = lr_arena_copy(&g->arena, cases->members[g->count].key);
        c->ids = golden_ids(&g->arena, lr_json_get(v, "ids"), &c->count);
        c->greedy = golden_ids(&g->arena, lr_json_get(v, "greedy"), &c->greedy_count);
        assert_true(lr_json_str(lr_json_get(v, "logits_file"), &file));
        snprintf(path, sizeof(path), "%s/" LR_STR_FMT, folder, LR_STR_ARG(file));
        assert_int_equal(lr_file_read(&g->arena, path, 64u << 20, &bytes, NULL), LR_OK);
        c->logits = (const float *)(const void *)bytes.ptr;
        c->logit_count = bytes.len / sizeof(float);
    }
}

/* ---- a host that records ---- */

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
    uint32_t done_calls;
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
    lr_code mask_code;
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
    q->top_count = token->top_count;
    for (uint32_t i = 0; i < token->top_count; i++)
        q->top[i] = token->top[i];
    size_t len = strlen(q->text);
    if (len + token->len < sizeof(q->text))
        memcpy(q->text + len, token->bytes, token->len);
    if (r->cancel_at_token != 0 && q->count == r->cancel_at_token)
        gptoss_engine_api()->cancel(r->model, id);
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

static inline struct recorder *recorder_open(const char *dir,
                                             const struct lr_engine_options *options)
{
    struct recorder *r = calloc(1, sizeof(*r));
    struct lr_error err = {0};

    assert_non_null(r);
    r->host = (struct lr_engine_host){
        .size = sizeof(r->host),
        .ctx = r,
        .on_token = recorder_token,
        .on_done = recorder_done,
        .on_prefill = recorder_prefill,
        .fill_mask = recorder_mask,
    };
    lr_code code = gptoss_engine_api()->open(&r->host, dir, options, &r->model, &err);
    if (code != LR_OK)
        fail_msg("%s", err.text);
    return r;
}

static inline void recorder_close(struct recorder *r)
{
    gptoss_engine_api()->close(r->model);
    free(r);
}

/* Steps until nothing waits. */
static inline void recorder_run(struct recorder *r)
{
    struct lr_error err = {0};
    int32_t busy = 1;

    while (busy) {
        lr_code code = gptoss_engine_api()->step(r->model, &busy, &err);
        if (code != LR_OK)
            fail_msg("%s", err.text);
    }
}

static inline struct lr_engine_stats recorder_stats(const struct recorder *r)
{
    struct lr_engine_stats st = {.size = sizeof(st)};

    gptoss_engine_api()->stats(r->model, &st);
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

    if (gptoss_engine_api()->submit(r->model, request, &err) != LR_OK)
        fail_msg("%s", err.text);
}

#endif
