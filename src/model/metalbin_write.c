/* model/metalbin_write.c - writes a model.bin from opened safetensors.
 *
 * Writes the file once from front to end, at the offsets that the reader computes.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/map.h"
#include "model/metalbin_format.h"

struct sink {
    FILE *file;
    const char *path;
    uint64_t at;
    lr_code code; /* the first error */
    struct lr_error *err;
};

static void metalbin_write_put(struct sink *s, const void *bytes, uint64_t len)
{
    if (s->code != LR_OK || len == 0)
        return;
    if (fwrite(bytes, 1, (size_t)len, s->file) != len)
        s->code = lr_fail_errno(s->err, LR_INTERNAL, "%s: cannot write at byte %" PRIu64,
                                s->path, s->at);
    s->at += len;
}

static void pad_to(struct sink *s, uint64_t offset)
{
    static const unsigned char zeros[4096];
    while (s->code == LR_OK && s->at < offset)
        metalbin_write_put(s, zeros,
                           offset - s->at < sizeof(zeros) ? offset - s->at : sizeof(zeros));
}

static void put_u32(struct sink *s, uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                                    (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    metalbin_write_put(s, bytes, sizeof(bytes));
}

static void put_f32(struct sink *s, double value)
{
    float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof(bits));
    put_u32(s, bits);
}

static void put_header(struct sink *s, const struct model_config *c)
{
    struct model_metalbin_yarn yarn;
    model_metalbin_yarn(c, &yarn);
    metalbin_write_put(s, METALBIN_MAGIC, 12);
    put_u32(s, 0);
    metalbin_write_put(s, model_metalbin_uuid_model, 16);
    put_u32(s, c->context);
    put_u32(s, c->layers);
    put_u32(s, c->experts);
    put_u32(s, c->experts_per_token);
    put_u32(s, c->hidden);
    put_u32(s, c->intermediate);
    put_f32(s, c->swiglu_limit);
    put_u32(s, c->head_dim);
    put_u32(s, c->heads);
    put_u32(s, c->kv_heads);
    put_u32(s, c->window);
    put_f32(s, c->rope.theta);
    put_f32(s, yarn.interpolation);
    put_f32(s, yarn.offset);
    put_f32(s, yarn.scale);
    put_f32(s, yarn.multiplier);
    put_f32(s, c->rms_eps);
    metalbin_write_put(s, model_metalbin_uuid_layout, 16);
    metalbin_write_put(s, model_metalbin_uuid_tokenizer, 16);
}

static uint64_t tokens_size(const struct model_metalbin_tokenizer *t)
{
    uint64_t size = 0;
    for (uint32_t i = 0; i < t->text_count; i++)
        size += 2 + (t->text != NULL ? t->text[i].len : 0);
    return size;
}

static void put_tokenizer(struct sink *s, const struct model_metalbin_tokenizer *t)
{
    uint64_t regex = strlen(t->regex) + 1;
    put_u32(s, t->special_count);
    put_u32(s, t->text_count);
    put_u32(s, (uint32_t)regex);
    put_u32(s, (uint32_t)tokens_size(t));
    for (uint32_t i = 0; i < t->special_count; i++)
        metalbin_write_put(s, model_metalbin_uuid_special(t->special_names[i]), 16);
    metalbin_write_put(s, t->regex, regex);
    for (uint32_t i = 0; i < t->text_count; i++) {
        struct lr_str text = t->text != NULL ? t->text[i] : (struct lr_str){NULL, 0};
        const unsigned char len[2] = {(unsigned char)text.len, (unsigned char)(text.len >> 8)};
        metalbin_write_put(s, len, 2);
        metalbin_write_put(s, text.ptr, text.len);
    }
}

/* BF16 times a power of two at most 1, rounded to nearest even where it underflows. */
static uint16_t times(uint16_t bf16, float factor)
{
    uint32_t bits = (uint32_t)bf16 << 16;
    float value;
    memcpy(&value, &bits, sizeof(value));
    if (value != value)
        return bf16;
    value *= factor;
    memcpy(&bits, &value, sizeof(bits));
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Rows of each head in the order 0, d/2, 1, d/2 + 1, ... */
static void put_paired(struct sink *s, const uint16_t *in, uint32_t heads, uint32_t head_dim,
                       uint32_t columns, float factor)
{
    uint16_t *row = malloc(columns * sizeof(*row));
    if (row == NULL && s->code == LR_OK)
        s->code = lr_fail(s->err, LR_OUT_OF_RAM, "%s: no memory for a row", s->path);
    for (uint32_t h = 0; h < heads && s->code == LR_OK; h++) {
        for (uint32_t stored = 0; stored < head_dim; stored++) {
            size_t plain = stored / 2 + (stored % 2 != 0 ? head_dim / 2 : 0);
            const uint16_t *from = in + ((size_t)h * head_dim + plain) * columns;
            for (uint32_t k = 0; k < columns; k++)
                row[k] = times(from[k], factor);
            metalbin_write_put(s, row, columns * sizeof(*row));
        }
    }
    free(row);
}

static void put_block(struct sink *s, const struct model_config *c,
                      const struct model_gptoss_layer *l, const struct model_metalbin_block *b)
{
    uint64_t h = c->hidden;
    uint64_t q = (uint64_t)c->heads * c->head_dim, kv = (uint64_t)c->kv_heads * c->head_dim;
    pad_to(s, b->attn_norm);
    metalbin_write_put(s, l->attn_norm, 2 * h);
    pad_to(s, b->qkv_weight);
    put_paired(s, l->q_weight, c->heads, c->head_dim, c->hidden, 0.5f);
    put_paired(s, l->k_weight, c->kv_heads, c->head_dim, c->hidden, 0.25f);
    metalbin_write_put(s, l->v_weight, 2 * kv * h);
    put_paired(s, l->q_bias, c->heads, c->head_dim, 1, 0.5f);
    put_paired(s, l->k_bias, c->kv_heads, c->head_dim, 1, 0.25f);
    metalbin_write_put(s, l->v_bias, 2 * kv);
    pad_to(s, b->sinks);
    metalbin_write_put(s, l->sinks, 2 * (uint64_t)c->heads);
    pad_to(s, b->out_weight);
    metalbin_write_put(s, l->o_weight, 2 * h * q);
    metalbin_write_put(s, l->o_bias, 2 * h);
    pad_to(s, b->mlp_norm);
    metalbin_write_put(s, l->mlp_norm, 2 * h);
    pad_to(s, b->gate_weight);
    metalbin_write_put(s, l->router_weight, 2 * c->experts * h);
    metalbin_write_put(s, l->router_bias, 2 * (uint64_t)c->experts);
}

static void put_scales(struct sink *s, const uint8_t *scales, uint64_t count, uint32_t excess)
{
    unsigned char moved[4096];
    for (uint64_t i = 0; i < count && s->code == LR_OK;) {
        size_t n = 0;
        for (; n < sizeof(moved) && i < count; n++, i++) {
            unsigned value = scales[i] - excess + MODEL_METALBIN_SCALE_EXCESS;
            if (value > 255) {
                s->code =
                    lr_fail(s->err, LR_UNSUPPORTED,
                            "%s: a scale byte is %u, the encoding holds at most %d", s->path,
                            scales[i] - excess, 255 - MODEL_METALBIN_SCALE_EXCESS);
                return;
            }
            moved[n] = (unsigned char)value;
        }
        metalbin_write_put(s, moved, n);
    }
}

static void put_matrix(struct sink *s, const struct model_experts *x, uint32_t expert,
                       uint32_t excess, const uint64_t part[3])
{
    uint64_t groups = (uint64_t)x->rows * (x->columns / 32);
    pad_to(s, part[0]);
    metalbin_write_put(s, x->blocks + expert * x->blocks_stride, groups * 16);
    pad_to(s, part[1]);
    put_scales(s, x->scales + expert * x->scales_stride, groups, excess);
    pad_to(s, part[2]);
    metalbin_write_put(s, (const char *)x->bias + expert * x->bias_stride,
                       2 * (uint64_t)x->rows);
}

static void put_experts(struct sink *s, const struct model_gptoss *m, uint32_t layer,
                        const struct model_metalbin_layout *at)
{
    const struct model_gptoss_layer *l = &m->layers[layer];
    for (uint32_t e = 0; e < m->config.experts && s->code == LR_OK; e++) {
        uint64_t base = at->blocks[layer].experts + e * at->expert_stride;
        put_matrix(s, &l->gate_up, e, m->scale_excess,
                   (const uint64_t[]){base + at->mlp1_blocks, base + at->mlp1_scales,
                                      base + at->mlp1_bias});
        put_matrix(s, &l->down, e, m->scale_excess,
                   (const uint64_t[]){base + at->mlp2_blocks, base + at->mlp2_scales,
                                      base + at->mlp2_bias});
        pad_to(s, base + at->expert_stride);
    }
}

static void put_all(struct sink *s, const struct model_gptoss *m,
                    const struct model_metalbin_tokenizer *t,
                    const struct model_metalbin_layout *at)
{
    const struct model_config *c = &m->config;
    uint64_t table = 2 * (uint64_t)c->hidden * at->vocab_rows;
    put_header(s, c);
    put_tokenizer(s, t);
    pad_to(s, at->embed);
    metalbin_write_put(s, m->embed, table);
    for (uint32_t i = 0; i < c->layers; i++)
        put_block(s, c, &m->layers[i], &at->blocks[i]);
    pad_to(s, at->norm);
    metalbin_write_put(s, m->norm, 2 * (uint64_t)c->hidden);
    pad_to(s, at->unembed);
    metalbin_write_put(s, m->unembed, table);
    for (uint32_t i = 0; i < c->layers; i++)
        put_experts(s, m, i, at);
    if (s->code == LR_OK && s->at != at->file_size)
        s->code = lr_fail(s->err, LR_INTERNAL, "%s: wrote %" PRIu64 " bytes of %" PRIu64,
                          s->path, s->at, at->file_size);
}

static lr_code check_tokenizer(const struct model_metalbin_tokenizer *t, uint32_t rows,
                               struct lr_error *err)
{
    if (t->text_count == 0 || t->text_count > rows || t->special_count > rows - t->text_count)
        return lr_fail(err, LR_UNSUPPORTED,
                       "model.bin: %u text and %u special tokens, the embedding has %u rows",
                       t->text_count, t->special_count, rows);
    for (uint32_t i = 0; t->text != NULL && i < t->text_count; i++) {
        if (t->text[i].len > UINT16_MAX)
            return lr_fail(err, LR_UNSUPPORTED,
                           "model.bin: token %u has %zu bytes, the encoding holds at most %d",
                           i, t->text[i].len, UINT16_MAX);
    }
    return LR_OK;
}

lr_code model_metalbin_write(const struct model_gptoss *m,
                             const struct model_metalbin_tokenizer *tokenizer, const char *path,
                             struct lr_error *err)
{
    const struct model_metalbin_tokenizer none = {.text_count = m->vocab_rows, .regex = ""};
    const struct model_metalbin_tokenizer *t = tokenizer != NULL ? tokenizer : &none;
    struct model_metalbin_layout layout;
    lr_code code = model_metalbin_supported(&m->config, err);
    if (code == LR_OK)
        code = check_tokenizer(t, m->vocab_rows, err);
    if (code != LR_OK)
        return code;
    model_metalbin_compute(&m->config, t->text_count + t->special_count,
                           METALBIN_HEADER + 16 * (uint64_t)t->special_count +
                               strlen(t->regex) + 1 + tokens_size(t),
                           &layout);
    struct sink s = {.path = path, .err = err, .file = lr_fopen(path, "wbx")};
    if (s.file == NULL)
        return lr_fail_errno(err, errno == EEXIST ? LR_INVALID_ARGUMENT : LR_INTERNAL, "%s",
                             path);
    put_all(&s, m, t, &layout);
    if (fclose(s.file) != 0 && s.code == LR_OK)
        s.code = lr_fail_errno(err, LR_INTERNAL, "%s: cannot finish writing", path);
    if (s.code != LR_OK)
        (void)lr_unlink(path);
    return s.code;
}
