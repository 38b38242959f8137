/* cli/gguf.c - see gguf.h. */
#include "cli/gguf.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

/* Tensors outside of the layers and of one layer. */
static const struct {
    uint32_t outer, inner;
} counts[] = {[CLI_GGUF_LLAMA] = {3, 9},
              [CLI_GGUF_GPT_OSS] = {3, 19},
              [CLI_GGUF_BERT] = {4, 10},
              [CLI_GGUF_RERANKER] = {8, 10}};

uint32_t cli_gguf_tensor_count(const struct cli_gguf_shape *s)
{
    return counts[s->family].outer + s->layers * counts[s->family].inner;
}

/* The range that keeps the magnitude of activations. */
static float even(uint64_t columns)
{
    return sqrtf(3.0f / (float)columns);
}

static struct cli_gguf_tensor outer_tensor(const struct cli_gguf_shape *s, uint32_t index)
{
    uint64_t w = s->width;
    float range = even(w);
    const struct cli_gguf_tensor generates[] = {
        {.name = "token_embd.weight", w, s->vocab, .range = 1.0f},
        {.name = "output_norm.weight", w},
        {.name = "output.weight", w, s->vocab, .range = 3.0f * range},
    };
    const struct cli_gguf_tensor bert[] = {
        {.name = "token_embd.weight", w, s->vocab, .range = 1.0f},
        {.name = "position_embd.weight", w, s->context, .range = 0.1f},
        {.name = "token_embd_norm.weight", w},
        {.name = "token_embd_norm.bias", w, .range = 0.1f},
        {.name = "cls.weight", w, w, .range = range},
        {.name = "cls.bias", w, .range = 0.1f},
        {.name = "cls.output.weight", w, 1, .range = range},
        {.name = "cls.output.bias", 1, .range = 0.1f},
    };
    bool is_bert = s->family == CLI_GGUF_BERT || s->family == CLI_GGUF_RERANKER;
    return is_bert ? bert[index] : generates[index];
}

static struct cli_gguf_tensor llama_tensor(const struct cli_gguf_shape *s, uint32_t index)
{
    uint64_t kv = (uint64_t)s->head_size * s->kv_heads, w = s->width, f = s->feed_forward;
    float range = even(w);
    const struct cli_gguf_tensor all[] = {
        {.name = "attn_norm.weight", w},
        {.name = "attn_q.weight", w, w, .range = range},
        {.name = "attn_k.weight", w, kv, .range = range},
        {.name = "attn_v.weight", w, kv, .range = range},
        {.name = "attn_output.weight", w, w, .range = range},
        {.name = "ffn_norm.weight", w},
        {.name = "ffn_gate.weight", w, f, .range = range},
        {.name = "ffn_up.weight", w, f, .range = range},
        {.name = "ffn_down.weight", f, w, .range = even(f)},
    };
    return all[index];
}

static struct cli_gguf_tensor gpt_oss_tensor(const struct cli_gguf_shape *s, uint32_t index)
{
    uint64_t q = (uint64_t)s->head_size * s->heads, kv = (uint64_t)s->head_size * s->kv_heads;
    uint64_t w = s->width, f = s->feed_forward, e = s->experts;
    float range = even(w);
    const enum cli_gguf_type x = CLI_GGUF_MXFP4;
    const struct cli_gguf_tensor all[] = {
        {.name = "attn_norm.weight", w},
        {.name = "post_attention_norm.weight", w},
        {.name = "attn_q.weight", w, q, .range = range},
        {.name = "attn_q.bias", q, .range = 0.1f},
        {.name = "attn_k.weight", w, kv, .range = range},
        {.name = "attn_k.bias", kv, .range = 0.1f},
        {.name = "attn_v.weight", w, kv, .range = range},
        {.name = "attn_v.bias", kv, .range = 0.1f},
        {.name = "attn_output.weight", q, w, .range = even(q)},
        {.name = "attn_output.bias", w, .range = 0.1f},
        {.name = "attn_sinks.weight", s->heads, .range = 1.0f},
        {.name = "ffn_gate_inp.weight", w, e, .range = range},
        {.name = "ffn_gate_inp.bias", e, .range = 0.1f},
        {.name = "ffn_gate_exps.weight", w, f, e, .range = range, .type = x},
        {.name = "ffn_gate_exps.bias", f, e, .range = 0.1f},
        {.name = "ffn_up_exps.weight", w, f, e, .range = range, .type = x},
        {.name = "ffn_up_exps.bias", f, e, .range = 0.1f},
        {.name = "ffn_down_exps.weight", f, w, e, .range = even(f), .type = x},
        {.name = "ffn_down_exps.bias", w, e, .range = 0.1f},
    };
    return all[index];
}

static struct cli_gguf_tensor bert_tensor(const struct cli_gguf_shape *s, uint32_t index)
{
    uint64_t w = s->width, f = s->feed_forward;
    float range = even(w);
    const struct cli_gguf_tensor all[] = {
        {.name = "attn_q.weight", w, w, .range = range},
        {.name = "attn_k.weight", w, w, .range = range},
        {.name = "attn_v.weight", w, w, .range = range},
        {.name = "attn_output.weight", w, w, .range = range},
        {.name = "attn_output_norm.weight", w},
        {.name = "attn_output_norm.bias", w, .range = 0.1f},
        {.name = "ffn_up.weight", w, f, .range = range},
        {.name = "ffn_down.weight", f, w, .range = even(f)},
        {.name = "layer_output_norm.weight", w},
        {.name = "layer_output_norm.bias", w, .range = 0.1f},
    };
    return all[index];
}

struct cli_gguf_tensor cli_gguf_tensor_at(const struct cli_gguf_shape *s, uint32_t index)
{
    uint32_t outer = counts[s->family].outer, inner = counts[s->family].inner;
    struct cli_gguf_tensor t;
    if (index < outer) {
        t = outer_tensor(s, index);
    } else {
        uint32_t i = (index - outer) % inner;
        struct cli_gguf_tensor from = s->family == CLI_GGUF_LLAMA     ? llama_tensor(s, i)
                                      : s->family == CLI_GGUF_GPT_OSS ? gpt_oss_tensor(s, i)
                                                                      : bert_tensor(s, i);
        t = from;
        (void)snprintf(t.name, sizeof(t.name), "blk.%u.%.40s", (index - outer) / inner,
                       from.name);
    }
    bool is_matrix = t.rows != 0 && strstr(t.name, ".bias") == NULL;
    if (s->quantized && is_matrix && t.type == CLI_GGUF_F32)
        t.type = CLI_GGUF_Q8_0;
    return t;
}

uint64_t cli_gguf_row_bytes(const struct cli_gguf_tensor *t)
{
    uint64_t blocks = t->columns / CLI_GGUF_BLOCK;
    return t->type == CLI_GGUF_F32    ? t->columns * sizeof(float)
           : t->type == CLI_GGUF_Q8_0 ? blocks * (CLI_GGUF_BLOCK + 2)
                                      : blocks * (CLI_GGUF_BLOCK / 2 + 1);
}

uint64_t cli_gguf_row_count(const struct cli_gguf_tensor *t)
{
    return (t->rows != 0 ? t->rows : 1) * (t->depth != 0 ? t->depth : 1);
}

/* ---- the weights ---- */

/* splitmix64 */
static uint64_t draw(uint64_t *state)
{
    uint64_t z = *state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Half precision of a small positive number, rounded down. */
static uint32_t half_bits(float value)
{
    int exponent;
    float mantissa = frexpf(value, &exponent); /* 0.5 <= mantissa < 1 */
    return (uint32_t)(exponent - 1 + 15) << 10 | ((uint32_t)(mantissa * 2048.0f) & 0x3FFu);
}

static void fill_f32(const struct cli_gguf_tensor *t, uint64_t *state, unsigned char *out)
{
    for (uint64_t i = 0; i < t->columns; i++) {
        float value = 1.0f;
        if (t->range != 0)
            value = ((float)(draw(state) >> 40) / 8388608.0f - 1.0f) * t->range;
        memcpy(out + i * sizeof(value), &value, sizeof(value));
    }
}

/* A scale in half precision, then 32 whole numbers from -127 to 127. */
static void fill_q8_0(const struct cli_gguf_tensor *t, uint64_t *state, unsigned char *out)
{
    uint32_t scale = half_bits(t->range / 127.0f);
    for (uint64_t i = 0; i < t->columns; i++) {
        if (i % CLI_GGUF_BLOCK == 0) {
            *out++ = (unsigned char)scale;
            *out++ = (unsigned char)(scale >> 8);
        }
        *out++ = (unsigned char)((draw(state) % 255) - 127);
    }
}

/* A power of two, then 32 numbers of four bits (0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign), whose
 * mean square is 8.56.  In -range..range it is range * range / 3. */
static void fill_mxfp4(const struct cli_gguf_tensor *t, uint64_t *state, unsigned char *out)
{
    int power = (int)lrintf(log2f(t->range / sqrtf(3.0f * 8.56f)));
    for (uint64_t i = 0; i < t->columns; i += CLI_GGUF_BLOCK) {
        uint64_t values[2] = {draw(state), draw(state)};
        *out++ = (unsigned char)(127 + power);
        memcpy(out, values, sizeof(values));
        out += sizeof(values);
    }
}

void cli_gguf_row(const struct cli_gguf_tensor *t, uint64_t *state, unsigned char *out)
{
    if (t->type == CLI_GGUF_F32)
        fill_f32(t, state, out);
    else if (t->type == CLI_GGUF_Q8_0)
        fill_q8_0(t, state, out);
    else
        fill_mxfp4(t, state, out);
}
