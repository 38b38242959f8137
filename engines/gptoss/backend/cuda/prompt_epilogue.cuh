/* gptoss/backend/cuda/prompt_epilogue.cuh - what is done with the sums of a product of a
 * prompt.
 *
 * As in epilogue.cuh, a lane has rows g and g + 8 of a 16-row tile, here for all columns of the
 * tile at once: sums[4 j + c] and sums[4 j + 2 + c] belong to column 8 j + 2 t + c.  A column's
 * data (destination, routing weight) is staged in shared memory while the weights are loaded; a
 * load between two stores would wait for memory each time.
 */
#ifndef GPTOSS_CUDA_PROMPT_EPILOGUE_CUH
#define GPTOSS_CUDA_PROMPT_EPILOGUE_CUH

#include "engines/gptoss/backend/cuda/epilogue.cuh"

struct prompt_columns {
    uint32_t row[CUDA_DENSE_TOKENS]; /* the column's token or assignment */
    union {
        float weight[CUDA_DENSE_TOKENS];
        uint32_t position[CUDA_DENSE_TOKENS];
    };
    uint32_t slot[CUDA_DENSE_TOKENS];
};

/* A lane's position: its warp's tile, and its rows and columns in the tile. */
struct prompt_place {
    uint32_t tile, g, t;
    uint32_t count; /* columns */
    uint32_t first; /* column of the first sum, in dense products */
};

/* Rows g & ~1 and the next, of column 2 t + (g & 1), as a pair of bf16: neighbours exchange. */
__device__ __forceinline__ uint32_t pair_rows(float first, float second, uint32_t g)
{
    float other = __shfl_xor_sync(0xFFFFFFFFu, g % 2 == 0 ? second : first, 4);
    return g % 2 == 0 ? pack_bf16(first, other) : pack_bf16(other, second);
}

/* Attention output: bias, added to the residual.  No other thread adds to these elements, and
 * an addition without a returned value saves the round trip. */
struct prompt_residual {
    static __device__ __forceinline__ void stage(const cuda_gemm &, prompt_columns &, uint32_t)
    {
    }
    template <int N>
    static __device__ __forceinline__ void put(const cuda_gemm &a,
                                               const prompt_columns &columns, prompt_place p,
                                               uint32_t, const float *sums, uint8_t *)
    {
        early_bias bias = residual_epilogue::early(a, p.tile, p.g, 0);
        const bool low = p.tile * 16 + p.g < a.m.rows, high = p.tile * 16 + p.g + 8 < a.m.rows;
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            uint32_t at = p.first + i / 2 * 8 + 2 * p.t + i % 2;
            if (at >= p.count)
                continue;
            float *out = a.out_f32 + (size_t)columns.row[at] * a.out_stride + p.tile * 16 + p.g;
            if (low)
                atomicAdd(out, sums[i / 2 * 4 + i % 2] + bias.low);
            if (high)
                atomicAdd(out + 8, sums[i / 2 * 4 + 2 + i % 2] + bias.high);
        }
    }
};

/* Logits: set, not added. */
struct prompt_logit_rows {
    static __device__ __forceinline__ void stage(const cuda_gemm &, prompt_columns &, uint32_t)
    {
    }
    template <int N>
    static __device__ __forceinline__ void put(const cuda_gemm &a,
                                               const prompt_columns &columns, prompt_place p,
                                               uint32_t, const float *sums, uint8_t *)
    {
        const bool low = p.tile * 16 + p.g < a.m.rows, high = p.tile * 16 + p.g + 8 < a.m.rows;
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            uint32_t at = p.first + i / 2 * 8 + 2 * p.t + i % 2;
            if (at >= p.count)
                continue;
            float *out = a.out_f32 + (size_t)columns.row[at] * a.out_stride + p.tile * 16 + p.g;
            if (low)
                __stcs(out, sums[i / 2 * 4 + i % 2]);
            if (high)
                __stcs(out + 8, sums[i / 2 * 4 + 2 + i % 2]);
        }
    }
};

/* Down projection of an expert: weighted bias, one row per assignment. */
struct prompt_down_rows {
    static __device__ __forceinline__ void stage(const cuda_gemm &a, prompt_columns &columns,
                                                 uint32_t i)
    {
        columns.weight[i] = a.weight[columns.row[i]];
    }
    template <int N>
    static __device__ __forceinline__ void put(const cuda_gemm &a,
                                               const prompt_columns &columns, prompt_place p,
                                               uint32_t expert, const float *sums, uint8_t *)
    {
        early_bias bias = expert_bias(a, p.tile, p.g, expert);
        const bool low = p.tile * 16 + p.g < a.m.rows, high = p.tile * 16 + p.g + 8 < a.m.rows;
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            uint32_t at = i / 2 * 8 + 2 * p.t + i % 2;
            if (at >= p.count)
                continue;
            float w = columns.weight[at];
            float *out = a.out_f32 + (size_t)columns.row[at] * a.out_stride + p.tile * 16 + p.g;
            if (low)
                out[0] = sums[i / 2 * 4 + i % 2] + w * bias.low;
            if (high)
                out[8] = sums[i / 2 * 4 + 2 + i % 2] + w * bias.high;
        }
    }
};

/* Gate and up: SwiGLU times the routing weight, in the column order of the next product.  The
 * four warps of a warpgroup hold one block of 32 columns: 64 bytes a token, assembled in shared
 * memory. */
struct prompt_swiglu {
    static __device__ __forceinline__ void stage(const cuda_gemm &a, prompt_columns &columns,
                                                 uint32_t i)
    {
        columns.weight[i] = a.weight[columns.row[i]];
    }
    template <int N>
    static __device__ __forceinline__ void
    put(const cuda_gemm &a, const prompt_columns &columns, prompt_place p, uint32_t expert,
        const float *sums, uint8_t *staging)
    {
        early_bias bias = expert_bias(a, p.tile, p.g, expert);
        uint32_t *to = reinterpret_cast<uint32_t *>(staging) + p.g / 2 * 4 + p.tile % 4;
#pragma unroll
        for (int j = 0; j < N / 8; j++) {
            float h[2];
#pragma unroll
            for (int c = 0; c < 2; c++)
                h[c] = swiglu(sums[4 * j + c] + bias.low, sums[4 * j + 2 + c] + bias.high,
                              a.limit) *
                       columns.weight[8 * j + 2 * p.t + c];
            to[(8 * j + 2 * p.t + p.g % 2) * 16] = pair_rows(h[0], h[1], p.g);
        }
        asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
        for (uint32_t i = threadIdx.x % 128; i < p.count * 4; i += 128) {
            uint16_t *out = a.out_bf16 + (size_t)columns.row[i / 4] * a.out_stride;
            reinterpret_cast<uint4 *>(out + p.tile / 4 * 32)[i % 4] =
                reinterpret_cast<const uint4 *>(staging)[i];
        }
    }
};

/* q, k, v: bias, RoPE on q and k, q to its row, k and v to their page. */
struct prompt_qkv_rows {
    enum { BATCH = 2 }; /* looked up together */
    static __device__ __forceinline__ void stage(const cuda_gemm &a, prompt_columns &columns,
                                                 uint32_t i)
    {
        columns.position[i] = a.row_pos[columns.row[i]];
        columns.slot[i] = a.row_slot[columns.row[i]];
    }
    template <int N>
    static __device__ __forceinline__ void put(const cuda_gemm &a,
                                               const prompt_columns &columns, prompt_place p,
                                               uint32_t, const float *sums, uint8_t *)
    {
        early_bias bias = qkv_epilogue::early(a, p.tile, p.g, 0);
        const uint32_t head = p.tile / 4, d = p.tile % 4 * 8;
        const bool rotate = head < a.heads + a.kv.kv_heads;
        const float2 *rope = reinterpret_cast<const float2 *>(a.rope) + d + p.g;
#pragma unroll
        for (int first = 0; first < N / 8; first += BATCH) {
            float2 r[BATCH][2];
#pragma unroll
            for (int i = 0; i < 2 * BATCH; i++) {
                uint32_t at = p.first + (first + i / 2) * 8 + 2 * p.t + i % 2;
                r[i / 2][i % 2] = rotate && at < p.count
                                      ? __ldg(rope + (size_t)columns.position[at] * 32)
                                      : make_float2(1, 0);
            }
#pragma unroll
            for (int i = 0; i < BATCH; i++) {
                const int j = first + i;
                if (j >= N / 8)
                    break;
                float low[2], high[2];
#pragma unroll
                for (int c = 0; c < 2; c++) {
                    float x = sums[4 * j + c] + bias.low, y = sums[4 * j + 2 + c] + bias.high;
                    low[c] = x * r[i][c].x - y * r[i][c].y;
                    high[c] = y * r[i][c].x + x * r[i][c].y;
                }
                uint32_t first_half = pair_rows(low[0], low[1], p.g),
                         second_half = pair_rows(high[0], high[1], p.g);
                uint32_t at = p.first + j * 8 + 2 * p.t + p.g % 2;
                if (at >= p.count)
                    continue;
                uint32_t *out = reinterpret_cast<uint32_t *>(row_of(a, columns, head, at) + d +
                                                             (p.g & ~1u));
                out[0] = first_half;
                out[16] = second_half;
            }
        }
    }
    static __device__ __forceinline__ uint16_t *
    row_of(const cuda_gemm &a, const prompt_columns &columns, uint32_t head, uint32_t at)
    {
        if (head < a.heads)
            return a.out_bf16 + (size_t)columns.row[at] * a.out_stride + head * 64;
        uint32_t slot = columns.slot[at];
        return reinterpret_cast<uint16_t *>(
                   a.kv.pages + slot / CUDA_PAGE_TOKENS * a.kv.page_bytes + a.kv.layer_offset) +
               ((size_t)(head - a.heads) * CUDA_PAGE_TOKENS + slot % CUDA_PAGE_TOKENS) * 64;
    }
};

#endif
