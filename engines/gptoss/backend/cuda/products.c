/* gptoss/backend/cuda/products.c - dense products: which kernel, how it is cut.
 *
 * Few tokens (up to CUDA_SKINNY_ROWS): weights are streamed once and every kernel asks for
 * its first weights before its predecessor ends.  Many tokens: tiles.
 */
#include "engines/gptoss/backend/cuda/cuda.h"

/* How a dense product with few tokens is cut. */
struct skinny_cut {
    uint32_t columns; /* 1, 2 or 4 tiles of 8 tokens */
    uint32_t passes;
    uint32_t shared;
};

static struct skinny_cut cut_skinny(const struct gptoss_backend *b, const struct cuda_matrix *m,
                                    uint32_t tokens, bool split)
{
    uint32_t room = (uint32_t)b->device.shared_per_block - 4096;
    struct skinny_cut cut = {.columns = tokens <= 8 ? 1 : tokens <= 16 ? 2 : 4};
    for (;; cut.columns /= 2) {
        uint32_t rows = tokens == 1 ? 1 : cut.columns * 8;
        cut.shared = rows * cuda_stride_of(m->blocks) + (split ? 8192 * cut.columns : 0);
        if (cut.shared <= room || cut.columns == 1)
            break;
    }
    cut.passes = (tokens + cut.columns * 8 - 1) / (cut.columns * 8);
    return cut;
}

/* 1, 2, 4 or 8 tiles of 8 tokens, as the kernel that follows the first by so many. */
static uint32_t column_step(uint32_t tokens)
{
    return tokens <= 8 ? 0 : tokens <= 16 ? 1 : tokens <= 32 ? 2 : 3;
}

/* A product for wide.cu, of so many tokens at least: how many slices its columns are cut into;
 * 0: it is none. */
static uint32_t wide_splits(const struct gptoss_backend *b, const struct cuda_matrix *m,
                            uint32_t tokens, uint32_t least)
{
    uint32_t groups = (m->tiles + CUDA_WIDE_TILES - 1) / CUDA_WIDE_TILES;
    uint32_t sms = (uint32_t)b->device.multiprocessors, splits = sms / groups;
    uint32_t shared = CUDA_WIDE_RING + ((uint32_t)CUDA_WIDE_COLUMN_TILE << column_step(tokens));
    splits = splits > 8 ? 8 : splits;
    if (tokens < least || tokens > CUDA_SKINNY_ROWS || m->blocks < 64 ||
        groups > CUDA_WIDE_GROUPS || groups * splits > CUDA_WIDE_GRID ||
        m->blocks > splits * CUDA_WIDE_SLICE ||
        shared + 4096 > (uint32_t)b->device.shared_per_block)
        return 0;
    return splits;
}

static lr_code wide(struct gptoss_backend *b, struct cuda_gemm *a, enum cuda_kernel first,
                    uint32_t splits, struct lr_error *err)
{
    uint32_t step = column_step(a->tokens);
    void *arguments[] = {a};
    a->splits = splits;
    a->parts = b->ws.wide_parts;
    a->tickets = b->ws.wide_tickets;
    return cuda_launch(
        b, first + step, (a->m.tiles + CUDA_WIDE_TILES - 1) / CUDA_WIDE_TILES * splits, 1, 1,
        CUDA_WIDE_THREADS, CUDA_WIDE_RING + ((uint32_t)CUDA_WIDE_COLUMN_TILE << step),
        arguments, err);
}

static lr_code dense(struct gptoss_backend *b, struct cuda_gemm *a, enum cuda_kernel skinny,
                     enum cuda_kernel tile, enum cuda_kernel prompt, bool split,
                     struct lr_error *err)
{
    void *arguments[] = {a};
    if (split && cuda_is_prompt(b, a->tokens))
        return cuda_launch_prompt_dense(b, a, prompt, err);
    /* The vocabulary. */
    uint32_t tall =
        CUDA_TALL_RING + ((uint32_t)CUDA_TALL_COLUMN_TILE << column_step(a->tokens));
    if (!split && a->tokens > CUDA_FUSED_NORM_TOKENS && a->tokens <= CUDA_SKINNY_ROWS &&
        tall + 4096 <= (uint32_t)b->device.shared_per_block)
        return cuda_launch(b, CUDA_tall_logits_2 + column_step(a->tokens) - 1,
                           (uint32_t)b->device.multiprocessors, 1, 1, CUDA_TALL_THREADS, tall,
                           arguments, err);
    /* It fills the machine with tiles; two passes over its weights would not. */
    if (a->tokens > CUDA_SKINNY_ROWS || (!split && a->tokens > CUDA_SKINNY_TOKENS))
        return cuda_launch(b, tile, (a->tokens + CUDA_TILE_TOKENS - 1) / CUDA_TILE_TOKENS,
                           (a->m.tiles + CUDA_TILE_ROWS / 16 - 1) / (CUDA_TILE_ROWS / 16), 1,
                           CUDA_TILE_THREADS, CUDA_TILE_SHARED, arguments, err);
    struct skinny_cut cut = cut_skinny(b, &a->m, a->tokens, split);
    uint32_t sms = (uint32_t)b->device.multiprocessors, groups = split ? 1 : 8;
    /* Staging many tokens costs more than one tile of weights: then a block keeps them for
     * several tiles.  Unsplit products always loop, two blocks a multiprocessor. */
    uint32_t blocks = !split             ? sms * 2
                      : cut.columns == 1 ? a->m.tiles
                                         : sms * (cut.shared < 100000 ? 2 : 1);
    a->tiles_per_group = (a->m.tiles + blocks * groups - 1) / (blocks * groups);
    uint32_t per_block = a->tiles_per_group * groups;
    enum cuda_kernel kernel = skinny + (cut.columns == 4 ? 2 : cut.columns == 2 ? 1 : 0);
    return cuda_launch(b, kernel, (a->m.tiles + per_block - 1) / per_block, cut.passes, 1,
                       CUDA_SKINNY_THREADS, cut.shared, arguments, err);
}

lr_code cuda_launch_qkv(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        struct lr_error *err)
{
    const struct model_config *c = b->config;
    uint32_t splits = wide_splits(b, &l->qkv, rows, 2);
    bool fused = rows <= CUDA_FUSED_NORM_TOKENS && splits == 0;
    struct cuda_gemm a = {
        .m = l->qkv,
        .x = b->ws.normed,
        .residual = fused ? b->ws.residual : NULL,
        .norm = l->attn_norm,
        .x_stride = c->hidden,
        .hidden = c->hidden,
        .tokens = rows,
        .eps = (float)c->rms_eps,
        .out_bf16 = b->ws.q,
        .out_stride = b->q_width,
        .heads = c->heads,
        .row_pos = (uint32_t *)(void *)(b->ws.inputs + b->at.row_pos),
        .row_slot = (uint32_t *)(void *)(b->ws.inputs +
                                         (l->sliding ? b->at.row_window : b->at.row_full)),
        .rope = b->rope,
        .kv = cuda_kv_of(b, l)};
    lr_code code =
        fused ? LR_OK : cuda_launch_norm(b, l->attn_norm, NULL, b->ws.normed, NULL, rows, err);
    if (code != LR_OK)
        return code;
    return splits != 0
               ? wide(b, &a, CUDA_wide_qkv_1, splits, err)
               : dense(b, &a, CUDA_skinny_qkv_1, CUDA_tile_qkv, CUDA_prompt_qkv, true, err);
}

lr_code cuda_launch_out(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        struct lr_error *err)
{
    struct cuda_gemm a = {.m = l->out,
                          .x = b->ws.mixed,
                          .x_stride = b->q_width,
                          .tokens = rows,
                          .out_f32 = b->ws.residual,
                          .out_stride = b->config->hidden};
    uint32_t splits = wide_splits(b, &l->out, rows, CUDA_SLOT_MODE_TOKENS + 1);
    return splits != 0
               ? wide(b, &a, CUDA_wide_out_1, splits, err)
               : dense(b, &a, CUDA_skinny_out_1, CUDA_tile_out, CUDA_prompt_out, true, err);
}

lr_code cuda_launch_logits(struct gptoss_backend *b, const struct cuda_shape *s, uint32_t first,
                           uint32_t count, struct lr_error *err)
{
    const struct model_config *c = b->config;
    uint32_t *rows = (uint32_t *)(void *)(b->ws.inputs + b->at.out_rows) + first;
    struct cuda_gemm a = {.m = b->unembed,
                          .x = b->ws.final,
                          .x_stride = c->hidden,
                          .tokens = count,
                          .out_f32 = b->ws.logits,
                          .out_stride = b->logit_stride};
    lr_code code =
        cuda_launch_norm(b, b->norm, NULL, b->ws.final, s->gather ? rows : NULL, count, err);
    if (code == LR_OK)
        code =
            dense(b, &a, CUDA_skinny_logits_1, CUDA_tile_logits, CUDA_KERNEL_COUNT, false, err);
    return code == LR_OK && s->sample ? cuda_launch_sampling(b, count, err) : code;
}
