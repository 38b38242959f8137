/* model/metalbin.c - the header and the layout of a model.bin.
 *
 * The file names no tensors: everything follows from the header's sizes and the rules of
 * alignment.  So the header must agree exactly with config.json, and the computed end must be
 * the size of the file.
 */
#include "model/metalbin.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "model/metalbin_format.h"

static uint64_t align_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Returns consecutive 16-byte aligned offsets. */
static uint64_t metalbin_place(uint64_t *at, uint64_t bytes)
{
    uint64_t begin = align_up(*at, METALBIN_ALIGN);
    *at = begin + bytes;
    return begin;
}

void model_metalbin_compute(const struct model_config *c, uint32_t vocab_rows,
                            uint64_t header_end, struct model_metalbin_layout *out)
{
    uint64_t h = c->hidden, f = c->intermediate, e = c->experts;
    uint64_t q = (uint64_t)c->heads * c->head_dim, kv = (uint64_t)c->kv_heads * c->head_dim;
    uint64_t at = align_up(header_end, METALBIN_PAGE);
    memset(out, 0, sizeof(*out));
    out->vocab_rows = vocab_rows;
    out->weights_start = at;
    out->embed = metalbin_place(&at, 2 * h * vocab_rows);
    for (uint32_t i = 0; i < c->layers; i++) {
        struct model_metalbin_block *b = &out->blocks[i];
        b->attn_norm = metalbin_place(&at, 2 * h);
        b->qkv_weight =
            metalbin_place(&at, 2 * (q + 2 * kv) * (h + 1)); /* the bias follows directly */
        b->qkv_bias = b->qkv_weight + 2 * (q + 2 * kv) * h;
        b->sinks = metalbin_place(&at, 2 * (uint64_t)c->heads);
        b->out_weight = metalbin_place(&at, 2 * h * (q + 1));
        b->out_bias = b->out_weight + 2 * h * q;
        b->mlp_norm = metalbin_place(&at, 2 * h);
        b->gate_weight = metalbin_place(&at, 2 * e * (h + 1));
        b->gate_bias = b->gate_weight + 2 * e * h;
    }
    out->norm = metalbin_place(&at, 2 * h);
    out->unembed = metalbin_place(&at, 2 * h * vocab_rows);
    uint64_t inner = 0;
    out->mlp1_blocks = metalbin_place(&inner, 2 * f * (h / 32) * 16);
    out->mlp1_scales = metalbin_place(&inner, 2 * f * (h / 32));
    out->mlp1_bias = metalbin_place(&inner, 2 * 2 * f);
    out->mlp2_blocks = metalbin_place(&inner, h * (f / 32) * 16);
    out->mlp2_scales = metalbin_place(&inner, h * (f / 32));
    out->mlp2_bias = metalbin_place(&inner, 2 * h);
    out->expert_stride = align_up(inner, METALBIN_ALIGN);
    for (uint32_t i = 0; i < c->layers; i++) {
        at = align_up(at, METALBIN_PAGE);
        out->blocks[i].experts = at;
        at += e * out->expert_stride; /* the last block is not padded */
    }
    out->file_size = at;
}

void model_metalbin_yarn(const struct model_config *c, struct model_metalbin_yarn *out)
{
    const struct model_rope *r = &c->rope;
    *out = (struct model_metalbin_yarn){.interpolation = 1, .multiplier = 1};
    if (r->kind != MODEL_ROPE_YARN)
        return;
    double half = c->head_dim / 2.0, log_theta = log(r->theta);
    double turn = r->original_context / (2 * 3.14159265358979323846);
    double low = half * log(turn / r->beta_fast) / log_theta;
    double high = half * log(turn / r->beta_slow) / log_theta;
    out->interpolation = 1 / r->factor;
    out->offset = -low / (high - low);
    out->scale = 1 / (high - low);
    out->multiplier = r->attention_factor;
}

lr_code model_metalbin_supported(const struct model_config *c, struct lr_error *err)
{
    if (c->head_dim != 64)
        return lr_fail(err, LR_UNSUPPORTED,
                       "model.bin: head_dim is %u, but the encoding folds the softmax scale of "
                       "64 into Q and K",
                       c->head_dim);
    if (c->rope.kind != MODEL_ROPE_YARN || c->rope.truncate)
        return lr_fail(err, LR_UNSUPPORTED,
                       "model.bin: the encoding knows YaRN with \"truncate\": false only");
    for (uint32_t i = 0; i < c->layers; i++) {
        if (c->sliding[i] != (i % 2 == 0))
            return lr_fail(err, LR_UNSUPPORTED,
                           "model.bin: layer %u is %s, but in this encoding even layers slide "
                           "and odd ones do not",
                           i, c->sliding[i] ? "sliding_attention" : "full_attention");
    }
    return LR_OK;
}

/* ---- header ---- */

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static double read_f32(const unsigned char *p)
{
    uint32_t bits = read_u32(p);
    float value;
    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

struct check {
    const unsigned char *at; /* next field */
    const char *file;
    lr_code code; /* the first error */
    struct lr_error *err;
};

static void check_u32(struct check *c, const char *field, uint32_t want)
{
    uint32_t got = read_u32(c->at);
    c->at += 4;
    if (c->code == LR_OK && got != want)
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT, "%s: %s is %u, config.json says %u",
                          c->file, field, got, want);
}

/* The publisher computed these values in another precision. */
static void check_f32(struct check *c, const char *field, double want)
{
    double got = read_f32(c->at);
    c->at += 4;
    if (c->code == LR_OK && !(fabs(got - want) <= 1e-4 * fabs(want) + 1e-12))
        c->code = lr_fail(c->err, LR_MODEL_CORRUPT, "%s: %s is %.9g, config.json gives %.9g",
                          c->file, field, got, want);
}

static lr_code check_header(struct check *c, const struct model_config *config)
{
    struct model_metalbin_yarn yarn;
    model_metalbin_yarn(config, &yarn);
    check_u32(c, "context_length", config->context);
    check_u32(c, "num_blocks", config->layers);
    check_u32(c, "num_experts", config->experts);
    check_u32(c, "num_active_experts", config->experts_per_token);
    check_u32(c, "embedding_dim", config->hidden);
    check_u32(c, "mlp_dim", config->intermediate);
    check_f32(c, "swiglu_limit", config->swiglu_limit);
    check_u32(c, "head_dim", config->head_dim);
    check_u32(c, "num_heads", config->heads);
    check_u32(c, "num_kv_heads", config->kv_heads);
    check_u32(c, "attention_window", config->window);
    check_f32(c, "rope_theta", config->rope.theta);
    check_f32(c, "interpolation_scale", yarn.interpolation);
    check_f32(c, "yarn_offset", yarn.offset);
    check_f32(c, "yarn_scale", yarn.scale);
    check_f32(c, "yarn_multiplier", yarn.multiplier);
    check_f32(c, "rmsnorm_epsilon", config->rms_eps);
    return c->code;
}

static lr_code check_uuid(const unsigned char *at, const unsigned char want[16],
                          const char *file, const char *what, struct lr_error *err)
{
    if (memcmp(at, want, 16) == 0)
        return LR_OK;
    return lr_fail(err, LR_UNSUPPORTED,
                   "%s: unknown %s (UUID %02x%02x%02x%02x-..., expected "
                   "%02x%02x%02x%02x-...)",
                   file, what, at[0], at[1], at[2], at[3], want[0], want[1], want[2], want[3]);
}

/* The token texts must fill their part exactly.  The table sizes follow from the number of
 * tokens, and the padding would hide a small error in it. */
static lr_code check_tokens(const unsigned char *texts, uint64_t size, uint64_t count,
                            const char *file, struct lr_error *err)
{
    uint64_t at = 0, seen = 0;
    for (; seen < count && size - at >= 2; seen++) {
        uint64_t len = (uint64_t)texts[at] | (uint64_t)texts[at + 1] << 8;
        at += 2;
        if (len > size - at)
            break;
        at += len;
    }
    if (seen != count || at != size)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: %" PRIu64 " of %" PRIu64 " text tokens take %" PRIu64
                       " bytes, the header gives them %" PRIu64,
                       file, seen, count, at, size);
    return LR_OK;
}

lr_code model_metalbin_parse(const void *bytes, size_t available, uint64_t file_size,
                             const char *file, const struct model_config *config,
                             struct model_metalbin_layout *out, struct lr_error *err)
{
    const unsigned char *p = bytes;
    memset(out, 0, sizeof(*out));
    if (available < METALBIN_HEADER || file_size < METALBIN_HEADER)
        return lr_fail(err, LR_MODEL_CORRUPT, "%s: %" PRIu64 " bytes, a model.bin has over %d",
                       file, file_size, METALBIN_HEADER);
    if (memcmp(p, METALBIN_MAGIC, 12) != 0 || read_u32(p + 12) != 0)
        return lr_fail(err, LR_MODEL_CORRUPT, "%s does not begin with \"%s\"", file,
                       METALBIN_MAGIC);
    lr_code code = check_uuid(p + 16, model_metalbin_uuid_model, file, "model", err);
    if (code == LR_OK)
        code = model_metalbin_supported(config, err);
    struct check check = {.at = p + 32, .file = file, .err = err};
    if (code == LR_OK)
        code = check_header(&check, config);
    if (code == LR_OK)
        code = check_uuid(p + 100, model_metalbin_uuid_layout, file, "weight layout", err);
    if (code == LR_OK)
        code = check_uuid(p + 116, model_metalbin_uuid_tokenizer, file, "tokenizer", err);
    if (code != LR_OK)
        return code;
    uint64_t special = read_u32(p + 132), text = read_u32(p + 136);
    uint64_t regex = read_u32(p + 140), tokens = read_u32(p + 144);
    if (special + text == 0 || special + text > config->vocab)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: %" PRIu64 " text and %" PRIu64
                       " special tokens, config.json has a vocabulary of %u",
                       file, text, special, config->vocab);
    uint64_t header_end = METALBIN_HEADER + 16 * special + regex + tokens;
    if (header_end > available)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: %" PRIu64 " bytes, its header asks for %" PRIu64
                       " before the weights",
                       file, file_size, header_end);
    code = check_tokens(p + header_end - tokens, tokens, text, file, err);
    if (code != LR_OK)
        return code;
    model_metalbin_compute(config, (uint32_t)(special + text), header_end, out);
    if (out->file_size != file_size)
        return lr_fail(err, LR_MODEL_CORRUPT,
                       "%s: %" PRIu64 " bytes, its header asks for %" PRIu64
                       ": truncated, or another model",
                       file, file_size, out->file_size);
    return LR_OK;
}
