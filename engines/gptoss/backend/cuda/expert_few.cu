/* gptoss/backend/cuda/expert_few.cu - the experts of a step with more than 64 tokens, as long
 * as an expert has few of them (Hopper).
 *
 * Like prompt.cuh: a tile is 192 rows of the matrix times the tokens of an expert, three
 * warpgroups load weights as fragments, decode MXFP4 in registers and multiply by wgmma, and a
 * fourth warpgroup copies activations into a ring in shared memory.  With few tokens the tensor
 * cores are idle most of the time: reading and decoding weights is the bound.  Therefore
 *   - the number of columns is a constant, and no loop checks for its end;
 *   - a stage of the ring has 192 columns, since each stage costs the copying warps a round
 *     trip to L2 and a fence;
 *   - weights are loaded a stage ahead, also those of the next tile, and the scales of a whole
 *     tile come by one bulk copy;
 *   - the kernels for up to 48 tokens of an expert need so few registers and so little shared
 *     memory that two blocks fit on a multiprocessor: one decodes while the other one waits.
 * More tokens of an expert than a tile has room for are several tiles.
 *
 * Bound by reading and decoding weights.  Precision: bf16 products, float32 sums in a fixed
 * order.  Reference: the expert operations of the CPU backend.  Supports widths of 90 blocks
 * and row counts that are multiples of 192 (gpt-oss 20b and 120b).
 *
 * Shared memory: ring, scales of two tiles, a staging buffer for each warpgroup.
 */
#include "engines/gptoss/backend/cuda/prompt_epilogue.cuh"
#include "engines/gptoss/backend/cuda/wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

enum {
    GROUPS = CUDA_PROMPT_GROUPS,
    COPIERS = 128,
    TILES = CUDA_PROMPT_ROWS / 16, /* of 16 rows */
    BLOCKS = CUDA_STREAM_BLOCKS,
    PAIRS = BLOCKS / 2,
    STAGE_PAIRS = CUDA_FEW_STAGE_PAIRS, /* of blocks of 32 columns */
    STAGE_BLOCKS = 2 * STAGE_PAIRS,
    STEPS = PAIRS / STAGE_PAIRS,       /* stages of a tile */
    SCALE_ROW = (BLOCKS + 3) / 4 * 64, /* bytes of a tile of 16 rows */
    SCALE_BYTES = TILES * SCALE_ROW,
};
static_assert(STEPS * STAGE_PAIRS == PAIRS, "the stages of a tile are whole");

/* What differs between the kernels for up to T tokens of an expert. */
template <int T, int S> struct size_of {
    enum {
        TOKENS = T,
        STAGES = S,
        /* Two blocks a multiprocessor: 3 * 72 + 40 registers are half of all. */
        PAIRED = T <= CUDA_FEW_TOKENS,
        REGISTERS = PAIRED ? 72 : 160,
        COPIER_REGISTERS = PAIRED ? 40 : 32,
        /* Fragments are made while the products of the block before run, or, with two blocks
         * on a multiprocessor, while the other one's run. */
        FRAGMENTS = PAIRED ? 1 : 2,
        PAIR_BYTES = TOKENS * 128,
        STAGE_BYTES = STAGE_PAIRS * PAIR_BYTES,
        STAGING_BYTES = TOKENS * 64,
        SHARED = STAGES * STAGE_BYTES + 2 * SCALE_BYTES + GROUPS * STAGING_BYTES + 1024
    };
};
using few = size_of<CUDA_FEW_TOKENS, CUDA_FEW_STAGES>;
using some = size_of<CUDA_SOME_TOKENS, CUDA_SOME_STAGES>;
static_assert(few::SHARED == CUDA_FEW_SHARED && some::SHARED == CUDA_SOME_SHARED,
              "select.c asks for this much");

/* A tile of 192 rows: offset of its weights, its rows and tokens, and the room of its size
 * class.  All tiles of smaller classes come later; room 0: no tile. */
struct tile_of {
    uint64_t weights;
    uint32_t expert, row_block, first, count, room, pad;

    /* tile `index` of the list, or no tile behind its end */
    __device__ __forceinline__ void find(const cuda_gemm &a, uint32_t index)
    {
        const uint32_t row_blocks = a.m.tiles / TILES;
        if (index >= __ldcg(a.tile_count) * row_blocks) {
            *this = {};
            return;
        }
        const uint4 entry =
            __ldcg(reinterpret_cast<const uint4 *>(a.expert_tile) + index / row_blocks);
        row_block = index % row_blocks;
        expert = entry.x;
        first = entry.y;
        count = entry.z;
        room = entry.w;
        weights = expert * a.m.expert_weights + (uint64_t)row_block * TILES * PAIRS * 512;
    }
};

/* full, empty: a stage of the ring.  scales: those of a tile are there.  done: a tile's columns
 * and scales are not needed any more.  A block's tile t is tiles[t % 4]; the copying warps
 * write it before the first stage of tile t - 1 is full. */
template <class Z> struct shared_state {
    uint64_t full[Z::STAGES], empty[Z::STAGES], scales[2], done[2];
    tile_of tiles[4];
    prompt_columns columns[2];
};

template <class Z> struct place_in_ring {
    uint32_t at, parity;
    __device__ __forceinline__ void advance()
    {
        if (++at == Z::STAGES) {
            at = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ uint32_t before() const
    {
        return at == 0 ? Z::STAGES - 1 : at - 1;
    }
};

/* The copying warpgroup.  EARLY: the tiles were known before the previous kernel started. */
template <class Z, class Epilogue, bool BY_ASSIGNMENT, bool EARLY>
__device__ __forceinline__ void copy_tiles(const cuda_gemm &a, uint32_t data, uint8_t *scales,
                                           shared_state<Z> &b, uint32_t thread)
{
    constexpr int ROWS = Z::TOKENS / (COPIERS / 8);
    constexpr uint32_t NO_ROW = 0xFFFFFFFFu;
    const uint32_t piece = thread % 8, row = thread / 8;
    const uint8_t *x = reinterpret_cast<const uint8_t *>(a.x) + piece * 16;
    const uint32_t to = data + row * 128 + ((piece ^ (row & 7)) << 4);
    place_in_ring<Z> slot = {0, 1};
    bool pending = false;
    auto settle = [&]() {
        fence_for_wgmma();
        ring_arrive(&b.full[slot.before()]);
    };
    for (uint32_t t = 0, index = blockIdx.x; b.tiles[t % 4].room != 0; t++) {
        const tile_of &w = b.tiles[t % 4];
        prompt_columns &columns = b.columns[t % 2];
        index += gridDim.x;
        ring_wait(&b.done[t % 2], t / 2 % 2 ^ 1);
        if (thread == 0) {
            ring_expect(&b.scales[t % 2], SCALE_BYTES);
            ring_copy(scales + t % 2 * SCALE_BYTES,
                      static_cast<const uint8_t *>(a.m.scales) + w.expert * a.m.expert_scales +
                          w.row_block * SCALE_BYTES,
                      SCALE_BYTES, &b.scales[t % 2]);
            b.tiles[(t + 1) % 4].find(a, index);
        }
        uint32_t from[ROWS];
#pragma unroll
        for (int i = 0; i < ROWS; i++) {
            const bool real = row + i * 16 < w.count;
            const uint32_t at = real ? __ldcg(a.sorted + w.first + row + i * 16) : 0;
            from[i] = real ? (BY_ASSIGNMENT ? at : at / a.topk) * a.x_stride * 2 : NO_ROW;
        }
        for (uint32_t i = thread; i < w.count; i += COPIERS) {
            columns.row[i] = __ldcg(a.sorted + w.first + i);
            Epilogue::stage(a, columns, i);
        }
        if (EARLY && t == 0)
            wait_for_previous_kernel();
        for (uint32_t step = 0; step < STEPS; step++) {
            ring_wait(&b.empty[slot.at], slot.parity);
#pragma unroll
            for (int i = 0; i < ROWS; i++)
                if (from[i] != NO_ROW)
#pragma unroll
                    for (int k = 0; k < STAGE_PAIRS; k++)
                        copy_piece(to + slot.at * Z::STAGE_BYTES + k * Z::PAIR_BYTES + i * 2048,
                                   x + from[i] + (step * STAGE_PAIRS + k) * 128, true);
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (pending) {
                asm volatile("cp.async.wait_group 1;" ::: "memory");
                settle();
            }
            pending = true;
            slot.advance();
        }
        /* The next tile, for all copying threads. */
        asm volatile("bar.sync 4, %0;" ::"n"((int)COPIERS) : "memory");
    }
    if (pending) {
        asm volatile("cp.async.wait_all;" ::: "memory");
        settle();
    }
}

/* The weights of a warp's 16 rows: codes of this stage's pairs of blocks, scales of its blocks,
 * fragments of this block and the next. */
template <class Z> struct weights {
    const uint4 *from; /* the pairs of the next stage */
    uint4 codes[STAGE_PAIRS];
    uint32_t low[2], high[2];
    uint32_t a[Z::FRAGMENTS][2][4]; /* [block % Z::FRAGMENTS][step] */

    static __device__ __forceinline__ const uint4 *address(const cuda_gemm &g, const tile_of &w)
    {
        return reinterpret_cast<const uint4 *>(static_cast<const uint8_t *>(g.m.weights) +
                                               w.weights) +
               threadIdx.x / WARP * (PAIRS * 32) + threadIdx.x % WARP;
    }
    __device__ __forceinline__ void load(int pair)
    {
        codes[pair] = load_stream(from + pair * 32);
    }
    /* The scales of a stage start in the middle of four if its number is odd. */
    __device__ __forceinline__ void load_scales(const uint8_t *scales, uint32_t step)
    {
        static_assert(STAGE_BLOCKS == 6, "scales of 6 blocks lie in two words of four");
        const uint2 *at =
            reinterpret_cast<const uint2 *>(scales + step * STAGE_BLOCKS / 4 * 64);
        const uint2 one = at[0], two = at[8];
        const uint32_t shift = step % 2 * 16;
        low[0] = __funnelshift_r(one.x, two.x, shift);
        low[1] = two.x >> shift;
        high[0] = __funnelshift_r(one.y, two.y, shift);
        high[1] = two.y >> shift;
    }
    template <int H> __device__ __forceinline__ void decode()
    {
        uint32_t x[4], y[4], of_x = H % 2 == 0 ? codes[H / 2].x : codes[H / 2].z,
                             of_y = H % 2 == 0 ? codes[H / 2].y : codes[H / 2].w;
        /* Not earlier: until now another product uses the registers below. */
        asm volatile("" : "+r"(of_x), "+r"(of_y));
        decode_mxfp4(of_x, scale_pair(low[H / 4], H % 4), x);
        decode_mxfp4(of_y, scale_pair(high[H / 4], H % 4), y);
#pragma unroll
        for (int step = 0; step < 2; step++) {
            a[H % Z::FRAGMENTS][step][0] = x[2 * step];
            a[H % Z::FRAGMENTS][step][1] = y[2 * step];
            a[H % Z::FRAGMENTS][step][2] = x[2 * step + 1];
            a[H % Z::FRAGMENTS][step][3] = y[2 * step + 1];
        }
    }
};

/* Block H of a stage.  While its products run, the fragments of the next block are made. */
template <class Z, int H, int N>
__device__ __forceinline__ void
multiply_block(uint64_t columns, shared_state<Z> &b, weights<Z> &w, const uint8_t *scales,
               uint32_t step, const place_in_ring<Z> &slot, float acc[N / 2])
{
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 2; k++)
        wgmma<N>::run(acc, w.a[H % Z::FRAGMENTS][k],
                      columns + H / 2 * (Z::PAIR_BYTES / 16) + H % 2 * 4 + k * 2);
    wgmma_commit();
    wgmma_wait<Z::FRAGMENTS - 1>();
    if (H == 0 && step != 0 && threadIdx.x % WARP == 0)
        ring_arrive(&b.empty[slot.before()]);
    w.template decode<(H + 1) % STAGE_BLOCKS>();
    if (H == STAGE_BLOCKS - 2)
        w.load_scales(scales, step + 1); /* behind the last stage: not used */
    if (H % 2 == 0)
        w.load(H / 2);
}

/* A multiplying warpgroup: its weights, its slot of the ring, the number of its tile. */
template <class Z> struct state {
    weights<Z> w;
    place_in_ring<Z> slot;
    uint32_t t;
};

/* The tiles from here on with room for exactly N tokens.  N is a constant of the instruction,
 * so there is a loop for each N; tiles come in the order of these loops. */
template <class Z, int N, class Epilogue>
__device__ __forceinline__ void multiply_tiles(const cuda_gemm &a, uint32_t data,
                                               const uint8_t *scales, shared_state<Z> &b,
                                               uint8_t *staging, state<Z> &s)
{
    const uint64_t first = wgmma_matrix(data);
    while (b.tiles[s.t % 4].room > N - 16) {
        const uint8_t *mine = scales + s.t % 2 * SCALE_BYTES + threadIdx.x / WARP * SCALE_ROW +
                              threadIdx.x % WARP / 4 * 8;
        float acc[N / 2];
#pragma unroll
        for (int j = 0; j < N / 2; j++)
            acc[j] = 0;
        ring_wait(&b.scales[s.t % 2], s.t / 2 % 2);
        s.w.load_scales(mine, 0);
        s.w.template decode<0>();
#pragma unroll 1
        for (uint32_t step = 0; step < STEPS; step++) {
            ring_wait(&b.full[s.slot.at], s.slot.parity);
            s.w.from = step + 1 < STEPS ? s.w.from + STAGE_PAIRS * 32

                                        : weights<Z>::address(a, b.tiles[(s.t + 1) % 4]);
            const uint64_t at = first + s.slot.at * (Z::STAGE_BYTES / 16);
            multiply_block<Z, 0, N>(at, b, s.w, mine, step, s.slot, acc);
            multiply_block<Z, 1, N>(at, b, s.w, mine, step, s.slot, acc);
            multiply_block<Z, 2, N>(at, b, s.w, mine, step, s.slot, acc);
            multiply_block<Z, 3, N>(at, b, s.w, mine, step, s.slot, acc);
            multiply_block<Z, 4, N>(at, b, s.w, mine, step, s.slot, acc);
            multiply_block<Z, 5, N>(at, b, s.w, mine, step, s.slot, acc);
            s.slot.advance();
        }
        wgmma_wait<0>();
        const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        if (lane == 0)
            ring_arrive(&b.empty[s.slot.before()]);
        const tile_of &now = b.tiles[s.t % 4];
        Epilogue::template put<N>(
            a, b.columns[s.t % 2],
            {now.row_block * TILES + warp, lane / 4, lane % 4, now.count, 0}, now.expert, acc,
            staging);
        __syncwarp();
        if (lane == 0)
            ring_arrive(&b.done[s.t % 2]);
        s.t++;
    }
}

template <class Z, class Epilogue>
__device__ __forceinline__ void multiply(const cuda_gemm &a, uint32_t data,
                                         const uint8_t *scales, shared_state<Z> &b,
                                         uint8_t *staging)
{
    state<Z> s = {.slot = {0, 0}, .t = 0};
    if (b.tiles[0].room == 0)
        return;
    s.w.from = weights<Z>::address(a, b.tiles[0]);
#pragma unroll
    for (int i = 0; i < STAGE_PAIRS; i++)
        s.w.load(i);
    if constexpr (Z::TOKENS >= 96)
        multiply_tiles<Z, 96, Epilogue>(a, data, scales, b, staging, s);
    if constexpr (Z::TOKENS >= 80)
        multiply_tiles<Z, 80, Epilogue>(a, data, scales, b, staging, s);
    if constexpr (Z::TOKENS >= 64)
        multiply_tiles<Z, 64, Epilogue>(a, data, scales, b, staging, s);
    static_assert(Z::TOKENS >= 48 && Z::TOKENS <= 96, "a loop for each number of tokens");
    multiply_tiles<Z, 48, Epilogue>(a, data, scales, b, staging, s);
    multiply_tiles<Z, 32, Epilogue>(a, data, scales, b, staging, s);
    multiply_tiles<Z, 16, Epilogue>(a, data, scales, b, staging, s);
}

template <class Z, class Epilogue, bool BY_ASSIGNMENT, bool EARLY>
__device__ __forceinline__ void run(const cuda_gemm &a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ shared_state<Z> b;
    const uint32_t data = (ring_address(shared) + 1023) & ~1023u;
    uint8_t *scales = shared + (data - ring_address(shared)) + Z::STAGES * Z::STAGE_BYTES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < Z::STAGES; i++) {
            ring_init(&b.full[i], COPIERS);
            ring_init(&b.empty[i], GROUPS * 4);
        }
        for (int i = 0; i < 2; i++) {
            ring_init(&b.scales[i], 1);
            ring_init(&b.done[i], GROUPS * 4);
        }
        ring_publish();
    }
    /* The next kernel relies on the list of tiles: it may start when that is complete. */
    if (!EARLY)
        wait_for_previous_kernel();
    if (threadIdx.x == 0)
        b.tiles[0].find(a, blockIdx.x);
    __syncthreads();
    let_next_kernel_start();
    const uint32_t group = threadIdx.x / 128;
    if (group == GROUPS) {
        give_registers<Z::COPIER_REGISTERS>();
        copy_tiles<Z, Epilogue, BY_ASSIGNMENT, EARLY>(a, data, scales, b, threadIdx.x % 128);
    } else {
        take_registers<Z::REGISTERS>();
        multiply<Z, Epilogue>(a, data, scales, b,
                              scales + 2 * SCALE_BYTES + group * Z::STAGING_BYTES);
    }
}

/* grid: at most two blocks a multiprocessor. */
#define FEW extern "C" __global__ void __launch_bounds__(CUDA_PROMPT_THREADS, 2)

FEW few_gate_up(const __grid_constant__ cuda_gemm a)
{
    run<few, prompt_swiglu, false, false>(a);
}

FEW few_down(const __grid_constant__ cuda_gemm a)
{
    run<few, prompt_down_rows, true, true>(a);
}

/* grid: at most one block a multiprocessor. */
#define SOME extern "C" __global__ void __launch_bounds__(CUDA_PROMPT_THREADS, 1)

SOME some_gate_up(const __grid_constant__ cuda_gemm a)
{
    run<some, prompt_swiglu, false, false>(a);
}

SOME some_down(const __grid_constant__ cuda_gemm a)
{
    run<some, prompt_down_rows, true, true>(a);
}

#endif
