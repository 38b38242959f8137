/* gptoss/backend/cuda/prompt_dense.cu - the dense products of a prompt on Hopper.
 *
 * Like prompt.cuh, but tiles have 256 rows of up to 192 tokens, and two warpgroups with 128
 * rows each multiply while a third copies. bf16 weights need no decoding, so both operands go
 * to shared memory: in the order of args.h eight rows of a block lie together as 32 plain
 * columns each, which is what wgmma reads.  Large tiles help here, because the bandwidth of L2
 * is the bound, and a multiplying thread needs registers only for sums.  Shared memory: stages
 * of [block of 32 columns][256 rows] 64 bytes and [token] 128 bytes.
 *
 * With fewer tiles than multiprocessors, `splits` blocks share a tile: each has a part of the
 * columns of the matrix.  They write their sums to memory, wait for each other and finish a
 * part of the tokens each, adding the parts in order.  Then the whole grid is resident.
 *
 * Precision: bf16 products, float32 sums in a fixed order.
 */
#include "engines/gptoss/backend/cuda/prompt_epilogue.cuh"
#include "engines/gptoss/backend/cuda/wgmma.cuh"

enum {
    GROUPS = CUDA_DENSE_ROWS / 128,
    COPIERS = 128,
    TILES = CUDA_DENSE_ROWS / 16,
    LAG = 1, /* stages that a copier has in flight before it waits for one */
    BLOCK_BYTES = CUDA_DENSE_ROWS * 64,
    STAGES_MAX = CUDA_DENSE_STAGES_MAX
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct barriers {
    uint64_t full[STAGES_MAX], empty[STAGES_MAX], done[2];
};

/* The tiles of a product, this block's part of the columns (in steps of 64), and the ring; all
 * follow from the arguments. */
struct plan {
    uint32_t token_tiles, total, splits, begin, end, stages, stage_bytes, data;

    __device__ __forceinline__ plan(const cuda_gemm &a, bool split, uint32_t address)
    {
        const uint32_t steps = (a.m.blocks + 1) / 2;
        token_tiles = (a.tokens + a.tile_tokens - 1) / a.tile_tokens;
        splits = split ? a.splits : 1;
        total = token_tiles * ((a.m.tiles + TILES - 1) / TILES);
        begin = steps * (blockIdx.x % splits) / splits;
        end = steps * (blockIdx.x % splits + 1) / splits;
        stage_bytes = (CUDA_DENSE_ROWS + a.tile_tokens) * 128;
        stages = min((uint32_t)CUDA_DENSE_RING_BYTES / stage_bytes, (uint32_t)STAGES_MAX);
        data = address;
    }
    __device__ __forceinline__ uint32_t tokens_of(const cuda_gemm &a, uint32_t index,
                                                  uint32_t &first) const
    {
        first = index % token_tiles * a.tile_tokens;
        return min(a.tokens - first, a.tile_tokens);
    }
};

struct place_in_ring {
    uint32_t at, parity;
    __device__ __forceinline__ void advance(uint32_t stages)
    {
        if (++at == stages) {
            at = 0;
            parity ^= 1;
        }
    }
    __device__ __forceinline__ uint32_t before(uint32_t steps, uint32_t stages) const
    {
        return at >= steps ? at - steps : at + stages - steps;
    }
};

/* 64 columns of weights. */
__device__ __forceinline__ void copy_weights(const cuda_gemm &a, uint32_t to, uint32_t tile,
                                             uint32_t step, uint32_t thread)
{
    /* A tile's two blocks are adjacent: each thread copies a piece of them. */
    const uint32_t g = thread / 4 % 8;
    const uint32_t row_at = thread / 64 * BLOCK_BYTES + thread / 32 % 2 * 512 + g * 64 +
                            ((thread % 4 ^ g / 2) << 4);
    const bool real_row = step * 2 + thread / 64 < a.m.blocks;
    const uint8_t *rows = static_cast<const uint8_t *>(a.m.weights) +
                          ((size_t)tile * a.m.blocks + step * 2) * 1024 +
                          (real_row ? thread * 16 : 0);
#pragma unroll
    for (int i = 0; i < TILES; i++)
        if (tile + i < a.m.tiles)
            copy_piece(to + row_at + i * 1024, rows + (size_t)i * a.m.blocks * 1024, real_row);
}

/* 64 columns of activations. */
__device__ __forceinline__ void copy_tokens(const cuda_gemm &a, uint32_t to, uint32_t step,
                                            uint32_t first, uint32_t count, uint32_t thread)
{
    const uint32_t piece = thread % 8, row = thread / 8;
    const bool real = step * 2 + piece / 4 < a.m.blocks;
    const uint32_t column_at = 2 * BLOCK_BYTES + row * 128 + ((piece ^ (row & 7)) << 4);
    const uint8_t *column =
        reinterpret_cast<const uint8_t *>(a.x + (size_t)(first + row) * a.x_stride) +
        (real ? step * 128 + piece * 16 : 0);
    for (uint32_t i = 0; row + i * 16 < count; i++)
        copy_piece(to + column_at + i * 2048, column + (size_t)i * 32 * a.x_stride, real);
}

template <class Epilogue>
__device__ __forceinline__ void copy_tiles(const cuda_gemm &a, const plan &p, barriers &b,
                                           prompt_columns *columns, uint32_t thread)
{
    place_in_ring slot = {0, 1};
    uint32_t pending = 0, buffer = 0, buffer_parity = 1, early = 0;
    /* The first tile's weights do not depend on the kernel before: they fill the ring while
     * that kernel still runs. */
    if (blockIdx.x / p.splits < p.total)
        for (; early < p.stages && p.begin + early < p.end; early++)
            copy_weights(a, p.data + early * p.stage_bytes,
                         blockIdx.x / p.splits / p.token_tiles * TILES, p.begin + early,
                         thread);
    wait_for_previous_kernel();
    for (uint32_t index = blockIdx.x / p.splits; index < p.total;
         index += gridDim.x / p.splits) {
        uint32_t first, count = p.tokens_of(a, index, first);
        ring_wait(&b.done[buffer], buffer_parity);
        for (uint32_t i = thread; i < count; i += COPIERS) {
            columns[buffer].row[i] = first + i;
            Epilogue::stage(a, columns[buffer], i);
        }
        buffer ^= 1;
        buffer_parity ^= buffer == 0 ? 1 : 0;
        for (uint32_t step = p.begin; step < p.end; step++) {
            ring_wait(&b.empty[slot.at], slot.parity);
            const uint32_t to = p.data + slot.at * p.stage_bytes;
            if (early != 0)
                early--;
            else
                copy_weights(a, to, index / p.token_tiles * TILES, step, thread);
            copy_tokens(a, to, step, first, count, thread);
            asm volatile("cp.async.commit_group;" ::: "memory");
            slot.advance(p.stages);
            if (pending < LAG) {
                pending++;
                continue;
            }
            asm volatile("cp.async.wait_group %0;" ::"n"((int)LAG) : "memory");
            fence_for_wgmma();
            ring_arrive(&b.full[slot.before(LAG + 1, p.stages)]);
        }
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    fence_for_wgmma();
    for (; pending != 0; pending--)
        ring_arrive(&b.full[slot.before(pending, p.stages)]);
}

/* acc = 2 x 64 rows of the ring's weights times its tokens. */
template <int N>
__device__ __forceinline__ void multiply_tile(const plan &p, barriers &b, uint32_t group,
                                              place_in_ring &slot, float acc[2][N / 2])
{
#pragma unroll
    for (int j = 0; j < N / 2; j++)
        acc[0][j] = acc[1][j] = 0;
    for (uint32_t step = p.begin; step < p.end; step++) {
        const uint32_t stage = p.data + slot.at * p.stage_bytes;
        const uint64_t rows = wgmma_rows(stage + group * 8192),
                       columns = wgmma_matrix(stage + 2 * BLOCK_BYTES);
        ring_wait(&b.full[slot.at], slot.parity);
        wgmma_fence();
#pragma unroll
        for (int k = 0; k < 4; k++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                wgmma<N>::run(acc[i], rows + i * 256 + k / 2 * (BLOCK_BYTES / 16) + k % 2 * 2,
                              columns + k * 2);
        wgmma_commit();
        wgmma_wait<1>();
        if (step != p.begin && threadIdx.x % WARP == 0)
            ring_arrive(&b.empty[slot.before(1, p.stages)]);
        slot.advance(p.stages);
    }
    wgmma_wait<0>();
    if (threadIdx.x % WARP == 0)
        ring_arrive(&b.empty[slot.before(1, p.stages)]);
}

/* The sums of a block that shares its tile: to memory, and back for its part of the tokens.
 * Parts: [tile][split][half of the rows, 8 tokens][thread] 16 bytes. */
template <int N, class Epilogue>
__device__ __forceinline__ void share_tile(const cuda_gemm &a, const plan &p,
                                           const prompt_columns &columns, prompt_place place,
                                           const float acc[2][N / 2])
{
    constexpr uint32_t THREADS = CUDA_DENSE_ROWS, UNITS = N / 4;
    const uint32_t tile = blockIdx.x / p.splits, split = blockIdx.x % p.splits;
    float4 *parts = reinterpret_cast<float4 *>(a.parts) +
                    (size_t)tile * p.splits * UNITS * THREADS + threadIdx.x;
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int j = 0; j < N / 8; j++)
            __stcg(parts + (split * UNITS + i * (N / 8) + j) * THREADS,
                   make_float4(acc[i][4 * j], acc[i][4 * j + 1], acc[i][4 * j + 2],
                               acc[i][4 * j + 3]));
    __threadfence();
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
    if (threadIdx.x == 0)
        meet(a.tickets + tile * 2, p.splits);
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
    const uint32_t first_tile = place.tile;
    for (uint32_t j = split; j < N / 8 && j * 8 < place.count; j += p.splits)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float sums[4] = {0, 0, 0, 0};
            for (uint32_t s = 0; s < p.splits; s++) {
                const float4 v = __ldcg(parts + (s * UNITS + i * (N / 8) + j) * THREADS);
                sums[0] += v.x;
                sums[1] += v.y;
                sums[2] += v.z;
                sums[3] += v.w;
            }
            place.tile = first_tile + i * 4;
            place.first = j * 8;
            if (place.tile < a.m.tiles)
                Epilogue::template put<8>(a, columns, place, 0, sums, nullptr);
        }
}

template <int N, class Epilogue, bool SPLIT>
__device__ __forceinline__ void multiply_tiles(const cuda_gemm &a, const plan &p, barriers &b,
                                               const prompt_columns *columns)
{
    const uint32_t group = threadIdx.x / 128, warp = threadIdx.x / WARP % 4,
                   lane = threadIdx.x % WARP;
    place_in_ring slot = {0, 0};
    uint32_t buffer = 0;
    for (uint32_t index = blockIdx.x / p.splits; index < p.total;
         index += gridDim.x / p.splits) {
        uint32_t first, count = p.tokens_of(a, index, first);
        const uint32_t tile = index / p.token_tiles * TILES + group * 8 + warp;
        float acc[2][N / 2];
        multiply_tile<N>(p, b, group, slot, acc);
        if constexpr (SPLIT) {
            share_tile<N, Epilogue>(a, p, columns[buffer], {tile, lane / 4, lane % 4, count, 0},
                                    acc);
            return;
        } else {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                prompt_place place = {tile + i * 4, lane / 4, lane % 4, count, 0};
                if (place.tile < a.m.tiles)
                    Epilogue::template put<N>(a, columns[buffer], place, 0, acc[i], nullptr);
            }
            __syncwarp();
            if (lane == 0)
                ring_arrive(&b.done[buffer]);
            buffer ^= 1;
        }
    }
}

template <class Epilogue, bool SPLIT> __device__ __forceinline__ void run(const cuda_gemm &a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ prompt_columns columns[2];
    __shared__ barriers b;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES_MAX; i++) {
            ring_init(&b.full[i], COPIERS);
            ring_init(&b.empty[i], GROUPS * 4);
        }
        ring_init(&b.done[0], GROUPS * 4);
        ring_init(&b.done[1], GROUPS * 4);
        ring_publish();
    }
    __syncthreads();
    let_next_kernel_start();
    const plan p(a, SPLIT, (ring_address(shared) + 1023) & ~1023u);
    if (threadIdx.x / 128 == GROUPS) {
        give_registers<40>();
        copy_tiles<Epilogue>(a, p, b, columns, threadIdx.x % 128);
        return;
    }
    take_registers<232>();
    wait_for_previous_kernel();
    /* The number of tokens is a constant of the instruction, so there is a loop for each. */
    switch (a.tile_tokens / 32) {
    case 1:
        return multiply_tiles<32, Epilogue, SPLIT>(a, p, b, columns);
    case 2:
        return multiply_tiles<64, Epilogue, SPLIT>(a, p, b, columns);
    case 3:
        return multiply_tiles<96, Epilogue, SPLIT>(a, p, b, columns);
    case 4:
        return multiply_tiles<128, Epilogue, SPLIT>(a, p, b, columns);
    case 5:
        return multiply_tiles<160, Epilogue, SPLIT>(a, p, b, columns);
    default:
        return multiply_tiles<CUDA_DENSE_TOKENS, Epilogue, SPLIT>(a, p, b, columns);
    }
}

/* grid: at most one block a multiprocessor. */
#define KERNEL extern "C" __global__ void __launch_bounds__(CUDA_DENSE_THREADS, 1)

KERNEL prompt_qkv(const __grid_constant__ cuda_gemm a)
{
    run<prompt_qkv_rows, false>(a);
}

KERNEL prompt_out(const __grid_constant__ cuda_gemm a)
{
    run<prompt_residual, false>(a);
}

KERNEL prompt_logits(const __grid_constant__ cuda_gemm a)
{
    run<prompt_logit_rows, false>(a);
}

KERNEL prompt_qkv_split(const __grid_constant__ cuda_gemm a)
{
    run<prompt_qkv_rows, true>(a);
}

KERNEL prompt_out_split(const __grid_constant__ cuda_gemm a)
{
    run<prompt_residual, true>(a);
}

#endif
