/* tests/contract/checks_added.c - what was added to ABI 1: reports of steps, KV memory given
 * back, vectors.  An engine without an addition passes if it says so. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/contract/conformance.h"

static const struct lr_segment story = {.text = "Once upon a time there was a router",
                                        .len = 35};
static const struct lr_segment other = {.text = "The quick brown fox", .len = 19};

static struct lr_engine_stats stats_of(struct run *run, const struct lr_engine_model *model)
{
    struct lr_engine_stats stats = {.size = sizeof(stats)};
    run->api->stats(model, &stats);
    return stats;
}

void check_step_reports(struct run *run)
{
    struct lr_error err;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_stats before = stats_of(run, model);
    run->reports = (struct reports){0};
    for (uint64_t id = 1; id <= 6; id++) {
        struct lr_engine_request r = conformance_request(id, id % 2 == 0 ? &story : &other, 10);
        r.ignore_stop = 1;
        EXPECT(run, run->api->submit(model, &r, &err) == LR_OK, "submit %s", err.text);
    }
    (void)conformance_drain(run, model, 100000);
    struct lr_engine_stats after = stats_of(run, model);
    if (run->reports.count != 0) { /* else the engine has none */
        EXPECT(run, run->reports.count <= after.steps - before.steps,
               "%u reports of %llu steps", run->reports.count,
               (unsigned long long)(after.steps - before.steps));
        EXPECT(run, run->reports.too_late == 0, "%u callbacks after the report of their step",
               run->reports.too_late);
        EXPECT(run, run->reports.prompt_tokens == after.prompt_tokens - before.prompt_tokens,
               "%llu prompt tokens reported, %llu computed",
               (unsigned long long)run->reports.prompt_tokens,
               (unsigned long long)(after.prompt_tokens - before.prompt_tokens));
        EXPECT(run, run->reports.generated_tokens == 60, "%llu of 60 tokens reported",
               (unsigned long long)run->reports.generated_tokens);
        uint32_t count = run->reports.count;
        (void)conformance_drain(run, model, 2);
        EXPECT(run, run->reports.count == count, "an idle step was reported");
    }
    conformance_close(run, model);
}

/* ---- KV memory ---- */

static uint64_t limit(struct run *run, struct lr_engine_model *model, uint64_t bytes)
{
    struct lr_error err = {0};
    uint64_t allotted = UINT64_MAX;
    lr_code code = run->api->limit_kv(model, bytes, &allotted, &err);
    EXPECT(run, code == LR_OK, "limit_kv(%llu): %d %s", (unsigned long long)bytes, code,
           err.text);
    EXPECT(run, allotted == stats_of(run, model).kv_bytes, "limit_kv says %llu, stats %llu",
           (unsigned long long)allotted, (unsigned long long)stats_of(run, model).kv_bytes);
    return allotted;
}

void check_kv_limit(struct run *run)
{
    enum { ANSWER = 200 }; /* four of them hold more than one whole context */
    struct lr_error err;
    int32_t busy;
    if (!LR_ENGINE_HAS(run->api, limit_kv))
        return;
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_engine_request alone = conformance_request(1, &story, ANSWER);
    alone.ignore_stop = 1;
    struct seen *want = conformance_complete(run, model, &alone);
    uint64_t whole = stats_of(run, model).kv_bytes;

    /* Lowered while requests run, and others wait: all end as they would have. */
    for (uint64_t id = 10; id < 17; id++) {
        struct lr_engine_request r = conformance_request(id, &story, ANSWER);
        r.ignore_stop = 1;
        EXPECT(run, run->api->submit(model, &r, &err) == LR_OK, "submit %s", err.text);
    }
    for (int i = 0; i < 3; i++)
        (void)conformance_step(run, model, &busy, &err);
    uint64_t promised = stats_of(run, model).kv_bytes_reclaimable,
             had = stats_of(run, model).kv_bytes, while_busy = limit(run, model, 0);
    EXPECT(run, had - while_busy == promised, "%llu bytes given back, %llu were reclaimable",
           (unsigned long long)(had - while_busy), (unsigned long long)promised);
    EXPECT(run, while_busy >= stats_of(run, model).kv_bytes_in_use,
           "live requests lost memory");
    (void)conformance_drain(run, model, 100000);
    for (uint64_t id = 10; id < 17; id++) {
        const struct seen *s = conformance_seen(run, id);
        EXPECT(run,
               s->done_count == 1 && s->reason == LR_FINISH_LENGTH && s->token_count == ANSWER,
               "request %llu: %u tokens, reason %d", (unsigned long long)id, s->token_count,
               (int)s->reason);
        EXPECT(run,
               !run->is_invariant ||
                   memcmp(s->tokens, want->tokens, ANSWER * sizeof(uint32_t)) == 0,
               "request %llu got other tokens", (unsigned long long)id);
    }

    /* Idle: the least is left, and it is enough for one request; raising gives the rest. */
    uint64_t least = limit(run, model, 0);
    EXPECT(run, least <= while_busy && least <= whole, "%llu bytes are left of %llu",
           (unsigned long long)least, (unsigned long long)whole);
    EXPECT(run, stats_of(run, model).kv_bytes_reclaimable == 0, "more could be given back");
    struct lr_engine_request r = conformance_request(30, &story, 0);
    r.ignore_stop = 1;
    struct seen *s = conformance_complete(run, model, &r);
    EXPECT(run, s->reason == LR_FINISH_LENGTH, "a whole context: reason %d", (int)s->reason);
    EXPECT(run, limit(run, model, whole) <= whole, "more than the limit is allotted");
    r = conformance_request(31, &story, 4);
    (void)conformance_complete(run, model, &r);
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

/* ---- vectors ---- */

static bool offers(const struct run *run, uint32_t kind)
{
    return (run->need.requests >> kind & 1u) != 0;
}

static struct lr_engine_request vector_request(uint64_t id, uint32_t kind,
                                               const struct lr_segment *text,
                                               const struct lr_segment *document)
{
    struct lr_engine_request r = conformance_request(id, text, 0);
    r.kind = kind;
    r.document = document;
    r.document_count = document != NULL ? 1 : 0;
    return r;
}

static void expect_refused(struct run *run, uint32_t kind)
{
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    struct lr_error err = {0};
    struct lr_engine_request r = vector_request(1, kind, &story, &other);
    lr_code code = run->api->submit(model, &r, &err);
    EXPECT(run, code == LR_UNSUPPORTED && err.text[0] != '\0',
           "kind %u, which probe does not list: %d %s", kind, code, err.text);
    conformance_close(run, model);
}

static struct seen *complete_vector(struct run *run, struct lr_engine_model *model,
                                    const struct lr_engine_request *r, uint32_t count)
{
    struct seen *s = conformance_complete(run, model, r);
    EXPECT(run, s->vectors == 1 && s->vector_count == count, "%u vectors, of %u values",
           s->vectors, s->vector_count);
    EXPECT(run, s->token_count == 0, "%u tokens", s->token_count);
    EXPECT(run, s->reason == LR_FINISH_STOP, "reason %d", (int)s->reason);
    EXPECT(run, s->usage.prompt_tokens != 0 && s->usage.completion_tokens == 0, "usage %u + %u",
           s->usage.prompt_tokens, s->usage.completion_tokens);
    return s;
}

static double length_of(const struct seen *s)
{
    double squares = 0;
    for (uint32_t i = 0; i < s->vector_count; i++)
        squares += (double)s->vector[i] * (double)s->vector[i];
    return sqrt(squares);
}

static void expect_cancel(struct run *run, struct lr_engine_model *model,
                          const struct lr_engine_request *r)
{
    struct lr_error err;
    EXPECT(run, run->api->submit(model, r, &err) == LR_OK, "submit %s", err.text);
    run->api->cancel(model, r->id);
    const struct seen *s = conformance_seen(run, r->id);
    EXPECT(run, s->done_count == 1 && s->reason == LR_FINISH_CANCELLED && s->vectors == 0,
           "cancel: %u ends, %u vectors", s->done_count, s->vectors);
}

void check_embeddings(struct run *run)
{
    if (!offers(run, LR_REQUEST_EMBED)) {
        expect_refused(run, LR_REQUEST_EMBED);
        return;
    }
    struct lr_engine_model *model = conformance_open(run);
    uint32_t whole = run->need.dimensions;
    if (model == NULL)
        return;
    EXPECT(run, whole != 0, "probe does not say how many dimensions");
    struct lr_engine_request r = vector_request(1, LR_REQUEST_EMBED, &story, NULL);
    struct seen *a = complete_vector(run, model, &r, whole);
    EXPECT(run, fabs(length_of(a) - 1) < 1e-3, "length %g", length_of(a));
    r = vector_request(2, LR_REQUEST_EMBED, &story, NULL);
    struct seen *b = complete_vector(run, model, &r, whole);
    EXPECT(run, memcmp(a->vector, b->vector, whole * sizeof(float)) == 0,
           "the same text has another embedding");
    r = vector_request(3, LR_REQUEST_EMBED, &other, NULL);
    b = complete_vector(run, model, &r, whole);
    EXPECT(run, memcmp(a->vector, b->vector, whole * sizeof(float)) != 0,
           "another text has the same embedding");
    r = vector_request(4, LR_REQUEST_EMBED, &story, NULL);
    r.dimensions = whole / 2;
    b = complete_vector(run, model, &r, whole / 2);
    EXPECT(run, fabs(length_of(b) - 1) < 1e-3, "length %g after cutting", length_of(b));
    r.id = 5;
    r.dimensions = whole + 1;
    struct lr_error err = {0};
    EXPECT(run, run->api->submit(model, &r, &err) == LR_INVALID_ARGUMENT,
           "more dimensions than there are");
    r = vector_request(6, LR_REQUEST_EMBED, &story, NULL);
    expect_cancel(run, model, &r);
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

void check_reranking(struct run *run)
{
    if (!offers(run, LR_REQUEST_RERANK)) {
        expect_refused(run, LR_REQUEST_RERANK);
        return;
    }
    struct lr_engine_model *model = conformance_open(run);
    if (model == NULL)
        return;
    float first = 0;
    for (uint64_t id = 1; id <= 3; id++) {
        struct lr_engine_request r =
            vector_request(id, LR_REQUEST_RERANK, &story, id == 2 ? &other : &story);
        struct seen *s = complete_vector(run, model, &r, 1);
        EXPECT(run, s->vector[0] >= 0 && s->vector[0] <= 1, "a score of %g",
               (double)s->vector[0]);
        first = id == 1 ? s->vector[0] : first;
        EXPECT(run, id != 3 || s->vector[0] == first, "the same pair has another score");
    }
    struct lr_engine_request r = vector_request(4, LR_REQUEST_RERANK, &story, &other);
    expect_cancel(run, model, &r);
    conformance_expect_idle(run, model);
    conformance_close(run, model);
}

/* ---- an older host ---- */

static void must_not_vector(void *ctx, uint64_t id, const struct lr_vector *vector)
{
    (void)vector;
    conformance_fail(ctx, "host->size", "on_vector beyond it was called for request %llu",
                     (unsigned long long)id);
}

static void must_not_report(void *ctx, const struct lr_step_report *report)
{
    (void)report;
    conformance_fail(ctx, "host->size", "on_step beyond it was called");
}

static lr_code must_not_try_mask(void *ctx, uint64_t id, uint32_t *mask, size_t words,
                                 int32_t *ready)
{
    (void)mask;
    (void)words;
    *ready = 0;
    conformance_fail(ctx, "host->size", "try_mask beyond it was called for request %llu",
                     (unsigned long long)id);
    return LR_INTERNAL;
}

void check_smaller_host(struct run *run)
{
    const struct lr_engine_host whole = run->host;
    run->host.size = offsetof(struct lr_engine_host, on_vector);
    run->host.on_vector = must_not_vector;
    run->host.on_step = must_not_report;
    run->host.try_mask = must_not_try_mask;
    struct lr_engine_model *model = conformance_open(run);
    if (model != NULL) {
        struct lr_error err = {0};
        struct lr_engine_request r = conformance_request(1, &story, 4);
        (void)conformance_complete(run, model, &r);
        r = conformance_request(3, &story, 4);
        r.constrained = 1;
        if (run->api->submit(model, &r, &err) == LR_OK)
            (void)conformance_drain(run, model, 100000);
        r = vector_request(2, LR_REQUEST_EMBED, &story, NULL);
        lr_code code = run->api->submit(model, &r, &err);
        EXPECT(run, code == LR_UNSUPPORTED && err.text[0] != '\0',
               "a vector for a host that takes none: %d %s", code, err.text);
        conformance_close(run, model);
    }
    run->host = whole;
}
