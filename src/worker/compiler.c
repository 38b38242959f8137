#include "worker/compiler.h"

#include "base/errors.h"

#include <stdlib.h>

enum {
    REQUEST_BYTES = 256 << 20,
    TOKENS_A_READ = 16384, /* of the vocabulary: less than a millisecond */
    TOKENS_MAX = 4 << 20,
    TOKEN_BYTES_MAX = 256 << 20,
};

static void init_tokens(struct worker_compiler *c)
{
    lr_buf_init(&c->token_bytes, TOKEN_BYTES_MAX);
    lr_buf_init(&c->token_ends, TOKENS_MAX * sizeof(uint32_t));
    lr_buf_init(&c->token_flags, TOKENS_MAX);
}

static void free_tokens(struct worker_compiler *c)
{
    lr_buf_free(&c->token_bytes);
    lr_buf_free(&c->token_ends);
    lr_buf_free(&c->token_flags);
}

void worker_compiler_init(struct worker_compiler *c)
{
    *c = (struct worker_compiler){.wake = LR_WAKER_NONE};
    (void)pthread_mutex_init(&c->lock, NULL);
    (void)pthread_cond_init(&c->changed, NULL);
    c->waiting_end = &c->waiting;
    c->done_end = &c->done;
    init_tokens(c);
}

/* ---- jobs ---- */

void worker_job_destroy(struct worker_job *job)
{
    if (job == NULL)
        return;
    grammar_matcher_free(job->matcher);
    grammar_program_free(job->program);
    lr_arena_free(&job->arena);
    free(job->body);
    free(job);
}

static lr_code create_job(struct lr_str body, struct worker_job **out, struct lr_error *err)
{
    struct worker_job *job = calloc(1, sizeof(*job));
    *out = job;
    if (job != NULL)
        job->body = malloc(body.len != 0 ? body.len : 1);
    if (job == NULL || job->body == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for constrained output");
    memcpy(job->body, body.ptr, body.len);
    lr_arena_init(&job->arena, REQUEST_BYTES);
    return wire_submit_decode(&job->arena, lr_str(job->body, body.len), &job->g, err);
}

static void compiler_append(struct worker_job ***end, struct worker_job *job)
{
    job->next = NULL;
    **end = job;
    *end = &job->next;
}

static struct worker_job *pop(struct worker_job **first, struct worker_job ***end)
{
    struct worker_job *job = *first;
    if (job != NULL) {
        *first = job->next;
        job->next = NULL;
    }
    if (*first == NULL)
        *end = first;
    return job;
}

/* ---- the vocabulary ---- */

bool worker_compiler_reads(const struct worker_compiler *c)
{
    return c->is_running && !c->has_tokens; /* only the main thread sets has_tokens */
}

static bool read_token(struct worker_compiler *c, const struct lr_engine_api *api,
                       const struct lr_engine_model *model)
{
    const char *text = "";
    uint32_t len = 0, flags = 0;
    if (api->vocab(model, c->token_count, &text, &len, &flags) != LR_OK)
        return false;
    lr_buf_add(&c->token_bytes, text, len);
    uint32_t end = (uint32_t)c->token_bytes.len;
    lr_buf_add(&c->token_ends, &end, sizeof(end));
    lr_buf_add_char(&c->token_flags, (char)flags);
    c->token_count++;
    return !c->token_bytes.failed && !c->token_ends.failed && !c->token_flags.failed;
}

void worker_compiler_read(struct worker_compiler *c, const struct lr_engine_api *api,
                          const struct lr_engine_model *model)
{
    for (uint32_t i = 0; i < TOKENS_A_READ; i++)
        if (!read_token(c, api, model)) {
            (void)pthread_mutex_lock(&c->lock);
            c->has_tokens = true;
            (void)pthread_cond_signal(&c->changed);
            (void)pthread_mutex_unlock(&c->lock);
            return;
        }
}

static bool token_of(void *ctx, uint32_t id, struct lr_str *bytes, uint32_t *flags)
{
    const struct worker_compiler *c = ctx;
    const uint32_t *ends = (const uint32_t *)(const void *)c->token_ends.data;
    if (id >= c->token_count)
        return false;
    uint32_t begin = id != 0 ? ends[id - 1] : 0;
    *bytes = lr_str(c->token_bytes.data + begin, ends[id] - begin);
    *flags = (uint8_t)c->token_flags.data[id];
    return true;
}

static lr_code need_vocab(struct worker_compiler *c, struct lr_error *err)
{
    const struct grammar_tokens tokens = {c, token_of};
    if (c->vocab != NULL)
        return LR_OK;
    if (c->token_bytes.failed || c->token_ends.failed || c->token_flags.failed)
        return lr_fail(err, LR_OUT_OF_RAM,
                       "no memory for the vocabulary of constrained output");
    lr_code code = grammar_vocab_create(&tokens, &c->vocab, err);
    if (code == LR_OK)
        free_tokens(c);
    return code;
}

/* ---- the thread ---- */

static lr_code replay(struct grammar_matcher *m, const struct wire_generate *g,
                      struct lr_error *err)
{
    for (size_t i = 0; i < g->generated_count; i++)
        if (!grammar_matcher_token(m, g->generated[i]))
            return lr_fail_as(err, generated_misfit, i);
    return LR_OK;
}

static void compile(struct worker_compiler *c, struct worker_job *job)
{
    lr_code code = need_vocab(c, &job->err);
    if (code == LR_OK)
        code = grammar_compile(job->g.constraint, &job->program, &job->err);
    if (code == LR_OK)
        code = grammar_matcher_create_aside(job->program, c->vocab, &job->matcher, &job->err);
    if (code == LR_OK)
        code = replay(job->matcher, &job->g, &job->err);
    job->code = code;
}

static void *compiler_run(void *arg)
{
    struct worker_compiler *c = arg;
    (void)pthread_mutex_lock(&c->lock);
    while (!c->stopping) {
        c->compiling = c->has_tokens ? pop(&c->waiting, &c->waiting_end) : NULL;
        if (c->compiling == NULL) {
            (void)pthread_cond_wait(&c->changed, &c->lock);
            continue;
        }
        if (!c->compiling->is_cancelled) {
            (void)pthread_mutex_unlock(&c->lock);
            compile(c, c->compiling);
            (void)pthread_mutex_lock(&c->lock);
        }
        compiler_append(&c->done_end, c->compiling);
        c->compiling = NULL;
        lr_waker_ring(&c->wake);
    }
    (void)pthread_mutex_unlock(&c->lock);
    return NULL;
}

static lr_code compiler_start(struct worker_compiler *c, struct lr_error *err)
{
    bool can_wake = c->wake.handle != -1 || lr_waker_open(&c->wake);
    if (!c->is_running && can_wake)
        c->is_running = pthread_create(&c->thread, NULL, compiler_run, c) == 0;
    return c->is_running ? LR_OK
                         : lr_fail(err, LR_OUT_OF_RAM,
                                   "no thread could be started for constrained output");
}

/* ---- the loop's side ---- */

lr_code worker_compiler_begin(struct worker_compiler *c, const struct lr_engine_api *api,
                              struct lr_str body, struct lr_error *err)
{
    struct worker_job *job = NULL;
    if (!LR_ENGINE_HAS(api, vocab))
        return lr_fail_plain(err, constraint_unsupported);
    lr_code code = compiler_start(c, err);
    if (code == LR_OK)
        code = create_job(body, &job, err);
    if (code != LR_OK) {
        worker_job_destroy(job);
        return code;
    }
    c->pending++;
    (void)pthread_mutex_lock(&c->lock);
    compiler_append(&c->waiting_end, job);
    (void)pthread_cond_signal(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
    return LR_OK;
}

struct worker_job *worker_compiler_take(struct worker_compiler *c)
{
    struct worker_job *job = NULL;
    while (c->pending != 0) {
        (void)pthread_mutex_lock(&c->lock);
        job = pop(&c->done, &c->done_end);
        if (job == NULL)
            lr_waker_clear(&c->wake);
        (void)pthread_mutex_unlock(&c->lock);
        if (job == NULL)
            return NULL;
        c->pending--;
        if (job->matcher != NULL)
            grammar_matcher_settle(job->matcher, c->vocab);
        if (!job->is_cancelled)
            return job;
        worker_job_destroy(job);
    }
    return NULL;
}

static bool cancel_in(struct worker_job *list, uint64_t request)
{
    for (struct worker_job *job = list; job != NULL; job = job->next)
        if (job->g.id == request && !job->is_cancelled)
            return job->is_cancelled = true;
    return false;
}

bool worker_compiler_cancel(struct worker_compiler *c, uint64_t request)
{
    if (c->pending == 0)
        return false;
    (void)pthread_mutex_lock(&c->lock);
    bool found = cancel_in(c->waiting, request) || cancel_in(c->compiling, request) ||
                 cancel_in(c->done, request);
    (void)pthread_mutex_unlock(&c->lock);
    return found;
}

void worker_compiler_free(struct worker_compiler *c)
{
    (void)pthread_mutex_lock(&c->lock);
    c->stopping = true;
    (void)pthread_cond_signal(&c->changed);
    (void)pthread_mutex_unlock(&c->lock);
    if (c->is_running)
        (void)pthread_join(c->thread, NULL);
    for (struct worker_job *job; (job = pop(&c->waiting, &c->waiting_end)) != NULL;)
        worker_job_destroy(job);
    for (struct worker_job *job; (job = pop(&c->done, &c->done_end)) != NULL;)
        worker_job_destroy(job);
    grammar_vocab_free(c->vocab);
    free_tokens(c);
    lr_waker_close(&c->wake);
    (void)pthread_mutex_destroy(&c->lock);
    (void)pthread_cond_destroy(&c->changed);
}
