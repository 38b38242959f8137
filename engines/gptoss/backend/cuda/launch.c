/* gptoss/backend/cuda/launch.c - the kernels of one step, in order.
 *
 * Few tokens (up to CUDA_SKINNY_ROWS): weights are streamed once and every kernel asks for
 * its first weights before its predecessor ends.  Many tokens: tiles of 128 by 128.
 */
#include <stdlib.h>

#include "engines/gptoss/backend/cuda/cuda.h"

enum {
    SKINNY_THREADS = 256,
    DOWN_THREADS = 512,
    TILE_THREADS = 256,
    TILE_SHARED = 4 * 2 * CUDA_TILE_TOKENS * 64,
    EXPERT_TILES = 3
};

lr_code cuda_launch(struct gptoss_backend *b, enum cuda_kernel kernel, uint32_t x, uint32_t y,
                    uint32_t z, uint32_t threads, uint32_t shared, void **arguments,
                    struct lr_error *err)
{
    CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
    /* Repacking reads what a copy brings and is read by what follows: plain order. */
    bool plain = kernel >= CUDA_repack_bf16 || b->device.major < 9;
    CUlaunchConfig config = {.gridDimX = x,
                             .gridDimY = y,
                             .gridDimZ = z,
                             .blockDimX = threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = shared,
                             .hStream = b->stream,
                             .attrs = &overlap,
                             .numAttrs = plain ? 0 : 1};
    b->launched[kernel] = true;
    CUDA_TRY(b->cu, cuLaunchKernelEx(&config, b->kernels[kernel], arguments, NULL), err);
    return LR_OK;
}

lr_code cuda_prepare_kernels(struct gptoss_backend *b, struct lr_error *err)
{
    for (int k = 0; k < CUDA_repack_bf16; k++) {
        int fixed = 0; /* static arrays */
        CUDA_TRY(b->cu,
                 cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, b->kernels[k]),
                 err);
        CUDA_TRY(b->cu,
                 cuFuncSetAttribute(b->kernels[k],
                                    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    b->device.shared_per_block - fixed),
                 err);
    }
    return cuda_prepare_prompts(b, err);
}

static uint32_t stride_of(uint32_t blocks)
{
    return blocks * 64 + (blocks % 2 == 0 ? 64 : 0); /* activation_stride of device.cuh */
}

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
        cut.shared = rows * stride_of(m->blocks) + (split ? 8192 * cut.columns : 0);
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
                           TILE_THREADS, TILE_SHARED, arguments, err);
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
                       SKINNY_THREADS, cut.shared, arguments, err);
}

lr_code cuda_launch_norm(struct gptoss_backend *b, const uint16_t *weights,
                         const struct cuda_layer *router, uint16_t *out, const uint32_t *rows,
                         uint32_t count, struct lr_error *err)
{
    const struct model_config *c = b->config;
    struct cuda_norm a = {.residual = b->ws.residual,
                          .norm = weights,
                          .out = out,
                          .rows = rows,
                          .hidden = c->hidden,
                          .count = count,
                          .eps = (float)c->rms_eps,
                          .experts = c->experts,
                          .topk = c->experts_per_token,
                          .permuted = router != NULL && cuda_is_prompt(b, count),
                          .router = router != NULL ? router->router : NULL,
                          .router_bias = router != NULL ? router->router_bias : NULL,
                          .choice = b->ws.choice,
                          .weight = b->ws.weight,
                          .logits = b->ws.router_logits,
                          .tickets = b->ws.router_tickets};
    void *arguments[] = {&a};
    if (router == NULL)
        return cuda_launch(b, CUDA_norm_only, count, 1, 1, 256, 0, arguments, err);
    /* As long as each row has multiprocessors of its own they are quicker than mma. */
    uint32_t parts = (c->experts + CUDA_ROUTER_EXPERTS - 1) / CUDA_ROUTER_EXPERTS;
    if (count * parts <= (uint32_t)b->device.multiprocessors)
        return cuda_launch(b, CUDA_norm_route, count, parts, 1, CUDA_ROUTER_EXPERTS * 32,
                           c->hidden * 4, arguments, err);
    return cuda_launch(b, c->experts <= 32 ? CUDA_norm_route_many_2 : CUDA_norm_route_many_8,
                       (count + 7) / 8, 1, 1, 256, 0, arguments, err);
}

static struct cuda_kv kv_of(const struct gptoss_backend *b, const struct cuda_layer *l)
{
    uint64_t layer_bytes = 2ull * b->config->kv_heads * CUDA_PAGE_TOKENS * 128;
    return (struct cuda_kv){
        .pages = (uint8_t *)(uintptr_t)(l->sliding ? b->window_memory : b->full_memory),
        .page_bytes = l->sliding ? b->plan.window_page_bytes : b->plan.full_page_bytes,
        .layer_offset = l->kind_index * layer_bytes,
        .kv_heads = b->config->kv_heads,
        .window = l->sliding ? b->config->window : 0,
    };
}

lr_code cuda_launch_attention(struct gptoss_backend *b, const struct cuda_layer *l,
                              const struct cuda_shape *s, struct lr_error *err)
{
    const struct model_config *c = b->config;
    uint32_t splits = s->decode_rows == 0 ? 1 : CUDA_GRAPH_ROWS / s->decode_rows;
    uint8_t *in = b->ws.inputs;
    struct cuda_attention a = {.seqs = (struct cuda_seq *)(void *)(in + b->at.seqs),
                               .tables = (uint32_t *)(void *)(in + b->at.tables),
                               .q = b->ws.q,
                               .out = b->ws.mixed,
                               .sinks = l->sinks,
                               .partial = b->ws.partial,
                               .tickets = b->ws.attention_tickets,
                               .heads = c->heads,
                               .rows = s->rows,
                               .splits = splits < 1    ? 1
                                         : splits > 16 ? 16
                                                       : splits,
                               .tokens_per_tile = cuda_query_tokens(b),
                               .tile_seq = (uint32_t *)(void *)(in + b->at.tile_seq),
                               .tile_first = (uint32_t *)(void *)(in + b->at.tile_first),
                               .tiles = s->query_tiles,
                               .kv = kv_of(b, l)};
    /* A window is a few chunks of keys: one block has them all. */
    if (l->sliding && c->window <= 512)
        a.splits = 1;
    void *arguments[] = {&a};
    lr_code code = LR_OK;
    if (s->decode_rows != 0)
        code = cuda_launch(b,
                           c->heads / c->kv_heads <= 8 && s->decode_rows > 2
                               ? CUDA_attention_decode_8
                               : CUDA_attention_decode_16,
                           a.splits, c->kv_heads, s->decode_rows, 256, 0, arguments, err);
    if (code == LR_OK && s->query_tiles != 0 && b->prompts)
        code = cuda_launch(b, CUDA_prompt_attention, s->query_tiles, c->kv_heads, 1,
                           CUDA_QUERY_THREADS, CUDA_QUERY_SHARED, arguments, err);
    else if (code == LR_OK && s->query_tiles != 0)
        code = cuda_launch(b, CUDA_attention_prefill, (s->query_tiles + 3) / 4, c->kv_heads, 1,
                           128, 0, arguments, err);
    return code;
}

/* True where expert_stream.cu has code for a matrix on this GPU. */
static bool can_stream(const struct gptoss_backend *b, const struct cuda_matrix *m)
{
    return b->device.major >= 9 && m->blocks == CUDA_STREAM_BLOCKS && m->tiles % 2 == 0 &&
           b->device.shared_per_block >= CUDA_STREAM_SHARED + 4096;
}

/* True where experts are run per (token, choice): few tokens have few experts in common.  A
 * stream is quicker from two tokens on. */
static bool is_slot_mode(const struct gptoss_backend *b, const struct cuda_layer *l,
                         uint32_t rows)
{
    bool streams = can_stream(b, &l->gate_up) && can_stream(b, &l->down);
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
    uint32_t up_stride = stride_of(up.m.blocks), down_stride = stride_of(down.m.blocks);
    lr_code code;
    if (is_slot_mode(b, l, rows)) {
        up.tiles_per_group = 1;
        code = cuda_launch(b, CUDA_skinny_gate_up_slot, (up.m.tiles + 3) / 4, pairs, 1,
                           SKINNY_THREADS, up_stride + 8192, up_arguments, err);
        if (code == LR_OK)
            code = cuda_launch(b, CUDA_skinny_down_slot, down.m.tiles, rows, 1, DOWN_THREADS,
                               c->experts_per_token * down_stride, down_arguments, err);
        return code;
    }
    if (rows <= CUDA_SKINNY_ROWS) {
        up.tiles_per_group = down.tiles_per_group = EXPERT_TILES;
        if (can_stream(b, &up.m))
            code = cuda_launch(b, CUDA_stream_gate_up, sms, 1, 1, CUDA_STREAM_THREADS,
                               CUDA_STREAM_SHARED, up_arguments, err);
        else
            code = cuda_launch(b, CUDA_skinny_gate_up_expert,
                               (up.m.tiles + 4 * EXPERT_TILES - 1) / (4 * EXPERT_TILES),
                               c->experts, 1, SKINNY_THREADS, 16 * up_stride + 16384,
                               up_arguments, err);
        if (code == LR_OK && can_stream(b, &up.m) && can_stream(b, &down.m))
            code = cuda_launch(b, CUDA_stream_down, sms, 1, 1, CUDA_STREAM_THREADS,
                               CUDA_STREAM_SHARED, down_arguments, err);
        else if (code == LR_OK)
            code = cuda_launch(b, CUDA_skinny_down_expert,
                               (down.m.tiles + 4 * EXPERT_TILES - 1) / (4 * EXPERT_TILES),
                               c->experts, 1, SKINNY_THREADS, 16 * down_stride + 16384,
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
            code = prompt ? cuda_launch(b, CUDA_prompt_gate_up, sms, 1, 1, CUDA_PROMPT_THREADS,
                                        CUDA_PROMPT_SHARED, up_arguments, err)
                          : cuda_launch(b, CUDA_tile_gate_up, (up.m.tiles + 7) / 8, most_tiles,
                                        1, TILE_THREADS, TILE_SHARED, up_arguments, err);
        if (code == LR_OK)
            code = prompt ? cuda_launch(b, CUDA_prompt_down, sms, 1, 1, CUDA_PROMPT_THREADS,
                                        CUDA_PROMPT_SHARED, down_arguments, err)
                          : cuda_launch(b, CUDA_tile_down, (down.m.tiles + 7) / 8, most_tiles,
                                        1, TILE_THREADS, TILE_SHARED, down_arguments, err);
    }
    if (code != LR_OK)
        return code;
    uint32_t hidden = c->hidden, topk = c->experts_per_token;
    void *add[] = {&b->ws.residual, &b->ws.expert_out, &hidden, &topk};
    return cuda_launch(b, CUDA_add_experts, rows, 1, 1, 256, 0, add, err);
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
        .kv = kv_of(b, l)};
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

static lr_code layer(struct gptoss_backend *b, const struct cuda_layer *l,
                     const struct cuda_shape *s, struct lr_error *err)
{
    lr_code code = cuda_launch_qkv(b, l, s->rows, err);
    if (code == LR_OK)
        code = cuda_launch_attention(b, l, s, err);
    if (code == LR_OK)
        code = cuda_launch_out(b, l, s->rows, err);
    if (code == LR_OK)
        code = cuda_launch_norm(b, l->mlp_norm, l, b->ws.normed, NULL, s->rows, err);
    if (code == LR_OK && b->trace != NULL)
        code = cuda_trace_routed(b, (uint32_t)(l - b->layers), s->rows, err);
    if (code == LR_OK)
        code = cuda_launch_experts(b, l, s->rows, err);
    return code;
}

lr_code cuda_launch_layers(struct gptoss_backend *b, const struct cuda_shape *s,
                           struct lr_error *err)
{
    if (s->rows == 1 && s->decode_rows == 1 && b->has_token && b->trace == NULL)
        return cuda_token_launch(b, err);
    uint32_t hidden = b->config->hidden;
    uint32_t *tokens = (uint32_t *)(void *)(b->ws.inputs + b->at.tokens);
    void *arguments[] = {&tokens, &b->embed, &b->ws.residual, &hidden};
    lr_code code = cuda_launch(b, CUDA_embed, s->rows, 1, 1, 256, 0, arguments, err);
    for (uint32_t i = 0; i < b->config->layers && code == LR_OK; i++)
        code = layer(b, &b->layers[i], s, err);
    return code;
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
    return code == LR_OK && s->sample ? cuda_launch_draws(b, count, err) : code;
}

lr_code cuda_launch_draws(struct gptoss_backend *b, uint32_t count, struct lr_error *err)
{
    struct cuda_sample draw = {.logits = b->ws.logits,
                               .usable = b->ws.usable,
                               .how =
                                   (struct cuda_sample_row *)(void *)(b->ws.inputs + b->at.how),
                               .best_value = b->ws.best_value,
                               .best_id = b->ws.best_id,
                               .tickets = b->ws.sample_tickets,
                               .out = b->ws.sampled,
                               .vocab = b->vocab_rows,
                               .stride = b->logit_stride};
    void *arguments[] = {&draw};
    return cuda_launch(b, CUDA_sample_plain, CUDA_SAMPLE_PARTS, count, 1, 256, 0, arguments,
                       err);
}
