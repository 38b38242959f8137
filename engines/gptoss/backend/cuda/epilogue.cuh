/* gptoss/backend/cuda/epilogue.cuh - what is done with a product's sums.
 *
 * An epilogue gets, per lane, the sums of rows g and g + 8 of a 16-row tile for one column (a
 * token, or an assignment of a token to an expert).  Each struct is one kind of epilogue;
 * rows_1_32.cu, rows_2_64.cu and rows_tiled.cu call them.  Biases are loaded by early(), long
 * before put(), because they come from memory, not from a cache.
 */
#ifndef GPTOSS_CUDA_EPILOGUE_CUH
#define GPTOSS_CUDA_EPILOGUE_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

struct early_bias {
    float low, high;
};

/* q, k, v: bias, RoPE on q and k, q to its own row, k and v to their page.  Rows g and g + 8
 * are dimensions d and d + 32 of one head.  A token's destination is looked up while the
 * weights are loaded: a chain of dependent loads at the end would cost microseconds. */
struct qkv_epilogue {
    enum { ROPE_TOKENS = 8 };
    struct shared {
        uint32_t position[CUDA_TILE_TOKENS];
        uint32_t slot[CUDA_TILE_TOKENS];
        float2 rope[ROPE_TOKENS][32];
    };
    static __device__ __forceinline__ void stage(const cuda_gemm &a, shared &s, uint32_t first,
                                                 uint32_t count)
    {
        if (threadIdx.x < count) {
            s.position[threadIdx.x] = a.row_pos[first + threadIdx.x];
            s.slot[threadIdx.x] = a.row_slot[first + threadIdx.x];
        }
        /* For many tokens their rows of the table are prefetched. */
        if (count > ROPE_TOKENS && threadIdx.x < 2 * count)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(
                a.rope + (size_t)a.row_pos[first + threadIdx.x / 2] * 64 +
                threadIdx.x % 2 * 32));
        uint32_t token = threadIdx.x / 32;
        if (count <= ROPE_TOKENS && token < count)
            s.rope[token][threadIdx.x % 32] = reinterpret_cast<const float2 *>(
                a.rope)[(size_t)a.row_pos[first + token] * 32 + threadIdx.x % 32];
    }
    static __device__ __forceinline__ early_bias early(const cuda_gemm &a, uint32_t tile,
                                                       uint32_t g, uint32_t)
    {
        return {from_bf16(a.m.bias[tile * 16 + g]), from_bf16(a.m.bias[tile * 16 + g + 8])};
    }
    static __device__ __forceinline__ void put(const cuda_gemm &a, const shared &s,
                                               early_bias bias, uint32_t count, uint32_t tile,
                                               uint32_t g, uint32_t n, uint32_t row, float low,
                                               float high)
    {
        low += bias.low;
        high += bias.high;
        uint32_t head = tile / 4, d = tile % 4 * 8 + g;
        if (head < a.heads + a.kv.kv_heads) {
            float2 r =
                count <= ROPE_TOKENS
                    ? s.rope[n][d]
                    : reinterpret_cast<const float2 *>(a.rope)[(size_t)s.position[n] * 32 + d];
            float rotated = low * r.x - high * r.y;
            high = high * r.x + low * r.y;
            low = rotated;
        }
        uint16_t *out;
        if (head < a.heads) {
            out = a.out_bf16 + (size_t)row * a.out_stride + head * 64;
        } else {
            uint32_t part = head - a.heads, slot = s.slot[n]; /* K heads, then V heads */
            out = reinterpret_cast<uint16_t *>(a.kv.pages +
                                               slot / CUDA_PAGE_TOKENS * a.kv.page_bytes +
                                               a.kv.layer_offset) +
                  ((size_t)part * CUDA_PAGE_TOKENS + slot % CUDA_PAGE_TOKENS) * 64;
        }
        out[d] = to_bf16(low);
        out[d + 32] = to_bf16(high);
    }
};

/* Nothing to look up, no bias. */
struct plain_epilogue {
    struct shared {
    };
    static __device__ __forceinline__ void stage(const cuda_gemm &, shared &, uint32_t,
                                                 uint32_t)
    {
    }
    static __device__ __forceinline__ early_bias early(const cuda_gemm &, uint32_t, uint32_t,
                                                       uint32_t)
    {
        return {0, 0};
    }
};

/* Attention output: bias, added to the residual. */
struct residual_epilogue : plain_epilogue {
    static __device__ __forceinline__ early_bias early(const cuda_gemm &a, uint32_t tile,
                                                       uint32_t g, uint32_t)
    {
        return {from_bf16(a.m.bias[tile * 16 + g]), from_bf16(a.m.bias[tile * 16 + g + 8])};
    }
    static __device__ __forceinline__ void put(const cuda_gemm &a, const shared &,
                                               early_bias bias, uint32_t, uint32_t tile,
                                               uint32_t g, uint32_t, uint32_t row, float low,
                                               float high)
    {
        float *out = a.out_f32 + (size_t)row * a.out_stride + tile * 16;
        if (tile * 16 + g < a.m.rows)
            out[g] += low + bias.low;
        if (tile * 16 + g + 8 < a.m.rows)
            out[g + 8] += high + bias.high;
    }
};

struct logits_epilogue : plain_epilogue {
    static __device__ __forceinline__ void put(const cuda_gemm &a, const shared &, early_bias,
                                               uint32_t, uint32_t tile, uint32_t g, uint32_t,
                                               uint32_t row, float low, float high)
    {
        float *out = a.out_f32 + (size_t)row * a.out_stride + tile * 16;
        if (tile * 16 + g < a.m.rows)
            out[g] = low;
        if (tile * 16 + g + 8 < a.m.rows)
            out[g + 8] = high;
    }
};

__device__ __forceinline__ early_bias expert_bias(const cuda_gemm &a, uint32_t tile, uint32_t g,
                                                  uint32_t expert)
{
    const uint16_t *bias = a.m.bias + expert * a.m.expert_bias + tile * 16 + g;
    return {from_bf16(bias[0]), from_bf16(bias[8])};
}

/* gate * sigmoid(1.702 gate) * (up + 1), both clamped. */
__device__ __forceinline__ float swiglu(float gate, float up, float limit)
{
    gate = fminf(gate, limit);
    up = fminf(fmaxf(up, -limit), limit);
    return __fdividef(gate, 1.0f + __expf(-1.702f * gate)) * (up + 1.0f);
}

/* Gate and up of an expert: bias, clamped SwiGLU, times the routing weight, so that the outputs
 * of a token's experts only need to be added. */
struct swiglu_epilogue : plain_epilogue {
    static __device__ __forceinline__ early_bias early(const cuda_gemm &a, uint32_t tile,
                                                       uint32_t g, uint32_t expert)
    {
        return expert_bias(a, tile, g, expert);
    }
    static __device__ __forceinline__ void put(const cuda_gemm &a, const shared &,
                                               early_bias bias, uint32_t, uint32_t tile,
                                               uint32_t g, uint32_t, uint32_t assignment,
                                               float low, float high)
    {
        if (tile * 8 + g >= a.m.rows / 2)
            return;
        float h = swiglu(low + bias.low, high + bias.high, a.limit);
        a.out_bf16[(size_t)assignment * a.out_stride + tile * 8 + g] =
            to_bf16(h * a.weight[assignment]);
    }
};

/* Down projection of an expert: weighted bias, one row per assignment. */
struct expert_epilogue : plain_epilogue {
    static __device__ __forceinline__ early_bias early(const cuda_gemm &a, uint32_t tile,
                                                       uint32_t g, uint32_t expert)
    {
        return expert_bias(a, tile, g, expert);
    }
    static __device__ __forceinline__ void put(const cuda_gemm &a, const shared &,
                                               early_bias bias, uint32_t, uint32_t tile,
                                               uint32_t g, uint32_t, uint32_t assignment,
                                               float low, float high)
    {
        float w = a.weight[assignment];
        float *out = a.out_f32 + (size_t)assignment * a.out_stride + tile * 16 + g;
        if (tile * 16 + g < a.m.rows)
            out[0] = low + w * bias.low;
        if (tile * 16 + g + 8 < a.m.rows)
            out[8] = high + w * bias.high;
    }
};

#endif
