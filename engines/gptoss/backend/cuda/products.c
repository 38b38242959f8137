/* gptoss/backend/cuda/products.c - the arguments of dense products; select.c chooses their
 * kernels. */
#include "engines/gptoss/backend/cuda/cuda.h"

lr_code cuda_launch_qkv(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        bool normed, struct lr_error *err)
{
    const struct model_config *c = b->config;
    struct cuda_choices chosen = cuda_select_qkv(&b->target, &l->qkv, rows);
    bool fused = chosen.count == 1; /* the product normalizes its input itself */
    if (normed && !fused)
        chosen = (struct cuda_choices){.count = 1, .at = {chosen.at[1]}};
    struct cuda_norm norm = cuda_norm_of(b, l->attn_norm, NULL, b->ws.normed, NULL, rows);
    struct cuda_gemm product = {
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
    void *norm_arguments[] = {&norm}, *product_arguments[] = {&product};
    void **const arguments[CUDA_OPERAND_COUNT] = {
        [CUDA_ON_NORM] = norm_arguments, [CUDA_ON_PRODUCT] = product_arguments};
    return cuda_launch_chosen(b, &chosen, arguments, err);
}

lr_code cuda_launch_out(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        struct lr_error *err)
{
    const struct cuda_choices chosen = cuda_select_out(&b->target, &l->out, rows);
    struct cuda_gemm product = {.m = l->out,
                                .x = b->ws.mixed,
                                .x_stride = b->q_width,
                                .tokens = rows,
                                .out_f32 = b->ws.residual,
                                .out_stride = b->config->hidden};
    void *product_arguments[] = {&product};
    void **const arguments[CUDA_OPERAND_COUNT] = {[CUDA_ON_PRODUCT] = product_arguments};
    return cuda_launch_chosen(b, &chosen, arguments, err);
}

lr_code cuda_launch_logits(struct gptoss_backend *b, const struct cuda_shape *s, uint32_t first,
                           uint32_t count, struct lr_error *err)
{
    const struct model_config *c = b->config;
    const struct cuda_choices chosen = cuda_select_logits(&b->target, &b->unembed, count);
    uint32_t *rows = (uint32_t *)(void *)(b->ws.inputs + b->at.out_rows) + first;
    struct cuda_gemm product = {.m = b->unembed,
                                .x = b->ws.final,
                                .x_stride = c->hidden,
                                .tokens = count,
                                .out_f32 = b->ws.logits,
                                .out_stride = b->logit_stride};
    void *product_arguments[] = {&product};
    void **const arguments[CUDA_OPERAND_COUNT] = {[CUDA_ON_PRODUCT] = product_arguments};
    lr_code code =
        cuda_launch_norm(b, b->norm, NULL, b->ws.final, s->gather ? rows : NULL, count, err);
    if (code == LR_OK)
        code = cuda_launch_chosen(b, &chosen, arguments, err);
    return code == LR_OK && s->sample ? cuda_launch_sampling(b, count, err) : code;
}
