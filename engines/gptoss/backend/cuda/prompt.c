/* gptoss/backend/cuda/prompt.c - when and how the Hopper kernels of prompts (prompt.cu,
 * prompt_attention.cu) are launched. */
#include "engines/gptoss/backend/cuda/cuda.h"

lr_code cuda_prepare_prompts(struct gptoss_backend *b, struct lr_error *err)
{
    /* Code for other GPUs has empty kernels, which have no barriers in shared memory. */
    int barriers = 0;
    CUDA_TRY(b->cu,
             cuFuncGetAttribute(&barriers, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES,
                                b->kernels[CUDA_prompt_attention]),
             err);
    b->prompts = barriers != 0 && b->device.major == 9 &&
                 b->device.shared_per_block >= CUDA_DENSE_SHARED + 8192;
    return LR_OK;
}

bool cuda_is_prompt(const struct gptoss_backend *b, uint32_t rows)
{
    return b->prompts && rows > CUDA_SKINNY_ROWS;
}

uint32_t cuda_query_tokens(const struct gptoss_backend *b)
{
    uint32_t group = b->config->heads / b->config->kv_heads;
    return b->prompts ? CUDA_QUERY_GROUPS * (64 / group) : 16 / group;
}

/* Tokens of a tile such that the tiles, dealt to all multiprocessors, end soonest. */
static uint32_t best_tile(uint32_t row_blocks, uint32_t tokens, uint32_t sms)
{
    enum { FIXED = 64 }; /* what a tile costs beside its tokens, in tokens */
    uint32_t best = 0, best_cost = UINT32_MAX;
    for (uint32_t n = 32; n <= CUDA_DENSE_TOKENS; n += 32) {
        uint32_t tiles = (tokens + n - 1) / n * row_blocks;
        uint32_t cost = (tiles + sms - 1) / sms * (n + FIXED);
        if (cost <= best_cost) {
            best = n;
            best_cost = cost;
        }
    }
    return best;
}

lr_code cuda_launch_prompt_dense(struct gptoss_backend *b, struct cuda_gemm *a,
                                 enum cuda_kernel kernel, struct lr_error *err)
{
    uint32_t row_blocks = (a->m.tiles * 16 + CUDA_DENSE_ROWS - 1) / CUDA_DENSE_ROWS;
    uint32_t sms = (uint32_t)b->device.multiprocessors;
    void *arguments[] = {a};
    a->tile_tokens = best_tile(row_blocks, a->tokens, sms);
    return cuda_launch(b, kernel, sms, 1, 1, CUDA_DENSE_THREADS, CUDA_DENSE_SHARED, arguments,
                       err);
}
