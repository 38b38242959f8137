/* gptoss/backend/cuda/launch.c - the kernels of one step, in order; products.c and experts.c
 * launch the larger part of them.
 */
#include "engines/gptoss/backend/cuda/cuda.h"

lr_code cuda_launch_with(struct gptoss_backend *b, enum cuda_kernel kernel,
                         const CUlaunchConfig *config, void **arguments, struct lr_error *err)
{
    if (!cuda_has(b, kernel))
        return lr_fail(err, LR_INTERNAL, "the code for %s has no kernel %s", b->device.name,
                       cuda_kernel_name(kernel));
    b->launched[kernel] = true;
    CUDA_TRY(b->cu, cuLaunchKernelEx(config, b->kernels[kernel], arguments, NULL), err);
    return LR_OK;
}

lr_code cuda_launch(struct gptoss_backend *b, enum cuda_kernel kernel, uint32_t x, uint32_t y,
                    uint32_t z, uint32_t threads, uint32_t shared, void **arguments,
                    struct lr_error *err)
{
    CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = {.gridDimX = x,
                             .gridDimY = y,
                             .gridDimZ = z,
                             .blockDimX = threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = shared,
                             .hStream = b->stream,
                             .attrs = &overlap,
                             .numAttrs = b->overlaps[kernel] ? 1 : 0};
    return cuda_launch_with(b, kernel, &config, arguments, err);
}

lr_code cuda_prepare_kernels(struct gptoss_backend *b, struct lr_error *err)
{
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++) {
        CUfunction kernel = b->kernels[k];
        int made_for = 0; /* the architecture of the code's PTX: 10 times it is __CUDA_ARCH__ */
        if (kernel == NULL)
            continue;
        CUDA_TRY(b->cu,
                 cuFuncGetAttribute(&b->static_shared[k], CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                    kernel),
                 err);
        CUDA_TRY(b->cu, cuFuncGetAttribute(&made_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel),
                 err);
        CUDA_TRY(b->cu,
                 cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    b->device.shared_per_block - b->static_shared[k]),
                 err);
        /* As device.cuh's wait_for_previous_kernel.  Repacking reads what a copy brings and is
         * read by what follows: plain order. */
        bool repacks = k >= CUDA_repack_bf16 && k <= CUDA_read_memory;
        b->overlaps[k] = made_for >= 90 && !repacks;
    }
    return LR_OK;
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

struct cuda_kv cuda_kv_of(const struct gptoss_backend *b, const struct cuda_layer *l)
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
                               .kv = cuda_kv_of(b, l)};
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
    if (code == LR_OK && s->query_tiles != 0 && cuda_has_prompts(b))
        code = cuda_launch(b, CUDA_prompt_attention, s->query_tiles, c->kv_heads, 1,
                           CUDA_QUERY_THREADS, CUDA_QUERY_SHARED, arguments, err);
    else if (code == LR_OK && s->query_tiles != 0)
        code = cuda_launch(b, CUDA_attention_prefill, (s->query_tiles + 3) / 4, c->kv_heads, 1,
                           128, 0, arguments, err);
    return code;
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

lr_code cuda_launch_sampling(struct gptoss_backend *b, uint32_t count, struct lr_error *err)
{
    struct cuda_sample sample = {
        .logits = b->ws.logits,
        .usable = b->ws.usable,
        .how = (struct cuda_sample_row *)(void *)(b->ws.inputs + b->at.how),
        .best_value = b->ws.best_value,
        .best_id = b->ws.best_id,
        .tickets = b->ws.sample_tickets,
        .out = b->sampled->ids,
        .vocab = b->vocab_rows,
        .stride = b->logit_stride};
    void *arguments[] = {&sample};
    return cuda_launch(b, CUDA_sample_plain, CUDA_SAMPLE_PARTS, count, 1, 256, 0, arguments,
                       err);
}
