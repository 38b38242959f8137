/* gptoss/backend/cuda/prompt.cu - the experts of a prompt on Hopper (prompt.cuh).
 *
 * Blocks of 192 rows divide 2,880 and 5,760 evenly.  Precision: bf16 products, float32 sums,
 * each in a fixed order.  Bound: tensor cores.  Code for other GPUs does not have these
 * kernels.
 */
#include "engines/gptoss/backend/cuda/prompt.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* Expert tiles, then row blocks: neighbouring blocks share activations. */
template <bool BY_ASSIGNMENT> struct expert_work {
    uint32_t row_blocks, total;

    __device__ __forceinline__ expert_work(const cuda_gemm &a)
    {
        row_blocks = (a.m.tiles * 16 + CUDA_PROMPT_ROWS - 1) / CUDA_PROMPT_ROWS;
        total = row_blocks * *a.tile_count;
    }
    __device__ __forceinline__ prompt_work get(const cuda_gemm &a, uint32_t index) const
    {
        const uint4 entry = reinterpret_cast<const uint4 *>(a.expert_tile)[index / row_blocks];
        return {static_cast<const uint8_t *>(a.m.weights) + entry.x * a.m.expert_weights,
                static_cast<const uint8_t *>(a.m.scales) + entry.x * a.m.expert_scales,
                index % row_blocks,
                entry.x,
                entry.y,
                entry.z,
                entry.w};
    }
    __device__ __forceinline__ uint32_t row(const cuda_gemm &a, const prompt_work &w,
                                            uint32_t i) const
    {
        return a.sorted[w.first + i];
    }
    __device__ __forceinline__ uint32_t source(const cuda_gemm &a, uint32_t row) const
    {
        return BY_ASSIGNMENT ? row : row / a.topk;
    }
};

#define BODY(weights, epilogue, work)                                                          \
    let_next_kernel_start();                                                                   \
    wait_for_previous_kernel();                                                                \
    prompt_run<weights, epilogue>(a, work(a))

/* grid: at most one block a multiprocessor. */
#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_PROMPT_THREADS, 1)

KERNEL prompt_gate_up(const __grid_constant__ cuda_gemm a)
{
    BODY(prompt_mxfp4, prompt_swiglu, expert_work<false>);
}

KERNEL prompt_down(const __grid_constant__ cuda_gemm a)
{
    BODY(prompt_mxfp4, prompt_down_rows, expert_work<true>);
}

#endif
