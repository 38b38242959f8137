/* model/metalbin_read.c - reads a model.bin as gpt-oss roles.
 *
 * Everything is used in the mapping, except for Q and K: their rows are restored to plain order
 * and their folded softmax scale is removed.  Both factors are powers of two, so the values are
 * the publisher's, bit for bit.
 */
#include <stdlib.h>
#include <string.h>

#include "model/gptoss_storage.h"
#include "model/map.h"
#include "model/metalbin_format.h"

static uint16_t times(uint16_t bf16, float factor)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    value *= factor;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)(bits >> 16);
}

/* Stored row 2i of a head was row i, stored row 2i+1 was row i + head_dim/2. */
static void unpair(uint16_t *out, const uint16_t *in, uint32_t heads, uint32_t head_dim,
                   uint32_t columns, float factor)
{
    uint32_t half = head_dim / 2;
    for (uint32_t h = 0; h < heads; h++) {
        for (uint32_t stored = 0; stored < head_dim; stored++) {
            size_t plain = stored / 2 + (stored % 2 != 0 ? half : 0);
            uint16_t *to = out + ((size_t)h * head_dim + plain) * columns;
            const uint16_t *from = in + ((size_t)h * head_dim + stored) * columns;
            for (uint32_t k = 0; k < columns; k++)
                to[k] = times(from[k], factor);
        }
    }
}

static const uint16_t *bf16_at(const struct model_gptoss *m, uint64_t offset)
{
    /* The mapping is page-aligned and every BF16 item lies at an even offset. */
    return (const uint16_t *)(const void *)(m->storage->map.data + offset);
}

static void set_dense(const struct model_gptoss *m, const struct model_metalbin_block *b,
                      uint16_t *rebuilt, struct model_gptoss_layer *l)
{
    const struct model_config *c = &m->config;
    size_t q = (size_t)c->heads * c->head_dim, kv = (size_t)c->kv_heads * c->head_dim;
    const uint16_t *weight = bf16_at(m, b->qkv_weight), *bias = bf16_at(m, b->qkv_bias);
    uint16_t *q_weight = rebuilt, *k_weight = q_weight + q * c->hidden;
    uint16_t *q_bias = k_weight + kv * c->hidden, *k_bias = q_bias + q;
    unpair(q_weight, weight, c->heads, c->head_dim, c->hidden, 2);
    unpair(k_weight, weight + q * c->hidden, c->kv_heads, c->head_dim, c->hidden, 4);
    unpair(q_bias, bias, c->heads, c->head_dim, 1, 2);
    unpair(k_bias, bias + q, c->kv_heads, c->head_dim, 1, 4);
    l->paired_qkv = weight;
    l->paired_qkv_bias = bias;
    l->q_weight = q_weight;
    l->q_bias = q_bias;
    l->k_weight = k_weight;
    l->k_bias = k_bias;
    l->v_weight = weight + (q + kv) * c->hidden;
    l->v_bias = bias + q + kv;
    l->attn_norm = bf16_at(m, b->attn_norm);
    l->o_weight = bf16_at(m, b->out_weight);
    l->o_bias = bf16_at(m, b->out_bias);
    l->sinks = bf16_at(m, b->sinks);
    l->mlp_norm = bf16_at(m, b->mlp_norm);
    l->router_weight = bf16_at(m, b->gate_weight);
    l->router_bias = bf16_at(m, b->gate_bias);
}

static struct model_experts set_experts(const struct model_gptoss *m, uint64_t base,
                                        uint64_t stride, const uint64_t part[3], uint32_t rows,
                                        uint32_t columns)
{
    return (struct model_experts){
        .blocks = m->storage->map.data + base + part[0],
        .scales = m->storage->map.data + base + part[1],
        .bias = bf16_at(m, base + part[2]),
        .blocks_stride = stride,
        .scales_stride = stride,
        .bias_stride = stride,
        .rows = rows,
        .columns = columns,
    };
}

lr_code model_gptoss_from_metalbin(struct model_gptoss *m, struct model_gptoss_layer *layers,
                                   const char *path, struct lr_error *err)
{
    const struct model_config *c = &m->config;
    struct model_gptoss_storage *s = m->storage;
    struct model_metalbin_layout layout;
    lr_code code = model_map(path, &s->map, err);
    if (code == LR_OK)
        code = model_metalbin_parse(s->map.data, s->map.len, s->map.len, path, c, &layout, err);
    if (code != LR_OK)
        return code;
    size_t rows = (size_t)(c->heads + c->kv_heads) * c->head_dim;
    size_t per_layer = rows * (c->hidden + 1);
    s->rebuilt = calloc(c->layers, per_layer * sizeof(*s->rebuilt));
    if (s->rebuilt == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "%s: no memory for Q and K, %zu bytes", path,
                       c->layers * per_layer * sizeof(*s->rebuilt));
    s->layers = layers;
    const uint64_t mlp1[3] = {layout.mlp1_blocks, layout.mlp1_scales, layout.mlp1_bias};
    const uint64_t mlp2[3] = {layout.mlp2_blocks, layout.mlp2_scales, layout.mlp2_bias};
    for (uint32_t i = 0; i < c->layers; i++) {
        const struct model_metalbin_block *b = &layout.blocks[i];
        set_dense(m, b, s->rebuilt + i * per_layer, &layers[i]);
        layers[i].gate_up = set_experts(m, b->experts, layout.expert_stride, mlp1,
                                        2 * c->intermediate, c->hidden);
        layers[i].down =
            set_experts(m, b->experts, layout.expert_stride, mlp2, c->hidden, c->intermediate);
    }
    m->vocab_rows = layout.vocab_rows;
    m->scale_excess = MODEL_METALBIN_SCALE_EXCESS;
    m->embed = bf16_at(m, layout.embed);
    m->norm = bf16_at(m, layout.norm);
    m->unembed = bf16_at(m, layout.unembed);
    return LR_OK;
}
