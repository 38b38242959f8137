/* gptoss/backend/cuda/launch.c - launches the kernels of one step, in order. select.c chooses
 * them; products.c and experts.c fill most of their arguments. */
#include "engines/gptoss/backend/cuda/cuda.h"

lr_code cuda_launch_with(struct gptoss_backend *b, enum cuda_kernel kernel,
                         const CUlaunchConfig *config, void **arguments, struct lr_error *err)
{
    if (!b->target.has[kernel])
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
    struct cuda_target *t = &b->target;
    *t = (struct cuda_target){.multiprocessors = (uint32_t)b->device.multiprocessors,
                              .shared_per_block = (uint32_t)b->device.shared_per_block};
    for (int k = 0; k < CUDA_KERNEL_COUNT; k++) {
        CUfunction kernel = b->kernels[k];
        int made_for = 0; /* the architecture of the code's PTX: 10 times it is __CUDA_ARCH__ */
        int static_shared = 0;
        if (kernel == NULL)
            continue;
        CUDA_TRY(
            b->cu,
            cuFuncGetAttribute(&static_shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, kernel),
            err);
        CUDA_TRY(b->cu, cuFuncGetAttribute(&made_for, CU_FUNC_ATTRIBUTE_PTX_VERSION, kernel),
                 err);
        CUDA_TRY(b->cu,
                 cuFuncSetAttribute(kernel, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    b->device.shared_per_block - static_shared),
                 err);
        /* See wait_for_previous_kernel in device.cuh.  Repacking kernels depend on copies
         * before and are read by later kernels: they run in plain order. */
        bool repacks = cuda_kernel_module((enum cuda_kernel)k) == CUDA_MODULE_repack;
        b->overlaps[k] = made_for >= 90 && !repacks;
        t->has[k] = true;
        t->static_shared[k] = (uint32_t)static_shared;
    }
    return LR_OK;
}

lr_code cuda_launch_chosen(struct gptoss_backend *b, const struct cuda_choices *chosen,
                           void **const arguments[CUDA_OPERAND_COUNT], struct lr_error *err)
{
    lr_code code = LR_OK;
    for (uint32_t i = 0; i < chosen->count && code == LR_OK; i++) {
        const struct cuda_choice *k = &chosen->at[i];
        void **mine = arguments[k->operand];
        if (!cuda_target_can_run(&b->target, k->kernel, k->shared))
            return lr_fail(err, LR_INTERNAL,
                           "this GPU cannot run kernel %d with %u bytes of shared memory",
                           (int)k->kernel, k->shared);
        if (k->operand == CUDA_ON_PRODUCT || k->operand == CUDA_ON_UP ||
            k->operand == CUDA_ON_DOWN) {
            struct cuda_gemm *a = mine[0];
            a->tiles_per_group = k->tiles_per_group;
            a->tile_tokens = k->tile_tokens;
            a->splits = k->splits;
            a->parts = b->ws.slice_parts;
            a->tickets = b->ws.slice_tickets;
        }
        code = cuda_launch(b, k->kernel, k->x, k->y, k->z, k->threads, k->shared, mine, err);
    }
    return code;
}

struct cuda_norm cuda_norm_of(const struct gptoss_backend *b, const uint16_t *weights,
                              const struct cuda_layer *router, uint16_t *out,
                              const uint32_t *rows, uint32_t count)
{
    const struct model_config *c = b->config;
    return (struct cuda_norm){
        .residual = b->ws.residual,
        .norm = weights,
        .out = out,
        .rows = rows,
        .hidden = c->hidden,
        .count = count,
        .eps = (float)c->rms_eps,
        .experts = c->experts,
        .topk = c->experts_per_token,
        .permuted = router != NULL &&
                    cuda_experts_permute(&b->target, c, &router->gate_up, &router->down, count),
        .router = router != NULL ? router->router : NULL,
        .router_bias = router != NULL ? router->router_bias : NULL,
        .choice = b->ws.choice,
        .weight = b->ws.weight,
        .logits = b->ws.router_logits,
        .tickets = b->ws.router_tickets};
}

lr_code cuda_launch_norm(struct gptoss_backend *b, const uint16_t *weights,
                         const struct cuda_layer *router, uint16_t *out, const uint32_t *rows,
                         uint32_t count, struct lr_error *err)
{
    const struct cuda_choices chosen =
        cuda_select_norm(&b->target, b->config, router != NULL, count);
    struct cuda_norm norm = cuda_norm_of(b, weights, router, out, rows, count);
    void *norm_arguments[] = {&norm};
    void **const arguments[CUDA_OPERAND_COUNT] = {[CUDA_ON_NORM] = norm_arguments};
    return cuda_launch_chosen(b, &chosen, arguments, err);
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
    const struct cuda_choices chosen = cuda_select_attention(
        &b->target, c, l->sliding, s->decode_rows, s->parts, s->query_tiles);
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
                               .splits = chosen.at[0].splits,
                               .tokens_per_tile = cuda_target_query_tokens(&b->target, c),
                               .tile_seq = (uint32_t *)(void *)(in + b->at.tile_seq),
                               .tile_first = (uint32_t *)(void *)(in + b->at.tile_first),
                               .tiles = s->query_tiles,
                               .singles = s->decode_rows,
                               .parts = (uint32_t *)(void *)(in + b->at.parts),
                               .kv = cuda_kv_of(b, l)};
    void *own[] = {&a};
    void **const arguments[CUDA_OPERAND_COUNT] = {[CUDA_ON_ATTENTION] = own};
    return cuda_launch_chosen(b, &chosen, arguments, err);
}

/* True when the kernel that adds up a layer's experts normalizes the rows for the next layer.
 */
static bool norms_ahead(const struct gptoss_backend *b, uint32_t rows)
{
    const struct cuda_layer *l = &b->layers[0];
    const struct cuda_choices experts = cuda_select_experts(&b->target, b->config, &l->gate_up,
                                                            &l->down, rows),
                              qkv = cuda_select_qkv(&b->target, &l->qkv, rows);
    return experts.at[experts.count - 1].operand == CUDA_ON_SUM && qkv.count == 2;
}

/* True when all of a layer but its experts is one kernel. */
static bool attends(const struct gptoss_backend *b, const struct cuda_shape *s)
{
    return s->rows <= b->attend_rows && s->decode_rows == s->rows && b->trace == NULL;
}

/* normed: the layer before has normalized the rows; next_norm: for the next layer, or NULL. */
static lr_code layer(struct gptoss_backend *b, const struct cuda_layer *l,
                     const struct cuda_shape *s, bool normed, const uint16_t *next_norm,
                     struct lr_error *err)
{
    if (attends(b, s)) {
        lr_code done =
            normed ? LR_OK
                   : cuda_launch_norm(b, l->attn_norm, NULL, b->ws.normed, NULL, s->rows, err);
        if (done == LR_OK)
            done = cuda_attend_launch(b, (uint32_t)(l - b->layers), s->rows, err);
        return done == LR_OK ? cuda_launch_experts(b, l, s->rows, next_norm, err) : done;
    }
    lr_code code = cuda_launch_qkv(b, l, s->rows, normed, err);
    if (code == LR_OK)
        code = cuda_launch_attention(b, l, s, err);
    if (code == LR_OK)
        code = cuda_launch_out(b, l, s->rows, err);
    if (code == LR_OK)
        code = cuda_launch_norm(b, l->mlp_norm, l, b->ws.normed, NULL, s->rows, err);
    if (code == LR_OK && b->trace != NULL)
        code = cuda_trace_routed(b, (uint32_t)(l - b->layers), s->rows, err);
    if (code == LR_OK)
        code = cuda_launch_experts(b, l, s->rows, next_norm, err);
    return code;
}

lr_code cuda_launch_layers(struct gptoss_backend *b, const struct cuda_shape *s,
                           struct lr_error *err)
{
    if (s->rows != 0 && s->rows <= b->token_rows && s->decode_rows == s->rows &&
        b->trace == NULL)
        return cuda_token_launch(b, s->rows, err);
    uint32_t hidden = b->config->hidden;
    uint32_t *tokens = (uint32_t *)(void *)(b->ws.inputs + b->at.tokens);
    void *arguments[] = {&tokens, &b->embed, &b->ws.residual, &hidden};
    lr_code code = cuda_launch(b, CUDA_embed, s->rows, 1, 1, 256, 0, arguments, err);
    bool ahead = norms_ahead(b, s->rows);
    for (uint32_t i = 0; i < b->config->layers && code == LR_OK; i++)
        code =
            layer(b, &b->layers[i], s, ahead && i != 0,
                  ahead && i + 1 < b->config->layers ? b->layers[i + 1].attn_norm : NULL, err);
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
        .out = b->sampled->ids[0],
        .turn = (uint32_t *)(void *)(b->ws.inputs + b->at.turn),
        .tokens = (uint32_t *)(void *)(b->ws.inputs + b->at.tokens),
        .vocab = b->vocab_rows,
        .stride = b->logit_stride};
    void *arguments[] = {&sample};
    return cuda_launch(b, CUDA_sample_plain, CUDA_SAMPLE_PARTS, count, 1, 256, 0, arguments,
                       err);
}
