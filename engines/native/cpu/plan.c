/* native/cpu/plan.c - how much memory a model takes here, and the layout of the workspace. */
#include "base/fail.h"
#include "base/os/memory.h"
#include "engines/native/cpu/cpu.h"

/* Defaults.  KV tokens: a long conversation; memory is used only when written.  Chunk: the
 * least is large enough that most experts serve several tokens. */
enum {
    DEFAULT_KV_TOKENS = 32768,
    DEFAULT_SEQUENCES = 16,
    LEAST_CHUNK = 64,
    MOST_CHUNK = 512,
    MAX_SEQUENCES = 1024,
    MAX_CHUNK = 4096,
    MAX_THREADS = 256,
    HEAD_ROWS = 32,           /* tokens whose logits are computed at a time, at most */
    MOST_KV_TOKENS = 4 << 20, /* that the pool can grow to */
    FIXED_BYTES = 4 << 20,    /* threads, code */
};

/* ---- workspace ---- */

static void most_experts(const struct native_spec *s, uint32_t *experts, uint32_t *chosen,
                         uint32_t *inner)
{
    *experts = *chosen = *inner = 0;
    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct native_experts *e = &s->ops[i].experts;
        if (s->ops[i].kind != NATIVE_OP_EXPERTS)
            continue;
        *experts = e->experts > *experts ? e->experts : *experts;
        *chosen = e->chosen > *chosen ? e->chosen : *chosen;
        *inner = e->inner > *inner ? e->inner : *inner;
    }
}

size_t native_scratch_floats(const struct native_spec *s, uint32_t step_tokens)
{
    size_t most = 64;

    for (uint32_t i = 0; i < s->op_count; i++) {
        const struct native_op *op = &s->ops[i];
        size_t floats = 0;
        if (op->kind == NATIVE_OP_ATTEND)
            floats = (size_t)NATIVE_LOOK_HEADS * op->attend.head_size;
        else if (op->kind == NATIVE_OP_DELTA)
            floats = 2 * (size_t)op->delta.key_size + op->delta.value_size;
        else if (op->kind == NATIVE_OP_EXPERTS)
            floats = (size_t)step_tokens * op->experts.chosen * NATIVE_DOWN_ROWS;
        most = floats > most ? floats : most;
    }
    return (most + 15) / 16 * 16;
}

/* Rows of a buffer: registers of the head have few. */
static size_t buffer_floats(const struct serving_backend *b, uint32_t buffer)
{
    const struct native_spec *s = b->spec;
    size_t most = 0;

    for (uint32_t r = 0; r < s->register_count; r++) {
        size_t rows = s->registers[r].first >= s->head_ops ? b->head_rows : b->plan.step_tokens;
        if (s->registers[r].buffer == buffer && s->registers[r].first != UINT32_MAX &&
            rows * s->registers[r].width > most)
            most = rows * s->registers[r].width;
    }
    return most;
}

size_t native_lay_out(struct serving_backend *b, char *block)
{
    const struct native_spec *s = b->spec;
    size_t n = b->plan.step_tokens, threads = b->plan.threads, used = 0, angles = 0;
    uint32_t experts, chosen, inner;

#define PLACE(member, count)                                                                   \
    do {                                                                                       \
        if (block != NULL)                                                                     \
            (member) = (void *)(block + used);                                                 \
        used += ((count) * sizeof(*(member)) + NATIVE_CPU_ALIGN - 1) / NATIVE_CPU_ALIGN *      \
                NATIVE_CPU_ALIGN;                                                              \
    } while (0)
    most_experts(s, &experts, &chosen, &inner);
    b->head_rows = b->plan.max_sequences < HEAD_ROWS ? b->plan.max_sequences : HEAD_ROWS;
    b->head_rows = b->head_rows < 8 ? 8 : b->head_rows;
    b->scratch = native_scratch_floats(s, b->plan.step_tokens);
    PLACE(b->state, (size_t)b->plan.max_sequences * s->state_floats);
    PLACE(b->tokens, n);
    PLACE(b->step_first, (size_t)b->plan.max_sequences);
    PLACE(b->buffers, (size_t)s->buffer_count);
    PLACE(b->rope_at, (size_t)s->rope_count);
    PLACE(b->shares, (size_t)experts);
    PLACE(b->expert_count, (size_t)experts);
    PLACE(b->pair_token, n * chosen);
    PLACE(b->pair_of, n * chosen);
    PLACE(b->inner, n * chosen * inner);
    PLACE(b->thread_scratch, threads * b->scratch);
    PLACE(b->sample_steps, (size_t)b->plan.max_sequences);
    PLACE(b->sample_rows, (size_t)b->plan.max_sequences);
    for (uint32_t i = 0; i < s->rope_count; i++) {
        if (block != NULL)
            b->rope_at[i] = angles;
        angles += n * s->ropes[i].dims;
    }
    PLACE(b->ropes, angles);
    for (uint32_t i = 0; i < s->buffer_count; i++) {
        float *buffer = NULL;
        PLACE(buffer, buffer_floats(b, i));
        if (block != NULL)
            b->buffers[i] = buffer;
    }
#undef PLACE
    return used;
}

/* ---- plan ---- */

static uint32_t plan_pick(uint64_t asked, uint64_t otherwise, uint64_t low, uint64_t high)
{
    uint64_t v = asked != 0 ? asked : otherwise;

    v = v < low ? low : v;
    return (uint32_t)(v > high ? high : v);
}

static uint32_t plan_pages(uint64_t tokens)
{
    return (uint32_t)((tokens + NATIVE_PAGE_TOKENS - 1) / NATIVE_PAGE_TOKENS);
}

/* Each sequence needs its window and a partly used page at either end.  The prompts of a step
 * share the chunk beyond the windows, so its pages count once. */
static void count_pages(struct serving_plan *p, uint64_t kv_tokens)
{
    uint32_t longest = plan_pages(p->max_context);

    p->kv = 0;
    for (uint32_t i = 0; i < p->kind_count; i++) {
        struct serving_kind *k = &p->kinds[i];
        uint32_t window = plan_pages(k->window) + 2;
        k->pages = plan_pages(kv_tokens);
        k->least = longest < k->pages ? longest : k->pages;
        if (k->window != 0) {
            k->pages = p->max_sequences * (window < longest ? window : longest) +
                       plan_pages(p->prefill_chunk);
            k->least = k->pages;
        }
        p->kv += k->pages * k->page_bytes;
    }
    p->snapshots = serving_snapshots(p->kv, p->state_bytes, p->max_sequences);
    p->kv += p->snapshots * p->state_bytes;
    p->total = p->weights + p->workspace + p->fixed + p->kv;
}

/* The pool can grow into all memory of the machine, unless the operator gave its size. */
static void plan_growth(const struct serving_options *o, struct serving_plan *p)
{
    static const struct lr_memory_roots roots = {.proc = "/proc", .cgroup = "/sys/fs/cgroup"};
    enum { WINDOW_PART = 8 }; /* of the growth goes to the windows */
    uint64_t machine = 0, used, grown = 0;

    if (!lr_memory_read(&roots, &machine, &used))
        machine = 0; /* unknown: the size stays */
    for (uint32_t i = 0; i < p->kind_count; i++) {
        struct serving_kind *k = &p->kinds[i];
        uint64_t most = plan_pages(MOST_KV_TOKENS);
        k->most = k->pages;
        if (k->window != 0 || o->kv_tokens != 0 || k->page_bytes == 0)
            continue;
        most = most > machine / k->page_bytes ? machine / k->page_bytes : most;
        if (most > k->pages) {
            k->most = (uint32_t)most;
            grown = most - k->pages;
        }
    }
    for (uint32_t i = 0; i < p->kind_count; i++)
        if (p->kinds[i].window != 0)
            p->kinds[i].most = p->kinds[i].pages + (uint32_t)(grown / WINDOW_PART);
    uint64_t kv = 0;
    for (uint32_t i = 0; i < p->kind_count; i++)
        kv += p->kinds[i].most * p->kinds[i].page_bytes;
    p->most_snapshots = serving_snapshots(kv, p->state_bytes, p->max_sequences);
    if (p->most_snapshots < p->snapshots)
        p->most_snapshots = p->snapshots;
}

static lr_code plan_fit(const struct serving_options *o, struct serving_plan *p,
                        uint64_t kv_tokens, struct lr_error *err)
{
    count_pages(p, kv_tokens);
    if (o->memory_limit == 0 || p->total <= o->memory_limit)
        return LR_OK;
    /* Reduces the KV tokens if the operator gave no number. */
    uint64_t least =
        o->max_context != 0 ? p->max_context : p->prefill_chunk + NATIVE_PAGE_TOKENS;
    for (uint64_t tokens = kv_tokens / 2; o->kv_tokens == 0 && tokens >= least; tokens /= 2) {
        p->max_context = tokens < p->max_context ? (uint32_t)tokens : p->max_context;
        count_pages(p, tokens);
        if (p->total <= o->memory_limit)
            return LR_OK;
    }
    return lr_fail(
        err, LR_OUT_OF_RAM,
        "the model needs %llu bytes of memory (weights %llu, KV cache %llu, workspace "
        "%llu) and may use %llu: raise the limit, or lower the context length or the "
        "number of sequences",
        (unsigned long long)p->total, (unsigned long long)p->weights, (unsigned long long)p->kv,
        (unsigned long long)p->workspace, (unsigned long long)o->memory_limit);
}

/* The prefix cache finds a page by those of a kind that covers all positions.  A model whose
 * layers all slide gets one without memory. */
static void add_whole_kind(struct serving_plan *p)
{
    for (uint32_t i = 0; i < p->kind_count; i++)
        if (p->kinds[i].window == 0)
            return;
    if (p->kind_count > 0 && p->kind_count < SERVING_KINDS_MAX)
        p->kinds[p->kind_count++] = (struct serving_kind){.page_bytes = 0};
}

/* Attention that looks ahead, and a mean, need a text's tokens in one step. */
static void plan_texts(const struct native_spec *s, struct serving_plan *p)
{
    p->whole_texts =
        s->both_ways || s->pool == NATIVE_POOL_MEAN || s->pool == NATIVE_POOL_FIRST;
    if (p->whole_texts == 0)
        return;
    if (p->prefill_chunk < p->max_context)
        p->prefill_chunk = p->max_context;
    p->least_chunk = p->prefill_chunk;
}

lr_code native_plan(const void *model, const struct serving_options *o,
                    struct serving_plan *out, struct lr_error *err)
{
    const struct native_spec *s = &((const struct native_model *)model)->spec;
    struct serving_backend shape = {.spec = s};
    struct serving_plan *p = &shape.plan;
    uint64_t wanted = o->kv_tokens;

    if (wanted == 0)
        wanted = o->max_context > DEFAULT_KV_TOKENS ? o->max_context : DEFAULT_KV_TOKENS;
    if (wanted > UINT32_MAX / 2)
        return lr_fail(err, LR_INVALID_ARGUMENT, "max_tokens is %llu; the limit is %u",
                       (unsigned long long)wanted, UINT32_MAX / 2);
    p->page_tokens = NATIVE_PAGE_TOKENS;
    p->kind_count = s->kind_count;
    for (uint32_t i = 0; i < s->kind_count; i++)
        p->kinds[i] = (struct serving_kind){.window = s->kinds[i].window,
                                            .page_bytes = (uint64_t)s->kinds[i].token_floats *
                                                          NATIVE_PAGE_TOKENS * sizeof(float)};
    add_whole_kind(p);
    p->state_bytes = (uint64_t)s->state_floats * sizeof(float);
    p->max_context = plan_pick(o->max_context, s->context, 1, s->context);
    if (p->max_context > wanted)
        p->max_context = (uint32_t)wanted;
    p->max_sequences = plan_pick(o->max_sequences, DEFAULT_SEQUENCES, 1, MAX_SEQUENCES);
    p->prefill_chunk = plan_pick(o->prefill_chunk, MOST_CHUNK, 1, MAX_CHUNK);
    p->least_chunk = o->prefill_chunk == 0 ? LEAST_CHUNK : p->prefill_chunk;
    plan_texts(s, p);
    p->step_tokens = p->prefill_chunk + p->max_sequences;
    p->threads = plan_pick(o->threads, engine_pool_cores(), 1, MAX_THREADS);
    p->weights = s->weight_bytes;
    p->workspace = native_lay_out(&shape, NULL);
    p->fixed = FIXED_BYTES;
    lr_code code = plan_fit(o, p, wanted, err);
    plan_growth(o, p);
    if (code == LR_OK)
        *out = *p;
    return code;
}
