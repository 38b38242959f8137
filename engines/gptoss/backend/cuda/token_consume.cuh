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

template <int W, bool TRACE> struct consumer {
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
    uint32_t target;      /* arrivals that end the next barrier; thread 0 */
    uint32_t stamps;
    float4 r[MINE]; /* the residual, the same in all blocks: quads tid, tid + THREADS, ... */
    uint2 norm[MINE];

    __device__ __forceinline__ void stamp()
    {
        if (TRACE && tid == 0 && a.trace != nullptr)
            a.trace[blockIdx.x * 1024 + stamps++] = clock64();
    }

    __device__ __forceinline__ void meet()
    {
        asm volatile("bar.sync 1, %0;" ::"n"(W * WARP) : "memory");
    }

    /* What blocks wrote before it, all blocks may read (from L2) after it. */
    __device__ __forceinline__ void grid_meet()
    {
        meet();
        stamp();
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
        stamp();
    }

    /* ---- the ring ---- */

    __device__ __forceinline__ uint8_t *wait_for(uint32_t which, uint32_t parity)
    {
        ring_wait(&s.full[which], parity);
        return ring + s.slot_at[which];
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

    struct accumulator {
        float c[2][4];
        __device__ __forceinline__ accumulator()
        {
            clear();
        }
        __device__ __forceinline__ void clear()
        {
#pragma unroll
            for (int i = 0; i < 4; i++)
                c[0][i] = c[1][i] = 0;
        }
    };

    __device__ __forceinline__ void store_sums(uint32_t tile, accumulator &acc)
    {
        /* One token: all columns of the product are the same. */
        if (t == 0) {
            sums[(tile * W + warp) * 16 + g] = acc.c[0][0] + acc.c[1][0];
            sums[(tile * W + warp) * 16 + g + 8] = acc.c[0][2] + acc.c[1][2];
        }
        acc.clear();
    }
    __device__ __forceinline__ float sum_of(uint32_t tile, uint32_t row) const
    {
        float v = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            v += sums[(tile * W + w) * 16 + row];
        return v;
    }

    template <int BLOCKS> struct dense_piece {
        enum { MOST = (BLOCKS + W - 1) / W };
        uint4 low[MOST], high[MOST], x[MOST];
    };
    template <int BLOCKS>
    __device__ __forceinline__ void load_dense(dense_piece<BLOCKS> &p, const uint8_t *piece,
                                               uint32_t part, uint32_t turn)
    {
        const uint4 *w = reinterpret_cast<const uint4 *>(piece) + lane;
        const uint4 *v = reinterpret_cast<const uint4 *>(x) + part * BLOCKS * 4 + t;
#pragma unroll
        for (int i = 0; i < dense_piece<BLOCKS>::MOST; i++) {
            uint32_t b = turn + i * W;
            bool real = (i + 1) * W <= BLOCKS || b < BLOCKS;
            p.low[i] = real ? w[b * 64] : make_uint4(0, 0, 0, 0);
            p.high[i] = real ? w[b * 64 + 32] : make_uint4(0, 0, 0, 0);
            p.x[i] = real ? v[b * 4] : make_uint4(0, 0, 0, 0);
        }
    }

    /* Units [first, last), PARTS to a tile: piece u + 1 is on its way to registers while piece
     * u is multiplied. */
    template <int BLOCKS, int PARTS> __device__ __forceinline__ void multiply_dense(run units)
    {
        accumulator acc;
        dense_piece<BLOCKS> one, two;
        uint32_t u = units.first, part = u % PARTS, tile = 0, turn = warp;
        auto load = [&](dense_piece<BLOCKS> &p, uint32_t at, uint32_t ph, uint32_t its_part) {
            load_dense<BLOCKS>(p, wait_for(at, ph), its_part, turn);
            turn = (turn + W - BLOCKS % W) % W;
        };
        auto advance = [&](dense_piece<BLOCKS> &now, dense_piece<BLOCKS> &next) -> bool {
            bool tile_ends = part + 1 == PARTS;
            if (u + 1 < units.last)
                load(next, slot + 1 == SLOTS ? 0 : slot + 1,
                     slot + 1 == SLOTS ? phase ^ 1 : phase, tile_ends ? 0 : part + 1);
#pragma unroll
            for (int i = 0; i < dense_piece<BLOCKS>::MOST; i++) {
                const uint4 lo = now.low[i], hi = now.high[i], v = now.x[i];
                mma(acc.c[0], lo.x, hi.x, lo.y, hi.y, v.x, v.y);
                mma(acc.c[1], lo.z, hi.z, lo.w, hi.w, v.z, v.w);
            }
            release();
            u++;
            part = tile_ends ? 0 : part + 1;
            if (tile_ends || u == units.last)
                store_sums(tile++, acc);
            return u < units.last;
        };
        load(one, slot, phase, part);
        while (advance(one, two) && advance(two, one)) {
        }
    }

    __device__ __forceinline__ void multiply_pair(const uint4 *w, const uint2 *scales,
                                                  const uint4 *v, uint32_t p, accumulator &acc)
    {
        const uint4 codes = w[p * 32], x0 = v[p * 8], x1 = v[p * 8 + 4];
        const uint2 e = scales[p / 2 * 8];
        const uint32_t shift = p % 2 * 16, e0 = e.x >> shift, e1 = e.y >> shift;
        uint32_t lo[4], hi[4];
        decode_mxfp4(codes.x, scale_pair(e0, 0), lo);
        decode_mxfp4(codes.y, scale_pair(e1, 0), hi);
        mma(acc.c[0], lo[0], hi[0], lo[1], hi[1], x0.x, x0.y);
        mma(acc.c[0], lo[2], hi[2], lo[3], hi[3], x0.z, x0.w);
        decode_mxfp4(codes.z, scale_pair(e0, 1), lo);
        decode_mxfp4(codes.w, scale_pair(e1, 1), hi);
        mma(acc.c[1], lo[0], hi[0], lo[1], hi[1], x1.x, x1.y);
        mma(acc.c[1], lo[2], hi[2], lo[3], hi[3], x1.z, x1.w);
    }

    /* This warp's pairs of blocks of an mxfp4 piece; every warp has at least LEAST. */
    template <int LEAST>
    __device__ __forceinline__ void multiply_pairs(const uint8_t *piece, const uint8_t *scales,
                                                   const uint8_t *xs, uint32_t pairs,
                                                   uint32_t turn, accumulator &acc)
    {
        const uint4 *w = reinterpret_cast<const uint4 *>(piece) + lane;
        const uint2 *e = reinterpret_cast<const uint2 *>(scales) + g;
        const uint4 *v = reinterpret_cast<const uint4 *>(xs) + t;
#pragma unroll
        for (int i = 0; i < LEAST; i++)
            multiply_pair(w, e, v, turn + i * W, acc);
        if (turn + LEAST * W < pairs)
            multiply_pair(w, e, v, turn + LEAST * W, acc);
    }

    __device__ __forceinline__ void multiply_up(run units)
    {
        accumulator acc;
        uint32_t turn = warp;
        for (uint32_t u = units.first; u < units.last; u++) {
            const uint8_t *piece = take();
            multiply_pairs<PAIRS / W>(piece, piece + TILE_BYTES, x, PAIRS, turn, acc);
            release();
            turn = (turn + W - PAIRS % W) % W;
            store_sums(u - units.first, acc);
        }
    }

    __device__ __forceinline__ void multiply_down(run units)
    {
        accumulator acc;
        uint32_t turn = warp, tile = 0;
        for (uint32_t u = units.first; u < units.last; u++) {
            uint32_t half = u % 2, pairs = half == 0 ? HALF_PAIRS : PAIRS - HALF_PAIRS;
            const uint8_t *piece = take();
            multiply_pairs<HALF_PAIRS / W>(piece, piece + pairs * 512,
                                           x + u % DOWN_PARTS / 2 * (TOKEN_INNER * 2) +
                                               half * HALF_PAIRS * 128,
                                           pairs, turn, acc);
            release();
            turn = (turn + 3 * W - pairs) % W;
            if (u % DOWN_PARTS == DOWN_PARTS - 1 || u + 1 == units.last)
                store_sums(tile++, acc);
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

    /* After a barrier behind add_squares(): the normalized residual to x. */
    __device__ __forceinline__ void normalize()
    {
        float sum = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            sum += s.sums[w];
        float scale = rsqrtf(sum / (float)TOKEN_HIDDEN + a.eps);
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
