/* gptoss/backend/cpu/attention.c - x += o(attend(rope(qkv(norm(x))))), with the KV cache.
 *
 * A layer's K and V of a page are adjacent: for each KV head K as [head_dim][page], then for
 * each KV head V as [page][head_dim].  K and V of a step's tokens are written before any query
 * of the step is computed, so a chunk sees itself.
 *
 * Only the logits use the output of the last layer.  So in that layer only tokens with logits
 * go on after K and V are in the cache: the last token of a prompt, or no token of a chunk in
 * the middle of a prompt.
 */
#include <math.h>
#include <string.h>

#include "engines/gptoss/backend/cpu/cpu.h"

struct cache_view {
    float *base;        /* this layer's part of page 0 */
    size_t page_stride; /* floats */
    size_t v_offset;    /* floats from a head's K to its V */
};

static struct cache_view cache_of(const struct gptoss_backend *b, uint32_t layer)
{
    size_t half = b->size.kv * CPU_PAGE_TOKENS;
    bool sliding = b->config->sliding[layer];
    uint64_t bytes = sliding ? b->plan.window_page_bytes : b->plan.full_page_bytes;

    return (struct cache_view){
        .base = (sliding ? b->window_cache : b->full_cache) + b->kind_index[layer] * 2 * half,
        .page_stride = (size_t)bytes / sizeof(float),
        .v_offset = half,
    };
}

static const uint32_t *pages_of(const struct gptoss_backend *b, const struct cpu_token *t,
                                uint32_t layer)
{
    return b->config->sliding[layer] ? t->step->window_pages : t->step->full_pages;
}

static void norm_task(void *ctx, uint32_t t, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;
    size_t hidden = b->config->hidden;
    size_t wide = hidden > b->size.q ? hidden : b->size.q;
    float *normed = b->normed + worker * wide;

    b->kernels->norm(b->x + t * hidden, b->weights->layers[s->layer].attn_norm, hidden,
                     (float)b->config->rms_eps, normed);
    cpu_round(b, normed, hidden);
    b->kernels->pack_dense(normed, hidden, b->packed + t * b->size.packed);
}

static void attention_rotate(float *head, size_t half, const float *cosines, const float *sines)
{
    for (size_t i = 0; i < half; i++) {
        float a = head[i], c = head[i + half];
        head[i] = a * cosines[i] - c * sines[i];
        head[i + half] = c * cosines[i] + a * sines[i];
    }
}

/* Rotates q and k of one token and puts k and v into the cache. */
static void cache_task(void *ctx, uint32_t t, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;
    const struct model_config *c = b->config;
    const struct cpu_token *token = &b->tokens[t];
    size_t n = c->head_dim, half = n / 2;
    const float *cosines = b->rope + t * n, *sines = cosines + half;
    float *q = b->qkv + t * b->size.qkv, *k = q + b->size.q, *v = k + b->size.kv;
    struct cache_view cache = cache_of(b, s->layer);
    uint32_t page = pages_of(b, token, s->layer)[token->position / CPU_PAGE_TOKENS];
    size_t slot = token->position % CPU_PAGE_TOKENS;

    (void)worker;
    for (uint32_t h = 0; h < c->heads; h++)
        attention_rotate(q + h * n, half, cosines, sines);
    for (uint32_t h = 0; h < c->kv_heads; h++)
        attention_rotate(k + h * n, half, cosines, sines);
    cpu_round(b, q, b->size.qkv);
    for (uint32_t h = 0; h < c->kv_heads; h++) {
        float *to = cache.base + page * cache.page_stride + h * n * CPU_PAGE_TOKENS;
        for (size_t d = 0; d < n; d++)
            to[d * CPU_PAGE_TOKENS + slot] = k[h * n + d];
        memcpy(to + cache.v_offset + slot * n, v + h * n, n * sizeof(*v));
    }
}

static void attend_task(void *ctx, uint32_t task, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;
    const struct model_config *c = b->config;
    uint32_t t = task / c->kv_heads, h = task % c->kv_heads;
    uint32_t group = (uint32_t)b->size.group;
    const struct cpu_token *token = &b->tokens[t];
    struct cache_view cache = cache_of(b, s->layer);
    size_t first_head = (size_t)h * group * c->head_dim;
    float *scratch =
        b->attend_scratch + worker * (group + cpu_attend_scratch(group, c->head_dim));

    for (uint32_t i = 0; i < group; i++)
        scratch[i] = cpu_bf16(b->weights->layers[s->layer].sinks[h * group + i]);
    uint32_t from = c->sliding[s->layer] && token->position >= c->window
                        ? token->position - c->window + 1
                        : 0;
    struct cpu_attend job = {
        .q = b->qkv + t * b->size.qkv + first_head,
        .group = group,
        .head_dim = c->head_dim,
        .scale = (float)(1.0 / sqrt((double)c->head_dim)),
        .sink = scratch,
        .from = from,
        .to = token->position,
        .pages = pages_of(b, token, s->layer),
        .base = cache.base + (size_t)h * c->head_dim * CPU_PAGE_TOKENS,
        .v_offset = cache.v_offset,
        .page_stride = cache.page_stride,
        .out = b->mixed + t * b->size.q + first_head,
        .scratch = scratch + group,
    };
    b->kernels->attend(&job);
}

static void pack_task(void *ctx, uint32_t t, uint32_t worker)
{
    const struct cpu_step *s = ctx;
    struct gptoss_backend *b = s->b;

    (void)worker;
    cpu_round(b, b->mixed + t * b->size.q, b->size.q);
    b->kernels->pack_dense(b->mixed + t * b->size.q, b->size.q, b->packed + t * b->size.packed);
}

/* Moves the tokens with logits to the front and drops the others. */
static void keep_tokens_with_logits(struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    size_t hidden = b->config->hidden;
    uint32_t kept = 0;

    for (uint32_t t = 0; t < s->tokens; t++) {
        struct cpu_token token = b->tokens[t];
        if (!cpu_token_has_logits(&token))
            continue;
        if (kept < t) {
            b->tokens[kept] = token;
            memcpy(b->x + kept * hidden, b->x + t * hidden, hidden * sizeof(*b->x));
            memcpy(b->qkv + kept * b->size.qkv, b->qkv + t * b->size.qkv,
                   b->size.qkv * sizeof(*b->qkv));
        }
        kept++;
    }
    s->tokens = kept;
}

void cpu_attention(struct cpu_step *s)
{
    struct gptoss_backend *b = s->b;
    const struct model_config *c = b->config;
    const struct model_gptoss_layer *w = &b->weights->layers[s->layer];
    size_t stride = b->size.qkv;
    uint32_t q = (uint32_t)b->size.q, kv = (uint32_t)b->size.kv;

    engine_pool_run(b->pool, norm_task, s, s->tokens);
    const struct cpu_linear qkv[3] = {
        {w->q_weight, w->q_bias, c->hidden, q, b->qkv, stride, 0},
        {w->k_weight, w->k_bias, c->hidden, kv, b->qkv + q, stride, 0},
        {w->v_weight, w->v_bias, c->hidden, kv, b->qkv + q + kv, stride, 0},
    };
    cpu_linear_run(b, qkv, 3, b->packed, b->size.packed, s->tokens);
    engine_pool_run(b->pool, cache_task, s, s->tokens);
    if (s->layer + 1 == c->layers)
        keep_tokens_with_logits(s);
    engine_pool_run(b->pool, attend_task, s, s->tokens * c->kv_heads);
    engine_pool_run(b->pool, pack_task, s, s->tokens);
    const struct cpu_linear out = {w->o_weight, w->o_bias, b->size.q, c->hidden,
                                   b->x,        c->hidden, 1};
    cpu_linear_run(b, &out, 1, b->packed, b->size.packed, s->tokens);
}
