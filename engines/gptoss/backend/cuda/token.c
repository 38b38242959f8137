/* gptoss/backend/cuda/token.c - the persistent kernels for a step of one token and of two
 * (token.cu): where they can run, their memory and their launch.  Where they cannot run,
 * launch.c's kernels do the same. */
#include <stdlib.h>
#include <string.h>

#include "engines/gptoss/backend/cuda/cuda.h"

enum { TOKEN_THREADS = 12 * 32 };

uint64_t cuda_token_place(struct token_args all[TOKEN_SETS], const struct model_config *c,
                          uint64_t base)
{
    uint64_t used = 0;
    memset(all, 0, TOKEN_SETS * sizeof(*all));
    if (!cuda_fits_token(c))
        return 0;
    for (uint32_t i = 0; i < TOKEN_SETS; i++) {
        struct token_args *a = &all[i];
        const uint64_t rows = 1u << i;
#define PLACE(member, bytes)                                                                   \
    a->member = (void *)(uintptr_t)(base + used);                                              \
    used = (used + (bytes) + 255) / 256 * 256
        PLACE(layers, c->layers * sizeof(struct token_layer));
        PLACE(qkv_sums, 2 * rows * TOKEN_QKV_ROWS * 4);
        PLACE(out_sums, 2 * rows * TOKEN_HIDDEN * 4);
        PLACE(down_sums, 2 * rows * TOKEN_HIDDEN * 4);
        PLACE(router_sums, rows * TOKEN_SMS_MAX * c->experts * 4);
        PLACE(mixed, rows * TOKEN_HEADS * CUDA_HEAD_DIM * 4);
        PLACE(inner, rows * TOKEN_TOPK * TOKEN_INNER * 2);
        PLACE(partial, rows * TOKEN_HEADS * TOKEN_SPLITS * (CUDA_HEAD_DIM + 2) * 4);
        PLACE(tickets, rows * TOKEN_KV_HEADS * 4);
        PLACE(sync, 3 * 4);
#undef PLACE
    }
    return used;
}

static struct token_layer token_describe(const struct gptoss_backend *b,
                                         const struct cuda_layer *l)
{
    uint64_t layer_bytes = 2ull * TOKEN_KV_HEADS * CUDA_PAGE_TOKENS * CUDA_HEAD_DIM * 2;
    CUdeviceptr pages = l->sliding ? b->window_memory : b->full_memory;
    return (struct token_layer){
        .qkv = l->qkv.weights,
        .out = l->out.weights,
        .up = l->gate_up.weights,
        .up_scales = l->gate_up.scales,
        .down = l->down.weights,
        .down_scales = l->down.scales,
        .qkv_bias = l->qkv.bias,
        .out_bias = l->out.bias,
        .up_bias = l->gate_up.bias,
        .down_bias = l->down.bias,
        .attn_norm = l->attn_norm,
        .mlp_norm = l->mlp_norm,
        .sinks = l->sinks,
        .router = l->router,
        .router_bias = l->router_bias,
        .keys = (uint8_t *)(uintptr_t)(pages + l->kind_index * layer_bytes),
        .page_bytes = l->sliding ? b->plan.window_page_bytes : b->plan.full_page_bytes,
        .window = l->sliding ? b->config->window : 0,
    };
}

static lr_code open_one(struct gptoss_backend *b, struct token_args *a, struct lr_error *err)
{
    const struct model_config *c = b->config;
    uint8_t *in = b->ws.inputs;
    a->layer_count = c->layers;
    a->experts = c->experts;
    a->eps = (float)c->rms_eps;
    a->limit = (float)c->swiglu_limit;
    a->embed = b->embed;
    a->token = (uint32_t *)(void *)(in + b->at.tokens);
    if (b->host_embed != NULL) {
        a->embed = (uint16_t *)(void *)(in + b->at.embedding);
        a->token = (uint32_t *)(void *)(in + b->at.embedding + TOKEN_ROW_BYTES);
    }
    a->rope = b->rope;
    a->seq = (struct cuda_seq *)(void *)(in + b->at.seqs);
    a->tables = (uint32_t *)(void *)(in + b->at.tables);
    a->slot_full = (uint32_t *)(void *)(in + b->at.row_full);
    a->slot_window = (uint32_t *)(void *)(in + b->at.row_window);
    a->residual = b->ws.residual;
    struct token_layer *layers = calloc(c->layers, sizeof(*layers));
    if (layers == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for %u layers", c->layers);
    for (uint32_t i = 0; i < c->layers; i++)
        layers[i] = token_describe(b, &b->layers[i]);
    CUresult copied = b->cu->cuMemcpyHtoDAsync((CUdeviceptr)(uintptr_t)a->layers, layers,
                                               c->layers * sizeof(*layers), b->stream);
    if (copied == CUDA_SUCCESS)
        copied = b->cu->cuStreamSynchronize(b->stream);
    free(layers);
    return copied == CUDA_SUCCESS ? LR_OK : cuda_fail(b->cu, copied, "the layers' table", err);
}

lr_code cuda_token_open(struct gptoss_backend *b, struct lr_error *err)
{
    lr_code code = LR_OK;
    b->token_rows = cuda_target_token_rows(&b->target, b->config);
    b->attend_rows = cuda_target_attend_rows(&b->target, b->config);
    for (uint32_t i = 0; i < TOKEN_SETS && b->token_rows != 0 && code == LR_OK; i++)
        code = open_one(b, &b->token[i], err);
    /* The inputs have room for one row of an embedding table in host memory. */
    if (b->host_embed != NULL && b->token_rows > 1)
        b->token_rows = 1;
    return code;
}

/* All blocks wait for each other, so there are as many as multiprocessors. */
static CUlaunchConfig config_of(const struct gptoss_backend *b, uint32_t shared,
                                CUlaunchAttribute *attribute)
{
    return (CUlaunchConfig){.gridDimX = (uint32_t)b->device.multiprocessors,
                            .gridDimY = 1,
                            .gridDimZ = 1,
                            .blockDimX = TOKEN_THREADS,
                            .blockDimY = 1,
                            .blockDimZ = 1,
                            .sharedMemBytes = shared,
                            .hStream = b->stream,
                            .attrs = attribute,
                            .numAttrs = 1};
}

lr_code cuda_attend_launch(struct gptoss_backend *b, uint32_t layer, uint32_t rows,
                           struct lr_error *err)
{
    const bool small = rows <= 4;
    /* It may start before the kernel ahead of it ends; then all of its blocks are resident
     * before the next kernel starts. */
    CUlaunchAttribute overlap = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                 .value.programmaticStreamSerializationAllowed = 1};
    CUlaunchConfig config = config_of(b, small ? ATTEND_DYNAMIC_4 : ATTEND_DYNAMIC_8, &overlap);
    struct attend_args a = {.t = b->token[small ? 2 : 3],
                            .rows = rows,
                            .layer = layer,
                            .normed = b->ws.normed,
                            .choice = b->ws.choice,
                            .weight = b->ws.weight};
    void *arguments[] = {&a};
    return cuda_launch_with(b, small ? CUDA_attend_layer_4 : CUDA_attend_layer_8, &config,
                            arguments, err);
}

lr_code cuda_token_launch(struct gptoss_backend *b, uint32_t rows, struct lr_error *err)
{
    static const struct {
        enum cuda_kernel kernel;
        uint32_t shared;
    } of[TOKEN_ROWS_MAX] = {{CUDA_token_layers, TOKEN_DYNAMIC},
                            {CUDA_token_layers_2, TOKEN_DYNAMIC_2}};
    CUlaunchAttribute together = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                                  .value.cooperative = 1};
    CUlaunchConfig config = config_of(b, of[rows - 1].shared, &together);
    void *arguments[] = {&b->token[rows - 1]};
    return cuda_launch_with(b, of[rows - 1].kernel, &config, arguments, err);
}
