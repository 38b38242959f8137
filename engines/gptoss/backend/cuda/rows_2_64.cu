/* gptoss/backend/cuda/rows_2_64.cu - dense products of up to 80 tokens that read weights once.
 *
 * A block has ROWS tiles of 16 rows and a slice of the columns: so few columns that the
 * activations of all tokens fit its shared memory, and enough rows that loading them costs
 * little compared with the weights.  Blocks of a group have the same rows and different slices.
 * They write their sums to memory, wait at a barrier of the group and finish a part of the rows
 * each, adding the slices in order.  The whole grid is resident (at most one block a
 * multiprocessor), so that waiting is safe.
 *
 * Threads: PHASES warps share a slice, and PAIRS of them process two tiles each side by side.
 * A lane copies exactly the weights that it uses itself into shared memory, DEPTH blocks ahead,
 * so that no synchronization with other lanes is needed.  The first copies start before the
 * kernel waits for its predecessor.
 *
 * Bound by reading weights.  Precision: bf16 products, float32 sums in a fixed order.
 * Reference: the linear operations of the CPU backend.
 */
#include "engines/gptoss/backend/cuda/epilogue.cuh"

enum {
    PAIRS = CUDA_ROWS_2_64_TILES / 2,
    PHASES = CUDA_ROWS_2_64_PHASES,
    WARPS = PAIRS * PHASES,
    THREADS = WARPS * WARP,
    DEPTH = CUDA_ROWS_2_64_DEPTH,
    BLOCK_BYTES = 2048, /* of two tiles */
};
static_assert(THREADS == CUDA_ROWS_2_64_THREADS, "select.c starts this many");

/* 16 bytes from memory to shared memory, or zeros. */
__device__ __forceinline__ void copy16(void *to, const void *from, bool real)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                     (uint32_t)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(real ? 16 : 0)
                 : "memory");
}

__device__ __forceinline__ void end_of_copies()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all groups of this thread's copies except for the last `LATER`. */
template <int LATER> __device__ __forceinline__ void wait_for_copies()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory");
}

template <int NT, int DEPTH, int SLICE, class Epilogue>
__device__ __forceinline__ void in_slices(const cuda_gemm &a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ typename Epilogue::shared extra;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    const uint32_t split = blockIdx.x % a.splits, group = blockIdx.x / a.splits;
    const uint32_t first_tile = group * CUDA_ROWS_2_64_TILES;
    const uint32_t slice = a.m.blocks * split / a.splits,
                   slice_end = a.m.blocks * (split + 1) / a.splits;

    /* This warp's two tiles and blocks. */
    const uint32_t per = (slice_end - slice + PHASES - 1) / PHASES;
    const uint32_t begin = min(slice + warp / PAIRS * per, slice_end),
                   end = min(begin + per, slice_end);
    const uint32_t low = min(first_tile + warp % PAIRS * 2, a.m.tiles - 1),
                   high = min(low + 1, a.m.tiles - 1);
    const uint8_t *weights = static_cast<const uint8_t *>(a.m.weights) + lane * 16;
    const uint8_t *low_at = weights + (size_t)low * a.m.blocks * 1024,
                  *high_at = weights + (size_t)high * a.m.blocks * 1024;
    uint8_t *x = shared; /* [block of the slice][column tile][lane] 16 bytes */
    uint8_t *ring = shared + SLICE * NT * 512 + warp * DEPTH * BLOCK_BYTES + lane * 16;
    auto request = [&](uint32_t block) {
        if (block < end) {
            uint8_t *to = ring + (block - begin) % DEPTH * BLOCK_BYTES;
            copy16(to, low_at + block * 1024, true);
            copy16(to + 512, low_at + block * 1024 + 512, true);
            copy16(to + 1024, high_at + block * 1024, true);
            copy16(to + 1536, high_at + block * 1024 + 512, true);
        }
        end_of_copies();
    };
#pragma unroll
    for (int i = 0; i < DEPTH; i++)
        request(begin + i);

    let_next_kernel_start();
    wait_for_previous_kernel();
    for (uint32_t i = threadIdx.x; i < (slice_end - slice) * NT * WARP; i += THREADS) {
        const uint32_t n = i / WARP % NT, block = i / WARP / NT, row = n * 8 + i % WARP / 4;
        copy16(x + i * 16,
               a.x + (size_t)min(row, a.tokens - 1) * a.x_stride + (slice + block) * 32 +
                   i % 4 * 8,
               row < a.tokens);
    }
    end_of_copies();
    Epilogue::stage(a, extra, 0, a.tokens);
    wait_for_copies<0>();
    __syncthreads();

    float acc[2][NT][4];
#pragma unroll
    for (int i = 0; i < 2 * NT * 4; i++)
        acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
    for (uint32_t block = begin; block < end; block++) {
        wait_for_copies<DEPTH - 1>();
        const uint8_t *from = ring + (block - begin) % DEPTH * BLOCK_BYTES;
        uint4 w[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            w[i] = *reinterpret_cast<const uint4 *>(from + i * 512);
        request(block + DEPTH);
        const uint8_t *columns = x + (block - slice) * NT * 512 + lane * 16;
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const uint4 v = *reinterpret_cast<const uint4 *>(columns + n * 512);
#pragma unroll
            for (int i = 0; i < 2; i++) {
                mma(acc[i][n], w[2 * i].x, w[2 * i + 1].x, w[2 * i].y, w[2 * i + 1].y, v.x,
                    v.y);
                mma(acc[i][n], w[2 * i].z, w[2 * i + 1].z, w[2 * i].w, w[2 * i + 1].w, v.z,
                    v.w);
            }
        }
    }

    /* The phases of a slice are combined in shared memory: [phase][tile][column tile][lane]. */
    constexpr uint32_t UNITS = CUDA_ROWS_2_64_TILES * NT;
    float4 *sums = reinterpret_cast<float4 *>(shared);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int n = 0; n < NT; n++)
            sums[(warp / PAIRS * UNITS + (warp % PAIRS * 2 + i) * NT + n) * WARP + lane] =
                make_float4(acc[i][n][0], acc[i][n][1], acc[i][n][2], acc[i][n][3]);
    __syncthreads();
    float4 *parts =
        reinterpret_cast<float4 *>(a.parts) + (size_t)group * a.splits * UNITS * WARP;
    for (uint32_t i = threadIdx.x; i < UNITS * WARP; i += THREADS) {
        float4 sum = sums[i];
#pragma unroll
        for (uint32_t p = 1; p < PHASES; p++) {
            float4 v = sums[p * UNITS * WARP + i];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        __stcg(parts + split * UNITS * WARP + i, sum);
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        meet(a.tickets + group * 2, a.splits);
    __syncthreads();
    for (uint32_t unit = warp * a.splits + split; unit < UNITS; unit += WARPS * a.splits) {
        const uint32_t tile = first_tile + unit / NT, n = unit % NT;
        if (tile >= a.m.tiles)
            break;
        const early_bias bias = Epilogue::early(a, tile, g, 0);
        float4 sum = __ldcg(parts + unit * WARP + lane);
        for (uint32_t s = 1; s < a.splits; s++) {
            float4 v = __ldcg(parts + (s * UNITS + unit) * WARP + lane);
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        const uint32_t column = n * 8 + 2 * t;
        if (column < a.tokens)
            Epilogue::put(a, extra, bias, a.tokens, tile, g, column, column, sum.x, sum.z);
        if (column + 1 < a.tokens)
            Epilogue::put(a, extra, bias, a.tokens, tile, g, column + 1, column + 1, sum.y,
                          sum.w);
    }
}

/* A matrix with very many rows (the vocabulary): a block has LOGITS_TILES tiles and all
 * columns, so no sums are added between blocks.  Activations are loaded CHUNK blocks of columns
 * at a time, the next chunk while one is used.  A block continues with further rows without a
 * pause. */
enum { LOGITS_WARPS = CUDA_LOGITS_THREADS / WARP, LOGITS_TILES = LOGITS_WARPS * 2, CHUNK = 6 };

template <int NT> __device__ __forceinline__ void logits_rows(const cuda_gemm &a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    const uint32_t groups = (a.m.tiles + LOGITS_TILES - 1) / LOGITS_TILES, blocks = a.m.blocks;
    const uint32_t chunks = (blocks + CHUNK - 1) / CHUNK;
    uint8_t *x = shared; /* [2][block of the chunk][column tile][lane] 16 bytes */
    uint8_t *ring = shared + 2 * CHUNK * NT * 512 + warp * DEPTH * BLOCK_BYTES + lane * 16;
    const uint8_t *weights = static_cast<const uint8_t *>(a.m.weights) + lane * 16;

    /* The next copy: it runs DEPTH blocks ahead, across the ends of groups. */
    uint32_t ask_group = blockIdx.x, ask_block = 0, ask_slot = 0;
    auto request = [&]() {
        if (ask_group < groups) {
            const uint32_t low = min(ask_group * LOGITS_TILES + warp * 2, a.m.tiles - 1),
                           high = min(low + 1, a.m.tiles - 1);
            const uint8_t *p = weights + ((size_t)low * blocks + ask_block) * 1024,
                          *q = weights + ((size_t)high * blocks + ask_block) * 1024;
            uint8_t *to = ring + ask_slot * BLOCK_BYTES;
            copy16(to, p, true);
            copy16(to + 512, p + 512, true);
            copy16(to + 1024, q, true);
            copy16(to + 1536, q + 512, true);
            ask_slot = (ask_slot + 1) % DEPTH;
            if (++ask_block == blocks) {
                ask_block = 0;
                ask_group += gridDim.x;
            }
        }
    };
    auto bring = [&](uint32_t chunk, uint32_t buffer) {
        const uint32_t count = min((uint32_t)CHUNK, blocks - chunk * CHUNK) * NT * WARP;
        for (uint32_t i = threadIdx.x; i < count; i += CUDA_LOGITS_THREADS) {
            const uint32_t n = i / WARP % NT, block = chunk * CHUNK + i / WARP / NT,
                           row = n * 8 + i % WARP / 4;
            copy16(x + (buffer * CHUNK * NT * WARP + i) * 16,
                   a.x + (size_t)min(row, a.tokens - 1) * a.x_stride + block * 32 + i % 4 * 8,
                   row < a.tokens);
        }
    };
    for (int i = 0; i < DEPTH - 1; i++) {
        request();
        end_of_copies();
    }
    let_next_kernel_start();
    wait_for_previous_kernel();
    bring(0, 0);
    request();
    end_of_copies();
    wait_for_copies<0>();

    uint32_t slot = 0, buffer = 0;
    for (uint32_t group = blockIdx.x; group < groups; group += gridDim.x) {
        float acc[2][NT][4];
#pragma unroll
        for (int i = 0; i < 2 * NT * 4; i++)
            acc[i / (NT * 4)][i / 4 % NT][i % 4] = 0;
        for (uint32_t chunk = 0; chunk < chunks; chunk++) {
            const uint32_t count = min((uint32_t)CHUNK, blocks - chunk * CHUNK);
            /* The chunk before chunk 0 may have been short: then the copies of this chunk are
             * not old enough. */
            if (chunk == 0 && blocks % CHUNK != 0)
                wait_for_copies<0>();
            else
                wait_for_copies<DEPTH - 1>();
            __syncthreads();
            bring(chunk + 1 < chunks ? chunk + 1 : 0, buffer ^ 1);
            for (uint32_t i = 0; i < count; i++) {
                wait_for_copies<DEPTH - 1>();
                const uint8_t *from = ring + slot * BLOCK_BYTES;
                uint4 w[4];
#pragma unroll
                for (int k = 0; k < 4; k++)
                    w[k] = *reinterpret_cast<const uint4 *>(from + k * 512);
                request();
                end_of_copies();
                slot = (slot + 1) % DEPTH;
                const uint8_t *columns = x + ((buffer * CHUNK + i) * NT * WARP + lane) * 16;
#pragma unroll
                for (int n = 0; n < NT; n++) {
                    const uint4 v = *reinterpret_cast<const uint4 *>(columns + n * 512);
#pragma unroll
                    for (int k = 0; k < 2; k++) {
                        mma(acc[k][n], w[2 * k].x, w[2 * k + 1].x, w[2 * k].y, w[2 * k + 1].y,
                            v.x, v.y);
                        mma(acc[k][n], w[2 * k].z, w[2 * k + 1].z, w[2 * k].w, w[2 * k + 1].w,
                            v.z, v.w);
                    }
                }
            }
            buffer ^= 1;
        }
        const logits_epilogue::shared none = {};
#pragma unroll
        for (int k = 0; k < 2; k++) {
            const uint32_t tile = group * LOGITS_TILES + warp * 2 + k;
#pragma unroll
            for (int n = 0; n < NT; n++)
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    const uint32_t column = n * 8 + 2 * t + i;
                    if (tile < a.m.tiles && column < a.tokens)
                        logits_epilogue::put(a, none, {0, 0}, a.tokens, tile, g, column, column,
                                             acc[k][n][i], acc[k][n][i + 2]);
                }
        }
    }
}

#define IN_SLICES(name, NT, DEPTH, SLICE, epilogue)                                            \
    extern "C" __global__ void __launch_bounds__(THREADS, 1)                                   \
        name(const __grid_constant__ cuda_gemm a)                                              \
    {                                                                                          \
        in_slices<NT, DEPTH, SLICE, epilogue>(a);                                              \
    }

IN_SLICES(rows_2_64_qkv_8, 1, DEPTH, CUDA_ROWS_2_64_SLICE, qkv_epilogue)
IN_SLICES(rows_2_64_qkv_16, 2, DEPTH, CUDA_ROWS_2_64_SLICE, qkv_epilogue)
IN_SLICES(rows_2_64_qkv_32, 4, DEPTH, CUDA_ROWS_2_64_SLICE, qkv_epilogue)
IN_SLICES(rows_2_64_qkv_64, 8, DEPTH, CUDA_ROWS_2_64_SLICE, qkv_epilogue)
IN_SLICES(rows_2_64_qkv_72, 9, DEPTH, CUDA_ROWS_2_64_SLICE_72, qkv_epilogue)
IN_SLICES(rows_2_64_qkv_80, 10, CUDA_ROWS_2_64_DEPTH_80, CUDA_ROWS_2_64_SLICE, qkv_epilogue)
IN_SLICES(rows_2_64_out_8, 1, DEPTH, CUDA_ROWS_2_64_SLICE, residual_epilogue)
IN_SLICES(rows_2_64_out_16, 2, DEPTH, CUDA_ROWS_2_64_SLICE, residual_epilogue)
IN_SLICES(rows_2_64_out_32, 4, DEPTH, CUDA_ROWS_2_64_SLICE, residual_epilogue)
IN_SLICES(rows_2_64_out_64, 8, DEPTH, CUDA_ROWS_2_64_SLICE, residual_epilogue)
IN_SLICES(rows_2_64_out_72, 9, DEPTH, CUDA_ROWS_2_64_SLICE_72, residual_epilogue)
IN_SLICES(rows_2_64_out_80, 10, CUDA_ROWS_2_64_DEPTH_80, CUDA_ROWS_2_64_SLICE,
          residual_epilogue)

#define LOGITS_ROWS(name, NT)                                                                  \
    extern "C" __global__ void __launch_bounds__(CUDA_LOGITS_THREADS, 1)                       \
        name(const __grid_constant__ cuda_gemm a)                                              \
    {                                                                                          \
        logits_rows<NT>(a);                                                                    \
    }

LOGITS_ROWS(logits_rows_16, 2)
LOGITS_ROWS(logits_rows_32, 4)
LOGITS_ROWS(logits_rows_64, 8)
