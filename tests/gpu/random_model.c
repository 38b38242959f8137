/* tests/gpu/random_model.c - see random_model.h. */
#include "tests/gpu/random_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint64_t test_random_bits(struct test_random *r)
{
    uint64_t x = r->state += 0x9E3779B97F4A7C15u;
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

uint32_t test_random_below(struct test_random *r, uint32_t limit)
{
    return (uint32_t)((test_random_bits(r) >> 32) * limit >> 32);
}

/* Four uniform 16-bit numbers: standard deviation 65536 / sqrt(3). */
double test_random_normal(struct test_random *r)
{
    uint64_t x = test_random_bits(r);
    double sum = (double)(x & 0xFFFF) + (double)(x >> 16 & 0xFFFF) +
                 (double)(x >> 32 & 0xFFFF) + (double)(x >> 48);
    return (sum - 131070.0) / 37837.0;
}

double test_from_bf16(uint16_t v)
{
    uint32_t bits = (uint32_t)v << 16;
    float f;
    memcpy(&f, &bits, sizeof(f));
    return (double)f;
}

uint16_t test_to_bf16(double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof(bits));
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

void test_fill_bf16(struct test_random *r, uint16_t *out, size_t count, double size)
{
    for (size_t i = 0; i < count; i++)
        out[i] = test_to_bf16(test_random_normal(r) * size);
}

void test_fill_float(struct test_random *r, float *out, size_t count, double size)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (float)(test_random_normal(r) * size);
}

static void *allocate(struct test_model *t, size_t bytes)
{
    void *p = calloc(1, bytes);
    if (p == NULL || t->memory_count == sizeof(t->memory) / sizeof(t->memory[0])) {
        fprintf(stderr, "no memory for a test model\n");
        exit(1);
    }
    t->memory[t->memory_count++] = p;
    return p;
}

static uint16_t *random_bf16(struct test_model *t, struct test_random *r, size_t count,
                             double size)
{
    uint16_t *p = allocate(t, count * sizeof(*p));
    test_fill_bf16(r, p, count, size);
    return p;
}

static uint16_t *random_norm(struct test_model *t, struct test_random *r, size_t count)
{
    uint16_t *p = allocate(t, count * sizeof(*p));
    for (size_t i = 0; i < count; i++)
        p[i] = test_to_bf16(1 + 0.2 * test_random_normal(r));
    return p;
}

static struct model_experts random_experts(struct test_model *t, struct test_random *r,
                                           uint32_t experts, uint32_t rows, uint32_t columns,
                                           double bias)
{
    size_t blocks = (size_t)rows * (columns / 32);
    uint8_t *codes = allocate(t, blocks * 16 * experts),
            *scales = allocate(t, blocks * experts);
    /* Random codes have a root mean square of 2.93. */
    int gain = (int)lrint(-log2(2.93 * sqrt((double)columns)));
    for (size_t i = 0; i < blocks * 16 * experts; i++)
        codes[i] = (uint8_t)(test_random_bits(r) >> 40);
    for (size_t i = 0; i < blocks * experts; i++)
        scales[i] = (uint8_t)(127 + gain - 1 + (int)test_random_below(r, 3));
    return (struct model_experts){
        .blocks = codes,
        .scales = scales,
        .bias = random_bf16(t, r, (size_t)rows * experts, bias),
        .blocks_stride = blocks * 16,
        .scales_stride = blocks,
        .bias_stride = (uint64_t)rows * 2,
        .rows = rows,
        .columns = columns,
    };
}

static void random_layer(struct test_model *t, struct test_random *r,
                         struct model_gptoss_layer *l, const struct test_shape *s)
{
    const struct model_config *c = &t->m.config;
    size_t h = c->hidden, q = (size_t)c->heads * 64, kv = (size_t)c->kv_heads * 64;
    double gain = 1 / sqrt((double)h);
    l->attn_norm = random_norm(t, r, h);
    l->q_weight = random_bf16(t, r, q * h, gain);
    l->q_bias = random_bf16(t, r, q, 0.3);
    l->k_weight = random_bf16(t, r, kv * h, gain);
    l->k_bias = random_bf16(t, r, kv, 0.3);
    l->v_weight = random_bf16(t, r, kv * h, gain);
    l->v_bias = random_bf16(t, r, kv, 0.3);
    l->o_weight = random_bf16(t, r, h * q, 1 / sqrt((double)q));
    l->o_bias = random_bf16(t, r, h, 0.3);
    l->sinks = random_bf16(t, r, c->heads, 1);
    l->mlp_norm = random_norm(t, r, h);
    uint16_t *router = random_bf16(t, r, c->experts * h, (s->router_steady ? 0.3 : 2) * gain);
    uint16_t *router_bias = random_bf16(t, r, c->experts, s->router_steady ? 1.5 : 0.3);
    for (uint32_t e = 1; s->router_ties && e < c->experts; e += 2) {
        memcpy(router + e * h, router + (e - 1) * h, h * sizeof(*router));
        router_bias[e] = router_bias[e - 1];
    }
    l->router_weight = router;
    l->router_bias = router_bias;
    l->gate_up = random_experts(t, r, c->experts, 2 * c->intermediate, c->hidden, 3);
    l->down = random_experts(t, r, c->experts, c->hidden, c->intermediate, 0.3);
}

struct test_model *test_model_create(const struct test_shape *s, uint64_t seed)
{
    struct test_random r = {seed};
    struct test_model *t = calloc(1, sizeof(*t));
    if (t == NULL)
        exit(1);
    t->m.config = (struct model_config){
        .layers = s->layers,
        .hidden = s->hidden,
        .intermediate = s->intermediate,
        .heads = s->heads,
        .kv_heads = s->kv_heads,
        .head_dim = 64,
        .experts = s->experts,
        .experts_per_token = s->topk,
        .vocab = s->vocab,
        .window = s->window,
        .context = 131072,
        .rms_eps = 1e-5,
        .swiglu_limit = 7,
        .rope = {.kind = MODEL_ROPE_YARN,
                 .theta = 150000,
                 .factor = 32,
                 .beta_fast = 32,
                 .beta_slow = 1,
                 .attention_factor = 1.3465735902799727,
                 .original_context = 4096},
        .tokens = {.bos = -1, .pad = -1},
    };
    size_t table = (size_t)s->vocab * s->hidden;
    t->m.vocab_rows = s->vocab;
    t->m.embed = random_bf16(t, &r, table, 1);
    t->m.norm = random_norm(t, &r, s->hidden);
    t->m.unembed = random_bf16(t, &r, table, 1 / sqrt((double)s->hidden));
    for (uint32_t i = 0; i < s->layers; i++) {
        t->m.config.sliding[i] = i % 2 == 0 && i + 1 < s->layers;
        random_layer(t, &r, &t->layers[i], s);
    }
    t->m.layers = t->layers;
    t->m.weight_bytes = model_gptoss_weight_bytes(&t->m.config);
    t->m.source = "random";
    t->usable = malloc(((size_t)s->vocab / 32 + 1) * 4);
    if (t->usable == NULL)
        exit(1);
    memset(t->usable, 0xFF, ((size_t)s->vocab / 32 + 1) * 4);
    return t;
}

void test_model_destroy(struct test_model *t)
{
    for (uint32_t i = 0; i < t->memory_count; i++)
        free(t->memory[i]);
    free(t->usable);
    free(t);
}
