/* gptoss/backend/cuda/prompt.cuh - products of experts with many tokens on wgmma.
 *
 * A block stays on its multiprocessor and computes one tile after the other: 192 rows of up to
 * 160 tokens.  The warps of three warpgroups load weights directly from memory (L2) as
 * fragments (args.h), decode MXFP4 in registers, and multiply.  A fourth warpgroup copies
 * activations into a ring of stages of 64 columns in shared memory, and runs ahead into the
 * next tile while the others write their results. wgmma's b has its columns in fragment order,
 * so the kernels that produce activations write them in that order (prompt_column of
 * device.cuh).  While the products of one block of 32 columns are running, the fragments of the
 * next are made: a warpgroup always has one group of products pending.
 */
#ifndef GPTOSS_CUDA_PROMPT_CUH
#define GPTOSS_CUDA_PROMPT_CUH

#include "engines/gptoss/backend/cuda/prompt_epilogue.cuh"
#include "engines/gptoss/backend/cuda/wgmma.cuh"

enum {
    PROMPT_GROUPS = CUDA_PROMPT_GROUPS,
    PROMPT_COPIERS = 128,
    PROMPT_STAGES = CUDA_PROMPT_STAGES,
    PROMPT_LAG = 2, /* stages that a copier has in flight before it waits for one */
    PROMPT_STAGE_BYTES = CUDA_PROMPT_TOKENS * 128,
    PROMPT_STAGING_BYTES = CUDA_PROMPT_TOKENS * 64, /* of each warpgroup */
    PROMPT_REGISTERS = 160,
    PROMPT_COPIER_REGISTERS = 32
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* A tile: 192 rows of the matrix times count columns. */
struct prompt_work {
    const uint8_t *weights, *scales;
    uint32_t row_block, expert, first, count;
    uint32_t room; /* columns of the tile's size class; all smaller tiles come later */
};

/* Fragments of one tile of 16 rows by block of 32 columns; H is the block's position in a run
 * of four. begin() loads the first ones, start() makes block 0's; use<H> gives those of the
 * current block; after<H> is called when the products of the previous block are finished: it
 * makes the next block's fragments and loads later ones. */
struct prompt_mxfp4 {
    const uint4 *from;
    const uint2 *scales_from;
    uint32_t pairs;
    uint4 r[2];          /* codes of two pairs of blocks */
    uint2 s[2];          /* scales of these four blocks and of the next */
    uint32_t a[2][2][4]; /* [block % 2][step] */

    __device__ __forceinline__ void load(int to, uint32_t pair)
    {
        r[to] = load_stream(from + min(pair, pairs - 1) * 32);
    }
    __device__ __forceinline__ void load_scales(int to, uint32_t four)
    {
        s[to] = __ldg(scales_from + min(four, (pairs - 1) / 2) * 8);
    }
    template <int H> __device__ __forceinline__ void decode(int scales)
    {
        uint4 w = r[H / 2];
        /* Not earlier: until now another product uses the registers below. */
        asm volatile("" : "+r"(w.x), "+r"(w.y), "+r"(w.z), "+r"(w.w));
        uint32_t low[4], high[4];
        decode_mxfp4(H % 2 == 0 ? w.x : w.z, scale_pair(s[scales].x, H), low);
        decode_mxfp4(H % 2 == 0 ? w.y : w.w, scale_pair(s[scales].y, H), high);
#pragma unroll
        for (int step = 0; step < 2; step++) {
            a[H % 2][step][0] = low[2 * step];
            a[H % 2][step][1] = high[2 * step];
            a[H % 2][step][2] = low[2 * step + 1];
            a[H % 2][step][3] = high[2 * step + 1];
        }
    }
    __device__ __forceinline__ void begin(const cuda_matrix &m, const prompt_work &w,
                                          uint32_t warp, uint32_t lane)
    {
        const uint32_t tile = min(w.row_block * (CUDA_PROMPT_ROWS / 16) + warp, m.tiles - 1);
        const uint32_t fours = (m.blocks + 3) / 4;
        pairs = (m.blocks + 1) / 2;
        from = reinterpret_cast<const uint4 *>(w.weights) + (size_t)tile * pairs * 32 + lane;
        scales_from =
            reinterpret_cast<const uint2 *>(w.scales) + (size_t)tile * fours * 8 + lane / 4;
        load_scales(0, 0);
        load(0, 0);
        load(1, 1);
        load_scales(1, 1);
    }
    __device__ __forceinline__ void start()
    {
        decode<0>(0);
    }
    template <int H> __device__ __forceinline__ void after(uint32_t block)
    {
        decode<(H + 1) % 4>(H == 3 ? 1 : 0);
        if (H % 2 == 0)
            load(H / 2, block / 2 + 2);
        if (H == 3) {
            s[0] = s[1];
            load_scales(1, block / 4 + 2);
        }
    }
    template <int H> __device__ __forceinline__ void use(int step, uint32_t out[4]) const
    {
#pragma unroll
        for (int k = 0; k < 4; k++)
            out[k] = a[H % 2][step][k];
    }
};

/* Barriers: a stage is full when every copier has arrived, and empty when every multiplying
 * warp has.  `done`: the columns of a tile are not needed any more. */
struct prompt_barriers {
    uint64_t full[PROMPT_STAGES], empty[PROMPT_STAGES], done[2];
};

struct prompt_slot {
    uint32_t at, parity;
    __device__ __forceinline__ void advance()
    {
        if (++at == PROMPT_STAGES) {
            at = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ uint32_t before(uint32_t steps) const
    {
        return at >= steps ? at - steps : at + PROMPT_STAGES - steps;
    }
};

/* The copying warpgroup: rows of x, 64 columns a stage. */
template <class Epilogue, class Work>
__device__ __forceinline__ void prompt_copy(const cuda_gemm &a, Work &work, uint32_t data,
                                            prompt_barriers &barriers, prompt_columns *columns,
                                            uint32_t thread)
{
    constexpr int ROWS = CUDA_PROMPT_TOKENS / (PROMPT_COPIERS / 8);
    constexpr uint32_t NO_ROW = 0xFFFFFFFFu;
    const uint32_t piece = thread % 8, row = thread / 8;
    const uint32_t steps = (a.m.blocks + 1) / 2;
    const uint8_t *x = reinterpret_cast<const uint8_t *>(a.x) + piece * 16;
    const uint32_t to = data + row * 128 + ((piece ^ (row & 7)) << 4);
    prompt_slot slot = {0, 1};
    uint32_t pending = 0, buffer = 0, buffer_parity = 1;
    auto settle = [&] {
        asm volatile("cp.async.wait_all;" ::: "memory");
        fence_for_wgmma();
        for (; pending != 0; pending--)
            ring_arrive(&barriers.full[slot.before(pending)]);
    };
    for (uint32_t index = blockIdx.x; index < work.total; index += gridDim.x) {
        const prompt_work w = work.get(a, index);
        uint32_t from[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++)
            from[i] = row + i * 16 < w.count
                          ? work.source(a, work.row(a, w, row + i * 16)) * a.x_stride * 2
                          : NO_ROW;
        ring_wait(&barriers.done[buffer], buffer_parity);
        for (uint32_t i = thread; i < w.count; i += PROMPT_COPIERS) {
            columns[buffer].row[i] = work.row(a, w, i);
            Epilogue::stage(a, columns[buffer], i);
        }
        if (++buffer == 2) {
            buffer = 0;
            buffer_parity ^= 1;
        }
        for (uint32_t step = 0; step < steps; step++) {
            const bool real = step * 2 + piece / 4 < a.m.blocks;
            const uint8_t *column = x + (real ? step * 128 : 0);
            ring_wait(&barriers.empty[slot.at], slot.parity);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                if (from[i] != NO_ROW)
                    copy_piece(to + slot.at * PROMPT_STAGE_BYTES + i * 2048, column + from[i],
                               real);
            asm volatile("cp.async.commit_group;" ::: "memory");
            slot.advance();
            if (pending < PROMPT_LAG) {
                pending++;
                continue;
            }
            asm volatile("cp.async.wait_group %0;" ::"n"((int)PROMPT_LAG) : "memory");
            fence_for_wgmma();
            ring_arrive(&barriers.full[slot.before(PROMPT_LAG + 1)]);
        }
        /* The tile after the next waits for this one, so none of its stages may be held
         * back. */
        if (steps < PROMPT_LAG)
            settle();
    }
    settle();
}

/* One block of 32 columns: H is its position in a run of four. */
template <int H, int N, class Weights>
__device__ __forceinline__ void prompt_block(uint32_t data, prompt_barriers &barriers,
                                             Weights &w, uint32_t block, prompt_slot &slot,
                                             float acc[N / 2])
{
    if (H % 2 == 0)
        ring_wait(&barriers.full[slot.at], slot.parity);
    wgmma_fence();
    const uint64_t b = wgmma_matrix(data + slot.at * PROMPT_STAGE_BYTES) + (H % 2) * 4;
#pragma unroll
    for (int step = 0; step < 2; step++) {
        uint32_t a[4];
        w.template use<H>(step, a);
        wgmma<N>::run(acc, a, b + step * 2);
    }
    wgmma_commit();
    wgmma_wait<1>();
    if (H % 2 == 0 && block != 0 && threadIdx.x % WARP == 0)
        ring_arrive(&barriers.empty[slot.before(1)]);
    w.template after<H>(block);
    if (H % 2 == 1)
        slot.advance();
}

/* acc = the rows of this warp's tile times the ring's columns. */
template <int N, class Weights>
__device__ __forceinline__ void prompt_multiply(uint32_t data, prompt_barriers &barriers,
                                                Weights &w, uint32_t blocks, prompt_slot &slot,
                                                float acc[N / 2])
{
#pragma unroll
    for (int j = 0; j < N / 2; j++)
        acc[j] = 0;
    w.start();
#define BLOCK(h)                                                                               \
    prompt_block<h, N>(data, barriers, w, block + h, slot, acc);                               \
    if (block + h + 1 >= blocks)                                                               \
    break
    for (uint32_t block = 0; block < blocks; block += 4) {
        BLOCK(0);
        BLOCK(1);
        BLOCK(2);
        BLOCK(3);
    }
#undef BLOCK
    if (blocks % 2 == 1)
        slot.advance();
    wgmma_wait<0>();
    if (threadIdx.x % WARP == 0)
        ring_arrive(&barriers.empty[slot.before(1)]);
}

/* A multiplying warpgroup's position in the list of tiles, and its state. */
template <class Weights> struct prompt_state {
    Weights fragments;
    prompt_work now;
    prompt_slot slot;
    uint32_t index, buffer, warp, lane;
};

/* The tiles from here on with room for exactly N columns.  N is a constant of the instruction,
 * so there is a loop for each N; tiles come in the order of these loops. */
template <int N, class Weights, class Epilogue, class Work>
__device__ __forceinline__ void
prompt_tiles(const cuda_gemm &a, Work &work, uint32_t data, prompt_barriers &barriers,
             const prompt_columns *columns, uint8_t *staging, prompt_state<Weights> &s)
{
    while (s.index < work.total && s.now.room > N - 16) {
        const prompt_place place = {s.now.row_block * (CUDA_PROMPT_ROWS / 16) + s.warp,
                                    s.lane / 4, s.lane % 4, s.now.count};
        const uint32_t expert = s.now.expert;
        float acc[N / 2];
        prompt_multiply<N>(data, barriers, s.fragments, a.m.blocks, s.slot, acc);
        s.index += gridDim.x;
        if (s.index <
            work.total) { /* loads the next tile's weights while this tile is written */
            s.now = work.get(a, s.index);
            s.fragments.begin(a.m, s.now, s.warp, s.lane);
        }
        if (place.tile < a.m.tiles)
            Epilogue::template put<N>(a, columns[s.buffer], place, expert, acc, staging);
        __syncwarp();
        if (s.lane == 0)
            ring_arrive(&barriers.done[s.buffer]);
        s.buffer ^= 1;
    }
}

template <class Weights, class Epilogue, class Work>
__device__ __forceinline__ void prompt_consume(const cuda_gemm &a, Work &work, uint32_t data,
                                               prompt_barriers &barriers,
                                               const prompt_columns *columns, uint8_t *staging)
{
    prompt_state<Weights> s = {.slot = {0, 0},
                               .index = blockIdx.x,
                               .warp = threadIdx.x / WARP,
                               .lane = threadIdx.x % WARP};
    if (s.index >= work.total)
        return;
    s.now = work.get(a, s.index);
    s.fragments.begin(a.m, s.now, s.warp, s.lane);
    prompt_tiles<160, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<144, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<128, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<112, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<96, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<80, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<64, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<48, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<32, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
    prompt_tiles<16, Weights, Epilogue>(a, work, data, barriers, columns, staging, s);
}

template <class Weights, class Epilogue, class Work>
__device__ __forceinline__ void prompt_run(const cuda_gemm &a, Work work)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ prompt_columns columns[2];
    __shared__ prompt_barriers barriers;
    const uint32_t data = (ring_address(shared) + 1023) & ~1023u;
    if (threadIdx.x == 0) {
        for (int i = 0; i < PROMPT_STAGES; i++) {
            ring_init(&barriers.full[i], PROMPT_COPIERS);
            ring_init(&barriers.empty[i], PROMPT_GROUPS * 4);
        }
        ring_init(&barriers.done[0], PROMPT_GROUPS * 4);
        ring_init(&barriers.done[1], PROMPT_GROUPS * 4);
        ring_publish();
    }
    __syncthreads();
    const uint32_t group = threadIdx.x / 128;
    if (group == PROMPT_GROUPS) {
        give_registers<PROMPT_COPIER_REGISTERS>();
        prompt_copy<Epilogue>(a, work, data, barriers, columns, threadIdx.x % 128);
    } else {
        take_registers<PROMPT_REGISTERS>();
        uint8_t *staging = shared + (data - ring_address(shared)) +
                           PROMPT_STAGES * PROMPT_STAGE_BYTES + group * PROMPT_STAGING_BYTES;
        prompt_consume<Weights, Epilogue>(a, work, data, barriers, columns, staging);
    }
}

#endif
#endif
