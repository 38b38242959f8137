/* model/gptoss.c - opens gpt-oss weights by role; the safetensors reader.
 *
 * Every tensor is requested with the dtype and shape that config.json implies, so after an open
 * the engine can compute addresses without further checks.
 */
#include "model/gptoss.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/gptoss_storage.h"
#include "model/map.h"

enum { MXFP4_GROUP = 32, MXFP4_BYTES = 16 };

/* Reads one role after another and keeps the first error. */
struct reader {
    const struct model_weights *weights;
    uint32_t layer;
    lr_code code;
    struct lr_error *err;
};

static const void *role(struct reader *r, const char *name, enum model_dtype dtype,
                        uint32_t rank, const uint64_t *shape)
{
    const struct model_tensor *t = NULL;
    if (r->code == LR_OK)
        r->code = model_weights_expect(r->weights, name, dtype, rank, shape, &t, r->err);
    return t != NULL ? t->data : NULL;
}

static const void *layer_role(struct reader *r, const char *suffix, enum model_dtype dtype,
                              uint32_t rank, const uint64_t *shape)
{
    char name[128];
    (void)snprintf(name, sizeof(name), "model.layers.%u.%s", r->layer, suffix);
    return role(r, name, dtype, rank, shape);
}

static const uint16_t *vector(struct reader *r, const char *suffix, uint64_t n)
{
    return layer_role(r, suffix, MODEL_DTYPE_BF16, MODEL_SHAPE(n));
}

static const uint16_t *matrix(struct reader *r, const char *suffix, uint64_t rows,
                              uint64_t columns)
{
    return layer_role(r, suffix, MODEL_DTYPE_BF16, MODEL_SHAPE(rows, columns));
}

static struct model_experts experts(struct reader *r, const char *which, uint64_t count,
                                    uint32_t rows, uint32_t columns)
{
    uint64_t groups = columns / MXFP4_GROUP;
    struct model_experts e = {.rows = rows,
                              .columns = columns,
                              .blocks_stride = rows * groups * MXFP4_BYTES,
                              .scales_stride = rows * groups,
                              .bias_stride = rows * sizeof(uint16_t)};
    char name[64];
    (void)snprintf(name, sizeof(name), "mlp.experts.%s_blocks", which);
    e.blocks =
        layer_role(r, name, MODEL_DTYPE_U8, MODEL_SHAPE(count, rows, groups, MXFP4_BYTES));
    (void)snprintf(name, sizeof(name), "mlp.experts.%s_scales", which);
    e.scales = layer_role(r, name, MODEL_DTYPE_U8, MODEL_SHAPE(count, rows, groups));
    (void)snprintf(name, sizeof(name), "mlp.experts.%s_bias", which);
    e.bias = layer_role(r, name, MODEL_DTYPE_BF16, MODEL_SHAPE(count, rows));
    return e;
}

static void read_layer(struct reader *r, const struct model_config *c,
                       struct model_gptoss_layer *l)
{
    uint64_t q = (uint64_t)c->heads * c->head_dim, kv = (uint64_t)c->kv_heads * c->head_dim;
    l->attn_norm = vector(r, "input_layernorm.weight", c->hidden);
    l->q_weight = matrix(r, "self_attn.q_proj.weight", q, c->hidden);
    l->q_bias = vector(r, "self_attn.q_proj.bias", q);
    l->k_weight = matrix(r, "self_attn.k_proj.weight", kv, c->hidden);
    l->k_bias = vector(r, "self_attn.k_proj.bias", kv);
    l->v_weight = matrix(r, "self_attn.v_proj.weight", kv, c->hidden);
    l->v_bias = vector(r, "self_attn.v_proj.bias", kv);
    l->o_weight = matrix(r, "self_attn.o_proj.weight", c->hidden, q);
    l->o_bias = vector(r, "self_attn.o_proj.bias", c->hidden);
    l->sinks = vector(r, "self_attn.sinks", c->heads);
    l->mlp_norm = vector(r, "post_attention_layernorm.weight", c->hidden);
    l->router_weight = matrix(r, "mlp.router.weight", c->experts, c->hidden);
    l->router_bias = vector(r, "mlp.router.bias", c->experts);
    l->gate_up = experts(r, "gate_up_proj", c->experts, 2 * c->intermediate, c->hidden);
    l->down = experts(r, "down_proj", c->experts, c->hidden, c->intermediate);
}

lr_code model_gptoss_from_safetensors(struct model_gptoss *m, struct model_gptoss_layer *layers,
                                      struct lr_error *err)
{
    const struct model_config *c = &m->config;
    struct reader r = {.weights = m->storage->weights, .err = err};
    m->vocab_rows = c->vocab;
    m->embed = role(&r, "model.embed_tokens.weight", MODEL_DTYPE_BF16,
                    MODEL_SHAPE(c->vocab, c->hidden));
    m->unembed = role(&r, "lm_head.weight", MODEL_DTYPE_BF16, MODEL_SHAPE(c->vocab, c->hidden));
    m->norm = role(&r, "model.norm.weight", MODEL_DTYPE_BF16, MODEL_SHAPE(c->hidden));
    for (r.layer = 0; r.layer < c->layers && r.code == LR_OK; r.layer++)
        read_layer(&r, c, &layers[r.layer]);
    return r.code;
}

uint64_t model_gptoss_weight_bytes(const struct model_config *c)
{
    uint64_t h = c->hidden, f = c->intermediate, e = c->experts;
    uint64_t q = (uint64_t)c->heads * c->head_dim, kv = (uint64_t)c->kv_heads * c->head_dim;
    uint64_t dense = h + (h + 1) * (q + 2 * kv) + (q + 1) * h + c->heads + h + (h + 1) * e;
    uint64_t fp4 = (MXFP4_BYTES + 1) * (2 * f * (h / MXFP4_GROUP) + h * (f / MXFP4_GROUP));
    uint64_t layer = 2 * dense + e * (fp4 + 2 * (2 * f + h));
    return 2 * (2 * h * c->vocab + h) + c->layers * layer;
}

static lr_code open_into(struct model_gptoss *m, const char *dir, const char *artifact,
                         struct lr_error *err)
{
    struct model_gptoss_storage *s = m->storage;
    lr_code code = model_config_read(dir, &m->config, err);
    if (code != LR_OK)
        return code;
    struct model_gptoss_layer *layers =
        lr_arena_array(&s->arena, m->config.layers, sizeof(*layers));
    m->source = lr_arena_copy(&s->arena, lr_str_z(artifact != NULL ? artifact : "safetensors"));
    if (layers == NULL || m->source == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory for %u layers", dir,
                       m->config.layers);
    memset(layers, 0, m->config.layers * sizeof(*layers));
    m->layers = layers;
    m->weight_bytes = model_gptoss_weight_bytes(&m->config);
    if (artifact != NULL)
        return model_gptoss_from_metalbin(m, layers, artifact, err);
    code = model_weights_open(dir, &s->weights, err);
    return code == LR_OK ? model_gptoss_from_safetensors(m, layers, err) : code;
}

lr_code model_gptoss_open(const char *dir, const char *artifact, struct model_gptoss **out,
                          struct lr_error *err)
{
    *out = NULL;
    struct model_gptoss *m = calloc(1, sizeof(*m));
    struct model_gptoss_storage *s = calloc(1, sizeof(*s));
    if (m == NULL || s == NULL) {
        free(m);
        free(s);
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory", dir);
    }
    lr_arena_init(&s->arena, 1 << 20);
    m->storage = s;
    lr_code code = open_into(m, dir, artifact, err);
    if (code != LR_OK) {
        model_gptoss_close(m);
        return code;
    }
    *out = m;
    return LR_OK;
}

void model_gptoss_close(struct model_gptoss *m)
{
    if (m == NULL)
        return;
    model_weights_close(m->storage->weights);
    lr_file_unmap(&m->storage->map);
    lr_arena_free(&m->storage->arena);
    free(m->storage->rebuilt);
    free(m->storage);
    free(m);
}

const void *model_gptoss_file(const struct model_gptoss *m, uint64_t *bytes)
{
    if (m->storage == NULL || m->storage->weights != NULL)
        return NULL;
    *bytes = m->storage->map.len;
    return m->storage->map.data;
}

void model_gptoss_drop_plain(const struct model_gptoss *m)
{
    struct model_gptoss_storage *s = m->storage;
    if (s == NULL || s->rebuilt == NULL)
        return;
    for (uint32_t i = 0; i < m->config.layers; i++) {
        struct model_gptoss_layer *l = &s->layers[i];
        l->q_weight = l->q_bias = l->k_weight = l->k_bias = NULL;
    }
    free(s->rebuilt);
    s->rebuilt = NULL;
}

void model_gptoss_advise(const struct model_gptoss *m, enum model_advice advice)
{
    if (m->storage == NULL)
        return; /* a model made in memory */
    if (m->storage->weights != NULL)
        model_weights_advise(m->storage->weights, advice);
    else
        model_advise(m->storage->map.data, m->storage->map.len, advice);
}
