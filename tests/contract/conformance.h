/* tests/contract/conformance.h - putting any engine library through engine.h.
 *
 * One process, one library, one model.  A check is a function that calls the engine
 * and records what it promised and did not keep.  The plugin's stdout and stderr go to
 * a file while checks run, so that a plugin that prints is found out.
 */
#ifndef TESTS_CONTRACT_CONFORMANCE_H
#define TESTS_CONTRACT_CONFORMANCE_H

#include <stdbool.h>
#include <stdio.h>

#include "llm-router/engine.h"

enum { TOKENS_MAX = 4096, REQUESTS_MAX = 64, VECTOR_MAX = 8192 };

/* What the host saw of one request. */
struct seen {
    uint64_t id;
    uint32_t tokens[TOKENS_MAX];
    uint32_t token_count;
    uint32_t done_count;
    uint32_t after_done; /* callbacks that came too late */
    uint32_t bad_logprobs;
    uint32_t prefill_done, prefill_total;
    uint32_t entered; /* times it was named by on_enter */
    uint32_t vectors; /* on_vector calls */
    float vector[VECTOR_MAX];
    uint32_t vector_count;
    uint32_t masks;      /* given */
    uint32_t masks_late; /* asked for before the token before was told, or twice */
    uint32_t sat_out;    /* steps, because its mask was not ready */
    enum lr_finish reason;
    struct lr_usage usage;
    struct lr_error error;
};

/* What the reports of steps added up to. */
struct reports {
    uint32_t count;
    uint32_t of_step;  /* reports of the step that is going on */
    uint32_t too_late; /* callbacks after the report of their step */
    uint64_t prompt_tokens, generated_tokens;
};

struct run {
    const char *library; /* path */
    const char *model_dir;
    const char *extra_json;
    const char *device;
    bool is_invariant; /* results do not depend on what else is in the batch */
    const struct lr_engine_api *api;
    struct lr_engine_need need;

    struct lr_engine_host host;
    struct seen seen[REQUESTS_MAX];
    uint32_t seen_count;
    uint32_t progress_calls;
    uint32_t give_up_at;  /* progress returns non-zero at this call; 0: never */
    uint64_t slow_masks;  /* masks of this request are ready only at the third time */
    bool reports_entries; /* the engine calls on_enter */
    struct reports reports;
    bool is_closed; /* callbacks after close are counted as failures */
    uint32_t late_callbacks;

    FILE *report;      /* our own stdout */
    const char *check; /* running now */
    unsigned checks, failures;
};

#define EXPECT(run, condition, ...)                                                            \
    do {                                                                                       \
        if (!(condition))                                                                      \
            conformance_fail((run), #condition, __VA_ARGS__);                                  \
    } while (0)

void conformance_fail(struct run *run, const char *condition, const char *fmt, ...)
    LR_PRINTF(3, 4);

/* ---- helpers ---- */
struct lr_engine_options conformance_options(const struct run *run);
/* NULL and a failure when it cannot be opened. */
struct lr_engine_model *conformance_open(struct run *run);
void conformance_close(struct run *run, struct lr_engine_model *model);
struct seen *conformance_seen(struct run *run, uint64_t id);
void conformance_forget(struct run *run);
/* A greedy request over one segment. */
struct lr_engine_request conformance_request(uint64_t id, const struct lr_segment *segment,
                                             uint32_t max_tokens);
lr_code conformance_step(struct run *run, struct lr_engine_model *model, int32_t *busy,
                         struct lr_error *err);
/* Steps until nothing is busy; false after `limit` steps or an error. */
bool conformance_drain(struct run *run, struct lr_engine_model *model, uint32_t limit);
/* Submits, drains, and expects exactly one end. */
struct seen *conformance_complete(struct run *run, struct lr_engine_model *model,
                                  const struct lr_engine_request *request);
void conformance_expect_idle(struct run *run, const struct lr_engine_model *model);

/* ---- checks, in four files ---- */
void check_library(struct run *run);
void check_one_symbol(struct run *run);
void check_probe(struct run *run);
void check_wrong_model(struct run *run);
void check_truncated(struct run *run);
void check_limits(struct run *run);
void check_giving_up(struct run *run);
void check_reopening(struct run *run);
void check_close_busy(struct run *run);

void check_generate(struct run *run);
void check_length(struct run *run);
void check_repeatable(struct run *run);
void check_continuation(struct run *run);
void check_two_at_once(struct run *run);
void check_cancel(struct run *run);
void check_storm(struct run *run);
void check_constrained(struct run *run);
void check_slow_masks(struct run *run);

/* The only token that the host's mask allows as number `index` of an answer. */
static inline uint32_t conformance_legal(uint32_t index)
{
    return 66 + index % 5;
}

void check_step_reports(struct run *run);
void check_kv_limit(struct run *run);
void check_embeddings(struct run *run);
void check_reranking(struct run *run);
void check_smaller_host(struct run *run);

void check_bad_requests(struct run *run);
void check_old_host(struct run *run);
void check_logprobs(struct run *run);
void check_vocab(struct run *run);
void check_control_tokens(struct run *run);

#endif
