/* gptoss/backend/cuda/epilogue.cuh - what happens to a product's sums.
 *
 * An epilogue gets, per lane, the sums of rows g and g + 8 of a 16-row tile for one column
 * (a token, or an assignment of a token to an expert).  Each struct is one consumer; both
 * the skinny and the tile product call them.
 */
#ifndef GPTOSS_CUDA_EPILOGUE_CUH
#define GPTOSS_CUDA_EPILOGUE_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

/* q, k, v: bias, RoPE on q and k, q to a row of its own, k and v to their page.  Rows g and
 * g + 8 are dimensions d and d + 32 of one head. */
struct qkv_epilogue {
    static constexpr bool experts = false;
    static __device__ __forceinline__ void put(const cuda_gemm &a, uint32_t tile, uint32_t g,
                                               uint32_t row, uint32_t, float low, float high)
    {
        const cuda_step step = *a.step;
        uint32_t seq = step.row_seq[row];
        if (seq == UINT32_MAX)
            return;
        low += from_bf16(a.m.bias[tile * 16 + g]);
        high += from_bf16(a.m.bias[tile * 16 + g + 8]);
        uint32_t head = tile / 4, d = tile % 4 * 8 + g;
        uint32_t position = step.row_pos[row];
        if (head < a.heads + a.kv.kv_heads) {
            float2 r = reinterpret_cast<const float2 *>(a.rope)[(size_t)position * 32 + d];
            float rotated = low * r.x - high * r.y;
            high = high * r.x + low * r.y;
            low = rotated;
        }
        uint16_t *out;
        if (head < a.heads) {
            out = a.out_bf16 + (size_t)row * a.out_stride + head * 64;
        } else {
            const cuda_seq s = step.seqs[seq];
            uint32_t entry = s.table_start + position / CUDA_PAGE_TOKENS +
                             (a.kv.window != 0 ? s.table_count : 0);
            uint32_t part = head - a.heads; /* K heads, then V heads */
            out = reinterpret_cast<uint16_t *>(a.kv.pages + step.tables[entry] * a.kv.page_bytes +
                                               a.kv.layer_offset) +
                  ((size_t)part * CUDA_PAGE_TOKENS + position % CUDA_PAGE_TOKENS) * 64;
        }
        out[d] = to_bf16(low);
        out[d + 32] = to_bf16(high);
    }
};

/* Attention output: bias, added to the residual. */
struct residual_epilogue {
    static constexpr bool experts = false;
    static __device__ __forceinline__ void put(const cuda_gemm &a, uint32_t tile, uint32_t g,
                                               uint32_t row, uint32_t, float low, float high)
    {
        float *out = a.out_f32 + (size_t)row * a.out_stride + tile * 16;
        if (tile * 16 + g < a.m.rows)
            out[g] += low + from_bf16(a.m.bias[tile * 16 + g]);
        if (tile * 16 + g + 8 < a.m.rows)
            out[g + 8] += high + from_bf16(a.m.bias[tile * 16 + g + 8]);
    }
};

struct logits_epilogue {
    static constexpr bool experts = false;
    static __device__ __forceinline__ void put(const cuda_gemm &a, uint32_t tile, uint32_t g,
                                               uint32_t row, uint32_t, float low, float high)
    {
        float *out = a.out_f32 + (size_t)row * a.out_stride + tile * 16;
        if (tile * 16 + g < a.m.rows)
            out[g] = low;
        if (tile * 16 + g + 8 < a.m.rows)
            out[g + 8] = high;
    }
};

/* Gate and up of an expert: bias, clamped SwiGLU, times the routing weight, so that the
 * outputs of a token's experts need only be added. */
struct swiglu_epilogue {
    static constexpr bool experts = true;
    static __device__ __forceinline__ void put(const cuda_gemm &a, uint32_t tile, uint32_t g,
                                               uint32_t assignment, uint32_t expert, float low,
                                               float high)
    {
        if (tile * 16 + g >= a.m.rows)
            return;
        const uint16_t *bias = a.m.bias + expert * a.m.expert_bias + tile * 16 + g;
        float gate = fminf(low + from_bf16(bias[0]), a.limit);
        float up = fminf(fmaxf(high + from_bf16(bias[8]), -a.limit), a.limit);
        float h = gate / (1.0f + __expf(-1.702f * gate)) * (up + 1.0f);
        a.out_bf16[(size_t)assignment * a.out_stride + tile * 8 + g] =
            to_bf16(h * a.weight[assignment]);
    }
};

/* Down projection of an expert: weighted bias, one row per assignment. */
struct expert_epilogue {
    static constexpr bool experts = true;
    static __device__ __forceinline__ void put(const cuda_gemm &a, uint32_t tile, uint32_t g,
                                               uint32_t assignment, uint32_t expert, float low,
                                               float high)
    {
        const uint16_t *bias = a.m.bias + expert * a.m.expert_bias + tile * 16 + g;
        float w = a.weight[assignment];
        float *out = a.out_f32 + (size_t)assignment * a.out_stride + tile * 16 + g;
        if (tile * 16 + g < a.m.rows)
            out[0] = low + w * from_bf16(bias[0]);
        if (tile * 16 + g + 8 < a.m.rows)
            out[8] = high + w * from_bf16(bias[8]);
    }
};

#endif
