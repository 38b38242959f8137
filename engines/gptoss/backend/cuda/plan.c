/* gptoss/backend/cuda/plan.c - shapes and sizes: the memory that a model needs on a GPU, and
 * the offset of each part in its allocation.  The same functions count (base 0) and place. */
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/cuda/cuda.h"

enum {
    DEFAULT_SEQUENCES = 64,
    MAX_SEQUENCES = 1024,
    LEAST_LOGIT_ROWS = 64,
    DEFAULT_CHUNK = 2048,
    LEAST_CHUNK =
        64, /* fewer tokens are hardly faster: a step reads the weights of most experts */
    MAX_CHUNK = 8192,
    DEFAULT_KV_TOKENS = 262144,
};

/* For the context, the modules and the driver: measured on an H200 with driver 580. */
#define FIXED_BYTES (600ull << 20)

/* Returns consecutive 256-byte aligned pieces of an allocation. */
struct placer {
    uint64_t base;
    uint64_t used;
};

static void *place(struct placer *p, uint64_t bytes)
{
    uint64_t at = p->used;
    p->used = (at + bytes + 255) / 256 * 256;
    return (void *)(uintptr_t)(p->base + at);
}

static uint32_t tiles_of(uint32_t rows)
{
    return (rows + 15) / 16;
}

static void place_bf16(struct placer *p, struct cuda_matrix *m, uint32_t rows, uint32_t columns,
                       bool bias)
{
    *m = (struct cuda_matrix){.rows = rows, .tiles = tiles_of(rows), .blocks = columns / 32};
    m->weights = place(p, (uint64_t)m->tiles * m->blocks * 1024);
    if (bias)
        m->bias = place(p, (uint64_t)m->tiles * 32);
}

static void place_mxfp4(struct placer *p, struct cuda_matrix *m, uint32_t rows,
                        uint32_t columns, uint32_t experts)
{
    *m = (struct cuda_matrix){.rows = rows, .tiles = tiles_of(rows), .blocks = columns / 32};
    m->expert_weights = (uint64_t)m->tiles * ((m->blocks + 1) / 2) * 512;
    m->expert_scales = (uint64_t)m->tiles * ((m->blocks + 3) / 4) * 64;
    m->expert_bias = (uint64_t)m->tiles * 16;
    m->weights = place(p, m->expert_weights * experts);
    m->scales = place(p, m->expert_scales * experts);
    m->bias = place(p, m->expert_bias * 2 * experts);
}

uint64_t cuda_place_weights(struct gptoss_backend *b, const struct model_config *c,
                            uint64_t base)
{
    struct placer p = {.base = base};
    uint32_t kinds[2] = {0, 0};
    b->embed = place(&p, (uint64_t)c->vocab * c->hidden * 2);
    b->norm = place(&p, (uint64_t)c->hidden * 2);
    place_bf16(&p, &b->unembed, c->vocab, c->hidden, false);
    b->rope = place(&p, (uint64_t)b->plan.max_context * 32 * 8);
    for (uint32_t i = 0; i < c->layers; i++) {
        struct cuda_layer *l = &b->layers[i];
        l->sliding = c->sliding[i];
        l->kind_index = kinds[l->sliding ? 1 : 0]++;
        l->attn_norm = place(&p, (uint64_t)c->hidden * 2);
        l->mlp_norm = place(&p, (uint64_t)c->hidden * 2);
        l->sinks = place(&p, (uint64_t)c->heads * 2);
        l->router = place(&p, (uint64_t)c->experts * c->hidden * 2);
        l->router_bias = place(&p, (uint64_t)c->experts * 2);
        place_bf16(&p, &l->qkv, (c->heads + 2 * c->kv_heads) * 64, c->hidden, true);
        place_bf16(&p, &l->out, c->hidden, c->heads * 64, true);
        place_mxfp4(&p, &l->gate_up, c->intermediate * 2, c->hidden, c->experts);
        place_mxfp4(&p, &l->down, c->hidden, c->intermediate, c->experts);
    }
    return p.used;
}

static uint32_t pages_for(uint64_t tokens)
{
    return (uint32_t)((tokens + CUDA_PAGE_TOKENS - 1) / CUDA_PAGE_TOKENS);
}

uint32_t cuda_logit_rows(const struct gptoss_plan *p)
{
    uint32_t n = p->max_sequences < LEAST_LOGIT_ROWS ? LEAST_LOGIT_ROWS : p->max_sequences;
    return n < CUDA_LOGIT_ROWS ? n : CUDA_LOGIT_ROWS;
}

/* The inputs of a step, adjacent, so that one copy is enough. */
static void place_inputs(struct cuda_inputs *at, const struct gptoss_plan *p)
{
    struct placer in = {0};
    uint64_t rows = p->step_tokens, sampled = cuda_logit_rows(p);
#define AT(bytes) (uint64_t)(uintptr_t) place(&in, (bytes))
    at->tokens = AT(rows * 4);
    at->row_pos = AT(rows * 4);
    at->row_full = AT(rows * 4);
    at->row_window = AT(rows * 4);
    at->out_rows = AT(rows * 4);
    at->how = AT(sampled * sizeof(struct cuda_sample_row));
    at->tile_seq = AT(rows * 4);
    at->tile_first = AT(rows * 4);
    at->seqs = AT((uint64_t)p->max_sequences * sizeof(struct cuda_seq));
    at->tables = AT((uint64_t)p->max_sequences * pages_for(p->max_context) * 2 * 4);
    at->end = in.used;
#undef AT
}

uint64_t cuda_place_workspace(struct gptoss_backend *b, const struct model_config *c,
                              const struct gptoss_plan *p, uint64_t base)
{
    struct placer at = {.base = base};
    struct cuda_workspace *w = &b->ws;
    uint64_t rows = p->step_tokens, pairs = rows * c->experts_per_token;
    uint64_t vocab = (uint64_t)tiles_of(c->vocab) * 16, sampled = cuda_logit_rows(p);
    /* Sums of blocks that share rows: rows_2_64 or prompt_dense. */
    uint64_t parts = (uint64_t)CUDA_ROWS_2_64_GRID * CUDA_ROWS_2_64_TILES * 16 *
                     CUDA_STREAMED_ROWS * 4,
             dense = (uint64_t)CUDA_DENSE_GRID * CUDA_DENSE_ROWS * CUDA_DENSE_TOKENS * 4;
    place_inputs(&b->at, p);
    w->inputs = place(&at, b->at.end);
    w->residual = place(&at, rows * c->hidden * 4);
    w->normed = place(&at, rows * c->hidden * 2);
    w->q = place(&at, rows * c->heads * 64 * 2);
    w->mixed = place(&at, rows * c->heads * 64 * 2);
    w->choice = place(&at, pairs * 4);
    w->weight = place(&at, pairs * 4);
    w->router_logits = place(&at, rows * c->experts * 4);
    w->router_tickets = place(&at, rows * 4);
    w->inner = place(&at, pairs * c->intermediate * 2);
    w->expert_out = place(&at, pairs * c->hidden * 4);
    w->sorted = place(&at, pairs * 4);
    w->expert_tile = place(&at, (pairs / CUDA_FEW_TOKENS + c->experts + 1) * 16);
    w->tile_count = place(&at, 4);
    w->final = place(&at, sampled * c->hidden * 2);
    w->logits = place(&at, sampled * vocab * 4);
    w->partial = place(&at, (uint64_t)CUDA_GRAPH_ROWS * c->kv_heads * CUDA_GROUP_MAX * 66 * 4);
    w->attention_tickets = place(&at, rows * c->kv_heads * 4);
    w->slice_parts = place(&at, parts > dense ? parts : dense);
    w->slice_tickets = place(&at, (uint64_t)CUDA_ROWS_2_64_GROUPS * 8);
    w->best_value = place(&at, sampled * CUDA_SAMPLE_PARTS * 4);
    w->best_id = place(&at, sampled * CUDA_SAMPLE_PARTS * 4);
    w->sample_tickets = place(&at, sampled * 4);
    w->filter_input = place(&at, cuda_filter_bytes(c->vocab, (uint32_t)sampled));
    w->usable = place(&at, vocab / 8 + 64);
    b->logit_stride = (uint32_t)vocab;
    uint64_t token = cuda_token_place(&b->token, c, at.base + at.used);
    (void)place(&at, token);
    return at.used;
}

static uint32_t pick(uint64_t asked, uint64_t otherwise, uint64_t low, uint64_t high)
{
    uint64_t v = asked != 0 ? asked : otherwise;
    v = v < low ? low : v;
    return (uint32_t)(v > high ? high : v);
}

/* Refuses shapes that the kernels do not support. */
static lr_code check_shape(const struct model_config *c, struct lr_error *err)
{
    if (c->head_dim != CUDA_HEAD_DIM)
        return lr_fail(err, LR_UNSUPPORTED, "head_dim is %u; the CUDA backend has code for %d",
                       c->head_dim, CUDA_HEAD_DIM);
    if (c->heads / c->kv_heads > CUDA_GROUP_MAX)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%u query heads share a KV head; the CUDA backend has code for up to %d",
                       c->heads / c->kv_heads, CUDA_GROUP_MAX);
    if (c->experts_per_token > CUDA_TOPK_MAX || c->experts > CUDA_EXPERTS_MAX)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "%u of %u experts run per token; the CUDA backend has code for up to %d of %d",
            c->experts_per_token, c->experts, CUDA_TOPK_MAX, CUDA_EXPERTS_MAX);
    return LR_OK;
}

static void count_pages(const struct model_config *c, struct gptoss_plan *p, uint64_t kv_tokens)
{
    /* Window pages of a sequence: the window, a chunk beyond it, and a partly used page at both
     * ends. */
    uint32_t window = pages_for((uint64_t)c->window + p->prefill_chunk) + 1,
             longest = pages_for(p->max_context);
    p->full_pages = pages_for(kv_tokens);
    p->window_pages = p->max_sequences * (window < longest ? window : longest);
    p->kv = p->full_pages * p->full_page_bytes + p->window_pages * p->window_page_bytes;
    p->total = p->weights + p->workspace + p->fixed + p->kv;
}

static lr_code fit(const struct model_config *c, const struct gptoss_backend_options *o,
                   struct gptoss_plan *p, uint64_t kv_tokens, uint64_t limit,
                   struct lr_error *err)
{
    count_pages(c, p, kv_tokens);
    if (p->total <= limit)
        return LR_OK;
    /* Reduces the KV tokens if the operator gave no number. */
    uint64_t pages =
        (p->total - limit) / (p->full_page_bytes != 0 ? p->full_page_bytes : 1) + 1;
    if (o->kv_tokens == 0 && pages + pages_for(p->prefill_chunk) < p->full_pages) {
        uint64_t left = (p->full_pages - pages) * CUDA_PAGE_TOKENS;
        if (o->max_context == 0 || left >= o->max_context) {
            p->max_context = left < p->max_context ? (uint32_t)left : p->max_context;
            count_pages(c, p, left);
            return LR_OK;
        }
    }
    return lr_fail(err, LR_OUT_OF_VRAM,
                   "the model needs %llu bytes of GPU memory (weights %llu, KV cache %llu, "
                   "workspace %llu, fixed %llu) "
                   "and may use %llu: raise the limit, or lower the context length or the "
                   "number of sequences",
                   (unsigned long long)p->total, (unsigned long long)p->weights,
                   (unsigned long long)p->kv, (unsigned long long)p->workspace,
                   (unsigned long long)p->fixed, (unsigned long long)limit);
}

lr_code cuda_plan(const struct model_config *c, const struct gptoss_backend_options *o,
                  struct gptoss_plan *out, struct lr_error *err)
{
    const struct cuda_driver *cu;
    struct cuda_device device;
    lr_code code = check_shape(c, err);
    if (code == LR_OK)
        code = cuda_driver_get(&cu, err);
    if (code == LR_OK)
        code = cuda_device_find(cu, o->device != NULL ? o->device : "cuda:0", &device, err);
    if (code != LR_OK)
        return code;

    struct gptoss_backend *shape = calloc(1, sizeof(*shape));
    struct cuda_layer *layers = calloc(c->layers, sizeof(*layers));
    if (shape == NULL || layers == NULL) {
        free(shape);
        free(layers);
        return lr_fail(err, LR_OUT_OF_RAM, "out of memory while planning the model");
    }
    shape->layers = layers;
    struct gptoss_plan *p = &shape->plan;
    uint32_t sliding = 0;
    for (uint32_t i = 0; i < c->layers; i++)
        sliding += c->sliding[i] ? 1 : 0;
    uint64_t layer_page = 2ull * c->kv_heads * CUDA_PAGE_TOKENS * 64 * 2;
    p->on_device = 1;
    p->late_masks = 1;
    p->threads = pick(o->threads, engine_pool_cores(), 1, CUDA_HOST_THREADS);
    p->page_tokens = CUDA_PAGE_TOKENS;
    p->full_page_bytes = layer_page * (c->layers - sliding);
    p->window_page_bytes = layer_page * sliding;
    uint64_t wanted = o->kv_tokens != 0                    ? o->kv_tokens
                      : o->max_context > DEFAULT_KV_TOKENS ? o->max_context
                                                           : DEFAULT_KV_TOKENS;
    p->max_context = pick(o->max_context, c->context, 1, c->context);
    if (p->max_context > wanted)
        p->max_context = (uint32_t)wanted;
    p->max_sequences = pick(o->max_sequences, DEFAULT_SEQUENCES, 1, MAX_SEQUENCES);
    p->prefill_chunk = pick(o->prefill_chunk, DEFAULT_CHUNK, 1, MAX_CHUNK);
    p->least_chunk = o->prefill_chunk == 0 ? LEAST_CHUNK : p->prefill_chunk;
    p->step_tokens = p->prefill_chunk + p->max_sequences;
    p->weights = cuda_place_weights(shape, c, 0);
    p->workspace = cuda_place_workspace(shape, c, p, 0);
    p->fixed = FIXED_BYTES;
    code =
        fit(c, o, p, wanted, o->memory_limit != 0 ? o->memory_limit : device.total_bytes, err);
    if (code == LR_OK)
        *out = *p;
    free(layers);
    free(shape);
    return code;
}
