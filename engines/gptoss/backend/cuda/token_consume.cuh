/* gptoss/backend/cuda/token_consume.cuh - shared by the consumer warps of token.cu: barriers,
 * pieces of the ring, sums of tiles, the residual and its norm, activations. */
#ifndef GPTOSS_CUDA_TOKEN_CONSUME_CUH
#define GPTOSS_CUDA_TOKEN_CONSUME_CUH

#include "engines/gptoss/backend/cuda/token_exchange.cuh"
#include "engines/gptoss/backend/cuda/token_ring.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <int W, int R> struct consumer {
    enum {
        WARPS = W,
        TOKENS = R,
        THREADS = W * WARP,
        QUADS = TOKEN_HIDDEN / 4,
        MINE = (QUADS + THREADS - 1) / THREADS /* quads of the residual in a thread */
    };
    const token_args &a;
    token_shared<R> &s;
    uint8_t *ring;
    uint8_t *x;  /* activations, bf16: X_BYTES for each token */
    float *sums; /* [tile (and token)][warp][16] */
    const uint32_t tid, warp, lane, g, t;
    uint32_t slot, phase, offset; /* of the ring: next to take, and its offset */
    uint32_t used;                /* next to release */
    uint32_t target;              /* arrivals that end the next barrier; thread 0 */
    uint32_t round;               /* 0 or 1, of the layer (token_exchange.cuh) */
    float4 r[R]
            [MINE]; /* the residuals, the same in all blocks: quads tid, tid + THREADS, ... */
    uint2 norm[2][MINE]; /* weights of attention's norm and of the experts' */

    __device__ __forceinline__ void meet()
    {
        asm volatile("bar.sync 1, %0;" ::"n"(W * WARP) : "memory");
    }

    /* Waits until all blocks have arrived.  Publishes nothing (token_exchange.cuh). */
    __device__ __forceinline__ void grid_meet()
    {
        meet();
        if (tid == 0) {
            uint32_t now;
            target += gridDim.x;
            asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(a.sync) : "memory");
            do
                asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];"
                             : "=r"(now)
                             : "l"(a.sync)
                             : "memory");
            while ((int32_t)(now - target) < 0);
        }
        meet();
    }

    /* ---- the ring ---- */

    __device__ __forceinline__ void wait_for_piece()
    {
        ring_wait(&s.full[slot], phase);
    }
    /* The next piece; its address follows from the sizes, as in producer::reserve(). */
    __device__ __forceinline__ uint8_t *take(uint32_t bytes)
    {
        bytes = (bytes + 127) & ~127u;
        const uint32_t at = offset + bytes > ring_bytes<W, R> ? 0 : offset;
        offset = at + bytes;
        wait_for_piece();
        if (++slot == SLOTS) {
            slot = 0;
            phase ^= 1;
        }
        return ring + at;
    }
    /* Pieces are released in the order in which they were taken.  `read`: bits computed from
     * everything that was read of the piece, so that the compiler cannot move the arrival
     * before the reads (ring.cuh). */
    __device__ __forceinline__ void release(uint32_t read)
    {
        const uint32_t nothing =
            a.layer_count >> 16; /* zero, but the compiler does not know that */
        __syncwarp();
        if (lane == 0)
            ring_arrive(&s.empty[used] + (read & nothing));
        used = (used + 1) % SLOTS;
    }

    /* ---- sums of tiles ---- */

    __device__ __forceinline__ float sum_of(uint32_t tile, uint32_t row) const
    {
        float v = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            v += sums[(tile * W + w) * 16 + row];
        return v;
    }

    /* A thread's row among those of this block's tiles; of which token, if they have several.
     */
    struct place {
        uint32_t token, row;
        bool is;
    };
    __device__ __forceinline__ place place_of(const step_plan &plan, uint32_t tokens) const
    {
        const uint32_t rows = plan.tiles * 16, token = tokens == 2 && tid >= rows ? 1 : 0;
        static_assert(R <= 2, "one comparison tells the token");
        return {token, tid - token * rows, tid < tokens * rows};
    }

    /* Writes the sums of the step's tiles, of `tokens` tokens with `rows` rows each: the block
     * with a tile's beginning to the first part of `out`, the block with the rest to the
     * second; a reader adds both. finish(begins, v, at): the value of a thread's row. */
    template <class Finish>
    __device__ __forceinline__ void put_sums(float *out, uint32_t rows, uint32_t tokens,
                                             const step_plan &plan, uint32_t parts,
                                             Finish finish)
    {
        meet();
        const place at = place_of(plan, tokens);
        if (!at.is)
            return;
        const uint32_t row = at.token * rows + plan.tile * 16 + at.row,
                       here = plan.tile + at.row / 16, rest = tokens * rows + row;
        const bool begins = here * parts >= plan.first;
        const float v = sum_of(at.row / 16 * tokens + at.token, at.row % 16);
        tell_sum(out + (begins ? row : rest), finish(begins, v, at), round);
        if (begins && (here + 1) * parts <= plan.last)
            tell_sum(out + rest, 0, round);
    }

    /* ---- the residual ---- */

    __device__ __forceinline__ void load_norm(uint2 (&norm)[MINE], const uint16_t *weights)
    {
#pragma unroll
        for (int j = 0; j < MINE; j++)
            if (tid + j * THREADS < QUADS)
                norm[j] = __ldg(reinterpret_cast<const uint2 *>(weights) + tid + j * THREADS);
    }

    /* Adds what put_sums() of all blocks wrote in a round. */
    __device__ __forceinline__ void add_sums(const float *in, uint32_t of)
    {
        const float4 *from = reinterpret_cast<const float4 *>(in);
        uint4 v[2 * R * MINE];
        hear_all(v, ROUND_OF_SUM, of, [&](int i) {
            return from + i / MINE * QUADS + min(tid + i % MINE * THREADS, QUADS - 1u);
        });
#pragma unroll
        for (int i = 0; i < R * MINE; i++) {
            const float4 p = told_sums(v[i]), q = told_sums(v[R * MINE + i]);
            float4 &sum = r[i / MINE][i % MINE];
            sum.x += p.x + q.x;
            sum.y += p.y + q.y;
            sum.z += p.z + q.z;
            sum.w += p.w + q.w;
        }
    }

    __device__ __forceinline__ void add_squares()
    {
#pragma unroll
        for (int k = 0; k < R; k++) {
            float sum = 0;
#pragma unroll
            for (int j = 0; j < MINE; j++)
                if (tid + j * THREADS < QUADS)
                    sum += r[k][j].x * r[k][j].x + r[k][j].y * r[k][j].y +
                           r[k][j].z * r[k][j].z + r[k][j].w * r[k][j].w;
            sum = warp_sum(sum);
            if (lane == 0)
                s.sums[k][warp] = sum;
        }
    }

    /* After add_squares() and a barrier: writes the normalized residuals, times a power of two,
     * to x. */
    __device__ __forceinline__ void normalize(bool experts, float lift)
    {
#pragma unroll
        for (int k = 0; k < R; k++) {
            float sum = 0;
#pragma unroll
            for (int w = 0; w < W; w++)
                sum += s.sums[k][w];
            const float scale = rsqrtf(sum / (float)TOKEN_HIDDEN + a.eps) * lift;
#pragma unroll
            for (int j = 0; j < MINE; j++) {
                if (tid + j * THREADS >= QUADS)
                    continue;
                const float4 v = r[k][j];
                uint2 n = experts ? norm[1][j] : norm[0][j], out;
                out.x = pack_bf16(v.x * scale * from_bf16((uint16_t)n.x),
                                  v.y * scale * from_bf16((uint16_t)(n.x >> 16)));
                out.y = pack_bf16(v.z * scale * from_bf16((uint16_t)n.y),
                                  v.w * scale * from_bf16((uint16_t)(n.y >> 16)));
                reinterpret_cast<uint2 *>(x + k * X_BYTES)[tid + j * THREADS] = out;
            }
        }
        meet();
    }

    /* Attention's output to x. */
    __device__ __forceinline__ void stage_mixed()
    {
        constexpr uint32_t QUADS_IN = TOKEN_HEADS * 64 / 4;
        constexpr int N = QUADS_IN / THREADS; /* of a token */
        static_assert(QUADS_IN % THREADS == 0, "all threads have as many");
        uint4 v[R * N];
        hear_all(v, ROUND_OF_SUM, round, [&](int i) {
            return reinterpret_cast<const uint4 *>(a.mixed) + tid + i * THREADS;
        });
#pragma unroll
        for (int i = 0; i < R * N; i++)
            reinterpret_cast<uint2 *>(x + i / N * X_BYTES)[tid + i % N * THREADS] = make_uint2(
                __byte_perm(v[i].x, v[i].y, 0x7632), __byte_perm(v[i].z, v[i].w, 0x7632));
        meet();
    }

    /* SwiGLU's results to x, times TOKEN_LIFT. */
    __device__ __forceinline__ void stage_inner()
    {
        constexpr uint32_t QUADS_IN = R * X_BYTES / 16;
        constexpr int N = (QUADS_IN + THREADS - 1) / THREADS;
        uint4 v[N];
        hear_all(v, ROUND_OF_PAIR, round, [&](int i) {
            return reinterpret_cast<const uint4 *>(a.inner) +
                   min(tid + i * THREADS, QUADS_IN - 1);
        });
        auto lift = [](uint32_t pair) {
            return mul_bf16x2(pair & ~(uint32_t)ROUND_OF_PAIR, INNER_LIFT_PAIR);
        };
#pragma unroll
        for (int i = 0; i < N; i++)
            if (tid + i * THREADS < QUADS_IN)
                reinterpret_cast<uint4 *>(x)[tid + i * THREADS] =
                    make_uint4(lift(v[i].x), lift(v[i].y), lift(v[i].z), lift(v[i].w));
        meet();
    }
};

#endif
#endif
