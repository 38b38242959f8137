/* gptoss/backend/cuda/token_multiply.cuh - products of token.cu: pieces of the ring times the
 * activations in shared memory.
 *
 * All W warps share every piece: warp w takes its 32-column blocks (or pairs of them) w, w + W,
 * ..., and each piece starts one warp further, so that the load is even.  The sums of all warps
 * of a tile are combined in shared memory at the end of a step.
 *
 * One token leaves seven of the eight columns of an mma unused, so each column gets the
 * activations of another block: lane g loads those of column g, one load serves several blocks,
 * and of a block's sums only the column with its own activations is used.  So each block has
 * its own sums, which MXFP4 scales need.  With two tokens a dense product is made twice from
 * the same registers.
 *
 * Bound, with the ring full: most likely the integer pipe, which decodes MXFP4; twelve warps
 * instead of eight are no faster.
 */
#ifndef GPTOSS_CUDA_TOKEN_MULTIPLY_CUH
#define GPTOSS_CUDA_TOKEN_MULTIPLY_CUH

#include "engines/gptoss/backend/cuda/token_consume.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class C> struct multiplier {
    enum { W = C::WARPS, R = C::TOKENS };
    C &c;
    const uint32_t g, t; /* of the lane */

    struct partial {
        float low, high; /* rows g and g + 8, this lane's columns */
    };

    __device__ __forceinline__ void store_sums(uint32_t tile, partial &p) const
    {
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
            p.low += __shfl_xor_sync(0xFFFFFFFFu, p.low, d);
            p.high += __shfl_xor_sync(0xFFFFFFFFu, p.high, d);
        }
        if (t == 0) {
            c.sums[(tile * W + c.warp) * 16 + g] = p.low;
            c.sums[(tile * W + c.warp) * 16 + g + 8] = p.high;
        }
        p.low = p.high = 0;
    }

    /* bf16 weights; a unit has `width` blocks, a tile `parts` units, a piece up to two units.
     * A lane's 16 bytes of a row are the A fragment unchanged: two of its words are in rows g,
     * two in rows g + 8.  So a block needs two columns, each with the activations of one pair
     * of words, and a row's sum is the sum of both. */
    __device__ __forceinline__ void dense(const step_plan &plan, uint32_t width,
                                          uint32_t parts) const
    {
        constexpr int MOST = (2 * OUT_BLOCKS + W - 1) / W; /* of a warp's blocks in a piece */
        static_assert(2 * MOST <= 8, "two columns a block");
        float low[R][MOST][4], high[R][MOST][4];
        uint4 one[MOST], two[MOST];
        uint32_t tile = 0, turn = c.warp, part = plan.part;
#pragma unroll
        for (int i = 0; i < MOST; i++) {
            for (int j = 0; j < R; j++)
                for (int k = 0; k < 4; k++)
                    low[j][i][k] = high[j][i][k] = 0;
            one[i] = two[i] = make_uint4(0, 0, 0, 0);
        }
#pragma unroll 1
        for (uint32_t u = plan.first; u < plan.last;) {
            const uint32_t count = units_of_piece(u, plan.last), blocks = count * width,
                           own = turn + g / 2 * W;
            uint4 v[R];
#pragma unroll
            for (int j = 0; j < R; j++)
                v[j] = reinterpret_cast<const uint4 *>(
                    c.x + j * X_BYTES)[(part * width + min(own, blocks - 1)) * 4 + t];
            const uint4 *w =
                reinterpret_cast<const uint4 *>(c.take(blocks * 1024)) + turn * 64 + c.lane;
            uint32_t read = 0;
#pragma unroll
            for (int i = 0; i < MOST; i++) {
                if (turn + i * W < blocks) {
                    one[i] = w[i * W * 64];
                    two[i] = w[i * W * 64 + 32];
                }
                read ^= one[i].w ^ two[i].w;
            }
            /* A block that does not exist: old data times zero. */
            const uint32_t real = mask(own < blocks);
#pragma unroll
            for (int j = 0; j < R; j++) {
                const uint32_t x0 = (g % 2 == 0 ? v[j].x : v[j].y) & real,
                               x1 = (g % 2 == 0 ? v[j].z : v[j].w) & real;
#pragma unroll
                for (int i = 0; i < MOST; i++) {
                    mma(low[j][i], one[i].x, one[i].y, one[i].z, one[i].w, x0, x1);
                    mma(high[j][i], two[i].x, two[i].y, two[i].z, two[i].w, x0, x1);
                }
            }
            c.release(read);
            u += count;
            part += count;
            turn = (turn + 4 * W - blocks) % W;
            if (part != parts && u != plan.last)
                continue;
#pragma unroll
            for (int j = 0; j < R; j++) {
                partial sum = {0, 0};
#pragma unroll
                for (uint32_t i = 0; i < MOST; i++) {
                    const uint32_t mine = mask(t == i);
                    sum.low += pick(low[j][i][0] + low[j][i][3], mine, 0);
                    sum.high += pick(high[j][i][0] + high[j][i][3], mine, 0);
                    for (int k = 0; k < 4; k++)
                        low[j][i][k] = high[j][i][k] = 0;
                }
                store_sums(tile++, sum);
            }
            part = 0;
        }
    }

    /* The same for up to eight tokens: each has a column of the products, and rows g and g + 8
     * are a fragment. sums: [tile][warp][token][16]. */
    __device__ __forceinline__ void dense_columns(const step_plan &plan, uint32_t width,
                                                  uint32_t parts) const
    {
        constexpr int MOST = (2 * OUT_BLOCKS + W - 1) / W;
        float sum[MOST][4];
        uint4 one[MOST], two[MOST], v[MOST];
        uint32_t tile = 0, turn = c.warp, part = plan.part;
#pragma unroll
        for (int i = 0; i < MOST; i++) {
            for (int k = 0; k < 4; k++)
                sum[i][k] = 0;
            one[i] = two[i] = make_uint4(0, 0, 0, 0);
        }
#pragma unroll 1
        for (uint32_t u = plan.first; u < plan.last;) {
            const uint32_t count = units_of_piece(u, plan.last), blocks = count * width;
            const uint4 *x = reinterpret_cast<const uint4 *>(c.x + g % R * x_stride<R>) +
                             (part * width + turn) * 4 + t;
            const uint4 *w =
                reinterpret_cast<const uint4 *>(c.take(blocks * 1024)) + turn * 64 + c.lane;
            uint32_t read = 0;
#pragma unroll
            for (int i = 0; i < MOST; i++) {
                v[i] = make_uint4(0, 0, 0, 0); /* a block that does not exist */
                if (turn + i * W < blocks) {
                    one[i] = w[i * W * 64];
                    two[i] = w[i * W * 64 + 32];
                    v[i] = x[i * W * 4];
                }
                read ^= one[i].w ^ two[i].w;
            }
#pragma unroll
            for (int i = 0; i < MOST; i++) {
                mma(sum[i], one[i].x, two[i].x, one[i].y, two[i].y, v[i].x, v[i].y);
                mma(sum[i], one[i].z, two[i].z, one[i].w, two[i].w, v[i].z, v[i].w);
            }
            c.release(read);
            u += count;
            part += count;
            turn = (turn + 4 * W - blocks) % W;
            if (part != parts && u != plan.last)
                continue;
#pragma unroll
            for (int k = 0; k < 4; k++) {
                float all = 0;
#pragma unroll
                for (int i = 0; i < MOST; i++) {
                    all += sum[i][k];
                    sum[i][k] = 0;
                }
                if (2 * t < R)
                    c.sums[((tile * W + c.warp) * R + 2 * t + k % 2) * 16 + g + k / 2 * 8] =
                        all;
            }
            tile++;
            part = 0;
        }
    }

    /* N <= 4 pairs of blocks of an MXFP4 piece: pairs first, first + W, ...; pairs from `pairs`
     * on do not exist (only the last can be such). x has been multiplied by TOKEN_LIFT, so that
     * a code times an activation is a normal number without its scale. */
    template <int N>
    __device__ __forceinline__ void pairs_of_blocks(const uint4 *w, const uint2 *scales,
                                                    const uint4 *v, uint32_t first,
                                                    uint32_t pairs, partial &p) const
    {
        const bool last = first + (N - 1) * W < pairs;
        const uint32_t own_x = first + min(g / 2, N - 2 + (uint32_t)last) * W,
                       own = first + min(t, N - 2 + (uint32_t)last) * W;
        const uint4 xs = v[(own_x * 2 + g % 2) * 4];
        const uint2 e = scales[own / 2 * 8];
        float acc[2 * N][4];
#pragma unroll
        for (int i = 0; i < N; i++) {
            if (i + 1 < N || last) {
                const uint4 codes = w[(first + i * W) * 32];
                uint32_t lo[4], hi[4];
                spread_mxfp4(codes.x, lo);
                spread_mxfp4(codes.y, hi);
                mma_first(acc[2 * i], lo[0], hi[0], lo[1], hi[1], xs.x, xs.y);
                mma(acc[2 * i], lo[2], hi[2], lo[3], hi[3], xs.z, xs.w);
                spread_mxfp4(codes.z, lo);
                spread_mxfp4(codes.w, hi);
                mma_first(acc[2 * i + 1], lo[0], hi[0], lo[1], hi[1], xs.x, xs.y);
                mma(acc[2 * i + 1], lo[2], hi[2], lo[3], hi[3], xs.z, xs.w);
            } else {
#pragma unroll
                for (int k = 0; k < 4; k++)
                    acc[2 * i][k] = acc[2 * i + 1][k] = 0;
            }
        }
        /* Lane t's columns are the two blocks of pair t. */
        float a0 = 0, a1 = 0, b0 = 0, b1 = 0;
#pragma unroll
        for (uint32_t i = 0; i < N; i++) {
            const uint32_t mine = mask(t == i);
            a0 = pick(acc[2 * i][0], mine, a0);
            a1 = pick(acc[2 * i + 1][1], mine, a1);
            b0 = pick(acc[2 * i][2], mine, b0);
            b1 = pick(acc[2 * i + 1][3], mine, b1);
        }
        const uint32_t shift = own % 2 * 16, e0 = e.x >> shift, e1 = e.y >> shift;
        p.low += a0 * power_of(e0) + a1 * power_of(e0 >> 8); /* zero in lanes without a pair */
        p.high += b0 * power_of(e1) + b1 * power_of(e1 >> 8);
    }

    /* Uses bits, so that the compiler does not build a table in memory for a choice by lane. */
    static __device__ __forceinline__ uint32_t mask(bool all)
    {
        return all ? 0xFFFFFFFFu : 0;
    }
    static __device__ __forceinline__ float pick(float v, uint32_t mask, float otherwise)
    {
        return __uint_as_float((__float_as_uint(v) & mask) | __float_as_uint(otherwise));
    }

    /* The lowest byte as a float's exponent field. */
    static __device__ __forceinline__ float power_of(uint32_t byte)
    {
        return __uint_as_float(byte << 23 & 0x7F800000u);
    }

    /* The experts' weights: gate_up, where a unit is a tile, or down, where a unit is half a
     * tile of one choice. */
    __device__ __forceinline__ void experts(const step_plan &plan, bool down) const
    {
        static_assert(W == 8, "a c.warp has five or six pairs of a tile: four, and two");
        partial sum = {0, 0};
        uint32_t turn = c.warp, tile = 0;
#pragma unroll 1
        for (uint32_t u = plan.first; u < plan.last;) {
            const uint32_t count = down ? units_of_piece(u, plan.last) : 1;
            const mxfp4_piece p = down ? down_piece(u, count) : whole_piece();
            const uint8_t *at = c.x + t * 16 + p.first * 128;
            if (down)
                at += choice_of_down<R>(u) * (TOKEN_INNER * 2);
            else if (R > 1)
                at += u / (UP_TILES * TOKEN_TOPK) * X_BYTES;
            const uint8_t *piece = c.take(p.bytes());
            const uint4 *v = reinterpret_cast<const uint4 *>(at),
                        *w = reinterpret_cast<const uint4 *>(piece) + c.lane;
            const uint2 *e = reinterpret_cast<const uint2 *>(piece + p.pairs * 512) + g;
            if (p.pairs != PAIRS) {
                pairs_of_blocks<3>(w, e, v, turn, p.pairs, sum);
            } else {
                pairs_of_blocks<4>(w, e, v, turn, PAIRS, sum);
                pairs_of_blocks<2>(w, e, v, turn + 4 * W, PAIRS, sum);
            }
            const uint32_t read = __float_as_uint(sum.low) ^ __float_as_uint(sum.high);
            turn = (turn + 6 * W - p.pairs) % W;
            u += count;
            if (!down || u % DOWN_PARTS == 0 || u == plan.last)
                store_sums(tile++, sum);
            c.release(read);
        }
    }
};

#endif
#endif
