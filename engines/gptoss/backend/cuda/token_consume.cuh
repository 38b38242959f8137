/* gptoss/backend/cuda/token_consume.cuh - what the consumer warps of token.cu have in common:
 * taking pieces from the ring and multiplying them, sums of tiles, the residual and its norm.
 *
 * All W warps share every piece: warp w takes its 32-column blocks (or pairs of them) w, w + W,
 * ..., and each piece starts one warp further, so that none idles more than others.  A warp's
 * sums of a tile meet those of the other warps in shared memory, at the end of a step.
 */
#ifndef GPTOSS_CUDA_TOKEN_CONSUME_CUH
#define GPTOSS_CUDA_TOKEN_CONSUME_CUH

#include "engines/gptoss/backend/cuda/token_ring.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int W> struct consumer {
    enum {
        THREADS = W * WARP,
        QUADS = TOKEN_HIDDEN / 4,
        MINE = (QUADS + THREADS - 1) / THREADS /* quads of the residual in a thread */
    };
    const token_args &a;
    token_shared &s;
    uint8_t *ring;
    uint8_t *x;  /* activations, bf16 */
    float *sums; /* [tile][warp][16] */
    const uint32_t tid, warp, lane, g, t;
    uint32_t slot, phase; /* of the ring: next to take */
    uint32_t units_taken; /* in the piece taken last */
    uint32_t target;      /* arrivals that end the next barrier; thread 0 */
    float4 r[MINE]; /* the residual, the same in all blocks: quads tid, tid + THREADS, ... */
    uint2 norm[MINE];

    __device__ __forceinline__ void meet()
    {
        asm volatile("bar.sync 1, %0;" ::"n"(W * WARP) : "memory");
    }

    /* What blocks wrote before it, all blocks may read (from L2) after it. */
    __device__ __forceinline__ void grid_meet()
    {
        meet();
        if (tid == 0) {
            uint32_t now;
            target += gridDim.x;
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(a.sync) : "memory");
            do
                asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                             : "=r"(now)
                             : "l"(a.sync)
                             : "memory");
            while ((int32_t)(now - target) < 0);
        }
        meet();
    }

    /* ---- the ring ---- */

    __device__ __forceinline__ uint8_t *wait_for(uint32_t which, uint32_t parity)
    {
        ring_wait(&s.full[which], parity);
        const uint32_t at = s.slot_at[which];
        units_taken = at >> 24;
        return ring + (at & 0xFFFFFFu);
    }
    __device__ __forceinline__ uint8_t *take()
    {
        return wait_for(slot, phase);
    }
    __device__ __forceinline__ void release()
    {
        __syncwarp();
        if (lane == 0)
            ring_arrive(&s.empty[slot]);
        if (++slot == SLOTS) {
            slot = 0;
            phase ^= 1;
        }
    }

    /* ---- products ---- */

    /* One token leaves seven of the eight columns of an mma unused, so each column has the
     * activations of another block: lane g brings those of column g, one load serves eight
     * blocks, and of a block's sums the column with its own activations counts.  A block
     * thus has sums of its own, which MXFP4 scales need. */
    struct partial {
        float low, high; /* rows g and g + 8, this lane's columns */
    };

    __device__ __forceinline__ void store_sums(uint32_t tile, partial &p)
    {
#pragma unroll
        for (int d = 1; d < 4; d *= 2) {
            p.low += __shfl_xor_sync(0xFFFFFFFFu, p.low, d);
            p.high += __shfl_xor_sync(0xFFFFFFFFu, p.high, d);
        }
        if (t == 0) {
            sums[(tile * W + warp) * 16 + g] = p.low;
            sums[(tile * W + warp) * 16 + g + 8] = p.high;
        }
        p.low = p.high = 0;
    }
    __device__ __forceinline__ float sum_of(uint32_t tile, uint32_t row) const
    {
        float v = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            v += sums[(tile * W + w) * 16 + row];
        return v;
    }

    /* Units [first, last) of BLOCKS blocks, PARTS to a tile, up to two in a piece. */
    template <int BLOCKS, int PARTS> __device__ __forceinline__ void multiply_dense(run units)
    {
        constexpr int MOST = (2 * BLOCKS + W - 1) / W; /* of a warp's blocks in a piece */
        float acc[MOST][4];
        uint32_t tile = 0, turn = warp;
#pragma unroll
        for (int i = 0; i < MOST; i++)
            acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
        for (uint32_t u = units.first; u < units.last;) {
            const uint4 *w = reinterpret_cast<const uint4 *>(take()) + lane;
            const uint32_t count = units_taken, blocks = count * BLOCKS;
            const uint4 *v = reinterpret_cast<const uint4 *>(x) + u % PARTS * (BLOCKS * 4) + t;
            const uint4 xs = v[min(turn + g % MOST * W, blocks - 1) * 4];
#pragma unroll
            for (int i = 0; i < MOST; i++) {
                uint32_t b = turn + i * W;
                if (b < blocks) {
                    const uint4 lo = w[b * 64], hi = w[b * 64 + 32];
                    mma(acc[i], lo.x, hi.x, lo.y, hi.y, xs.x, xs.y);
                    mma(acc[i], lo.z, hi.z, lo.w, hi.w, xs.z, xs.w);
                }
            }
            release();
            u += count;
            turn = (turn + 4 * W - blocks) % W;
            if (u % PARTS == 0 || u == units.last) {
                partial p = {0, 0};
#pragma unroll
                for (uint32_t i = 0; i < MOST; i++) {
                    const uint32_t mine = mask(t == i / 2);
                    p.low += pick(acc[i][i % 2], mine, 0);
                    p.high += pick(acc[i][2 + i % 2], mine, 0);
                    acc[i][0] = acc[i][1] = acc[i][2] = acc[i][3] = 0;
                }
                store_sums(tile++, p);
            }
        }
    }

    /* Up to N <= 4 pairs of blocks of an MXFP4 piece: pairs first, first + W, ...; those past
     * `pairs` do not exist (of them only the last may).  x has been multiplied by TOKEN_LIFT,
     * so that codes need no scale to be normal numbers times an activation. */
    template <int N>
    __device__ __forceinline__ void multiply_pairs(const uint4 *w, const uint2 *scales,
                                                   const uint4 *v, uint32_t first,
                                                   uint32_t pairs, partial &p)
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
        float low = a0 * power_of(e0) + a1 * power_of(e0 >> 8),
              high = b0 * power_of(e1) + b1 * power_of(e1 >> 8);
        p.low += low; /* zero in lanes that have no pair */
        p.high += high;
    }

    /* Bits, so that the compiler does not make a table in memory of what a lane picks. */
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

    __device__ __forceinline__ void multiply_up(run units)
    {
        static_assert(W == 8, "a warp has five or six pairs of a tile: four, and two");
        const uint4 *v = reinterpret_cast<const uint4 *>(x) + t;
        uint32_t turn = warp;
        for (uint32_t u = units.first; u < units.last; u++) {
            partial p = {0, 0};
            const uint8_t *piece = take();
            const uint4 *w = reinterpret_cast<const uint4 *>(piece) + lane;
            const uint2 *e = reinterpret_cast<const uint2 *>(piece + TILE_BYTES) + g;
            multiply_pairs<4>(w, e, v, turn, PAIRS, p);
            multiply_pairs<2>(w, e, v, turn + 4 * W, PAIRS, p);
            turn = (turn + W - PAIRS % W) % W;
            store_sums(u - units.first, p);
            release(); /* behind what waits for the scales */
        }
    }

    __device__ __forceinline__ void multiply_down(run units)
    {
        partial p = {0, 0};
        uint32_t turn = warp, tile = 0;
        for (uint32_t u = units.first; u < units.last; u++) {
            const uint32_t half = u % 2, pairs = half == 0 ? HALF_PAIRS : PAIRS - HALF_PAIRS;
            const uint4 *v =
                reinterpret_cast<const uint4 *>(x + u % DOWN_PARTS / 2 * (TOKEN_INNER * 2) +
                                                half * HALF_PAIRS * 128) +
                t;
            const uint8_t *piece = take();
            multiply_pairs<3>(reinterpret_cast<const uint4 *>(piece) + lane,
                              reinterpret_cast<const uint2 *>(piece + pairs * 512) + g, v, turn,
                              pairs, p);
            turn = (turn + 3 * W - pairs) % W;
            if (u % DOWN_PARTS == DOWN_PARTS - 1 || u + 1 == units.last)
                store_sums(tile++, p);
            release();
        }
    }

    /* Writes the sums of the step's tiles: those of the block that has a tile's beginning to
     * out[row], those of the block that has the rest to out[rows + row]; a reader adds both.
     * finish(i, begins, v): the value of the i-th row of this block. */
    template <int PARTS, class Finish>
    __device__ __forceinline__ void put_sums(float *out, uint32_t rows, run units,
                                             Finish finish)
    {
        uint32_t tile = units.first / PARTS, tiles = (units.last - 1) / PARTS + 1 - tile;
        meet();
        for (uint32_t i = tid; i < tiles * 16; i += THREADS) {
            uint32_t row = tile * 16 + i, here = tile + i / 16;
            bool begins = here * PARTS >= units.first;
            out[begins ? row : rows + row] = finish(i, begins, sum_of(i / 16, i % 16));
            if (begins && (here + 1) * PARTS <= units.last)
                out[rows + row] = 0;
        }
    }

    /* ---- the residual ---- */

    __device__ __forceinline__ void load_norm(const uint16_t *weights)
    {
#pragma unroll
        for (int j = 0; j < MINE; j++)
            if (tid + j * THREADS < QUADS)
                norm[j] = __ldg(reinterpret_cast<const uint2 *>(weights) + tid + j * THREADS);
    }

    /* Adds what put_sums() of all blocks wrote. */
    __device__ __forceinline__ void add_sums(const float *in)
    {
        const float4 *low = reinterpret_cast<const float4 *>(in), *high = low + QUADS;
        float4 p[MINE], q[MINE];
#pragma unroll
        for (int j = 0; j < MINE; j++)
            if (tid + j * THREADS < QUADS) {
                p[j] = __ldcg(low + tid + j * THREADS);
                q[j] = __ldcg(high + tid + j * THREADS);
            }
#pragma unroll
        for (int j = 0; j < MINE; j++)
            if (tid + j * THREADS < QUADS) {
                r[j].x += p[j].x + q[j].x;
                r[j].y += p[j].y + q[j].y;
                r[j].z += p[j].z + q[j].z;
                r[j].w += p[j].w + q[j].w;
            }
    }

    __device__ __forceinline__ void add_squares()
    {
        float sum = 0;
#pragma unroll
        for (int j = 0; j < MINE; j++)
            if (tid + j * THREADS < QUADS)
                sum += r[j].x * r[j].x + r[j].y * r[j].y + r[j].z * r[j].z + r[j].w * r[j].w;
        sum = warp_sum(sum);
        if (lane == 0)
            s.sums[warp] = sum;
    }

    /* After a barrier behind add_squares(): the normalized residual, times a power of two, to
     * x. */
    __device__ __forceinline__ void normalize(float lift)
    {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            sum += s.sums[w];
        float scale = rsqrtf(sum / (float)TOKEN_HIDDEN + a.eps) * lift;
#pragma unroll
        for (int j = 0; j < MINE; j++) {
            if (tid + j * THREADS >= QUADS)
                continue;
            uint2 n = norm[j], out;
            out.x = pack_bf16(r[j].x * scale * from_bf16((uint16_t)n.x),
                              r[j].y * scale * from_bf16((uint16_t)(n.x >> 16)));
            out.y = pack_bf16(r[j].z * scale * from_bf16((uint16_t)n.y),
                              r[j].w * scale * from_bf16((uint16_t)(n.y >> 16)));
            reinterpret_cast<uint2 *>(x)[tid + j * THREADS] = out;
        }
        meet();
    }

    /* Brings bf16 activations that other blocks made to x. */
    template <int PIECES> __device__ __forceinline__ void stage(const uint16_t *from)
    {
        constexpr int MOST = (PIECES + THREADS - 1) / THREADS;
        uint4 v[MOST];
#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (tid + i * THREADS < PIECES)
                v[i] = __ldcg(reinterpret_cast<const uint4 *>(from) + tid + i * THREADS);
#pragma unroll
        for (int i = 0; i < MOST; i++)
            if (tid + i * THREADS < PIECES)
                reinterpret_cast<uint4 *>(x)[tid + i * THREADS] = v[i];
        meet();
    }
};

#endif
#endif
