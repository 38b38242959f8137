/* native/gpu/plan.c - the memory that a model needs on a device, from its list of operations.
 */
#include <stdlib.h>

#include "base/json.h"
#include "engines/native/gpu/gpu.h"

enum {
    DEFAULT_SEQUENCES = 64,
    CPU_SEQUENCES = 16,
    MAX_SEQUENCES = 1024,
    DEFAULT_CHUNK = 2048,
    CPU_CHUNK = 256,
    LEAST_CHUNK = 64,
    MAX_CHUNK = 8192,
    DEFAULT_KV_TOKENS = 131072,
    CPU_KV_TOKENS = 32768,
    MOST_KV_TOKENS = 4 << 20, /* that the pool can grow to */
    CACHED_WINDOWS = 1024,    /* window pages for cached prefixes */
    THREADS_LEAST = 256,
    SHARED_LEAST = 28 << 10,
    GRID_MOST = 65535,
    PLACE = 256,
};

/* The driver's own memory: code, command buffers, and staging while the weights load. */
#define FIXED_BYTES     (256ull << 20)
#define FIXED_BYTES_CPU (64ull << 20)

static uint64_t round_up(uint64_t n)
{
    return (n + PLACE - 1) / PLACE * PLACE;
}

/* A device, and how keys are kept on it. */
struct target {
    struct gpu_limits limits;
    bool wide;
};

static uint32_t pages_for(uint64_t tokens)
{
    return (uint32_t)((tokens + NATIVE_GPU_PAGE - 1) / NATIVE_GPU_PAGE);
}

struct native_gpu_extra native_gpu_extra_read(const char *json)
{
    struct native_gpu_extra out = {0};
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
        out.wide = lr_json_str(lr_json_get(extra, "kv"), &text) && lr_str_eq_z(text, "f32");
    }
    lr_arena_free(&arena);
    return out;
}

void native_gpu_lower(struct gpu_limits *l, const struct native_gpu_extra *extra)
{
    if (extra->binding_bytes >= PLACE && extra->binding_bytes < l->binding_bytes)
        l->binding_bytes = extra->binding_bytes;
    if (extra->allocation_bytes >= PLACE && extra->allocation_bytes < l->allocation_bytes)
        l->allocation_bytes = extra->allocation_bytes;
}

/* ---- what the kernels have code for ---- */

static lr_code check_op(const struct native_op *op, struct lr_error *err)
{
    static const bool known[NATIVE_OP_COUNT] = {
        [NATIVE_OP_EMBED] = true, [NATIVE_OP_NORM] = true,    [NATIVE_OP_LINEAR] = true,
        [NATIVE_OP_HEADS] = true, [NATIVE_OP_ROPE] = true,    [NATIVE_OP_ATTEND] = true,
        [NATIVE_OP_SLICE] = true, [NATIVE_OP_GATE] = true,    [NATIVE_OP_ACT] = true,
        [NATIVE_OP_ADD] = true,   [NATIVE_OP_SCALE] = true,   [NATIVE_OP_SOFTCAP] = true,
        [NATIVE_OP_ROUTE] = true, [NATIVE_OP_EXPERTS] = true, [NATIVE_OP_CONV] = true,
        [NATIVE_OP_DELTA] = true, [NATIVE_OP_SSM] = true,     [NATIVE_OP_POOL] = true,
    };
    const struct native_attention *a = &op->attend;
    uint8_t act = op->kind == NATIVE_OP_ACT || op->kind == NATIVE_OP_GATE ? op->gate.act
                  : op->kind == NATIVE_OP_EXPERTS                         ? op->experts.act
                  : op->kind == NATIVE_OP_CONV                            ? op->conv.act
                                                                          : 0;

    /* What was added to the list of operations behind these is not in the kernels. */
    if (op->kind >= NATIVE_OP_COUNT || !known[op->kind] || act > NATIVE_TANH ||
        (op->kind == NATIVE_OP_EMBED && op->embed.row > NATIVE_BY_PART))
        return lr_fail(err, LR_UNSUPPORTED,
                       "the GPU kernels have no code for this kind of \"%s\": use --device cpu",
                       native_op_name(op->kind));
    if (op->kind == NATIVE_OP_ATTEND &&
        (a->head_size % 2 != 0 || a->value_size % 2 != 0 || a->head_size > NATIVE_GPU_HEAD ||
         a->value_size > NATIVE_GPU_VALUES))
        return lr_fail(err, LR_UNSUPPORTED,
                       "heads of %u and values of %u; the GPU kernels have code for even "
                       "numbers up to %u and %u: use --device cpu",
                       a->head_size, a->value_size, NATIVE_GPU_HEAD, NATIVE_GPU_VALUES);
    if (op->kind == NATIVE_OP_DELTA && op->delta.key_size > NATIVE_GPU_HEAD)
        return lr_fail(err, LR_UNSUPPORTED,
                       "keys of %u in the delta rule; the GPU kernels have code for up to %u: "
                       "use --device cpu",
                       op->delta.key_size, NATIVE_GPU_HEAD);
    if (op->kind == NATIVE_OP_ROUTE &&
        (op->route.experts > NATIVE_GPU_EXPERTS || op->route.chosen > NATIVE_GPU_CHOSEN))
        return lr_fail(err, LR_UNSUPPORTED,
                       "%u of %u experts run per token; the GPU kernels have code for up to "
                       "%d of %u: use --device cpu",
                       op->route.chosen, op->route.experts, NATIVE_GPU_CHOSEN,
                       NATIVE_GPU_EXPERTS);
    return LR_OK;
}

lr_code native_gpu_check(const struct native_spec *s, const struct gpu_limits *l,
                         struct lr_error *err)
{
    lr_code code = LR_OK;

    if (s->ranks)
        return lr_fail(err, LR_UNSUPPORTED,
                       "the GPU kernels have no code for a classifier of two texts: use "
                       "--device cpu");
    for (uint32_t i = 0; i < s->op_count && code == LR_OK; i++)
        code = check_op(&s->ops[i], err);
    if (code == LR_OK && s->buffer_count > NATIVE_GPU_BUFFERS)
        return lr_fail(err, LR_UNSUPPORTED, "%u registers live at a time; the limit is %d",
                       s->buffer_count, NATIVE_GPU_BUFFERS);
    if (code == LR_OK && (l->threads < THREADS_LEAST || l->shared_bytes < SHARED_LEAST))
        return lr_fail(err, LR_UNSUPPORTED,
                       "%s is too small: its work groups have %u invocations and %u bytes of "
                       "shared memory; %d and %d are needed",
                       l->name, l->threads, l->shared_bytes, THREADS_LEAST, SHARED_LEAST);
    return code;
}

/* ---- workspace ---- */

uint32_t native_gpu_head_rows(const struct serving_plan *p)
{
    uint32_t rows =
        p->max_sequences < NATIVE_GPU_SAMPLES ? p->max_sequences : NATIVE_GPU_SAMPLES;

    return rows < 8 ? 8 : rows;
}

uint64_t native_gpu_buffer_bytes(const struct native_spec *s, const struct serving_plan *p,
                                 uint32_t buffer)
{
    uint64_t most = 4, head_rows = native_gpu_head_rows(p);

    for (uint32_t r = 0; r < s->register_count; r++) {
        uint64_t rows = s->registers[r].first >= s->head_ops ? head_rows : p->step_tokens;
        if (s->registers[r].buffer == buffer && s->registers[r].first != UINT32_MAX &&
            rows * s->registers[r].width * 4 > most)
            most = rows * s->registers[r].width * 4;
    }
    return round_up(most);
}

uint64_t native_gpu_page_bytes(const struct native_cache *c, bool wide)
{
    return (uint64_t)c->heads * (c->key_size + c->value_size) * NATIVE_GPU_PAGE *
           (native_gpu_is_wide(c, wide) ? 4 : 2);
}

/* The most of each size over all operations with experts. */
static struct native_experts most_experts(const struct native_spec *s, uint64_t *width)
{
    struct native_experts most = {0};

    *width = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct native_experts *e = &s->ops[i].experts;
        uint32_t out = s->registers[s->ops[i].out].width;
        if (s->ops[i].kind != NATIVE_OP_EXPERTS)
            continue;
        most.experts = e->experts > most.experts ? e->experts : most.experts;
        most.chosen = e->chosen > most.chosen ? e->chosen : most.chosen;
        most.inner = e->inner > most.inner ? e->inner : most.inner;
        *width = out > *width ? out : *width;
    }
    return most;
}

/* Words of the records, tables and angles of a step. */
static uint64_t input_words(const struct native_spec *s, const struct serving_plan *p)
{
    uint64_t angles = 0,
             tables = (uint64_t)p->max_sequences * pages_for(p->max_context) * p->kind_count;

    for (uint32_t i = 0; i < s->rope_count; i++)
        angles += s->ropes[i].dims;
    return 2ull * p->step_tokens * (NATIVE_TOKEN_WORDS + angles) + tables +
           p->max_sequences * (NATIVE_STEP_WORDS + 2ull) + 64;
}

uint64_t native_gpu_room_bytes(const struct native_spec *s, const struct serving_plan *p,
                               enum native_gpu_room room)
{
    uint64_t width, tiles, words = 4;
    const struct native_experts most = most_experts(s, &width);
    uint64_t pairs = (uint64_t)p->step_tokens * most.chosen;

    switch (room) {
    case NATIVE_ROOM_INNER:
        words = pairs * most.inner * 2;
        break;
    case NATIVE_ROOM_HIDDEN:
        words = pairs * most.inner;
        break;
    case NATIVE_ROOM_DOWN:
        words = pairs * width;
        break;
    case NATIVE_ROOM_SORTED:
        tiles = pairs / NATIVE_GPU_TILE + 1 + most.experts;
        words = most.experts > 0 ? pairs + 3 * tiles : 0;
        break;
    case NATIVE_ROOM_INPUTS:
        words = input_words(s, p);
        break;
    case NATIVE_ROOM_STATE:
        words = (uint64_t)p->max_sequences * s->state_floats;
        break;
    case NATIVE_ROOM_RESULTS:
        words = (uint64_t)native_gpu_head_rows(p) * s->registers[s->result].width;
        break;
    case NATIVE_ROOM_NOTHING:
    case NATIVE_ROOMS:
        words = 64;
        break;
    }
    return round_up(words * 4);
}

static uint64_t workspace_bytes(const struct native_spec *s, const struct serving_plan *p,
                                uint64_t *largest)
{
    uint64_t sum = native_gpu_room_bytes(s, p, NATIVE_ROOM_INPUTS); /* mapped, once more */

    *largest = 0;
    for (uint32_t i = 0; i < s->buffer_count + NATIVE_ROOMS; i++) {
        uint64_t bytes =
            i < s->buffer_count
                ? native_gpu_buffer_bytes(s, p, i)
                : native_gpu_room_bytes(s, p, (enum native_gpu_room)(i - s->buffer_count));
        sum += bytes;
        *largest = bytes > *largest ? bytes : *largest;
    }
    return sum;
}

/* ---- pages ---- */

/* The most pages of a kind: those of one layer are one binding. */
static uint64_t bound_pages(const struct native_spec *s, const struct target *t, uint32_t kind)
{
    uint64_t most = pages_for(MOST_KV_TOKENS);

    for (uint32_t i = 0; i < s->cache_count; i++) {
        uint64_t bytes = native_gpu_page_bytes(&s->caches[i], t->wide);
        if (s->caches[i].kind == kind && native_gpu_part_bytes(&t->limits) / bytes < most)
            most = native_gpu_part_bytes(&t->limits) / bytes;
    }
    return most;
}

static void count_pages(const struct native_spec *s, const struct target *t,
                        struct serving_plan *p, uint64_t tokens)
{
    uint32_t longest = pages_for(p->max_context), whole = pages_for(tokens);

    p->kv = 0;
    for (uint32_t i = 0; i < p->kind_count; i++) {
        struct serving_kind *k = &p->kinds[i];
        uint32_t window = pages_for(k->window) + 2;
        k->pages = whole;
        k->least = longest < k->pages ? longest : k->pages;
        if (k->window != 0) {
            uint64_t bound = bound_pages(s, t, i);
            k->least = p->max_sequences * (window < longest ? window : longest) +
                       pages_for(p->prefill_chunk);
            k->pages = k->least + (whole / 2 < CACHED_WINDOWS ? whole / 2 : CACHED_WINDOWS);
            k->pages = k->pages > bound ? (uint32_t)bound : k->pages;
            k->least = k->least > k->pages ? k->pages : k->least;
        }
        p->kv += k->pages * k->page_bytes;
    }
    p->snapshots = serving_snapshots(p->kv, p->state_bytes, p->max_sequences);
    p->kv += p->snapshots * p->state_bytes;
    p->total = p->weights + p->workspace + p->fixed + p->kv;
}

/* Reduces the KV tokens if the operator gave no number. */
static bool plan_fit(const struct native_spec *s, const struct serving_options *o,
                     const struct target *t, struct serving_plan *p, uint64_t wanted,
                     uint64_t limit)
{
    uint64_t least = o->kv_tokens != 0     ? wanted
                     : o->max_context != 0 ? p->max_context
                                           : p->prefill_chunk + NATIVE_GPU_PAGE;

    count_pages(s, t, p, wanted);
    for (uint64_t tokens = wanted; p->total > limit && tokens > least;) {
        tokens = tokens - tokens / 8 - 1 > least ? tokens - tokens / 8 - 1 : least;
        if (tokens < p->max_context)
            p->max_context = (uint32_t)tokens;
        count_pages(s, t, p, tokens);
    }
    return p->total <= limit;
}

static void plan_growth(const struct native_spec *s, const struct serving_options *o,
                        const struct target *t, struct serving_plan *p)
{
    enum { WINDOW_PART = 8 }; /* of the growth goes to the windows */
    uint64_t grown = 0, kv = 0;

    for (uint32_t round = 0; round < 2; round++)
        for (uint32_t i = 0; i < p->kind_count; i++) {
            struct serving_kind *k = &p->kinds[i];
            uint64_t most = bound_pages(s, t, i), wanted = k->pages + grown / WINDOW_PART;
            if ((k->window != 0) != (round == 1))
                continue;
            if (k->window == 0)
                wanted = k->page_bytes != 0 ? t->limits.total_bytes / k->page_bytes : k->pages;
            most = wanted < most ? wanted : most;
            /* A processor's memory is the machine's: more of it would be written at once. */
            k->most = o->kv_tokens == 0 && !t->limits.is_cpu && most > k->pages ? (uint32_t)most
                                                                                : k->pages;
            grown = round == 0 && k->most - k->pages > grown ? k->most - k->pages : grown;
            kv += k->most * k->page_bytes;
        }
    p->most_snapshots = serving_snapshots(kv, p->state_bytes, p->max_sequences);
    if (p->most_snapshots < p->snapshots)
        p->most_snapshots = p->snapshots;
    if (p->state_bytes != 0 &&
        p->most_snapshots > native_gpu_part_bytes(&t->limits) / p->state_bytes)
        p->most_snapshots = (uint32_t)(native_gpu_part_bytes(&t->limits) / p->state_bytes);
    if (p->snapshots > p->most_snapshots)
        p->snapshots = p->most_snapshots;
}

/* ---- the plan ---- */

static uint32_t pick(uint64_t asked, uint64_t otherwise, uint64_t low, uint64_t high)
{
    uint64_t v = asked != 0 ? asked : otherwise;

    v = v < low ? low : v;
    return (uint32_t)(v > high ? high : v);
}

/* The chunk is halved until every buffer of the workspace can be bound, and every launch fits
 * into a grid. */
static void plan_steps(const struct native_spec *s, const struct serving_options *o,
                       const struct gpu_limits *l, struct serving_plan *p)
{
    uint64_t largest, width, chosen = most_experts(s, &width).chosen;

    p->whole_texts =
        s->both_ways || s->pool == NATIVE_POOL_MEAN || s->pool == NATIVE_POOL_FIRST;
    p->prefill_chunk = pick(o->prefill_chunk, l->is_cpu ? CPU_CHUNK : DEFAULT_CHUNK, 1,
                            p->whole_texts ? GRID_MOST / 2 : MAX_CHUNK);
    if (p->whole_texts && p->prefill_chunk < p->max_context)
        p->prefill_chunk = p->max_context < GRID_MOST / 2 ? p->max_context : GRID_MOST / 2;
    for (;; p->prefill_chunk /= 2) {
        p->step_tokens = p->prefill_chunk + p->max_sequences;
        p->workspace = workspace_bytes(s, p, &largest);
        if ((largest <= native_gpu_part_bytes(l) && p->step_tokens * chosen <= GRID_MOST) ||
            p->prefill_chunk == 1)
            break;
    }
    p->least_chunk = p->prefill_chunk;
    if (p->whole_texts && p->max_context > p->prefill_chunk)
        p->max_context = p->prefill_chunk;
    if (!p->whole_texts && o->prefill_chunk == 0 && p->prefill_chunk > LEAST_CHUNK)
        p->least_chunk = LEAST_CHUNK;
    p->first_chunk = p->least_chunk;
}

static void plan_kinds(const struct native_spec *s, const struct target *t,
                       struct serving_plan *p, uint64_t *wanted)
{
    bool whole = false;

    p->kind_count = s->kind_count;
    if (p->state_bytes != 0) { /* the states of all sequences are bound at a time, too */
        uint64_t most = native_gpu_part_bytes(&t->limits) / p->state_bytes;
        p->max_sequences = p->max_sequences < most ? p->max_sequences : (uint32_t)most;
        p->max_sequences = p->max_sequences > 0 ? p->max_sequences : 1;
    }
    for (uint32_t i = 0; i < s->kind_count; i++) {
        p->kinds[i].window = s->kinds[i].window;
        for (uint32_t c = 0; c < s->cache_count; c++)
            if (s->caches[c].kind == i)
                p->kinds[i].page_bytes += native_gpu_page_bytes(&s->caches[c], t->wide);
        uint64_t bound = bound_pages(s, t, i);
        if (s->kinds[i].window != 0) { /* the windows of all sequences are bound at a time */
            uint64_t most = bound / 2 / (pages_for(s->kinds[i].window) + 2);
            if (p->max_sequences > most)
                p->max_sequences = most > 0 ? (uint32_t)most : 1;
            continue;
        }
        whole = true;
        if (*wanted > bound * NATIVE_GPU_PAGE)
            *wanted = bound * NATIVE_GPU_PAGE;
    }
    /* The prefix cache finds a page by those of a kind that covers all positions. */
    if (!whole && p->kind_count > 0 && p->kind_count < SERVING_KINDS_MAX)
        p->kinds[p->kind_count++] = (struct serving_kind){.page_bytes = 0};
}

/* A GPU that shares the processor's memory may use less of it than the machine has. */
static uint64_t limit_of(const struct serving_options *o, const struct gpu_limits *l)
{
    bool is_shared = l->unified && !l->is_cpu;

    if (o->memory_limit == 0 || (is_shared && l->free_bytes < o->memory_limit))
        return l->free_bytes;
    return o->memory_limit;
}

static lr_code count_weights(const struct native_spec *s, const struct gpu_limits *l,
                             uint64_t *bytes, struct lr_error *err)
{
    struct native_gpu_weights *w = calloc(1, sizeof(*w));
    lr_code code = LR_OK;

    if (w == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "out of memory while planning the model");
    code = native_gpu_place(w, s, l, err);
    *bytes = w->total;
    native_gpu_place_free(w);
    free(w);
    return code;
}

static lr_code plan_for(const struct native_spec *s, const struct serving_options *o,
                        const struct target *t, struct serving_plan *out, struct lr_error *err)
{
    const struct gpu_limits *l = &t->limits;
    struct serving_plan p = {.on_device = 1,
                             .page_tokens = NATIVE_GPU_PAGE,
                             .late_masks = s->state_floats == 0,
                             .state_bytes = (uint64_t)s->state_floats * sizeof(float)};
    uint64_t wanted = o->kv_tokens != 0 ? o->kv_tokens
                      : l->is_cpu       ? CPU_KV_TOKENS
                                        : DEFAULT_KV_TOKENS;
    lr_code code = count_weights(s, l, &p.weights, err);

    if (code != LR_OK)
        return code;
    if (o->kv_tokens == 0 && o->max_context > wanted)
        wanted = o->max_context;
    p.max_sequences =
        pick(o->max_sequences, l->is_cpu ? CPU_SEQUENCES : DEFAULT_SEQUENCES, 1, MAX_SEQUENCES);
    plan_kinds(s, t, &p, &wanted);
    p.threads = pick(o->threads, engine_pool_cores(), 1, NATIVE_GPU_THREADS);
    p.max_context = pick(o->max_context, s->context, 1, s->context);
    if (p.max_context > wanted)
        p.max_context = (uint32_t)wanted;
    plan_steps(s, o, l, &p);
    p.fixed = l->is_cpu ? FIXED_BYTES_CPU : FIXED_BYTES;
    uint64_t limit = limit_of(o, l);
    if (!plan_fit(s, o, t, &p, wanted, limit))
        return lr_fail(
            err, l->is_cpu ? LR_OUT_OF_RAM : LR_OUT_OF_VRAM,
            "the model needs %llu bytes of memory on %s (weights %llu, KV cache %llu, "
            "workspace %llu, fixed %llu) and may use %llu: lower --max-context or "
            "--max-sequences, or choose a device with more memory",
            (unsigned long long)p.total, l->name, (unsigned long long)p.weights,
            (unsigned long long)p.kv, (unsigned long long)p.workspace,
            (unsigned long long)p.fixed, (unsigned long long)limit);
    plan_growth(s, o, t, &p);
    *out = p;
    return LR_OK;
}

lr_code native_gpu_plan(const struct gpu_host *host, const void *model,
                        const struct serving_options *o, struct serving_plan *out,
                        struct lr_error *err)
{
    const struct native_spec *s = &((const struct native_model *)model)->spec;
    const struct native_gpu_extra extra = native_gpu_extra_read(o->extra_json);
    struct target target = {.wide = extra.wide};
    lr_code code = host->describe(o->device, &target.limits, err);

    if (code != LR_OK)
        return code;
    native_gpu_lower(&target.limits, &extra);
    code = native_gpu_check(s, &target.limits, err);
    return code == LR_OK ? plan_for(s, o, &target, out, err) : code;
}
