/* gptoss/backend/cuda/plan.c - shapes and sizes: the memory that a model needs on a GPU, and
 * the offset of each part in its allocation.  The same functions count (base 0) and place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/cuda/cuda.h"

enum {
    MOST_DEFAULT_SEQUENCES = 256, /* if there is memory */
    DEFAULT_SEQUENCES = 64,
    MAX_SEQUENCES = 1024,
    LEAST_LOGIT_ROWS = 64,
    DEFAULT_CHUNK = 2048,
    SMALL_CHUNK = 1024, /* on a small card: half the workspace */
    LEAST_CHUNK =
        64, /* fewer tokens are hardly faster: a step reads the weights of most experts */
    MAX_CHUNK = 8192,
    DEFAULT_KV_TOKENS = 262144,
    MOST_KV_TOKENS = 16 << 20, /* that the pool can grow to */
    CACHED_WINDOWS = 2048,     /* window pages for cached prefixes, if there is memory */
};

/* For the context, the modules and the driver: 600 MiB, measured on an H200 (132
 * multiprocessors) with driver 580.  Most of it is local memory of the multiprocessors.  64 MiB
 * more for pieces of KV memory that are not full (memory.c). */
#define FIXED_BYTES          (320ull << 20)
#define FIXED_BYTES_PER_UNIT (2668ull << 10)

#define SMALL_CARD (24ull << 30)

/* Returns consecutive 256-byte aligned pieces of an allocation. */
struct placer {
    uint64_t base;
    uint64_t used;
};

static void *cuda_plan_place(struct placer *p, uint64_t bytes)
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
    m->weights = cuda_plan_place(p, (uint64_t)m->tiles * m->blocks * 1024);
    if (bias)
        m->bias = cuda_plan_place(p, (uint64_t)m->tiles * 32);
}

static void place_mxfp4(struct placer *p, struct cuda_matrix *m, uint32_t rows,
                        uint32_t columns, uint32_t experts)
{
    *m = (struct cuda_matrix){.rows = rows, .tiles = tiles_of(rows), .blocks = columns / 32};
    m->expert_weights = (uint64_t)m->tiles * ((m->blocks + 1) / 2) * 512;
    m->expert_scales = (uint64_t)m->tiles * ((m->blocks + 3) / 4) * 64;
    m->expert_bias = (uint64_t)m->tiles * 16;
    m->weights = cuda_plan_place(p, m->expert_weights * experts);
    m->scales = cuda_plan_place(p, m->expert_scales * experts);
    m->bias = cuda_plan_place(p, m->expert_bias * 2 * experts);
}

uint64_t cuda_place_weights(struct gptoss_backend *b, const struct model_config *c,
                            uint64_t base)
{
    struct placer p = {.base = base};
    uint32_t kinds[2] = {0, 0};
    if (!b->plan.embed_on_host)
        b->embed = cuda_plan_place(&p, (uint64_t)c->vocab * c->hidden * 2);
    b->norm = cuda_plan_place(&p, (uint64_t)c->hidden * 2);
    place_bf16(&p, &b->unembed, c->vocab, c->hidden, false);
    b->rope = cuda_plan_place(&p, (uint64_t)b->plan.max_context * 32 * 8);
    for (uint32_t i = 0; i < c->layers; i++) {
        struct cuda_layer *l = &b->layers[i];
        l->sliding = c->sliding[i];
        l->kind_index = kinds[l->sliding ? 1 : 0]++;
        l->attn_norm = cuda_plan_place(&p, (uint64_t)c->hidden * 2);
        l->mlp_norm = cuda_plan_place(&p, (uint64_t)c->hidden * 2);
        l->sinks = cuda_plan_place(&p, (uint64_t)c->heads * 2);
        l->router = cuda_plan_place(&p, (uint64_t)c->experts * c->hidden * 2);
        l->router_bias = cuda_plan_place(&p, (uint64_t)c->experts * 2);
        place_bf16(&p, &l->qkv, (c->heads + 2 * c->kv_heads) * 64, c->hidden, true);
        place_bf16(&p, &l->out, c->hidden, c->heads * 64, true);
        place_mxfp4(&p, &l->gate_up, c->intermediate * 2, c->hidden, c->experts);
        place_mxfp4(&p, &l->down, c->hidden, c->intermediate, c->experts);
    }
    return p.used;
}

static uint32_t cuda_plan_pages_for(uint64_t tokens)
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
#define AT(bytes) (uint64_t)(uintptr_t) cuda_plan_place(&in, (bytes))
    at->tokens = AT(rows * 4);
    at->turn = AT(4);
    at->row_pos = AT(rows * 4);
    at->row_full = AT(rows * 4);
    at->row_window = AT(rows * 4);
    at->out_rows = AT(rows * 4);
    at->how = AT(sampled * sizeof(struct cuda_sample_row));
    at->tile_seq = AT(rows * 4);
    at->tile_first = AT(rows * 4);
    at->seqs = AT((uint64_t)p->max_sequences * sizeof(struct cuda_seq));
    at->parts = AT(CUDA_PARTS * 4);
    at->embedding = AT(p->embed_on_host ? TOKEN_ROW_BYTES + 4 : 0);
    at->tables = AT((uint64_t)p->max_sequences * cuda_plan_pages_for(p->max_context) * 2 * 4);
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
                     CUDA_SLICED_ROWS * 4,
             dense = (uint64_t)CUDA_DENSE_GRID * CUDA_DENSE_ROWS * CUDA_DENSE_TOKENS * 4;
    place_inputs(&b->at, p);
    w->inputs = cuda_plan_place(&at, b->at.end);
    w->residual = cuda_plan_place(&at, rows * c->hidden * 4);
    w->normed = cuda_plan_place(&at, rows * c->hidden * 2);
    w->q = cuda_plan_place(&at, rows * c->heads * 64 * 2);
    w->mixed = cuda_plan_place(&at, rows * c->heads * 64 * 2);
    w->choice = cuda_plan_place(&at, pairs * 4);
    w->weight = cuda_plan_place(&at, pairs * 4);
    w->router_logits = cuda_plan_place(&at, rows * c->experts * 4);
    w->router_tickets = cuda_plan_place(&at, rows * 4);
    w->inner = cuda_plan_place(&at, pairs * c->intermediate * 2);
    w->expert_out = cuda_plan_place(&at, pairs * c->hidden * 4);
    w->sorted = cuda_plan_place(&at, pairs * 4);
    w->expert_tile = cuda_plan_place(&at, (pairs / CUDA_FEW_TOKENS + c->experts + 1) * 16);
    w->tile_count = cuda_plan_place(&at, 4);
    w->final = cuda_plan_place(&at, sampled * c->hidden * 2);
    w->logits = cuda_plan_place(&at, sampled * vocab * 4);
    w->partial = cuda_plan_place(
        &at, (uint64_t)(p->max_sequences > CUDA_SPLIT_ROWS ? CUDA_PARTS : CUDA_SPLIT_ROWS) *
                 c->kv_heads * CUDA_GROUP_MAX * 66 * 4);
    w->attention_tickets = cuda_plan_place(&at, rows * c->kv_heads * 4);
    w->slice_parts = cuda_plan_place(&at, parts > dense ? parts : dense);
    w->slice_tickets = cuda_plan_place(&at, (uint64_t)CUDA_ROWS_2_64_GROUPS * 8);
    w->best_value = cuda_plan_place(&at, sampled * CUDA_SAMPLE_PARTS * 4);
    w->best_id = cuda_plan_place(&at, sampled * CUDA_SAMPLE_PARTS * 4);
    w->sample_tickets = cuda_plan_place(&at, sampled * 4);
    w->filter_input = cuda_plan_place(&at, cuda_filter_bytes(c->vocab, (uint32_t)sampled));
    w->usable = cuda_plan_place(&at, vocab / 8 + 64);
    b->logit_stride = (uint32_t)vocab;
    uint64_t token = cuda_token_place(b->token, c, at.base + at.used);
    (void)cuda_plan_place(&at, token);
    return at.used;
}

static uint32_t cuda_plan_pick(uint64_t asked, uint64_t otherwise, uint64_t low, uint64_t high)
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

/* ---- the plan ---- */

/* What a plan is made of.  The limit of open() is what probe() needed under a larger limit:
 * both must come to the same plan. */
struct planning {
    const struct model_config *config;
    const struct gptoss_backend_options *options;
    const struct cuda_device *device;
    uint64_t limit;
    struct gptoss_backend *shape; /* scratch: its plan is the one that is made */
};

static void cuda_plan_count_pages(const struct planning *g, uint64_t kv_tokens)
{
    struct gptoss_plan *p = &g->shape->plan;
    /* Each sequence needs its window and a partly used page at either end.  The prompts of a
     * step share the chunk beyond the windows, so its pages count once. */
    uint32_t window = cuda_plan_pages_for(g->config->window) + 2,
             longest = cuda_plan_pages_for(p->max_context);
    p->full_pages = cuda_plan_pages_for(kv_tokens);
    p->least_pages[GPTOSS_FULL] = longest < p->full_pages ? longest : p->full_pages;
    p->least_pages[GPTOSS_WINDOW] = p->max_sequences * (window < longest ? window : longest) +
                                    cuda_plan_pages_for(p->prefill_chunk);
    p->window_pages = p->least_pages[GPTOSS_WINDOW] +
                      (p->full_pages / 2 < CACHED_WINDOWS ? p->full_pages / 2 : CACHED_WINDOWS);
    p->kv = p->full_pages * p->full_page_bytes + p->window_pages * p->window_page_bytes;
    p->total = p->weights + p->workspace + p->fixed + p->kv;
}

/* The most KV tokens within the limit, from `least` to `most`; 0: not even the least fit. */
static uint64_t most_tokens(const struct planning *g, uint64_t least, uint64_t most)
{
    const struct gptoss_plan *p = &g->shape->plan;
    uint64_t low = cuda_plan_pages_for(least), high = cuda_plan_pages_for(most);
    cuda_plan_count_pages(g, low * CUDA_PAGE_TOKENS);
    if (p->total > g->limit)
        return 0;
    while (low < high) {
        uint64_t middle = (low + high + 1) / 2;
        cuda_plan_count_pages(g, middle * CUDA_PAGE_TOKENS);
        if (p->total <= g->limit)
            low = middle;
        else
            high = middle - 1;
    }
    return low * CUDA_PAGE_TOKENS;
}

/* Tries to fit: the KV tokens are reduced if the operator gave no number.  False: the plan says
 * how much the least would need. */
static bool cuda_plan_fit(const struct planning *g, uint64_t wanted)
{
    const struct gptoss_backend_options *o = g->options;
    struct gptoss_plan *p = &g->shape->plan;
    uint32_t context = p->max_context;
    cuda_plan_count_pages(g, wanted);
    if (p->total <= g->limit)
        return true;
    uint64_t least = o->kv_tokens != 0     ? wanted
                     : o->max_context != 0 ? p->max_context
                                           : p->prefill_chunk + CUDA_PAGE_TOKENS;
    if (least < p->max_context)
        p->max_context = (uint32_t)least; /* the search counts its tables */
    uint64_t tokens = most_tokens(g, least, wanted);
    p->max_context = tokens != 0 && tokens < context ? (uint32_t)tokens : context;
    cuda_plan_count_pages(g, tokens != 0 ? tokens : least);
    return tokens != 0;
}

/* Tokens for which there should be KV memory. */
static uint64_t wanted_tokens(const struct gptoss_backend_options *o)
{
    return o->kv_tokens != 0                    ? o->kv_tokens
           : o->max_context > DEFAULT_KV_TOKENS ? o->max_context
                                                : DEFAULT_KV_TOKENS;
}

/* The plan for a number of sequences and a place of the embedding table; as cuda_plan_fit(). */
static bool plan_with(const struct planning *g, uint32_t sequences, bool embed_on_host)
{
    const struct model_config *c = g->config;
    const struct gptoss_backend_options *o = g->options;
    struct gptoss_plan *p = &g->shape->plan;
    uint32_t sliding = 0;
    for (uint32_t i = 0; i < c->layers; i++)
        sliding += c->sliding[i] ? 1 : 0;
    uint64_t layer_page = 2ull * c->kv_heads * CUDA_PAGE_TOKENS * 64 * 2;
    *p = (struct gptoss_plan){.on_device = 1,
                              .late_masks = 1,
                              .embed_on_host = embed_on_host,
                              .host = embed_on_host ? (uint64_t)c->vocab * c->hidden * 2 : 0,
                              .page_tokens = CUDA_PAGE_TOKENS};
    /* Measured on an H200: the kernels behind these numbers of rows have wider tiles. */
    if (g->device->major == 9) {
        p->dips[0] = (struct gptoss_dip){CUDA_STREAMED_ROWS, CUDA_STREAMED_ROWS + 4};
        p->dips[1] = (struct gptoss_dip){CUDA_SLICED_ROWS, CUDA_SLICED_ROWS + 4};
    }
    p->threads = cuda_plan_pick(o->threads, engine_pool_cores(), 1, CUDA_HOST_THREADS);
    p->full_page_bytes = layer_page * (c->layers - sliding);
    p->window_page_bytes = layer_page * sliding;
    uint64_t wanted = wanted_tokens(o);
    p->max_context = cuda_plan_pick(o->max_context, c->context, 1, c->context);
    if (p->max_context > wanted)
        p->max_context = (uint32_t)wanted;
    p->max_sequences = sequences;
    p->prefill_chunk = cuda_plan_pick(
        o->prefill_chunk, g->device->total_bytes < SMALL_CARD ? SMALL_CHUNK : DEFAULT_CHUNK, 1,
        MAX_CHUNK);
    p->least_chunk = o->prefill_chunk == 0 ? LEAST_CHUNK : p->prefill_chunk;
    p->first_chunk = p->prefill_chunk; /* no GPU with compute capability 8.0 is slow */
    p->step_tokens = p->prefill_chunk + p->max_sequences;
    p->weights = cuda_place_weights(g->shape, c, 0);
    p->workspace = cuda_place_workspace(g->shape, c, p, 0);
    uint64_t units = (uint64_t)g->device->multiprocessors;
    p->fixed = FIXED_BYTES + FIXED_BYTES_PER_UNIT * units;
    return cuda_plan_fit(g, wanted);
}

/* With the most sequences with which everything that is wanted fits, if the operator gave no
 * number; with the embedding table on the device if a whole context fits beside it. */
static bool make_plan(const struct planning *g)
{
    const struct gptoss_backend_options *o = g->options;
    const struct gptoss_plan *p = &g->shape->plan;
    uint32_t sequences = cuda_plan_pick(o->max_sequences, DEFAULT_SEQUENCES, 1, MAX_SEQUENCES),
             whole = cuda_plan_pick(o->max_context, g->config->context, 1, g->config->context);
    if (o->max_sequences == 0 && !o->embed_on_host)
        for (uint32_t n = MOST_DEFAULT_SEQUENCES; n > DEFAULT_SEQUENCES; n /= 2)
            if (plan_with(g, n, false) &&
                p->full_pages == cuda_plan_pages_for(wanted_tokens(o)))
                return true;
    if (!o->embed_on_host && plan_with(g, sequences, false) &&
        (p->max_context >= whole || o->kv_tokens != 0))
        return true;
    return plan_with(g, sequences, true);
}

/* The pool can grow into all memory of the device, unless the operator gave its size. */
static void cuda_plan_plan_growth(const struct planning *g)
{
    struct gptoss_plan *p = &g->shape->plan;
    uint64_t most = cuda_plan_pages_for(MOST_KV_TOKENS), planned = p->full_pages;
    if (p->full_page_bytes != 0 && most > g->device->total_bytes / p->full_page_bytes)
        most = g->device->total_bytes / p->full_page_bytes;
    most = g->options->kv_tokens == 0 && most > planned ? most : planned;
    p->most_pages[GPTOSS_FULL] = (uint32_t)most;
    p->most_pages[GPTOSS_WINDOW] = p->window_pages + (uint32_t)((most - planned) / 8);
}

/* A smaller setting with which the model would fit, or the fact that none does. */
static void advise(const struct planning *g, const struct gptoss_plan *failed, char *out,
                   size_t size)
{
    struct gptoss_backend_options smaller = *g->options;
    struct planning again = *g;
    again.options = &smaller;
    smaller.kv_tokens = 0;
    for (uint32_t n = failed->max_context; n >= 1024; n /= 2) {
        smaller.max_context = n;
        if (make_plan(&again)) {
            (void)snprintf(out, size, "--max-context %u%s would fit", n,
                           g->options->kv_tokens != 0 ? " without --max-tokens" : "");
            return;
        }
    }
    for (uint32_t n = failed->max_sequences / 2; n >= 1; n /= 2) {
        smaller.max_sequences = n;
        if (make_plan(&again)) {
            (void)snprintf(out, size, "--max-context %u and --max-sequences %u would fit",
                           smaller.max_context, n);
            return;
        }
    }
    (void)snprintf(out, size, "no setting helps: the model needs a GPU with more memory");
}

static lr_code cuda_plan_refuse(const struct planning *g, struct lr_error *err)
{
    struct gptoss_plan p = g->shape->plan;
    char advice[160];
    advise(g, &p, advice, sizeof(advice));
    return lr_fail(err, LR_OUT_OF_VRAM,
                   "the model needs %llu bytes of GPU memory (weights %llu, KV cache %llu, "
                   "workspace %llu, fixed %llu) "
                   "and may use %llu: %llu are missing; %s",
                   (unsigned long long)p.total, (unsigned long long)p.weights,
                   (unsigned long long)p.kv, (unsigned long long)p.workspace,
                   (unsigned long long)p.fixed, (unsigned long long)g->limit,
                   (unsigned long long)(p.total - g->limit), advice);
}

lr_code cuda_plan_for(const struct model_config *c, const struct gptoss_backend_options *o,
                      const struct cuda_device *device, struct gptoss_plan *out,
                      struct lr_error *err)
{
    struct gptoss_backend *shape = calloc(1, sizeof(*shape));
    struct cuda_layer *layers = calloc(c->layers, sizeof(*layers));
    if (shape == NULL || layers == NULL) {
        free(shape);
        free(layers);
        return lr_fail(err, LR_OUT_OF_RAM, "out of memory while planning the model");
    }
    shape->layers = layers;
    const struct planning g = {
        .config = c,
        .options = o,
        .device = device,
        .limit = o->memory_limit != 0 ? o->memory_limit : device->total_bytes,
        .shape = shape,
    };
    lr_code code = make_plan(&g) ? LR_OK : cuda_plan_refuse(&g, err);
    cuda_plan_plan_growth(&g);
    if (code == LR_OK)
        *out = shape->plan;
    free(layers);
    free(shape);
    return code;
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
    return code == LR_OK ? cuda_plan_for(c, o, &device, out, err) : code;
}
