/* native/cpu/step.c - one step: the list of operations, then logits and samples. */
#include <string.h>

#include "base/fail.h"
#include "engines/native/cpu/cpu.h"

enum { ALONE = 8192 }; /* values of a row operation that one thread computes at once */

/* Or, in a model of vectors, that the pooling reads. */
static bool has_logits(enum native_pool pool, const struct native_token *t)
{
    const struct serving_step *s = t->step;
    bool last = t->position + 1 == s->position + s->count;

    if (pool != NATIVE_NO_POOL)
        return s->vector != NULL && (pool == NATIVE_POOL_MEAN ||
                                     (pool == NATIVE_POOL_LAST ? last : t->position == 0));
    return s->logits != NULL || (s->sample != NULL && last);
}

/* ---- state of sequences ---- */

static void load_states(const struct native_run *run)
{
    struct serving_backend *b = run->b;
    size_t bytes = (size_t)b->plan.state_bytes;

    for (uint32_t i = 0; bytes != 0 && i < run->batch->count; i++) {
        const struct serving_step *s = &run->batch->steps[i];
        char *state = (char *)b->state + s->slot * bytes;
        if (s->snapshot_load != SERVING_NONE)
            memcpy(state, b->regions[SERVING_SNAPSHOTS].base + s->snapshot_load * bytes, bytes);
        else if (s->position == 0)
            memset(state, 0, bytes);
    }
}

static void save_states(const struct native_run *run)
{
    struct serving_backend *b = run->b;
    size_t bytes = (size_t)b->plan.state_bytes;

    for (uint32_t i = 0; bytes != 0 && i < run->batch->count; i++) {
        const struct serving_step *s = &run->batch->steps[i];
        if (s->snapshot_save != SERVING_NONE)
            memcpy(b->regions[SERVING_SNAPSHOTS].base + s->snapshot_save * bytes,
                   (const char *)b->state + s->slot * bytes, bytes);
    }
}

/* ---- operations ---- */

static void list_tokens(struct native_run *run)
{
    struct serving_backend *b = run->b;
    uint32_t t = 0;

    for (uint32_t i = 0; i < run->batch->count; i++) {
        const struct serving_step *s = &run->batch->steps[i];
        b->step_first[i] = t;
        for (uint32_t k = 0; k < s->count; k++)
            b->tokens[t++] = (struct native_token){s, s->position + k, s->tokens[k]};
    }
    run->tokens = t;
}

struct rows_job {
    const struct native_run *run;
    native_rows_fn *rows;
    uint32_t block;
};

static void rows_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct rows_job *job = ctx;
    uint32_t from = task * job->block, to = from + job->block;

    (void)worker;
    job->rows(job->run, from, to < job->run->tokens ? to : job->run->tokens);
}

static void run_rows(const struct native_run *run, native_rows_fn *rows)
{
    uint32_t width = native_width_of(run, run->op->out), block = ALONE / (width + 1) + 1;
    struct rows_job job = {run, rows, block};

    if (run->tokens <= block)
        rows(run, 0, run->tokens);
    else
        engine_pool_run(run->b->pool, rows_task, &job, (run->tokens + block - 1) / block);
}

/* How many operations of the list it was. */
static uint32_t run_op(const struct native_run *run)
{
    switch ((enum native_op_kind)run->op->kind) {
    case NATIVE_OP_LINEAR:
        return native_linear_run(run);
    case NATIVE_OP_HEADS:
        native_heads_run(run);
        break;
    case NATIVE_OP_ATTEND:
        native_attend_run(run);
        break;
    case NATIVE_OP_EXPERTS:
        native_experts_run(run);
        break;
    case NATIVE_OP_CONV:
        native_conv_run(run);
        break;
    case NATIVE_OP_DELTA:
        native_delta_run(run);
        break;
    case NATIVE_OP_SSM:
        native_ssm_run(run);
        break;
    case NATIVE_OP_POOL:
        native_pool_run(run);
        break;
    default:
        run_rows(run, native_rows_of(run->op->kind));
        break;
    }
    return 1;
}

static void run_ops(struct native_run *run, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && run->tokens > 0;) {
        run->op = &run->b->spec->ops[i];
        i += run_op(run);
    }
}

/* Behind the last operation with state: only tokens with logits go on. */
static void keep_tokens_with_logits(struct native_run *run)
{
    struct serving_backend *b = run->b;
    const struct native_spec *s = b->spec;
    uint32_t kept = 0;

    for (uint32_t t = 0; t < run->tokens; t++) {
        if (!has_logits(s->pool, &b->tokens[t]))
            continue;
        for (uint32_t r = 0; kept < t && r < s->register_count; r++)
            if (s->registers[r].first < s->stateful_ops &&
                s->registers[r].last >= s->stateful_ops)
                memcpy(native_row(run, (reg)r, kept), native_row(run, (reg)r, t),
                       s->registers[r].width * sizeof(float));
        for (uint32_t i = 0; kept < t && i < s->rope_count; i++) {
            uint32_t dims = s->ropes[i].dims;
            memcpy(b->ropes + b->rope_at[i] + (size_t)kept * dims,
                   b->ropes + b->rope_at[i] + (size_t)t * dims, dims * sizeof(float));
        }
        b->tokens[kept++] = b->tokens[t];
    }
    run->tokens = kept;
}

/* ---- logits and samples ---- */

struct sampling_job {
    struct native_run *run;
    uint32_t count;
};

/* A NaN among the weights, or an overflow, gives logits that are not finite: no token can be
 * chosen. */
static bool is_finite(const float *row, size_t n)
{
    const uint32_t exponent = 0x7F800000u;
    uint32_t bits, infinite = 0;

    for (size_t i = 0; i < n; i++) {
        memcpy(&bits, row + i, sizeof(bits));
        infinite |= (uint32_t)((bits & exponent) == exponent);
    }
    return infinite == 0;
}

static void sample_task(void *ctx, uint32_t i, uint32_t worker)
{
    const struct sampling_job *job = ctx;
    struct serving_backend *b = job->run->b;
    const struct serving_step *step = &job->run->batch->steps[b->sample_steps[i]];

    if (step->sample != NULL && !is_finite(b->sample_rows[i], b->spec->vocab))
        *step->sampled = (struct sampler_result){.id = SAMPLER_NO_ID};
    else if (step->sample != NULL)
        sampler_sample(b->samplers[worker], b->sample_rows[i], b->usable, step->sample,
                       step->sampled);
}

/* The rows of the head's block: to the caller, and to the sampler.  The rows of a block are
 * gone with the next one, so it samples at once. */
static void give_rows(struct native_run *run, uint32_t rows)
{
    struct serving_backend *b = run->b;
    size_t vocab = native_width_of(run, b->spec->result);
    struct sampling_job job = {run, 0};

    for (uint32_t i = 0; i < rows; i++) {
        const struct native_token *t = &b->tokens[run->head_from + i];
        const struct serving_step *s = t->step;
        float *row = native_row(run, b->spec->result, i);
        if (s->logits != NULL)
            memcpy(s->logits + (t->position - s->position) * vocab, row, vocab * sizeof(*row));
        if (s->sample != NULL && t->position + 1 == s->position + s->count) {
            b->sample_steps[job.count] = (uint32_t)(s - run->batch->steps);
            b->sample_rows[job.count++] = row;
        }
    }
    engine_pool_run(b->pool, sample_task, &job, job.count);
}

static void run_head(struct native_run *run)
{
    struct serving_backend *b = run->b;
    uint32_t tokens = run->tokens;

    run->in_head = true;
    for (uint32_t from = 0; from < tokens; from += b->head_rows) {
        run->head_from = from;
        run->tokens = tokens - from < b->head_rows ? tokens - from : b->head_rows;
        run_ops(run, b->spec->head_ops, b->spec->op_count);
        give_rows(run, run->tokens);
    }
}

/* The same for vectors: rows are texts. */
static void run_texts(struct native_run *run)
{
    struct serving_backend *b = run->b;

    native_texts_list(run);
    run->in_head = true;
    for (uint32_t from = 0; from < run->texts; from += b->head_rows) {
        run->first_text = from;
        run->tokens = run->texts - from < b->head_rows ? run->texts - from : b->head_rows;
        run_ops(run, b->spec->head_ops, b->spec->op_count);
        native_texts_give(run);
    }
}

lr_code native_forward(struct serving_backend *b, const struct serving_batch *batch,
                       struct lr_error *err)
{
    struct native_run run = {.b = b, .batch = batch};

    if (batch->tokens > b->plan.step_tokens || batch->count > b->plan.max_sequences)
        return lr_fail(err, LR_INTERNAL, "a batch of %u tokens, %u sequences; planned %u, %u",
                       batch->tokens, batch->count, b->plan.step_tokens, b->plan.max_sequences);
    list_tokens(&run);
    load_states(&run);
    native_ropes_run(&run);
    run_ops(&run, 0, b->spec->stateful_ops);
    save_states(&run);
    if (batch->fill_masks != NULL)
        batch->fill_masks(batch->ctx);
    keep_tokens_with_logits(&run);
    run_ops(&run, b->spec->stateful_ops, b->spec->head_ops);
    if (b->spec->pool != NATIVE_NO_POOL)
        run_texts(&run);
    else
        run_head(&run);
    return LR_OK;
}
