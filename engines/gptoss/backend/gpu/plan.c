/* gptoss/backend/gpu/plan.c - the memory that a model needs on a device, and the place of each
 * part of it. */
#include <stddef.h>
#include <stdlib.h>

#include "base/json.h"
#include "engines/gptoss/backend/gpu/gpu.h"

enum {
    DEFAULT_SEQUENCES = 64,
    CPU_SEQUENCES = 16,
    MAX_SEQUENCES = 1024,
    DEFAULT_CHUNK = 2048,
    CPU_CHUNK = 256,
    LEAST_CHUNK = 64,
    FIRST_CHUNK_MATRICES = 512,
    MAX_CHUNK = 8192,
    DEFAULT_KV_TOKENS = 131072,
    CPU_KV_TOKENS = 32768,
    MOST_KV_TOKENS = 4 << 20, /* that the pool can grow to */
    CACHED_WINDOWS = 1024,    /* window pages for cached prefixes */
    THREADS_LEAST = 256,
    SHARED_LEAST = 28 << 10,
};

/* The driver's own memory: code, command buffers, and staging while the weights load. */
#define FIXED_BYTES     (256ull << 20)
#define FIXED_BYTES_CPU (64ull << 20)

static uint64_t gpu_plan_round_up(uint64_t n, uint64_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- weights ---- */

struct placer {
    struct gptoss_backend *b;
    uint64_t used; /* of the open allocation */
    uint64_t total;
    bool too_many;
};

static struct gpu_span gpu_plan_place(struct placer *p, uint64_t bytes)
{
    struct gptoss_backend *b = p->b;
    uint64_t padded = gpu_plan_round_up(bytes, 256);

    if (b->allocation_count == 0 || p->used + padded > b->limits.allocation_bytes) {
        if (b->allocation_count == GPU_ALLOCATIONS_MAX) {
            p->too_many = true;
            return (struct gpu_span){0};
        }
        b->allocation_count++;
        p->used = 0;
    }
    uint32_t i = b->allocation_count - 1;
    struct gpu_span span = {b->allocations[i], p->used, bytes};
    p->used += padded;
    p->total += padded;
    b->allocation_bytes[i] = p->used;
    return span;
}

/* The most bytes of a part. */
static uint64_t part_bytes(const struct gpu_limits *l)
{
    uint64_t most =
        l->binding_bytes < l->allocation_bytes ? l->binding_bytes : l->allocation_bytes;

    return most / 256 * 256;
}

/* `count` rows or experts; every part but the last has a multiple of `unit` of them. */
static void place_parts(struct placer *p, struct gpu_matrix *m, uint32_t count, uint32_t unit,
                        uint64_t bytes, uint64_t scale_bytes)
{
    uint64_t each = part_bytes(&p->b->limits) / bytes / unit * unit;

    m->part_count = 0;
    for (uint32_t first = 0; first < count;) {
        uint32_t n = count - first < each ? count - first : (uint32_t)each;
        if (m->part_count == GPU_PARTS_MAX || n == 0) {
            p->too_many = true;
            return;
        }
        struct gpu_part *part = &m->parts[m->part_count++];
        *part = (struct gpu_part){.first = first, .count = n};
        part->weight = gpu_plan_place(p, n * bytes);
        if (scale_bytes != 0)
            part->scales = gpu_plan_place(p, n * scale_bytes);
        first += n;
    }
}

/* `count` BF16 numbers that are at `from`. */
static struct gpu_span place_vector(struct placer *p, const uint16_t *from, uint64_t count)
{
    struct gpu_span there = gpu_in_place(p->b, from, count * 2);

    return there.buffer != NULL ? there : gpu_plan_place(p, count * 2);
}

static void place_dense(struct placer *p, struct gpu_matrix *m, const uint16_t *from,
                        uint32_t rows, uint32_t columns, uint32_t unit)
{
    struct gpu_span there = gpu_in_place(p->b, from, (uint64_t)rows * columns * 2);

    m->rows = rows;
    m->columns = columns;
    if (there.buffer == NULL) {
        place_parts(p, m, rows, unit, (uint64_t)columns * 2, 0);
        return;
    }
    m->part_count = 1;
    m->parts[0] = (struct gpu_part){.weight = there, .count = rows};
}

static void place_experts(struct placer *p, struct gpu_matrix *m, const struct model_experts *e,
                          uint32_t rows, uint32_t columns)
{
    uint32_t groups = rows * (columns / 32), experts = p->b->config->experts;

    m->rows = rows;
    m->columns = columns;
    if (gpu_experts_in_place(p->b, e, m))
        return;
    m->block_stride = m->scale_stride = groups;
    m->bias_stride = rows;
    place_parts(p, m, experts, 1, groups * 16ull, groups);
    m->bias = gpu_plan_place(p, (uint64_t)experts * rows * 2);
}

static void place_layer(struct placer *p, struct gpu_layer *l,
                        const struct model_gptoss_layer *from)
{
    const struct model_config *c = p->b->config;
    uint32_t qkv = (c->heads + 2 * c->kv_heads) * GPU_HEAD_DIM;
    bool paired = p->b->is_paired;

    l->attn_norm = place_vector(p, from->attn_norm, c->hidden);
    l->mlp_norm = place_vector(p, from->mlp_norm, c->hidden);
    l->sinks = place_vector(p, from->sinks, c->heads);
    place_dense(p, &l->qkv, paired ? from->paired_qkv : NULL, qkv, c->hidden, GPU_HEAD_DIM);
    l->qkv.bias = place_vector(p, paired ? from->paired_qkv_bias : NULL, qkv);
    place_dense(p, &l->out, from->o_weight, c->hidden, c->heads * GPU_HEAD_DIM, 4);
    l->out.bias = place_vector(p, from->o_bias, c->hidden);
    place_dense(p, &l->router, from->router_weight, c->experts, c->hidden, 1);
    l->router.bias = place_vector(p, from->router_bias, c->experts);
    place_experts(p, &l->gate_up, &from->gate_up, c->intermediate * 2, c->hidden);
    place_experts(p, &l->down, &from->down, c->hidden, c->intermediate);
}

lr_code gpu_place_weights(struct gptoss_backend *b, uint64_t *bytes, struct lr_error *err)
{
    static const struct model_gptoss_layer nowhere; /* while a plan is made */
    static const struct model_gptoss none;
    const struct model_config *c = b->config;
    const struct model_gptoss *from = b->window_count > 0 ? b->weights : &none;
    uint32_t rows = b->window_count > 0 ? from->vocab_rows : c->vocab;
    struct placer p = {.b = b};

    b->allocation_count = 0;
    place_dense(&p, &b->embed, from->embed, rows, c->hidden, 1);
    b->norm = place_vector(&p, from->norm, c->hidden);
    place_dense(&p, &b->unembed, from->unembed, rows, c->hidden, 4);
    for (uint32_t i = 0; i < c->layers; i++) {
        b->layers[i].sliding = c->sliding[i];
        place_layer(&p, &b->layers[i], b->window_count > 0 ? &from->layers[i] : &nowhere);
    }
    *bytes = p.total;
    if (p.too_many)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "%s binds at most %llu bytes at a time: too few for this model's tensors",
            b->limits.name, (unsigned long long)part_bytes(&b->limits));
    return LR_OK;
}

/* ---- workspace ---- */

struct gpu_inputs gpu_inputs_for(const struct gpu_limits *limits, uint32_t rows)
{
    uint64_t unit = limits->alignment > 256 ? limits->alignment : 256;
    uint64_t listed = gpu_plan_round_up(rows, GPU_LOGIT_ROWS) * 2;
    struct gpu_inputs at = {0};

    at.rope = gpu_plan_round_up((uint64_t)rows * sizeof(struct gpu_row), unit);
    at.out_rows = at.rope + gpu_plan_round_up((uint64_t)rows * GPU_HEAD_DIM * 4, unit);
    at.how = at.out_rows + gpu_plan_round_up(listed * 4, unit);
    at.tables = at.how + gpu_plan_round_up(listed * sizeof(struct gpu_sample), unit);
    return at;
}

static uint32_t gpu_plan_pages_for(uint64_t tokens)
{
    return (uint32_t)((tokens + GPU_PAGE_TOKENS - 1) / GPU_PAGE_TOKENS);
}

uint64_t gpu_layer_page_bytes(const struct model_config *c)
{
    return 2ull * c->kv_heads * GPU_PAGE_TOKENS * GPU_HEAD_DIM * 2;
}

uint32_t gpu_few_rows(const struct model_config *c, const struct gpu_limits *limits)
{
    uint32_t threads = limits->threads < 512 ? limits->threads : 512;

    return c->hidden <= GPU_FEW_COLUMNS && threads / limits->subgroup >= c->experts_per_token
               ? GPU_FEW
               : 0;
}

uint32_t gpu_table_entries(const struct gptoss_plan *p)
{
    return p->max_sequences * gpu_plan_pages_for(p->max_context) * 2;
}

void gpu_rooms(const struct model_config *c, const struct gpu_limits *limits,
               const struct gptoss_plan *p, struct gpu_room out[GPU_ROOMS])
{
    uint64_t rows = p->step_tokens, q = (uint64_t)c->heads * GPU_HEAD_DIM,
             pairs = rows * c->experts_per_token, few = GPU_FEW;
    uint64_t tables = gpu_table_entries(p) * 4ull;
    uint64_t normed = rows > GPU_LOGIT_ROWS ? rows : GPU_LOGIT_ROWS;
    uint32_t n = 0;

#define ROOM(name, size)                                                                       \
    out[n++] = (struct gpu_room){offsetof(struct gpu_workspace, name),                         \
                                 gpu_plan_round_up((size), 256)}
    ROOM(inputs, gpu_inputs_for(limits, rows > few ? p->step_tokens : GPU_FEW).tables + tables);
    ROOM(x, rows * c->hidden * 4);
    ROOM(normed, normed * c->hidden * 4);
    ROOM(qkv, rows * (q + 2ull * c->kv_heads * GPU_HEAD_DIM) * 4);
    ROOM(q, rows * q * 4);
    ROOM(mixed, rows * q * 4);
    ROOM(partial, few * c->heads * GPU_SPLITS_MAX * 66 * 4);
    ROOM(router, rows * c->experts * 4);
    ROOM(choice, pairs * 8);
    ROOM(sorted, pairs * 4);
    ROOM(tiles, (pairs / 16 + c->experts + 1) * sizeof(struct gpu_tile));
    ROOM(inner, pairs * c->intermediate * 4);
    ROOM(expert_out, pairs * c->hidden * 4);
    ROOM(logits, (uint64_t)GPU_LOGIT_ROWS * gpu_plan_round_up(c->vocab, 64) * 4);
    ROOM(best, (uint64_t)GPU_LOGIT_ROWS * GPU_SAMPLE_PARTS * 8);
    ROOM(sampled, GPU_LOGIT_ROWS * 4);
    ROOM(usable, c->vocab / 8 + 64);
#undef ROOM
}

static uint64_t workspace_bytes(const struct model_config *c, const struct gpu_limits *limits,
                                const struct gptoss_plan *p, uint64_t *largest)
{
    struct gpu_room rooms[GPU_ROOMS];
    uint64_t sum = 0;

    gpu_rooms(c, limits, p, rooms);
    *largest = 0;
    for (uint32_t i = 0; i < GPU_ROOMS; i++) {
        sum += rooms[i].bytes;
        *largest = rooms[i].bytes > *largest ? rooms[i].bytes : *largest;
    }
    return sum;
}

uint64_t gpu_to_host_bytes(const struct model_config *c)
{
    return GPU_LOGIT_ROWS * 4 +
           (uint64_t)GPU_HOST_THREADS * gpu_plan_round_up(c->vocab, 64) * 4;
}

/* ---- the plan ---- */

struct gpu_extra gpu_extra_read(const char *json)
{
    struct gpu_extra out = {0};
    const struct lr_json *extra;
    struct lr_arena arena;
    struct lr_str text;

    if (json == NULL)
        return out;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(json), NULL, &extra, NULL) == LR_OK) {
        if (!lr_json_u64(lr_json_get(extra, "binding_bytes"), &out.binding_bytes))
            out.binding_bytes = 0;
        if (!lr_json_u64(lr_json_get(extra, "allocation_bytes"), &out.allocation_bytes))
            out.allocation_bytes = 0;
        out.late_kernels =
            lr_json_str(lr_json_get(extra, "kernels"), &text) && lr_str_eq_z(text, "late");
        if (lr_json_str(lr_json_get(extra, "matrices"), &text)) {
            out.no_matrices = lr_str_eq_z(text, "none");
            out.no_few_matrices = lr_str_eq_z(text, "many");
        }
        if (!lr_json_u64(lr_json_get(extra, "parts"), &out.parts))
            out.parts = 0;
    }
    lr_arena_free(&arena);
    return out;
}

void gpu_limits_lower(struct gpu_limits *l, const struct gpu_extra *extra)
{
    if (extra->binding_bytes != 0 && extra->binding_bytes < l->binding_bytes)
        l->binding_bytes = extra->binding_bytes;
    if (extra->allocation_bytes != 0 && extra->allocation_bytes < l->allocation_bytes)
        l->allocation_bytes = extra->allocation_bytes;
}

static lr_code check_shape(const struct model_config *c, const struct gpu_limits *l,
                           struct lr_error *err)
{
    if (c->head_dim != GPU_HEAD_DIM)
        return lr_fail(err, LR_UNSUPPORTED, "head_dim is %u; the GPU kernels have code for %u",
                       c->head_dim, GPU_HEAD_DIM);
    if (c->experts_per_token > GPU_CHOSEN_MAX || c->experts > GPU_EXPERTS_MAX)
        return lr_fail(
            err, LR_UNSUPPORTED,
            "%u of %u experts run per token; the GPU kernels have code for up to %d of %d",
            c->experts_per_token, c->experts, GPU_CHOSEN_MAX, GPU_EXPERTS_MAX);
    if (l->threads < THREADS_LEAST || l->shared_bytes < SHARED_LEAST)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s is too small: its work groups have %u invocations and %u bytes of "
                       "shared memory; %d and %d are needed",
                       l->name, l->threads, l->shared_bytes, THREADS_LEAST, SHARED_LEAST);
    if (l->subgroup < 8 || l->subgroup > 64 || (l->subgroup & (l->subgroup - 1)) != 0)
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s has subgroups of %u; the GPU kernels have code for 8 to 64", l->name,
                       l->subgroup);
    return LR_OK;
}

static uint32_t gpu_plan_pick(uint64_t asked, uint64_t otherwise, uint64_t low, uint64_t high)
{
    uint64_t v = asked != 0 ? asked : otherwise;

    v = v < low ? low : v;
    return (uint32_t)(v > high ? high : v);
}

/* The most pages of a layer that a binding can hold, in tokens. */
static uint64_t bound_tokens(const struct model_config *c, const struct gpu_limits *l)
{
    return part_bytes(l) / gpu_layer_page_bytes(c) * GPU_PAGE_TOKENS;
}

/* The pages of a layer are one binding, those of cached prefixes included. */
static void gpu_plan_count_pages(const struct model_config *c, const struct gpu_limits *l,
                                 struct gptoss_plan *p, uint64_t tokens)
{
    uint64_t bound = bound_tokens(c, l) / GPU_PAGE_TOKENS;
    uint32_t window = gpu_plan_pages_for(c->window) + 2,
             longest = gpu_plan_pages_for(p->max_context);

    p->full_pages = gpu_plan_pages_for(tokens);
    p->least_pages[GPTOSS_FULL] = longest < p->full_pages ? longest : p->full_pages;
    p->least_pages[GPTOSS_WINDOW] = p->max_sequences * (window < longest ? window : longest) +
                                    gpu_plan_pages_for(p->prefill_chunk);
    p->window_pages = p->least_pages[GPTOSS_WINDOW] +
                      (p->full_pages / 2 < CACHED_WINDOWS ? p->full_pages / 2 : CACHED_WINDOWS);
    if (p->window_pages > bound)
        p->window_pages = (uint32_t)bound;
    p->kv = p->full_pages * p->full_page_bytes + p->window_pages * p->window_page_bytes;
    p->total = p->weights + p->workspace + p->fixed + p->kv;
}

/* Reduces the KV tokens if the operator gave no number. */
static bool gpu_plan_fit(const struct model_config *c, const struct gptoss_backend_options *o,
                         const struct gpu_limits *l, struct gptoss_plan *p, uint64_t wanted,
                         uint64_t limit)
{
    uint64_t least = o->kv_tokens != 0     ? wanted
                     : o->max_context != 0 ? p->max_context
                                           : p->prefill_chunk + GPU_PAGE_TOKENS;

    gpu_plan_count_pages(c, l, p, wanted);
    for (uint64_t tokens = wanted; p->total > limit && tokens > least;) {
        tokens = tokens - tokens / 8 - 1 > least ? tokens - tokens / 8 - 1 : least;
        if (tokens < p->max_context)
            p->max_context = (uint32_t)tokens;
        gpu_plan_count_pages(c, l, p, tokens);
    }
    return p->total <= limit;
}

static void gpu_plan_plan_growth(const struct model_config *c,
                                 const struct gptoss_backend_options *o,
                                 const struct gpu_limits *l, struct gptoss_plan *p)
{
    uint64_t most = gpu_plan_pages_for(MOST_KV_TOKENS),
             bound = bound_tokens(c, l) / GPU_PAGE_TOKENS;

    if (p->full_page_bytes != 0 && most > l->total_bytes / p->full_page_bytes)
        most = l->total_bytes / p->full_page_bytes;
    most = most < bound ? most : bound;
    /* A processor's memory is the machine's: more of it would be written at once. */
    most = o->kv_tokens == 0 && !l->is_cpu && most > p->full_pages ? most : p->full_pages;
    uint64_t windows = p->window_pages + (most - p->full_pages) / 8;
    p->most_pages[GPTOSS_FULL] = (uint32_t)most;
    p->most_pages[GPTOSS_WINDOW] = (uint32_t)(windows < bound ? windows : bound);
    if (p->most_pages[GPTOSS_WINDOW] < p->window_pages)
        p->most_pages[GPTOSS_WINDOW] = p->window_pages;
}

/* No frame leaves the worker during a step, so the first chunk must end within the node's
 * step-timeout (30 s) on the slowest device of its kind.  gpt-oss-20b has 3 G multiply-adds a
 * token: 512 tokens are 30 s at 0.05 T multiply-adds a second, 64 tokens at 0.006.  A card with
 * memory of its own and cooperative matrices is at least ten times as fast as the first; an
 * integrated GPU may reach 0.04. */
static uint32_t first_chunk(const struct gpu_limits *l)
{
    return l->matrices && !l->unified ? FIRST_CHUNK_MATRICES : LEAST_CHUNK;
}

/* The chunk is halved until every buffer of the workspace can be bound. */
static void plan_steps(const struct model_config *c, const struct gptoss_backend_options *o,
                       const struct gpu_limits *l, struct gptoss_plan *p)
{
    uint64_t largest;

    p->prefill_chunk =
        gpu_plan_pick(o->prefill_chunk, l->is_cpu ? CPU_CHUNK : DEFAULT_CHUNK, 1, MAX_CHUNK);
    for (;; p->prefill_chunk /= 2) {
        p->step_tokens = p->prefill_chunk + p->max_sequences;
        p->workspace = workspace_bytes(c, l, p, &largest) + gpu_to_host_bytes(c);
        if (largest <= part_bytes(l) || p->prefill_chunk == 1)
            break;
    }
    p->least_chunk = o->prefill_chunk == 0 && p->prefill_chunk > LEAST_CHUNK ? LEAST_CHUNK
                                                                             : p->prefill_chunk;
    p->first_chunk = first_chunk(l);
}

/* A GPU that shares the processor's memory may use less of it than the machine has. */
static uint64_t gpu_plan_limit_of(const struct gptoss_backend_options *o,
                                  const struct gpu_limits *l)
{
    bool is_shared = l->unified && !l->is_cpu;

    if (o->memory_limit == 0 || (is_shared && l->free_bytes < o->memory_limit))
        return l->free_bytes;
    return o->memory_limit;
}

lr_code gpu_plan_for(const struct model_config *c, const struct gptoss_backend_options *o,
                     const struct gpu_limits *l, struct gptoss_plan *out, struct lr_error *err)
{
    struct gptoss_backend *b = calloc(1, sizeof(*b));
    struct gptoss_plan p = {.on_device = 1, .page_tokens = GPU_PAGE_TOKENS, .late_masks = 1};
    uint32_t sliding = 0;
    lr_code code = check_shape(c, l, err);

    if (b != NULL)
        b->layers = calloc(c->layers, sizeof(*b->layers));
    if (code == LR_OK && (b == NULL || b->layers == NULL))
        code = lr_fail(err, LR_OUT_OF_RAM, "out of memory while planning the model");
    if (code == LR_OK) {
        b->config = c;
        b->limits = *l;
        code = gpu_place_weights(b, &p.weights, err);
    }
    if (b != NULL)
        free(b->layers);
    free(b);
    if (code != LR_OK)
        return code;
    for (uint32_t i = 0; i < c->layers; i++)
        sliding += c->sliding[i] ? 1 : 0;
    p.full_page_bytes = gpu_layer_page_bytes(c) * (c->layers - sliding);
    p.window_page_bytes = gpu_layer_page_bytes(c) * sliding;
    uint64_t wanted = o->kv_tokens != 0 ? o->kv_tokens
                      : l->is_cpu       ? CPU_KV_TOKENS
                                        : DEFAULT_KV_TOKENS;
    if (o->kv_tokens == 0 && o->max_context > wanted)
        wanted = o->max_context;
    if (wanted > bound_tokens(c, l))
        wanted = bound_tokens(c, l);
    p.threads = gpu_plan_pick(o->threads, engine_pool_cores(), 1, GPU_HOST_THREADS);
    p.max_context = gpu_plan_pick(o->max_context, c->context, 1, c->context);
    if (p.max_context > wanted)
        p.max_context = (uint32_t)wanted;
    p.max_sequences = gpu_plan_pick(
        o->max_sequences, l->is_cpu ? CPU_SEQUENCES : DEFAULT_SEQUENCES, 1, MAX_SEQUENCES);
    /* The windows of all sequences are bound at a time. */
    uint32_t windows = (uint32_t)(bound_tokens(c, l) / GPU_PAGE_TOKENS / 2 /
                                  (gpu_plan_pages_for(c->window) + 2));
    if (p.max_sequences > windows)
        p.max_sequences = windows > 0 ? windows : 1;
    plan_steps(c, o, l, &p);
    p.fixed = l->is_cpu ? FIXED_BYTES_CPU : FIXED_BYTES;
    uint64_t limit = gpu_plan_limit_of(o, l);
    if (!gpu_plan_fit(c, o, l, &p, wanted, limit))
        return lr_fail(
            err, l->is_cpu ? LR_OUT_OF_RAM : LR_OUT_OF_VRAM,
            "the model needs %llu bytes of memory on %s (weights %llu, KV cache %llu, "
            "workspace "
            "%llu, fixed %llu) and may use %llu: lower --max-context or --max-sequences, or "
            "choose a device with more memory",
            (unsigned long long)p.total, l->name, (unsigned long long)p.weights,
            (unsigned long long)p.kv, (unsigned long long)p.workspace,
            (unsigned long long)p.fixed, (unsigned long long)limit);
    gpu_plan_plan_growth(c, o, l, &p);
    *out = p;
    return LR_OK;
}
