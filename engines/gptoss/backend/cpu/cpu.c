/* gptoss/backend/cpu/cpu.c - plan, open, close and forward of the CPU device; see cpu.h. */
#include "engines/gptoss/backend/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/os/memory.h"
#include "engines/gptoss/model/rope.h"

/* Defaults.  KV tokens: a long conversation; memory is used only when written.  Chunk: the
 * least is large enough that most experts serve several tokens, and small enough for a step of
 * a large model on two cores; the scheduler goes up to the maximum if steps are short
 * (pace.h). */
enum {
    DEFAULT_KV_TOKENS = 32768,
    DEFAULT_SEQUENCES = 16,
    LEAST_CHUNK = 64,
    MOST_CHUNK = 512,
    MAX_SEQUENCES = 1024,
    MAX_CHUNK = 4096,
    MAX_THREADS = 256,
    MOST_KV_TOKENS = 4 << 20, /* that the pool can grow to */
    WINDOW_PART = 8,          /* of the growth goes to the windows */
    FIXED_BYTES = 4 << 20,    /* threads, tables, code */
};

static struct cpu_sizes sizes_of(const struct model_config *c)
{
    struct cpu_sizes s = {
        .q = (size_t)c->heads * c->head_dim,
        .kv = (size_t)c->kv_heads * c->head_dim,
        .mx_hidden = cpu_mx_packed_bytes(c->hidden),
        .mx_inner = cpu_mx_packed_bytes(c->intermediate),
        .group = c->heads / c->kv_heads,
    };
    s.qkv = s.q + 2 * s.kv;
    s.packed = s.q > c->hidden ? s.q : c->hidden;
    return s;
}

/* ---- workspace ---- */

/* Computes the layout of the workspace.  With base NULL only the size is computed, so that
 * plan() and open() use the same list. */
static size_t cpu_lay_out(struct gptoss_backend *b, const struct model_config *c, char *base)
{
    const struct cpu_sizes *z = &b->size;
    size_t n = b->plan.step_tokens, threads = b->plan.threads, used = 0;
    size_t pairs = n * c->experts_per_token;

#define PLACE(member, count)                                                                   \
    do {                                                                                       \
        if (base != NULL)                                                                      \
            b->member = (void *)(base + used);                                                 \
        used += ((count) * sizeof(*b->member) + CPU_ALIGN - 1) / CPU_ALIGN * CPU_ALIGN;        \
    } while (0)
    PLACE(tokens, n);
    PLACE(rope_frequency, (size_t)c->head_dim / 2);
    PLACE(rope, n * c->head_dim);
    PLACE(x, n * c->hidden);
    PLACE(normed, threads * z->packed);
    PLACE(packed, n * z->packed);
    PLACE(qkv, n * z->qkv);
    PLACE(mixed, n * z->q);
    PLACE(router, n * c->experts);
    PLACE(choice, pairs);
    PLACE(chance, pairs);
    PLACE(pair_of, pairs);
    PLACE(experts, (size_t)c->experts);
    PLACE(pairs, pairs);
    PLACE(pair_input, pairs);
    PLACE(pair_inner, pairs);
    PLACE(mx_input, n * z->mx_hidden);
    PLACE(mx_inner, pairs * z->mx_inner);
    PLACE(thread_rows, threads * pairs * CPU_DOWN_ROWS);
    PLACE(attend_scratch,
          threads * (z->group + cpu_attend_scratch((uint32_t)z->group, c->head_dim)));
    PLACE(logits, (size_t)b->plan.max_sequences * c->vocab);
    PLACE(sample_steps, (size_t)b->plan.max_sequences);
    PLACE(sample_rows, (size_t)b->plan.max_sequences);
    PLACE(kind_index, (size_t)c->layers);
#undef PLACE
    return used;
}

/* ---- plan ---- */

static uint32_t cpu_pick(uint64_t asked, uint64_t otherwise, uint64_t low, uint64_t high)
{
    uint64_t v = asked != 0 ? asked : otherwise;

    v = v < low ? low : v;
    return (uint32_t)(v > high ? high : v);
}

static uint32_t cpu_pages_for(uint64_t tokens)
{
    return (uint32_t)((tokens + CPU_PAGE_TOKENS - 1) / CPU_PAGE_TOKENS);
}

static void cpu_count_pages(const struct model_config *c, struct gptoss_plan *p,
                            uint64_t kv_tokens)
{
    /* Each sequence needs its window and a partly used page at either end.  The prompts of a
     * step share the chunk beyond the windows, so its pages count once. */
    uint32_t window = cpu_pages_for(c->window) + 2;
    uint32_t longest = cpu_pages_for(p->max_context);

    p->full_pages = cpu_pages_for(kv_tokens);
    p->window_pages = p->max_sequences * (window < longest ? window : longest) +
                      cpu_pages_for(p->prefill_chunk);
    p->least_pages[GPTOSS_FULL] = longest < p->full_pages ? longest : p->full_pages;
    p->least_pages[GPTOSS_WINDOW] = p->window_pages;
    p->kv = p->full_pages * p->full_page_bytes + p->window_pages * p->window_page_bytes;
    p->total = p->weights + p->workspace + p->fixed + p->kv;
}

/* The pool can grow into all memory of the machine, unless the operator gave its size. */
static void cpu_plan_growth(const struct gptoss_backend_options *o, struct gptoss_plan *p)
{
    static const struct lr_memory_roots roots = {.proc = "/proc", .cgroup = "/sys/fs/cgroup"};
    uint64_t machine = 0, used;
    uint64_t most = cpu_pages_for(MOST_KV_TOKENS), planned = p->full_pages;

    if (!lr_memory_read(&roots, &machine, &used))
        machine = 0; /* unknown: the size stays */
    if (p->full_page_bytes != 0 && most > machine / p->full_page_bytes)
        most = machine / p->full_page_bytes;
    most = o->kv_tokens == 0 && most > planned ? most : planned;
    p->most_pages[GPTOSS_FULL] = (uint32_t)most;
    p->most_pages[GPTOSS_WINDOW] = p->window_pages + (uint32_t)((most - planned) / WINDOW_PART);
}

static lr_code cpu_fit(const struct model_config *c, const struct gptoss_backend_options *o,
                       struct gptoss_plan *p, uint64_t kv_tokens, struct lr_error *err)
{
    cpu_count_pages(c, p, kv_tokens);
    if (o->memory_limit == 0 || p->total <= o->memory_limit)
        return LR_OK;
    /* Reduces the KV tokens if the operator gave no number. */
    uint64_t over = p->total - o->memory_limit;
    uint64_t pages = over / p->full_page_bytes + 1;
    if (o->kv_tokens == 0 && pages + cpu_pages_for(p->prefill_chunk) < p->full_pages) {
        uint64_t left = (p->full_pages - pages) * CPU_PAGE_TOKENS;
        if (o->max_context == 0 || left >= o->max_context) {
            p->max_context = left < p->max_context ? (uint32_t)left : p->max_context;
            cpu_count_pages(c, p, left);
            return LR_OK;
        }
    }
    return lr_fail(
        err, LR_OUT_OF_RAM,
        "the model needs %llu bytes of memory (weights %llu, KV cache %llu, workspace "
        "%llu) and may use %llu: raise the limit, or lower the context length or the "
        "number of sequences",
        (unsigned long long)p->total, (unsigned long long)p->weights, (unsigned long long)p->kv,
        (unsigned long long)p->workspace, (unsigned long long)o->memory_limit);
}

static lr_code cpu_plan(const struct model_config *c, const struct gptoss_backend_options *o,
                        struct gptoss_plan *out, struct lr_error *err)
{
    struct gptoss_backend shape = {.size = sizes_of(c)};
    struct gptoss_plan *p = &shape.plan;
    uint32_t sliding = 0;

    for (uint32_t i = 0; i < c->layers; i++)
        sliding += c->sliding[i] ? 1 : 0;
    uint64_t layer_page = 2ull * shape.size.kv * CPU_PAGE_TOKENS * sizeof(float);
    p->page_tokens = CPU_PAGE_TOKENS;
    /* A kind without layers still gets page numbers, so that every config works the same. */
    p->full_page_bytes = layer_page * (c->layers - sliding);
    p->window_page_bytes = layer_page * sliding;
    uint64_t wanted =
        o->kv_tokens != 0
            ? o->kv_tokens
            : (o->max_context > DEFAULT_KV_TOKENS ? o->max_context : DEFAULT_KV_TOKENS);
    if (wanted > UINT32_MAX / 2)
        return lr_fail(err, LR_INVALID_ARGUMENT, "max_tokens is %llu; the limit is %u",
                       (unsigned long long)wanted, UINT32_MAX / 2);
    p->max_context = cpu_pick(o->max_context, c->context, 1, c->context);
    if (p->max_context > wanted)
        p->max_context = (uint32_t)wanted;
    p->max_sequences = cpu_pick(o->max_sequences, DEFAULT_SEQUENCES, 1, MAX_SEQUENCES);
    p->prefill_chunk = cpu_pick(o->prefill_chunk, MOST_CHUNK, 1, MAX_CHUNK);
    p->least_chunk = o->prefill_chunk == 0 ? LEAST_CHUNK : p->prefill_chunk;
    p->step_tokens = p->prefill_chunk + p->max_sequences;
    p->threads = cpu_pick(o->threads, engine_pool_cores(), 1, MAX_THREADS);
    p->weights = model_gptoss_weight_bytes(c);
    p->workspace = cpu_lay_out(&shape, c, NULL);
    p->fixed = FIXED_BYTES;
    lr_code code = cpu_fit(c, o, p, wanted, err);
    cpu_plan_growth(o, p);
    if (code == LR_OK)
        *out = *p;
    return code;
}

/* ---- open and close ---- */

static void cpu_close(struct gptoss_backend *b)
{
    if (b == NULL)
        return;
    engine_pool_destroy(b->pool);
    for (uint32_t i = 0; b->samplers != NULL && i < b->plan.threads; i++)
        sampler_destroy(b->samplers[i]);
    free(b->samplers);
    engine_region_close(&b->regions[GPTOSS_FULL]);
    engine_region_close(&b->regions[GPTOSS_WINDOW]);
    lr_aligned_free(b->block);
    free(b);
}

static lr_code cpu_allot(struct gptoss_backend *b, struct lr_error *err)
{
    const struct gptoss_plan *p = &b->plan;
    bool ok = true;
    size_t bytes = cpu_lay_out(b, b->config, NULL);

    ok = engine_region_open(&b->regions[GPTOSS_FULL], p->full_pages, p->most_pages[GPTOSS_FULL],
                            p->full_page_bytes) &&
         engine_region_open(&b->regions[GPTOSS_WINDOW], p->window_pages,
                            p->most_pages[GPTOSS_WINDOW], p->window_page_bytes);
    b->full_cache = (float *)(void *)b->regions[GPTOSS_FULL].base;
    b->window_cache = (float *)(void *)b->regions[GPTOSS_WINDOW].base;
    b->samplers = calloc(p->threads, sizeof(*b->samplers));
    b->block = lr_aligned_alloc(CPU_ALIGN, bytes);
    for (uint32_t i = 0; b->samplers != NULL && i < p->threads; i++) {
        b->samplers[i] = sampler_create(b->weights->vocab_rows);
        ok = ok && b->samplers[i] != NULL;
    }
    if (!ok || b->samplers == NULL || b->block == NULL)
        return lr_fail(err, LR_OUT_OF_RAM,
                       "no memory for a KV cache of %llu and a workspace of %llu bytes",
                       (unsigned long long)p->kv, (unsigned long long)p->workspace);
    memset(b->block, 0, bytes);
    cpu_lay_out(b, b->config, b->block);
    b->pool = engine_pool_create(p->threads);
    if (b->pool == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "cannot start %u threads", p->threads);
    return LR_OK;
}

/* Options of extra_json, for checking results:
 *   "kernels": "plain"      the portable kernels on any processor, to check the vector ones
 *   "activations": "bf16"   rounds where the CUDA device rounds, so that any remaining
 *                           difference has another cause */
static void read_extra(struct gptoss_backend *b, const char *extra_json)
{
    const struct lr_json *extra;
    struct lr_arena arena;
    struct lr_str text;

    b->kernels = cpu_kernels_best();
    if (extra_json == NULL)
        return;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, lr_str_z(extra_json), NULL, &extra, NULL) == LR_OK) {
        if (lr_json_str(lr_json_get(extra, "kernels"), &text) && lr_str_eq_z(text, "plain"))
            b->kernels = cpu_kernels_plain();
        b->rounds =
            lr_json_str(lr_json_get(extra, "activations"), &text) && lr_str_eq_z(text, "bf16");
    }
    lr_arena_free(&arena);
}

static lr_code cpu_open(const struct gptoss_backend_host *host,
                        const struct model_gptoss *weights, const uint32_t *usable,
                        const struct gptoss_backend_options *options,
                        const struct gptoss_plan *plan, struct gptoss_backend **out,
                        struct lr_error *err)
{
    struct gptoss_backend *b = calloc(1, sizeof(*b));
    uint32_t count[2] = {0};

    *out = NULL;
    if (b == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the CPU device");
    b->weights = weights;
    b->config = &weights->config;
    b->usable = usable;
    read_extra(b, options->extra_json);
    b->trace = options->trace;
    b->plan = *plan;
    b->size = sizes_of(b->config);
    lr_code code = cpu_allot(b, err);
    if (code == LR_OK)
        code = cpu_read_weights(host, weights, err);
    if (code != LR_OK) {
        cpu_close(b);
        return code;
    }
    gptoss_rope_frequencies(b->config, b->rope_frequency);
    for (uint32_t i = 0; i < b->config->layers; i++)
        b->kind_index[i] = count[b->config->sliding[i] ? 1 : 0]++;
    *out = b;
    return LR_OK;
}

static lr_code cpu_forward(struct gptoss_backend *b, const struct gptoss_batch *batch,
                           struct lr_error *err)
{
    struct cpu_step s = {.b = b, .batch = batch, .tokens = batch->tokens};

    if (batch->tokens > b->plan.step_tokens || batch->count > b->plan.max_sequences)
        return lr_fail(err, LR_INTERNAL, "a batch of %u tokens, %u sequences; planned %u, %u",
                       batch->tokens, batch->count, b->plan.step_tokens, b->plan.max_sequences);
    cpu_embed(&s);
    for (s.layer = 0; s.layer < b->config->layers; s.layer++) {
        cpu_attention(&s);
        cpu_experts(&s);
    }
    cpu_logits(&s);
    return LR_OK;
}

const struct gptoss_backend_api *gptoss_backend_cpu(void)
{
    static const struct gptoss_backend_api api = {
        .name = "cpu",
        .plan = cpu_plan,
        .open = cpu_open,
        .close = cpu_close,
        .forward = cpu_forward,
        .resize = cpu_resize,
        .move = cpu_move,
    };
    return &api;
}
