/* gptoss/backend/cuda/experts.c - the experts of a layer: which kernels, for how many tokens.
 */
#include "engines/gptoss/backend/cuda/cuda.h"

enum { DOWN_THREADS = 512, EXPERT_TILES = 3 };

/* True where a kernel of expert_stream.cu can be used for a matrix. */
static bool can_stream(const struct gptoss_backend *b, enum cuda_kernel kernel,
                       const struct cuda_matrix *m)
{
    return cuda_can_run(b, kernel, CUDA_STREAM_SHARED) && m->blocks == CUDA_STREAM_BLOCKS &&
           m->tiles % 2 == 0;
}

/* True where experts are run per (token, choice): few tokens have few experts in common.  A
 * stream is quicker from two tokens on. */
static bool is_slot_mode(const struct gptoss_backend *b, const struct cuda_layer *l,
                         uint32_t rows)
{
    bool streams = can_stream(b, CUDA_stream_gate_up, &l->gate_up) &&
                   can_stream(b, CUDA_stream_down, &l->down);
    return rows <= (streams ? 1 : CUDA_SLOT_MODE_TOKENS);
}

lr_code cuda_launch_experts(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                            struct lr_error *err)
{
    const struct model_config *c = b->config;
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
    down.out_f32 = is_slot_mode(b, l, rows) ? b->ws.residual : b->ws.expert_out;
    down.out_stride = c->hidden;
    void *up_arguments[] = {&up}, *down_arguments[] = {&down};
    uint32_t pairs = rows * c->experts_per_token, sms = (uint32_t)b->device.multiprocessors;
    uint32_t up_stride = cuda_stride_of(up.m.blocks),
             down_stride = cuda_stride_of(down.m.blocks);
    lr_code code;
    if (is_slot_mode(b, l, rows)) {
        up.tiles_per_group = 1;
        code = cuda_launch(b, CUDA_skinny_gate_up_slot, (up.m.tiles + 3) / 4, pairs, 1,
                           CUDA_SKINNY_THREADS, up_stride + 8192, up_arguments, err);
        if (code == LR_OK)
            code = cuda_launch(b, CUDA_skinny_down_slot, down.m.tiles, rows, 1, DOWN_THREADS,
                               c->experts_per_token * down_stride, down_arguments, err);
        return code;
    }
    if (rows <= CUDA_SKINNY_ROWS) {
        up.tiles_per_group = down.tiles_per_group = EXPERT_TILES;
        bool streams = can_stream(b, CUDA_stream_gate_up, &up.m);
        if (streams)
            code = cuda_launch(b, CUDA_stream_gate_up, sms, 1, 1, CUDA_STREAM_THREADS,
                               CUDA_STREAM_SHARED, up_arguments, err);
        else
            code = cuda_launch(b, CUDA_skinny_gate_up_expert,
                               (up.m.tiles + 4 * EXPERT_TILES - 1) / (4 * EXPERT_TILES),
                               c->experts, 1, CUDA_SKINNY_THREADS, 16 * up_stride + 16384,
                               up_arguments, err);
        if (code == LR_OK && streams && can_stream(b, CUDA_stream_down, &down.m))
            code = cuda_launch(b, CUDA_stream_down, sms, 1, 1, CUDA_STREAM_THREADS,
                               CUDA_STREAM_SHARED, down_arguments, err);
        else if (code == LR_OK)
            code = cuda_launch(b, CUDA_skinny_down_expert,
                               (down.m.tiles + 4 * EXPERT_TILES - 1) / (4 * EXPERT_TILES),
                               c->experts, 1, CUDA_SKINNY_THREADS, 16 * down_stride + 16384,
                               down_arguments, err);
    } else {
        bool prompt = cuda_is_prompt(b, rows);
        uint32_t experts_count = c->experts,
                 room = prompt ? CUDA_PROMPT_TOKENS : CUDA_TILE_TOKENS,
                 most_tiles = pairs / room + c->experts;
        void *sort[] = {
            &b->ws.choice,      &pairs,           &experts_count, &room, &b->ws.sorted,
            &b->ws.expert_tile, &b->ws.tile_count};
        code = cuda_launch(b, CUDA_sort_assignments, 1, 1, 1, 1024, 0, sort, err);
        if (code == LR_OK)
            code = prompt
                       ? cuda_launch(b, CUDA_prompt_gate_up, sms, 1, 1, CUDA_PROMPT_THREADS,
                                     CUDA_PROMPT_SHARED, up_arguments, err)
                       : cuda_launch(b, CUDA_tile_gate_up, (up.m.tiles + 7) / 8, most_tiles, 1,
                                     CUDA_TILE_THREADS, CUDA_TILE_SHARED, up_arguments, err);
        if (code == LR_OK)
            code = prompt
                       ? cuda_launch(b, CUDA_prompt_down, sms, 1, 1, CUDA_PROMPT_THREADS,
                                     CUDA_PROMPT_SHARED, down_arguments, err)
                       : cuda_launch(b, CUDA_tile_down, (down.m.tiles + 7) / 8, most_tiles, 1,
                                     CUDA_TILE_THREADS, CUDA_TILE_SHARED, down_arguments, err);
    }
    if (code != LR_OK)
        return code;
    uint32_t hidden = c->hidden, topk = c->experts_per_token;
    void *add[] = {&b->ws.residual, &b->ws.expert_out, &hidden, &topk};
    return cuda_launch(b, CUDA_add_experts, rows, 1, 1, 256, 0, add, err);
}
