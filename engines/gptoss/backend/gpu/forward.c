/* gptoss/backend/gpu/forward.c - one step: the batch's inputs to the device, the results back.
 *
 * The common step, a few sequences with one token each, is recorded once for its shape and
 * submitted again.  Other steps are recorded anew and submitted in pieces: a system may reset a
 * device that computes one submission for seconds.  How long a piece will take is estimated
 * from its multiply-adds and from the time that the last steps took for theirs.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "engines/gptoss/backend/gpu/gpu.h"
#include "engines/gptoss/model/rope.h"

/* Longest estimated time of a piece.  Windows resets a GPU after 2 s, and an estimate may be
 * several times too low. */
static const double PIECE_NS = 200e6;
/* Nanoseconds of a multiply-add before a step was measured: those of a slow GPU. */
static const double FIRST_PACE = 0.005;

/* True for the sampling that the device does. */
static bool gpu_forward_is_plain(const struct sampler_input *s)
{
    const struct lr_sampling *p = s->sampling;

    return s->mask == NULL && p->logprobs == 0 && p->top_logprobs == 0 &&
           p->logit_bias_count == 0 && p->presence_penalty == 0 && p->frequency_penalty == 0 &&
           (p->repetition_penalty == 1 || p->repetition_penalty == 0) &&
           (p->temperature == 0 || (p->top_k == 0 && p->top_p >= 1 && p->min_p == 0));
}

struct forward {
    struct gptoss_backend *b;
    const struct gptoss_batch *batch;
    struct gpu_shape shape;
    char *inputs;     /* mapped */
    uint32_t table;   /* entries used */
    uint32_t listed;  /* entries of out_rows used */
    uint32_t longest; /* most positions of a sequence */
    struct lr_error *err;
};

/* ---- inputs ---- */

#define INPUT(f, type, member) ((type *)(void *)((f)->inputs + (f)->shape.at.member))

static void gpu_forward_add_step(struct forward *f, const struct gptoss_step *s)
{
    const struct model_config *c = f->b->config;
    uint32_t *tables = INPUT(f, uint32_t, tables) + f->table, row = f->shape.rows;

    memcpy(tables, s->full_pages, s->page_count * sizeof(*tables));
    memcpy(tables + s->page_count, s->window_pages, s->page_count * sizeof(*tables));
    for (uint32_t i = 0; i < s->count; i++, row++) {
        uint32_t position = s->position + i, entry = position / GPU_PAGE_TOKENS,
                 slot = position % GPU_PAGE_TOKENS;
        float *rope = INPUT(f, float, rope) + (size_t)row * GPU_HEAD_DIM;
        INPUT(f, struct gpu_row, rows)
        [row] = (struct gpu_row){
            .token = s->tokens[i],
            .position = position,
            .full_table = f->table,
            .window_table = f->table + s->page_count,
            .full_slot = s->full_pages[entry] * GPU_PAGE_TOKENS + slot,
            .window_slot = s->window_pages[entry] * GPU_PAGE_TOKENS + slot,
        };
        gptoss_rope_row(c, f->b->frequency, position, rope, rope + GPU_HEAD_DIM / 2);
    }
    if (s->position + s->count > f->longest)
        f->longest = s->position + s->count;
    f->table += 2 * s->page_count;
    f->shape.rows = row;
}

static void describe_sampling(struct forward *f, uint32_t at, const struct sampler_input *s)
{
    uint64_t seed = s->sampling->seed;

    INPUT(f, struct gpu_sample, how)
    [at] = (struct gpu_sample){(uint32_t)seed, (uint32_t)(seed >> 32), s->index,
                               (float)s->sampling->temperature};
}

static uint32_t power_above(uint32_t n)
{
    uint32_t p = 1;

    while (p < n)
        p *= 2;
    return p;
}

/* The shape of the step; the table's size is rounded up, so that recordings fit more steps. */
static void finish_shape(struct forward *f)
{
    uint32_t splits = (f->longest + GPU_SPLIT_KEYS - 1) / GPU_SPLIT_KEYS;

    splits = power_above(splits);
    splits = splits < GPU_SPLITS_MAX ? splits : GPU_SPLITS_MAX;
    f->shape.splits = f->shape.rows <= GPU_FEW ? splits : 1;
    f->shape.table_bytes = (uint64_t)f->table * 4;
    f->shape.keys = f->longest;
    f->shape.limit = UINT64_MAX;
}

static lr_code gpu_forward_lay_out(struct forward *f, uint32_t rows)
{
    struct gptoss_backend *b = f->b;

    f->inputs = b->host->mapped(b->to_device);
    f->shape.at = gpu_inputs_for(&b->limits, rows);
    for (uint32_t i = 0; i < f->batch->count; i++)
        gpu_forward_add_step(f, &f->batch->steps[i]);
    finish_shape(f);
    return LR_OK;
}

/* ---- host sampling ---- */

struct host_rows {
    struct gptoss_backend *b;
    struct gptoss_step *steps[GPU_LOGIT_ROWS];
    uint32_t rows[GPU_LOGIT_ROWS]; /* of logits */
    uint32_t count, first;         /* first: of the group that is sampled */
};

static float *host_logits(const struct gptoss_backend *b)
{
    return (float *)(void *)((char *)b->host->mapped(b->to_host) + GPU_LOGIT_ROWS * 4);
}

static void gpu_forward_sample_task(void *ctx, uint32_t i, uint32_t worker)
{
    const struct host_rows *h = ctx;
    const struct gptoss_step *s = h->steps[h->first + i];

    sampler_sample(h->b->samplers[worker], host_logits(h->b) + (size_t)i * h->b->logit_stride,
                   h->b->usable, s->sample, s->sampled);
}

/* Copies rows of logits to the host. */
static lr_code fetch_rows(struct gptoss_backend *b, const uint32_t *rows, uint32_t count,
                          struct lr_error *err)
{
    struct gpu_list list = {0};
    uint64_t bytes = (uint64_t)b->logit_stride * 4;

    for (uint32_t i = 0; i < count; i++)
        gpu_list_copy(&list, (struct gpu_span){b->ws.logits, rows[i] * bytes, bytes},
                      (struct gpu_span){b->to_host, GPU_LOGIT_ROWS * 4 + i * bytes, bytes});
    lr_code code = gpu_run(b, &list, err);
    gpu_list_free(&list);
    return code;
}

static lr_code sample_on_host(struct host_rows *h, struct lr_error *err)
{
    for (h->first = 0; h->first < h->count; h->first += GPU_HOST_THREADS) {
        uint32_t n =
            h->count - h->first < GPU_HOST_THREADS ? h->count - h->first : GPU_HOST_THREADS;
        lr_code code = fetch_rows(h->b, h->rows + h->first, n, err);
        if (code != LR_OK)
            return code;
        engine_pool_run(h->b->pool, gpu_forward_sample_task, h, n);
    }
    return LR_OK;
}

/* The results of up to GPU_LOGIT_ROWS steps whose rows of logits are 0, 1, ... */
static lr_code gpu_forward_collect(struct gptoss_backend *b, struct gptoss_step *const *steps,
                                   uint32_t count, struct lr_error *err)
{
    const uint32_t *ids = b->host->mapped(b->to_host);
    struct host_rows host = {.b = b};

    for (uint32_t i = 0; i < count; i++) {
        if (steps[i]->sample == NULL)
            continue;
        if (gpu_forward_is_plain(steps[i]->sample) && ids[i] < b->weights->vocab_rows) {
            *steps[i]->sampled = (struct sampler_result){.id = ids[i]};
            continue;
        }
        host.steps[host.count] = steps[i];
        host.rows[host.count++] = i;
    }
    return sample_on_host(&host, err);
}

static void gpu_forward_fill_masks(const struct gptoss_batch *batch)
{
    if (batch->fill_masks != NULL)
        batch->fill_masks(batch->ctx);
}

/* ---- the common step ---- */

void gpu_forget_kept(struct gptoss_backend *b)
{
    for (uint32_t i = 0; i < b->kept_count; i++)
        b->host->forget(b->device, b->kept[i].recording);
    b->kept_count = 0;
}

static lr_code kept_recording(struct forward *f, struct gpu_recording **out)
{
    struct gptoss_backend *b = f->b;
    const struct gpu_shape *s = &f->shape;
    struct gpu_list list = {0};
    uint32_t table = (uint32_t)(s->table_bytes / 4);

    for (uint32_t i = 0; i < b->kept_count; i++)
        if (b->kept[i].rows == s->rows && b->kept[i].splits == s->splits &&
            b->kept[i].table == table) {
            *out = b->kept[i].recording;
            return LR_OK;
        }
    if (b->kept_count == GPU_KEPT_RECORDINGS)
        gpu_forget_kept(b);
    gpu_add_inputs(b, &list, s);
    gpu_add_embed(b, &list, s);
    for (uint32_t i = 0; i < b->config->layers; i++)
        gpu_add_layer(b, &list, s, i);
    gpu_add_logits(b, &list, s, false, 0, s->rows);
    gpu_add_sampling(b, &list, s, 0, s->rows);
    lr_code code = gpu_record(b, &list, out, f->err);
    gpu_list_free(&list);
    if (code == LR_OK)
        b->kept[b->kept_count++] = (struct gpu_kept){s->rows, s->splits, table, *out};
    return code;
}

/* ---- work and time ---- */

static uint32_t pace_of(uint32_t rows)
{
    return rows > GPU_ROWS_AT_ONCE ? 1 : 0;
}

uint64_t gpu_work_limit(const struct gptoss_backend *b, uint32_t rows)
{
    double pace = b->pace[pace_of(rows)], most = PIECE_NS / (pace > 0 ? pace : FIRST_PACE);

    return most < 1 ? 1 : most < 1e18 ? (uint64_t)most : (uint64_t)1e18;
}

/* A slower step counts at once, a faster one by half. */
static void learn_pace(struct forward *f, uint64_t start, uint64_t work)
{
    double *pace = &f->b->pace[pace_of(f->shape.rows)];
    double took = (double)(lr_clock_ns(NULL) - start) / (double)(work > 0 ? work : 1);

    *pace = took > *pace ? took : (*pace + took) / 2;
}

static lr_code decode_step(struct forward *f)
{
    struct gptoss_backend *b = f->b;
    struct gptoss_step *steps[GPU_KEPT_ROWS];
    uint32_t rows = power_above(f->batch->count);
    struct gpu_recording *recording;
    uint64_t ticket, start = lr_clock_ns(NULL);

    rows = rows > GPU_FEW ? rows : GPU_FEW;
    (void)gpu_forward_lay_out(f, rows < b->plan.step_tokens ? rows : b->plan.step_tokens);
    uint32_t most = gpu_table_entries(&b->plan), table = power_above(f->table);
    f->shape.table_bytes = (uint64_t)(table < most ? table : most) * 4;
    for (uint32_t i = 0; i < f->batch->count; i++) {
        steps[i] = &f->batch->steps[i];
        describe_sampling(f, i, steps[i]->sample);
    }
    lr_code code = kept_recording(f, &recording);
    if (code == LR_OK)
        code = b->host->submit(b->device, recording, &ticket, f->err);
    if (code != LR_OK)
        return code;
    gpu_forward_fill_masks(f->batch);
    code = b->host->wait(b->device, ticket, f->err);
    if (code != LR_OK)
        return code;
    learn_pace(f, start, gpu_step_work(b, &f->shape));
    return gpu_forward_collect(b, steps, f->batch->count, f->err);
}

/* ---- any step ---- */

/* The rows of all steps that want logits, then, in a group of their own, those that are
 * sampled. */
static uint32_t list_rows(struct forward *f)
{
    uint32_t *out = INPUT(f, uint32_t, out_rows), row = 0, n = 0;

    for (uint32_t i = 0; i < f->batch->count; i++) {
        const struct gptoss_step *s = &f->batch->steps[i];
        for (uint32_t j = 0; j < s->count && s->logits != NULL; j++)
            out[n++] = row + j;
        row += s->count;
    }
    uint32_t sampled = (n + GPU_LOGIT_ROWS - 1) / GPU_LOGIT_ROWS * GPU_LOGIT_ROWS;
    f->listed = n;
    row = 0;
    n = sampled;
    for (uint32_t i = 0; i < f->batch->count; i++) {
        const struct gptoss_step *s = &f->batch->steps[i];
        row += s->count;
        if (s->sample == NULL)
            continue;
        out[n] = row - 1;
        describe_sampling(f, n++, s->sample);
    }
    return sampled;
}

/* Pieces of a step that were submitted. */
struct pieces {
    struct gpu_recording **recordings; /* owned, until they have ended */
    uint32_t count, room;
    uint64_t ticket, work;
};

static lr_code submit_piece(struct forward *f, struct pieces *p, const struct gpu_list *l,
                            uint32_t from, uint32_t count)
{
    struct gptoss_backend *b = f->b;
    struct gpu_list piece = {
        .commands = l->commands + from, .count = count, .code = l->code, .err = l->err};

    if (p->count == p->room) {
        uint32_t room = p->room == 0 ? 64 : 2 * p->room;
        struct gpu_recording **more = realloc(p->recordings, room * sizeof(*more));
        if (more == NULL)
            return lr_fail(f->err, LR_OUT_OF_RAM, "no memory for a step's commands");
        p->recordings = more;
        p->room = room;
    }
    lr_code code = gpu_record(b, &piece, &p->recordings[p->count], f->err);
    if (code != LR_OK)
        return code;
    for (uint32_t i = 0; i < count; i++)
        p->work += piece.commands[i].work;
    return b->host->submit(b->device, p->recordings[p->count++], &p->ticket, f->err);
}

/* Submits the commands and empties the list; without `all` the last piece stays in it, so that
 * more can be added. */
static lr_code submit_pieces(struct forward *f, struct pieces *p, struct gpu_list *l, bool all)
{
    uint32_t from = 0;
    lr_code code = l->code == LR_OK ? LR_OK : lr_fail(f->err, l->code, "%s", l->err.text);

    while (from < l->count && code == LR_OK) {
        uint64_t work = l->commands[from].work;
        uint32_t n = 1;
        for (; from + n < l->count && work + l->commands[from + n].work <= f->shape.limit; n++)
            work += l->commands[from + n].work;
        if (!all && from + n == l->count)
            break;
        code = submit_piece(f, p, l, from, n);
        from += n;
    }
    if (from > 0)
        memmove(l->commands, l->commands + from, (l->count - from) * sizeof(*l->commands));
    l->count -= from;
    return code;
}

/* Waits for the pieces and frees them.  code: LR_OK, or why not all were submitted. */
static lr_code end_pieces(struct forward *f, struct pieces *p, lr_code code)
{
    struct gptoss_backend *b = f->b;

    if (code == LR_OK)
        code = b->host->wait(b->device, p->ticket, f->err);
    for (uint32_t i = 0; code == LR_OK && i < p->count; i++)
        b->host->forget(b->device, p->recordings[i]);
    free(p->recordings); /* after a failure the device's close() has the rest */
    return code;
}

static lr_code run_list(struct forward *f, struct gpu_list *l)
{
    struct pieces pieces = {0};
    lr_code code = submit_pieces(f, &pieces, l, true);

    gpu_list_free(l);
    return end_pieces(f, &pieces, code);
}

static lr_code run_layers(struct forward *f)
{
    struct gptoss_backend *b = f->b;
    struct gpu_list list = {0};
    struct pieces pieces = {0};
    uint64_t start = lr_clock_ns(NULL);
    lr_code code = LR_OK;

    f->shape.limit = gpu_work_limit(b, f->shape.rows);
    gpu_add_inputs(b, &list, &f->shape);
    gpu_add_embed(b, &list, &f->shape);
    for (uint32_t i = 0; i < b->config->layers && code == LR_OK; i++) {
        gpu_add_layer(b, &list, &f->shape, i);
        code = submit_pieces(f, &pieces, &list,
                             f->shape.rows > GPU_ROWS_AT_ONCE || i + 1 == b->config->layers);
    }
    gpu_list_free(&list);
    if (code == LR_OK)
        gpu_forward_fill_masks(f->batch);
    code = end_pieces(f, &pieces, code);
    if (code == LR_OK)
        learn_pace(f, start, pieces.work);
    return code;
}

/* Copies the logits of all listed rows to the steps that want them. */
static lr_code bring_logits(struct forward *f)
{
    struct gptoss_backend *b = f->b;
    uint32_t step = 0, at = 0, vocab = b->weights->vocab_rows;
    lr_code code = LR_OK;

    for (uint32_t first = 0; first < f->listed && code == LR_OK; first += GPU_LOGIT_ROWS) {
        uint32_t count =
            f->listed - first < GPU_LOGIT_ROWS ? f->listed - first : GPU_LOGIT_ROWS;
        struct gpu_list list = {0};
        gpu_add_logits(b, &list, &f->shape, true, first, count);
        code = run_list(f, &list);
        for (uint32_t i = 0; i < count && code == LR_OK; i++) {
            if (i % GPU_HOST_THREADS == 0) {
                uint32_t rows[GPU_HOST_THREADS], n = 0;
                for (; n < GPU_HOST_THREADS && i + n < count; n++)
                    rows[n] = i + n;
                code = fetch_rows(b, rows, n, f->err);
            }
            while (f->batch->steps[step].logits == NULL || at == f->batch->steps[step].count) {
                step++;
                at = 0;
            }
            memcpy(f->batch->steps[step].logits + (size_t)at++ * vocab,
                   host_logits(b) + (size_t)(i % GPU_HOST_THREADS) * b->logit_stride,
                   (size_t)vocab * 4);
        }
    }
    return code;
}

/* wanted: the steps that were to be sampled before the masks were completed. */
static lr_code sample_rows(struct forward *f, uint32_t first, struct gptoss_step **wanted,
                           uint32_t count)
{
    struct gptoss_backend *b = f->b;
    lr_code code = LR_OK;

    for (uint32_t at = 0; at < count && code == LR_OK; at += GPU_LOGIT_ROWS) {
        uint32_t n = count - at < GPU_LOGIT_ROWS ? count - at : GPU_LOGIT_ROWS;
        struct gpu_list list = {0};
        gpu_add_logits(b, &list, &f->shape, true, first + at, n);
        gpu_add_sampling(b, &list, &f->shape, first + at, n);
        code = run_list(f, &list);
        if (code == LR_OK)
            code = gpu_forward_collect(b, wanted + at, n, f->err);
    }
    return code;
}

static lr_code any_step(struct forward *f)
{
    struct gptoss_step **wanted = calloc(f->batch->count + 1, sizeof(*wanted));
    uint32_t count = 0;

    if (wanted == NULL)
        return lr_fail(f->err, LR_OUT_OF_RAM, "no memory for a step");
    (void)gpu_forward_lay_out(f, f->b->plan.step_tokens);
    uint32_t sampled = list_rows(f);
    for (uint32_t i = 0; i < f->batch->count; i++)
        if (f->batch->steps[i].sample != NULL)
            wanted[count++] = &f->batch->steps[i];
    lr_code code = run_layers(f);
    if (code == LR_OK)
        code = bring_logits(f);
    if (code == LR_OK)
        code = sample_rows(f, sampled, wanted, count);
    free(wanted);
    return code;
}

lr_code gpu_forward(struct gptoss_backend *b, const struct gptoss_batch *batch,
                    struct lr_error *err)
{
    struct forward f = {.b = b, .batch = batch, .err = err};
    bool plain = batch->tokens == batch->count && batch->count <= GPU_KEPT_ROWS;

    if (batch->tokens > b->plan.step_tokens || batch->count > b->plan.max_sequences)
        return lr_fail(err, LR_INTERNAL, "a batch of %u tokens, %u sequences; planned %u, %u",
                       batch->tokens, batch->count, b->plan.step_tokens, b->plan.max_sequences);
    struct gpu_shape all = {.rows = batch->count};
    for (uint32_t i = 0; i < batch->count && plain; i++) {
        uint32_t keys = batch->steps[i].position + 1;
        plain = batch->steps[i].sample != NULL && batch->steps[i].logits == NULL;
        all.keys = keys > all.keys ? keys : all.keys;
    }
    /* As one submission, if that is short enough. */
    plain = plain && gpu_step_work(b, &all) <= gpu_work_limit(b, all.rows);
    return plain ? decode_step(&f) : any_step(&f);
}
