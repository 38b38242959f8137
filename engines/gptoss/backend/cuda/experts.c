/* gptoss/backend/cuda/experts.c - the arguments of a layer's experts; select.c chooses their
 * kernels. */
#include "engines/gptoss/backend/cuda/cuda.h"

lr_code cuda_launch_experts(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                            const uint16_t *next_norm, struct lr_error *err)
{
    const struct model_config *c = b->config;
    struct cuda_choices chosen =
        cuda_select_experts(&b->target, c, &l->gate_up, &l->down, rows);
    bool sorts = chosen.at[0].operand == CUDA_ON_SORT,
         sums = chosen.at[chosen.count - 1].operand == CUDA_ON_SUM;
    if (sums && next_norm != NULL)
        chosen.at[chosen.count - 1].kernel = CUDA_add_experts_norm;
    float eps = (float)c->rms_eps;
    struct cuda_gemm up = {.m = l->gate_up,
                           .x = b->ws.normed,
                           .x_stride = c->hidden,
                           .tokens = rows,
                           .limit = (float)c->swiglu_limit,
                           .out_bf16 = b->ws.inner,
                           .out_stride = c->intermediate,
                           .topk = c->experts_per_token,
                           .experts = c->experts,
                           .choice = b->ws.choice,
                           .weight = b->ws.weight,
                           .sorted = b->ws.sorted,
                           .expert_tile = b->ws.expert_tile,
                           .tile_count = b->ws.tile_count};
    struct cuda_gemm down = up;
    down.m = l->down;
    down.x = b->ws.inner;
    down.x_stride = c->intermediate;
    down.out_bf16 = NULL;
    down.out_f32 = sums ? b->ws.expert_out : b->ws.residual;
    down.out_stride = c->hidden;
    uint32_t pairs = rows * c->experts_per_token, experts = c->experts, hidden = c->hidden,
             topk = c->experts_per_token, room = sorts ? chosen.at[0].tile_tokens : 0;
    void *up_arguments[] = {&up}, *down_arguments[] = {&down};
    void *sort[] = {&b->ws.choice,      &pairs,           &experts, &room, &b->ws.sorted,
                    &b->ws.expert_tile, &b->ws.tile_count};
    /* add_experts has only the first four. */
    void *sum[] = {&b->ws.residual, &b->ws.expert_out, &hidden, &topk,
                   &next_norm,      &b->ws.normed,     &eps};
    void **const arguments[CUDA_OPERAND_COUNT] = {[CUDA_ON_SORT] = sort,
                                                  [CUDA_ON_UP] = up_arguments,
                                                  [CUDA_ON_DOWN] = down_arguments,
                                                  [CUDA_ON_SUM] = sum};
    return cuda_launch_chosen(b, &chosen, arguments, err);
}
