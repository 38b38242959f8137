/* gptoss/backend/cuda/forward.c - one step: the batch's inputs to the device, the results
 * back. */
#include <string.h>

#include "engines/gptoss/backend/cuda/cuda.h"

/* True for the sampling that sample.cu does. */
static bool cuda_forward_is_plain(const struct sampler_input *s)
{
    const struct lr_sampling *p = s->sampling;
    return s->mask == NULL && p->logprobs == 0 && p->top_logprobs == 0 &&
           p->logit_bias_count == 0 && p->presence_penalty == 0 && p->frequency_penalty == 0 &&
           (p->repetition_penalty == 1 || p->repetition_penalty == 0) &&
           (p->temperature == 0 || (p->top_k == 0 && p->top_p >= 1 && p->min_p == 0));
}

#define INPUT(b, type, member) ((type *)(void *)((b)->host_inputs + (b)->at.member))

enum maker { MADE_PLAIN, MADE_FILTERED, MADE_ON_HOST, MADE_NOT };

struct forward {
    struct cuda_shape shape;
    uint32_t seqs;
    uint32_t table_used;
    uint32_t sampled_count;
    enum maker maker[CUDA_LOGIT_ROWS];            /* how each sampled row is sampled */
    uint32_t filter[CUDA_LOGIT_ROWS];             /* its index among the filtered rows */
    struct gptoss_step *sampled[CUDA_LOGIT_ROWS]; /* step of each sampled row of this round */
};

static void cuda_forward_add_step(struct gptoss_backend *b, struct forward *f,
                                  const struct gptoss_step *s)
{
    uint32_t seq = f->seqs++, row = f->shape.rows;
    uint32_t per_tile = cuda_target_query_tokens(&b->target, b->config);
    uint32_t *tables = INPUT(b, uint32_t, tables) + f->table_used;
    INPUT(b, struct cuda_seq, seqs)
    [seq] = (struct cuda_seq){.position = s->position,
                              .count = s->count,
                              .first_row = row,
                              .table_start = f->table_used,
                              .table_count = s->page_count};
    memcpy(tables, s->full_pages, s->page_count * sizeof(*tables));
    memcpy(tables + s->page_count, s->window_pages, s->page_count * sizeof(*tables));
    f->table_used += 2 * s->page_count;
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t position = s->position + i, entry = position / CUDA_PAGE_TOKENS,
                 slot = position % CUDA_PAGE_TOKENS;
        if (s->tokens != NULL)
            INPUT(b, uint32_t, tokens)[row + i] = s->tokens[i];
        INPUT(b, uint32_t, row_pos)[row + i] = position;
        INPUT(b, uint32_t, row_full)[row + i] = s->full_pages[entry] * CUDA_PAGE_TOKENS + slot;
        INPUT(b, uint32_t, row_window)
        [row + i] = s->window_pages[entry] * CUDA_PAGE_TOKENS + slot;
    }
    if (s->count == 1) {
        f->shape.decode_rows++;
    } else {
        for (uint32_t i = 0; i < s->count; i += per_tile) {
            INPUT(b, uint32_t, tile_seq)[f->shape.query_tiles] = seq;
            INPUT(b, uint32_t, tile_first)[f->shape.query_tiles++] = i;
        }
    }
    f->shape.rows += s->count;
}

/* The kernel for a single token reads the token's row of the embedding table in the inputs. */
static bool needs_row(const struct gptoss_backend *b, uint32_t rows)
{
    return rows == 1 && b->host_embed != NULL && b->token_rows != 0;
}

/* Rows on the device: single tokens first, prompts after them. */
static void cuda_forward_lay_out(struct gptoss_backend *b, struct forward *f,
                                 const struct gptoss_batch *batch)
{
    *f = (struct forward){0};
    /* A copy of the step before may still read that step's inputs. */
    b->turn = (b->turn + 1) % CUDA_TURNS;
    b->host_inputs = b->turn_inputs[b->turn];
    *INPUT(b, uint32_t, turn) = b->turn;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->steps[i].count == 1)
            cuda_forward_add_step(b, f, &batch->steps[i]);
    f->shape.parts = cuda_split_contexts(INPUT(b, struct cuda_seq, seqs), f->shape.decode_rows,
                                         INPUT(b, uint32_t, parts));
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->steps[i].count != 1)
            cuda_forward_add_step(b, f, &batch->steps[i]);
    if (needs_row(b, f->shape.rows)) {
        uint8_t *row = INPUT(b, uint8_t, embedding);
        memcpy(row, b->host_embed + (size_t)batch->steps[0].tokens[0] * TOKEN_HIDDEN,
               TOKEN_ROW_BYTES);
        memset(row + TOKEN_ROW_BYTES, 0, 4);
    }
}

/* The rows of a batch's steps, in the order of cuda_forward_lay_out(): asked for step after
 * step. */
struct row_counter {
    uint32_t single, prompt; /* next row of a single token, and of a prompt */
};

static struct row_counter count_rows(const struct forward *f)
{
    return (struct row_counter){.prompt = f->shape.decode_rows};
}

static uint32_t next_row(struct row_counter *rows, const struct gptoss_step *s)
{
    uint32_t *next = s->count == 1 ? &rows->single : &rows->prompt, row = *next;
    *next += s->count;
    return row;
}

static void describe_sampling(struct gptoss_backend *b, struct forward *f,
                              struct gptoss_step *s)
{
    const struct lr_sampling *p = s->sample->sampling;
    INPUT(b, struct cuda_sample_row, how)
    [f->sampled_count] = (struct cuda_sample_row){
        .seed = p->seed, .index = s->sample->index, .temperature = p->temperature};
    b->sampled->ids[b->turn][f->sampled_count] = CUDA_NO_ID_YET;
    f->sampled[f->sampled_count++] = s;
}

/* All inputs from an offset on. */
static lr_code copy_inputs_from(struct gptoss_backend *b, const struct forward *f,
                                uint64_t first, struct lr_error *err)
{
    uint64_t end = b->at.tables + (uint64_t)f->table_used * 4;
    CUDA_TRY(b->cu,
             cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)(b->ws.inputs + first),
                               b->host_inputs + first, end - first, b->stream),
             err);
    return LR_OK;
}

static lr_code copy_inputs(struct gptoss_backend *b, const struct forward *f,
                           struct lr_error *err)
{
    return copy_inputs_from(b, f, 0, err);
}

static lr_code copy_token(struct gptoss_backend *b, uint32_t row, struct lr_error *err)
{
    uint64_t at = b->at.tokens + (uint64_t)row * 4;
    CUDA_TRY(b->cu,
             cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)(b->ws.inputs + at), b->host_inputs + at,
                               4, b->stream),
             err);
    return LR_OK;
}

/* After the logits and the plain sampling: launches the sampling of the other rows that the
 * device supports.  Their input is written here, while the device still computes the layers. */
static lr_code launch_filters(struct gptoss_backend *b, struct forward *f, struct lr_error *err)
{
    cuda_filter_begin(b);
    for (uint32_t i = 0; i < f->sampled_count; i++) {
        const struct sampler_input *how = f->sampled[i]->sample;
        f->filter[i] = b->filters.count;
        f->maker[i] = how == NULL                  ? MADE_NOT
                      : cuda_forward_is_plain(how) ? MADE_PLAIN
                      : cuda_filter_add(b, how, i) ? MADE_FILTERED
                                                   : MADE_ON_HOST;
    }
    if (b->filters.count == 0)
        return LR_OK;
    lr_code code = cuda_filter_copy(b, err);
    return code == LR_OK ? cuda_filter_launch(b, err) : code;
}

/* Waits until the ids of `count` rows are there.  They lie in the host's memory, and looking at
 * them is quicker than waiting for the stream. */
static lr_code await_ids(struct gptoss_backend *b, uint32_t turn, uint32_t count,
                         struct lr_error *err)
{
    enum { LOOKS = 1 << 14 }; /* between two questions whether the device has failed */
    uint32_t seen = 0;
    for (uint32_t looks = 0; seen < count; looks++) {
        if (__atomic_load_n(&b->sampled->ids[turn][seen], __ATOMIC_ACQUIRE) != CUDA_NO_ID_YET)
            seen++;
        else if (looks % LOOKS == LOOKS - 1 &&
                 b->cu->cuStreamQuery(b->stream) != CUDA_ERROR_NOT_READY)
            break;
    }
    if (seen < count)
        CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    return LR_OK;
}

/* Waits for the step's results; ids are the last ones of a step that is only sampled plainly.
 */
static lr_code await_results(struct gptoss_backend *b, const struct forward *f,
                             struct lr_error *err)
{
    bool plain = true;
    for (uint32_t i = 0; i < f->sampled_count && plain; i++)
        plain = f->maker[i] == MADE_PLAIN;
    if (plain)
        return await_ids(b, b->turn, f->sampled_count, err);
    CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    return LR_OK;
}

/* Waits for the sampled ids; samples on the host what the device does not support. */
static lr_code cuda_forward_collect(struct gptoss_backend *b, struct forward *f,
                                    struct lr_error *err)
{
    struct cuda_host_row rows[CUDA_LOGIT_ROWS];
    uint32_t count = 0;
    lr_code code = launch_filters(b, f, err);
    if (code == LR_OK)
        code = await_results(b, f, err);
    if (code != LR_OK)
        return code;
    for (uint32_t i = 0; i < f->sampled_count; i++) {
        if (f->maker[i] == MADE_NOT)
            continue;
        struct gptoss_step *s = f->sampled[i];
        uint32_t id = b->sampled->ids[b->turn][i];
        bool made = f->maker[i] == MADE_PLAIN && id < b->vocab_rows;
        *s->sampled = (struct sampler_result){.id = id};
        if (f->maker[i] == MADE_FILTERED)
            made = cuda_filter_read(b, f->filter[i], s->sampled);
        if (!made)
            rows[count++] = (struct cuda_host_row){s, i};
    }
    return cuda_host_sampling(b, rows, count, err);
}

/* The kernels of a decode step. */
static lr_code launch_step(struct gptoss_backend *b, const struct cuda_shape *shape,
                           struct lr_error *err)
{
    lr_code code = cuda_launch_layers(b, shape, err);
    return code == LR_OK ? cuda_launch_logits(b, shape, 0, shape->rows, err) : code;
}

/* Runs a decode step as a graph, captured at the first step with this many sequences.  With
 * many sequences the host launches faster than the device computes, and a graph for each number
 * would take memory. */
static lr_code replay(struct gptoss_backend *b, const struct cuda_shape *shape,
                      struct lr_error *err)
{
    const struct cuda_driver *cu = b->cu;
    if (shape->rows > CUDA_GRAPH_ROWS || shape->parts != 0)
        return launch_step(b, shape, err);
    CUgraphExec *graph = &b->graphs[shape->rows];
    if (*graph == NULL) {
        CUgraph captured = NULL;
        CUDA_TRY(cu, cuStreamBeginCapture(b->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), err);
        lr_code code = launch_step(b, shape, err);
        CUresult ended = cu->cuStreamEndCapture(b->stream, &captured);
        if (code != LR_OK)
            return code;
        if (ended != CUDA_SUCCESS)
            return cuda_fail(cu, ended, "cuStreamEndCapture", err);
        CUresult made = cu->cuGraphInstantiateWithFlags(graph, captured, 0);
        (void)cu->cuGraphDestroy(captured);
        if (made != CUDA_SUCCESS)
            return cuda_fail(cu, made, "cuGraphInstantiate", err);
    }
    CUDA_TRY(cu, cuGraphLaunch(*graph, b->stream), err);
    return LR_OK;
}

/* Copies all logits of one step to the host, a group of rows at a time. */
static lr_code bring_logits(struct gptoss_backend *b, struct forward *f,
                            const struct gptoss_step *s, uint32_t row, struct lr_error *err)
{
    const struct cuda_driver *cu = b->cu;
    for (uint32_t i = 0; i < s->count; i++)
        INPUT(b, uint32_t, out_rows)[i] = row + i;
    lr_code code = copy_inputs(b, f, err);
    struct cuda_shape shape = f->shape;
    shape.gather = true;
    shape.sample = false;
    uint32_t most = cuda_logit_rows(&b->plan);
    for (uint32_t at = 0; at < s->count && code == LR_OK; at += most) {
        uint32_t count = s->count - at < most ? s->count - at : most;
        code = cuda_launch_logits(b, &shape, at, count, err);
        for (uint32_t i = 0; i < count && code == LR_OK; i++)
            CUDA_TRY(cu,
                     cuMemcpyDtoHAsync(
                         s->logits + (size_t)(at + i) * b->vocab_rows,
                         (CUdeviceptr)(uintptr_t)(b->ws.logits + (size_t)i * b->logit_stride),
                         (size_t)b->vocab_rows * 4, b->stream),
                     err);
        CUDA_TRY(cu, cuStreamSynchronize(b->stream), err);
    }
    return code;
}

static lr_code sample_and_collect(struct gptoss_backend *b, struct forward *f,
                                  const struct gptoss_batch *batch, struct lr_error *err)
{
    struct row_counter rows = count_rows(f);
    uint32_t i = 0;
    lr_code code = LR_OK;
    while (i < batch->count && code == LR_OK) {
        f->sampled_count = 0;
        for (; i < batch->count && f->sampled_count < cuda_logit_rows(&b->plan); i++) {
            struct gptoss_step *s = &batch->steps[i];
            uint32_t row = next_row(&rows, s);
            if (s->sample == NULL)
                continue;
            INPUT(b, uint32_t, out_rows)[f->sampled_count] = row + s->count - 1;
            describe_sampling(b, f, s);
        }
        if (f->sampled_count == 0)
            break;
        code = copy_inputs(b, f, err);
        struct cuda_shape shape = f->shape;
        shape.gather = true;
        shape.sample = true;
        if (code == LR_OK)
            code = cuda_launch_logits(b, &shape, 0, f->sampled_count, err);
        if (code == LR_OK)
            code = cuda_forward_collect(b, f, err);
    }
    return code;
}

/* Between the launch of the layers and the sampling. */
static void cuda_forward_fill_masks(const struct gptoss_batch *batch)
{
    if (batch->fill_masks != NULL)
        batch->fill_masks(batch->ctx);
}

/* The common step: every sequence is one token and is sampled. */
static bool is_decode(const struct gptoss_backend *b, const struct gptoss_batch *batch)
{
    if (batch->tokens != batch->count || batch->count > cuda_logit_rows(&b->plan) ||
        b->trace != NULL) /* a trace cannot look into a graph */
        return false;
    for (uint32_t i = 0; i < batch->count; i++)
        if (batch->steps[i].sample == NULL || batch->steps[i].logits != NULL)
            return false;
    return true;
}

static lr_code launch_decode(struct gptoss_backend *b, struct forward *f,
                             const struct gptoss_batch *batch, struct lr_error *err)
{
    for (uint32_t i = 0; i < batch->count; i++)
        describe_sampling(b, f, &batch->steps[i]);
    f->shape.sample = true;
    /* The step before writes the tokens of a step that follows it, where they are not known. */
    lr_code code = copy_inputs_from(b, f, batch->follows ? b->at.turn : 0, err);
    for (uint32_t i = 0; i < batch->count && batch->follows && code == LR_OK; i++)
        if (batch->steps[i].tokens != NULL)
            code = copy_token(b, i, err);
    return code == LR_OK ? replay(b, &f->shape, err) : code;
}

lr_code cuda_begin(struct gptoss_backend *b, const struct gptoss_batch *batch,
                   struct lr_error *err)
{
    struct forward f;
    bool plain = is_decode(b, batch) && b->begun_count < CUDA_TURNS &&
                 !(batch->follows && needs_row(b, batch->count));
    for (uint32_t i = 0; i < batch->count && plain; i++)
        plain = cuda_forward_is_plain(batch->steps[i].sample);
    if (!plain)
        return LR_UNSUPPORTED;
    CUDA_TRY(b->cu, cuCtxSetCurrent(b->context), err);
    cuda_forward_lay_out(b, &f, batch);
    lr_code code = launch_decode(b, &f, batch, err);
    if (code != LR_OK)
        return code;
    struct cuda_begun *begun = &b->begun[b->begun_count++];
    begun->turn = b->turn;
    begun->count = f.sampled_count;
    memcpy(begun->steps, f.sampled, f.sampled_count * sizeof(f.sampled[0]));
    return LR_OK;
}

lr_code cuda_finish(struct gptoss_backend *b, struct lr_error *err)
{
    const struct cuda_begun *first = &b->begun[0];
    CUDA_TRY(b->cu, cuCtxSetCurrent(b->context), err);
    lr_code code = await_ids(b, first->turn, first->count, err);
    for (uint32_t i = 0; i < first->count && code == LR_OK; i++) {
        struct gptoss_step *s = first->steps[i];
        *s->sampled = (struct sampler_result){.id = b->sampled->ids[first->turn][i]};
        /* No id: the host would have to look at logits that may be overwritten by now. */
        if (s->sampled->id >= b->vocab_rows)
            s->sample = NULL;
    }
    b->begun[0] = b->begun[1];
    b->begun_count--;
    return code;
}

lr_code cuda_forward(struct gptoss_backend *b, const struct gptoss_batch *batch,
                     struct lr_error *err)
{
    struct forward f;
    CUDA_TRY(b->cu, cuCtxSetCurrent(b->context), err);
    cuda_forward_lay_out(b, &f, batch);

    if (is_decode(b, batch)) {
        lr_code code = launch_decode(b, &f, batch, err);
        if (code != LR_OK)
            return code;
        cuda_forward_fill_masks(batch);
        return cuda_forward_collect(b, &f, err);
    }

    lr_code code = copy_inputs(b, &f, err);
    if (code == LR_OK)
        code = cuda_launch_layers(b, &f.shape, err);
    if (code == LR_OK)
        cuda_forward_fill_masks(batch);
    /* The inputs are overwritten below, so the copy must be finished. */
    if (code == LR_OK)
        CUDA_TRY(b->cu, cuStreamSynchronize(b->stream), err);
    struct row_counter rows = count_rows(&f);
    for (uint32_t i = 0; i < batch->count && code == LR_OK; i++) {
        uint32_t row = next_row(&rows, &batch->steps[i]);
        if (batch->steps[i].logits != NULL)
            code = bring_logits(b, &f, &batch->steps[i], row, err);
    }
    return code == LR_OK ? sample_and_collect(b, &f, batch, err) : code;
}
