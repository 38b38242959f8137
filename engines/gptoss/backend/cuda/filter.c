/* gptoss/backend/cuda/filter.c - sampling with penalties, bias, masks, filters and log
 * probabilities on the device (sample_filtered.cu): its input, its launch, its results.
 *
 * One copy brings the whole input: the rows, then the mask and the edits of each.
 */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/cuda/cuda.h"

#define BIASED (1u << 31) /* in edit_of: the edit has its bias */

enum {
    ROW_WORDS = sizeof(struct cuda_filter_row) / 4,
    EDIT_WORDS = sizeof(struct cuda_edit) / 4,
};

static uint32_t mask_words(uint32_t vocab)
{
    return (vocab + 31) / 32;
}

uint64_t cuda_filter_bytes(uint32_t vocab, uint32_t rows)
{
    return 4 * ((uint64_t)rows * (ROW_WORDS + mask_words(vocab)) +
                (uint64_t)CUDA_EDITS * EDIT_WORDS);
}

/* A block's part of a row. */
static uint32_t part_bytes(const struct gptoss_backend *b)
{
    uint32_t quads = (b->vocab_rows + 3) / 4;
    return (quads + CUDA_FILTER_BLOCKS - 1) / CUDA_FILTER_BLOCKS * 16;
}

lr_code cuda_filter_open(struct gptoss_backend *b, struct lr_error *err)
{
    struct cuda_filters *f = &b->filters;
    f->has = cuda_target_can_run(&b->target, CUDA_sample_filtered, part_bytes(b));
    CUDA_TRY(b->cu,
             cuMemAllocHost((void **)&f->input,
                            cuda_filter_bytes(b->vocab_rows, cuda_logit_rows(&b->plan))),
             err);
    f->edit_of = calloc(b->vocab_rows, sizeof(*f->edit_of));
    return f->edit_of != NULL
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM, "no memory for sampling with filters");
}

void cuda_filter_close(struct gptoss_backend *b)
{
    if (b->filters.input != NULL)
        (void)b->cu->cuMemFreeHost(b->filters.input);
    free(b->filters.edit_of);
}

/* ---- input ---- */

void cuda_filter_begin(struct gptoss_backend *b)
{
    b->filters.count = b->filters.edits = 0;
    b->filters.words = cuda_logit_rows(&b->plan) * ROW_WORDS;
}

/* The row's edit of an id, created if there is none; NULL: no room. */
static struct cuda_edit *edit_of(struct cuda_filters *f, struct cuda_filter_row *r, uint32_t id)
{
    struct cuda_edit *edits = (struct cuda_edit *)(void *)(f->input + r->edits);
    if (f->edit_of[id] == 0) {
        if (f->edits + r->edit_count == CUDA_EDITS)
            return NULL;
        edits[r->edit_count++] = (struct cuda_edit){.id = id};
        f->edit_of[id] = r->edit_count;
    }
    return &edits[(f->edit_of[id] & ~BIASED) - 1];
}

static bool list_history(struct gptoss_backend *b, const struct sampler_input *how,
                         struct cuda_filter_row *r)
{
    for (uint32_t i = 0; i < how->history_count; i++) {
        if (how->history[i] >= b->vocab_rows)
            continue;
        struct cuda_edit *e = edit_of(&b->filters, r, how->history[i]);
        if (e == NULL)
            return false;
        e->seen += (e->seen == 0 ? 1u : 0) + (i >= how->prompt_count ? 1u : 0);
    }
    return true;
}

/* False also for an id with two biases: the host adds them one after the other. */
static bool list_bias(struct gptoss_backend *b, const struct lr_sampling *p,
                      struct cuda_filter_row *r)
{
    for (uint32_t i = 0; i < p->logit_bias_count; i++) {
        uint32_t id = p->logit_bias[i].token;
        if (id >= b->vocab_rows)
            continue;
        struct cuda_edit *e = edit_of(&b->filters, r, id);
        if (e == NULL || (b->filters.edit_of[id] & BIASED) != 0)
            return false;
        e->bias = p->logit_bias[i].bias;
        b->filters.edit_of[id] |= BIASED;
    }
    return true;
}

static bool list_edits(struct gptoss_backend *b, const struct sampler_input *how,
                       struct cuda_filter_row *r)
{
    struct cuda_filters *f = &b->filters;
    bool penalties = r->repetition != 1 || r->presence != 0 || r->frequency != 0;
    const struct cuda_edit *edits = (struct cuda_edit *)(void *)(f->input + f->words);
    r->edits = f->words;
    bool listed = (!penalties || list_history(b, how, r)) && list_bias(b, how->sampling, r);
    for (uint32_t i = 0; i < r->edit_count; i++)
        f->edit_of[edits[i].id] = 0;
    return listed;
}

bool cuda_filter_add(struct gptoss_backend *b, const struct sampler_input *how, uint32_t row)
{
    struct cuda_filters *f = &b->filters;
    const struct lr_sampling *p = how->sampling;
    uint32_t before = f->words, vocab = b->vocab_rows;
    if (!f->has || f->count == cuda_logit_rows(&b->plan))
        return false;
    uint32_t top = p->top_logprobs < CUDA_TOP_MAX ? p->top_logprobs : CUDA_TOP_MAX;
    /* All ids below this x weigh less than 1 - top_p (sampler/rank.c, sampler_least). */
    float least = logf((1 - p->top_p) / (float)vocab) - 0.01f;
    struct cuda_filter_row r = {
        .seed = p->seed,
        .index = how->index,
        .temperature = p->temperature,
        .row = row,
        .top_k = p->top_k < vocab ? p->top_k : 0,
        .top_p = p->top_p < 1 ? p->top_p : 1,
        .least = least < 0 ? least : 0,
        .floor = p->min_p > 0 ? logf(p->min_p) : -FLT_MAX,
        .repetition = p->repetition_penalty > 0 ? p->repetition_penalty : 1,
        .presence = p->presence_penalty,
        .frequency = p->frequency_penalty,
        .report = p->logprobs != 0 || top > 0 ? 1 + top : 0,
    };
    if (how->mask != NULL) {
        r.mask = f->words;
        memcpy(f->input + f->words, how->mask, (size_t)mask_words(vocab) * 4);
        f->words += mask_words(vocab);
    }
    if (!list_edits(b, how, &r)) {
        f->words = before;
        return false;
    }
    f->words += r.edit_count * EDIT_WORDS;
    f->edits += r.edit_count;
    ((struct cuda_filter_row *)(void *)f->input)[f->count++] = r;
    return true;
}

lr_code cuda_filter_copy(struct gptoss_backend *b, struct lr_error *err)
{
    CUDA_TRY(b->cu,
             cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)b->ws.filter_input, b->filters.input,
                               (size_t)b->filters.words * 4, b->stream),
             err);
    return LR_OK;
}

lr_code cuda_filter_launch(struct gptoss_backend *b, struct lr_error *err)
{
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                 .value.clusterDim = {.x = CUDA_FILTER_BLOCKS, .y = 1, .z = 1}};
    CUlaunchConfig config = {.gridDimX = CUDA_FILTER_BLOCKS,
                             .gridDimY = b->filters.count,
                             .gridDimZ = 1,
                             .blockDimX = CUDA_FILTER_THREADS,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = part_bytes(b),
                             .hStream = b->stream,
                             .attrs = &cluster,
                             .numAttrs = 1};
    struct cuda_filter a = {.logits = b->ws.logits,
                            .usable = b->ws.usable,
                            .input = b->ws.filter_input,
                            .out = b->sampled->filtered,
                            .vocab = b->vocab_rows,
                            .stride = b->logit_stride};
    void *arguments[] = {&a};
    return cuda_launch_with(b, CUDA_sample_filtered, &config, arguments, err);
}

/* ---- results ---- */

bool cuda_filter_read(const struct gptoss_backend *b, uint32_t i, struct sampler_result *out)
{
    const struct cuda_filter_row *row = (struct cuda_filter_row *)(void *)b->filters.input + i;
    const struct cuda_filtered *r = &b->sampled->filtered[i];
    *out = (struct sampler_result){.id = r->id};
    if (r->id >= b->vocab_rows)
        return false;
    if (row->report == 0)
        return true;
    if (r->count != row->report - 1) /* the row has fewer ids */
        return false;
    double base = (double)r->largest + log(r->sum);
    out->logprob = (float)((double)r->logit - base);
    for (out->top_count = 0; out->top_count < r->count; out->top_count++)
        out->top[out->top_count] = (struct lr_logprob){
            r->top[out->top_count].id, (float)((double)r->top[out->top_count].logit - base)};
    return true;
}
