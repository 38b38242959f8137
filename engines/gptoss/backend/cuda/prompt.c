/* gptoss/backend/cuda/prompt.c - when and how the Hopper kernels of prompts (prompt.cu,
 * prompt_attention.cu) are launched. */
#include "engines/gptoss/backend/cuda/cuda.h"

bool cuda_has_prompts(const struct gptoss_backend *b)
{
    return cuda_can_run(b, CUDA_prompt_qkv, CUDA_DENSE_SHARED) &&
           cuda_can_run(b, CUDA_prompt_out, CUDA_DENSE_SHARED) &&
           cuda_can_run(b, CUDA_prompt_gate_up, CUDA_PROMPT_SHARED) &&
           cuda_can_run(b, CUDA_prompt_down, CUDA_PROMPT_SHARED) &&
           cuda_can_run(b, CUDA_prompt_attention, CUDA_QUERY_SHARED);
}

bool cuda_is_prompt(const struct gptoss_backend *b, uint32_t rows)
{
    return cuda_has_prompts(b) && rows > CUDA_SKINNY_ROWS;
}

uint32_t cuda_query_tokens(const struct gptoss_backend *b)
{
    uint32_t group = b->config->heads / b->config->kv_heads;
    return cuda_has_prompts(b) ? CUDA_QUERY_GROUPS * (64 / group) : 16 / group;
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
