#include "worker/host.h"

#include <stdlib.h>

#include "base/errors.h"
#include "base/os/fd.h"
#include "wire/event.h"
#include "wire/lost.h"
#include "worker/worker.h"

enum { LOG_TEXT_MAX = 4096, FRAME_MAX = 4 << 20 };

void worker_host_flush(struct worker_host *host)
{
    if (host->out.len != 0 || host->out.failed)
        worker_pipes_send(host->pipes, &host->out);
}

static void on_log(void *ctx, int32_t level, const char *event, const char *text)
{
    struct worker_host *host = ctx;
    struct lr_buf out; /* not host->out, because any thread may log */
    lr_buf_init(&out, 4 * (size_t)LOG_TEXT_MAX);
    struct wire_log m = {
        .level = level,
        .event = lr_str_sub(lr_str_z(event), 0, 256),
        .text = lr_str_sub(lr_str_z(text), 0, LOG_TEXT_MAX),
    };
    wire_log_encode(&out, &m);
    worker_pipes_send(host->pipes, &out);
    lr_buf_free(&out);
}

static int32_t on_progress(void *ctx, const char *phase, uint64_t done, uint64_t total)
{
    struct worker_host *host = ctx;
    struct wire_loading m = {.done = done, .total = total, .phase = lr_str_z(phase)};
    wire_loading_encode(&host->out, &m);
    worker_pipes_send(host->pipes, &host->out);
    /* The node closes the worker's input to cancel the load. */
    return lr_fd_is_broken(WORKER_IN_FD);
}

static void add_alternatives(const struct worker_host *host, const struct lr_token *token,
                             struct wire_token *m)
{
    for (uint32_t i = 0; i < token->top_count && i < WIRE_TOP_MAX; i++) {
        const char *bytes = "";
        uint32_t len = 0;
        uint32_t flags;
        if (host->model != NULL && LR_ENGINE_HAS(host->api, vocab) &&
            host->api->vocab(host->model, token->top[i].token, &bytes, &len, &flags) != LR_OK)
            len = 0;
        m->top[m->top_count++] = (struct wire_alternative){
            .id = token->top[i].token,
            .logprob = token->top[i].logprob,
            .bytes = lr_str(bytes, len),
        };
    }
}

void worker_host_wants_logprobs(struct worker_host *host, uint64_t request_id)
{
    if (host->with_logprobs_count == host->with_logprobs_cap) {
        size_t cap = host->with_logprobs_cap != 0 ? 2 * host->with_logprobs_cap : 16;
        uint64_t *grown = realloc(host->with_logprobs, cap * sizeof(*grown));
        if (grown == NULL)
            return;
        host->with_logprobs = grown;
        host->with_logprobs_cap = cap;
    }
    host->with_logprobs[host->with_logprobs_count++] = request_id;
}

static size_t find_logprobs(const struct worker_host *host, uint64_t request_id)
{
    size_t i = 0;
    while (i < host->with_logprobs_count && host->with_logprobs[i] != request_id)
        i++;
    return i;
}

static lr_code mask_of(struct worker_host *host, uint64_t request_id, uint32_t *mask,
                       size_t words, bool *ready)
{
    struct lr_error err = {0};
    lr_code code =
        worker_constraints_mask(&host->constraints, request_id, mask, words, ready, &err);
    if (code != LR_OK)
        on_log(host, 3, "constraint.mask", err.text);
    return code;
}

static lr_code on_mask(void *ctx, uint64_t request_id, uint32_t *mask, size_t words)
{
    return mask_of(ctx, request_id, mask, words, NULL);
}

static lr_code on_try_mask(void *ctx, uint64_t request_id, uint32_t *mask, size_t words,
                           int32_t *ready)
{
    bool is_ready = false;
    lr_code code = mask_of(ctx, request_id, mask, words, &is_ready);
    *ready = is_ready;
    return code;
}

static void host_on_token(void *ctx, uint64_t request_id, const struct lr_token *token)
{
    struct worker_host *host = ctx;
    struct wire_token m;
    worker_constraints_token(&host->constraints, request_id, token->id);
    /* No initializer: it would clear all twenty alternatives for every token. */
    m.request = request_id;
    m.id = token->id;
    m.special = token->special != 0;
    m.has_logprob = find_logprobs(host, request_id) < host->with_logprobs_count;
    m.logprob = token->logprob;
    m.bytes = lr_str(token->bytes, token->len);
    m.top_count = 0;
    add_alternatives(host, token, &m);
    wire_token_encode(&host->out, &m);
    /* One write for each token (docs/promises.md: token-at-once): a client may be waiting for
     * it. */
    worker_pipes_send(host->pipes, &host->out);
}

/* A result that no frame can carry is left out: the request then ends without one. */
static void host_on_vector(void *ctx, uint64_t request_id, const struct lr_vector *vector)
{
    struct worker_host *host = ctx;
    if (vector->count == 0 || vector->count > WIRE_VECTOR_MAX) {
        on_log(host, 3, "vector.size", "an engine's vector has too many numbers or none");
        return;
    }
    wire_vector_encode(&host->out, request_id, vector->values, vector->count);
    worker_pipes_send(host->pipes,
                      &host->out); /* vectors of a whole step may be too many bytes */
}

static void on_tell_error(void *ctx, const char *id, const struct lr_error_value *values,
                          size_t count)
{
    struct worker_host *host = ctx;
    struct lr_str names[LR_ERROR_HOLES];
    struct lr_hole holes[LR_ERROR_HOLES];
    enum lr_error_id found = lr_error_find(lr_str_z(id));
    size_t wanted = found != LR_ERROR_NONE ? lr_error_holes(found, names) : 0;
    size_t filled = 0;
    for (size_t i = 0; i < wanted; i++)
        for (size_t v = 0; v < count && filled == i; v++)
            if (lr_str_eq_z(names[i], values[v].name))
                holes[filled++] = lr_hole_z(values[v].value);
    host->has_told = found != LR_ERROR_NONE && filled == wanted;
    if (host->has_told)
        (void)lr_fail_holes(&host->told, found, holes, filled);
}

void worker_host_identify(struct worker_host *host, struct lr_error *err)
{
    lr_code code = err->code;
    if (host->has_told)
        *err = host->told;
    else
        lr_fail_forget(err->text, sizeof(err->text)); /* an engine's own bytes */
    err->code = code;
    host->has_told = false;
}

static void host_on_done(void *ctx, uint64_t request_id, enum lr_finish reason,
                         const struct lr_usage *usage, const struct lr_error *error)
{
    struct worker_host *host = ctx;
    struct wire_done m = {.request = request_id, .reason = reason};
    if (usage != NULL) {
        m.prompt_tokens = usage->prompt_tokens;
        m.completion_tokens = usage->completion_tokens;
        m.cached_tokens = usage->cached_tokens;
    }
    if (error != NULL && reason == LR_FINISH_ERROR) {
        m.error = *error;
        worker_host_identify(host, &m.error);
    }
    worker_constraints_drop(&host->constraints, request_id);
    size_t at = find_logprobs(host, request_id);
    if (at < host->with_logprobs_count)
        host->with_logprobs[at] = host->with_logprobs[--host->with_logprobs_count];
    wire_done_encode(&host->out, &m);
}

static void on_prefill(void *ctx, uint64_t request_id, uint32_t done, uint32_t total)
{
    struct worker_host *host = ctx;
    struct wire_prefill m = {.request = request_id, .done = done, .total = total};
    wire_prefill_encode(&host->out, &m);
    if (done < total) /* else the first token follows in the same step */
        worker_host_flush(host);
}

void worker_host_enter(struct worker_host *host, const uint64_t *request_ids, size_t count)
{
    while (count != 0) {
        size_t now = count < WIRE_ENTER_MAX ? count : WIRE_ENTER_MAX;
        wire_enter_encode(&host->out, request_ids, now);
        worker_pipes_send(host->pipes, &host->out);
        request_ids += now;
        count -= now;
        host->has_entered = true;
    }
}

static void on_enter(void *ctx, const uint64_t *request_ids, size_t count)
{
    struct worker_host *host = ctx;
    host->engine_reports = true;
    worker_host_enter(host, request_ids, count);
}

void worker_host_init(struct worker_host *host, struct worker_pipes *pipes)
{
    *host = (struct worker_host){.pipes = pipes};
    host->table = (struct lr_engine_host){
        .size = sizeof(host->table),
        .ctx = host,
        .log = on_log,
        .progress = on_progress,
        .on_token = host_on_token,
        .on_done = host_on_done,
        .on_prefill = on_prefill,
        .fill_mask = on_mask,
        .on_enter = on_enter,
        .try_mask = on_try_mask,
        .on_vector = host_on_vector,
        .tell_error = on_tell_error,
    };
    worker_constraints_init(&host->constraints, 0);
    lr_buf_init(&host->out, FRAME_MAX);
}

void worker_host_free(struct worker_host *host)
{
    lr_buf_free(&host->out);
    worker_constraints_free(&host->constraints);
    free(host->with_logprobs);
    host->with_logprobs = NULL;
}
