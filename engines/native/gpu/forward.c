/* native/gpu/forward.c - one step: the list of operations, then logits and samples.
 *
 * A step is submitted in pieces: a system may reset a device that computes one submission for
 * seconds.  How long a piece will take is estimated from its multiply-adds and from the time
 * that the last steps took for theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engines/native/gpu/gpu.h"

/* Longest estimated time of a piece.  Windows resets a GPU after 2 s, and an estimate may be
 * several times too low. */
static const double PIECE_NS = 200e6;
/* Nanoseconds of a multiply-add before a step was measured: those of a slow GPU. */
static const double FIRST_PACE = 0.005;

/* Pieces of a step that were submitted. */
struct pieces {
    struct gpu_recording **recordings; /* owned, until they have ended */
    uint32_t count, room;
    uint64_t ticket, work;
};

/* ---- work and time ---- */

static double *pace_of(struct serving_backend *b, uint32_t rows)
{
    return &b->pace[rows > NATIVE_GPU_AT_ONCE ? 1 : 0];
}

static uint64_t work_limit(struct serving_backend *b, uint32_t rows)
{
    double pace = *pace_of(b, rows), most = PIECE_NS / (pace > 0 ? pace : FIRST_PACE);

    return most < 1 ? 1 : most < 1e18 ? (uint64_t)most : (uint64_t)1e18;
}

/* A slower step counts at once, a faster one by half. */
static void learn_pace(struct serving_backend *b, uint32_t rows, uint64_t start, uint64_t work)
{
    double *pace = pace_of(b, rows);
    double took = (double)(lr_clock_ns(NULL) - start) / (double)(work > 0 ? work : 1);

    *pace = took > *pace ? took : (*pace + took) / 2;
}

static lr_code submit_piece(struct native_gpu_run *run, struct pieces *p, uint32_t from,
                            uint32_t count, struct lr_error *err)
{
    struct serving_backend *b = run->b;

    if (p->count == p->room) {
        uint32_t room = p->room == 0 ? 64 : 2 * p->room;
        struct gpu_recording **more = realloc(p->recordings, room * sizeof(*more));
        if (more == NULL)
            return lr_fail(err, LR_OUT_OF_RAM, "no memory for a step's commands");
        p->recordings = more;
        p->room = room;
    }
    lr_code code = b->host->record(b->device, run->list->commands + from, count,
                                   &p->recordings[p->count], err);
    return code == LR_OK
               ? b->host->submit(b->device, p->recordings[p->count++], &p->ticket, err)
               : code;
}

/* Submits the commands of the list, and empties it. */
static lr_code submit(struct native_gpu_run *run, struct pieces *p, struct lr_error *err)
{
    struct native_gpu_list *l = run->list;
    lr_code code = l->code == LR_OK ? LR_OK : lr_fail(err, l->code, "%s", l->err.text);

    for (uint32_t from = 0, n; from < l->count && code == LR_OK; from += n) {
        uint64_t work = l->commands[from].work;
        for (n = 1; from + n < l->count && work + l->commands[from + n].work <= run->limit; n++)
            work += l->commands[from + n].work;
        p->work += work;
        code = submit_piece(run, p, from, n, err);
    }
    l->count = 0;
    return code;
}

static lr_code wait_for(struct serving_backend *b, const struct pieces *p, struct lr_error *err)
{
    return p->count > 0 ? b->host->wait(b->device, p->ticket, err) : LR_OK;
}

/* ---- operations ---- */

static void add_ops(struct native_gpu_run *run, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && run->tokens > 0; i++) {
        run->op = &run->b->spec->ops[i];
        run->op_index = i;
        native_gpu_add(run);
    }
}

static void add_states(struct native_gpu_run *run, bool save)
{
    struct serving_backend *b = run->b;
    uint64_t bytes = b->plan.state_bytes;

    for (uint32_t i = 0; bytes != 0 && i < run->batch->count; i++) {
        const struct serving_step *s = &run->batch->steps[i];
        struct gpu_span state = {b->state, s->slot * bytes, bytes};
        uint32_t which = save ? s->snapshot_save : s->snapshot_load;
        struct gpu_span kept = {b->snapshots, which * bytes, bytes};
        if (which != SERVING_NONE)
            native_gpu_copy(run->list, save ? state : kept, save ? kept : state);
        else if (!save && s->position == 0)
            native_gpu_zero(run->list, state);
    }
}

/* Behind the last operation with state only the kept tokens go on: their rows move to the
 * front, in order. */
static void keep_rows(struct native_gpu_run *run)
{
    const struct native_spec *s = run->b->spec;

    for (uint32_t i = 0; i < run->kept_count; i++) {
        bool first = true;
        for (uint32_t r = 0; run->kept[i].row != i && r < s->register_count; r++) {
            const struct native_register *at = &s->registers[r];
            uint64_t bytes = at->width * sizeof(float);
            struct gpu_buffer *buffer = run->b->buffers[at->buffer];
            if (at->first >= s->stateful_ops || at->last < s->stateful_ops)
                continue;
            native_gpu_copy(run->list,
                            (struct gpu_span){buffer, run->kept[i].row * bytes, bytes},
                            (struct gpu_span){buffer, i * bytes, bytes});
            run->list->commands[run->list->count - 1].after = first;
            first = false;
        }
    }
    run->tokens = run->kept_count;
    run->token_at = run->at.kept;
    run->ropes = run->at.kept_ropes;
}

static lr_code submit_body(struct native_gpu_run *run, struct pieces *p, struct lr_error *err)
{
    struct serving_backend *b = run->b;
    uint64_t bytes = run->at.words * 4ull;

    run->token_at = run->at.tokens;
    run->ropes = run->at.ropes;
    native_gpu_copy(run->list, (struct gpu_span){b->to_device, 0, bytes},
                    (struct gpu_span){b->inputs, 0, bytes});
    add_states(run, false);
    add_ops(run, 0, b->spec->stateful_ops);
    add_states(run, true);
    keep_rows(run);
    add_ops(run, b->spec->stateful_ops, b->spec->head_ops);
    return submit(run, p, err);
}

/* ---- logits and samples ---- */

struct sampling_job {
    struct serving_backend *b;
    const struct serving_step *steps[NATIVE_GPU_SAMPLES];
    const float *rows[NATIVE_GPU_SAMPLES];
    uint32_t count;
};

static void sample_task(void *ctx, uint32_t i, uint32_t worker)
{
    const struct sampling_job *job = ctx;
    const struct serving_step *s = job->steps[i];

    if (s->sample != NULL)
        sampler_sample(job->b->samplers[worker], job->rows[i], job->b->usable, s->sample,
                       s->sampled);
}

/* The rows of the head's block: to the caller, and to the sampler. */
static void give_rows(const struct native_gpu_run *run, const float *rows, size_t width,
                      uint32_t count)
{
    struct sampling_job job = {.b = run->b};

    for (uint32_t i = 0; i < count; i++) {
        const struct native_gpu_kept *k = &run->kept[run->head_from + i];
        const struct serving_step *s = &run->batch->steps[k->step];
        const float *row = rows + i * width;
        if (s->logits != NULL)
            memcpy(s->logits + (k->position - s->position) * width, row, width * sizeof(*row));
        if (s->sample != NULL && k->position + 1 == s->position + s->count) {
            job.steps[job.count] = s;
            job.rows[job.count++] = row;
        }
    }
    engine_pool_run(run->b->pool, sample_task, &job, job.count);
}

static void give_texts(const struct native_gpu_run *run, const float *rows, size_t width,
                       uint32_t first, uint32_t count)
{
    const uint32_t *words = run->b->host->mapped(run->b->to_device);

    for (uint32_t i = 0; i < count; i++) {
        uint32_t row = words[run->at.texts + 2 * (first + i)];
        memcpy(run->batch->steps[run->kept[row].step].vector, rows + i * width,
               width * sizeof(*rows));
    }
}

/* Rows of the head are tokens, or texts behind the pooling. */
static lr_code run_head(struct native_gpu_run *run, struct pieces *p, struct lr_error *err)
{
    struct serving_backend *b = run->b;
    const struct native_spec *s = b->spec;
    bool texts = s->pool != NATIVE_NO_POOL;
    uint32_t all = texts ? run->text_count : run->kept_count;
    size_t width = s->registers[s->result].width;
    lr_code code = LR_OK;

    run->in_head = true;
    for (uint32_t from = 0; from < all && code == LR_OK; from += b->head_rows) {
        uint32_t count = all - from < b->head_rows ? all - from : b->head_rows;
        run->tokens = count;
        run->head_from = texts ? 0 : from;
        run->text_at = run->at.texts + 2 * from;
        run->token_at = run->at.kept + run->head_from * NATIVE_TOKEN_WORDS;
        add_ops(run, s->head_ops, s->op_count);
        uint64_t bytes = count * width * sizeof(float);
        struct gpu_buffer *result = b->buffers[s->registers[s->result].buffer];
        native_gpu_copy(run->list,
                        (struct gpu_span){result, native_gpu_at(run, s->result) * 4ull, bytes},
                        (struct gpu_span){b->to_host, 0, bytes});
        code = submit(run, p, err);
        if (code == LR_OK)
            code = wait_for(b, p, err);
        if (code != LR_OK)
            break;
        if (texts)
            give_texts(run, b->host->mapped(b->to_host), width, from, count);
        else
            give_rows(run, b->host->mapped(b->to_host), width, count);
    }
    return code;
}

static lr_code run_step(struct native_gpu_run *run, struct pieces *p, struct lr_error *err)
{
    const struct serving_batch *batch = run->batch;
    uint64_t start = lr_clock_ns(NULL);
    lr_code code = native_gpu_inputs_write(run, err);

    if (code == LR_OK)
        code = submit_body(run, p, err);
    if (code != LR_OK)
        return code;
    if (batch->fill_masks != NULL)
        batch->fill_masks(batch->ctx);
    code = run_head(run, p, err);
    if (code == LR_OK)
        code = wait_for(run->b, p, err);
    if (code == LR_OK)
        learn_pace(run->b, batch->tokens, start, p->work);
    return code;
}

lr_code native_gpu_forward(struct serving_backend *b, const struct serving_batch *batch,
                           struct lr_error *err)
{
    struct native_gpu_list list = {0};
    struct native_gpu_run run = {
        .b = b, .batch = batch, .list = &list, .limit = work_limit(b, batch->tokens)};
    struct pieces pieces = {0};

    if (batch->tokens > b->plan.step_tokens || batch->count > b->plan.max_sequences)
        return lr_fail(err, LR_INTERNAL, "a batch of %u tokens, %u sequences; planned %u, %u",
                       batch->tokens, batch->count, b->plan.step_tokens, b->plan.max_sequences);
    lr_code code = run_step(&run, &pieces, err);
    for (uint32_t i = 0; code == LR_OK && i < pieces.count; i++)
        b->host->forget(b->device, pieces.recordings[i]);
    free(pieces.recordings); /* after a failure the device's close() has the rest */
    free(run.kept);
    native_gpu_list_free(&list);
    return code;
}
