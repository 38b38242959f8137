/* gptoss/backend/cuda/rows_tiled.cu - products of a matrix with many tokens (prompts).
 *
 * Bound by the tensor cores and by reading activations from L2, once for each 256 rows.  A
 * block computes 256 rows of 128 tokens: 16 warps as 8 (rows) by 2 (tokens), each 32 rows by 64
 * tokens in registers.  Weights go directly from memory (L2) to
 * registers as fragments (args.h), where MXFP4 is decoded; activations come through shared
 * memory by asynchronous copies, STAGES deep.  Shared memory: [stage][block of 32
 * columns][token] 64 bytes: eight lanes of a 16-byte access phase read 128 consecutive bytes.
 * Precision: bf16 products, float32 sums.  Reference: the CPU backend's linear operations.
 */
#include "engines/gptoss/backend/cuda/epilogue.cuh"

enum {
    ROW_WARPS = CUDA_TILE_ROWS / 32,
    TILE_THREADS = 2 * ROW_WARPS * WARP,
    PER_TOKEN = TILE_THREADS / CUDA_TILE_TOKENS, /* threads that copy a token */
    STAGES = 4,
    STAGE_BLOCKS = 2,
    ROW_TILES = 2,
    COLUMN_TILES = 8,
    STAGE_BYTES = STAGE_BLOCKS * CUDA_TILE_TOKENS * 64
};

__device__ __forceinline__ void copy_async(void *to, const void *from, bool real)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                 "r"(real ? 16 : 0));
}

/* The fragments of ROW_TILES row tiles.  Two of them alternate by block (bf16) or by stage
 * (MXFP4): request() loads the block after `block`, get() decodes a loaded one.  ODD is the
 * parity of the stage, B the block within it; both are compile-time constants, because
 * registers cannot be indexed at run time. */
struct fragments_bf16 {
    uint4 r[2][ROW_TILES][2];

    __device__ __forceinline__ void load(int to, const cuda_matrix &m, const uint8_t *weights,
                                         uint32_t tile, uint32_t block, uint32_t lane)
    {
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            bool real = tile + i < m.tiles && block < m.blocks;
            const uint4 *p = reinterpret_cast<const uint4 *>(weights) +
                             ((size_t)(tile + i) * m.blocks + block) * 64 + lane;
            r[to][i][0] = real ? __ldg(p) : make_uint4(0, 0, 0, 0);
            r[to][i][1] = real ? __ldg(p + 32) : make_uint4(0, 0, 0, 0);
        }
    }
    __device__ __forceinline__ void begin(const cuda_matrix &m, const uint8_t *weights,
                                          const uint8_t *, uint32_t tile, uint32_t lane)
    {
        load(0, m, weights, tile, 0, lane);
    }
    template <int ODD, int B>
    __device__ __forceinline__ void request(const cuda_matrix &m, const uint8_t *weights,
                                            const uint8_t *, uint32_t tile, uint32_t block,
                                            uint32_t lane)
    {
        load(1 - B, m, weights, tile, block + 1, lane);
    }
    template <int ODD, int B>
    __device__ __forceinline__ void get(int i, uint32_t, uint32_t low[4],
                                        uint32_t high[4]) const
    {
        const uint4 x = r[B][i][0], y = r[B][i][1];
        low[0] = x.x, low[1] = x.y, low[2] = x.z, low[3] = x.w;
        high[0] = y.x, high[1] = y.y, high[2] = y.z, high[3] = y.w;
    }
};

struct fragments_mxfp4 {
    uint4 r[2][ROW_TILES];
    uint2 s[2][ROW_TILES];

    __device__ __forceinline__ void load(int to, const cuda_matrix &m, const uint8_t *weights,
                                         const uint8_t *scales, uint32_t tile, uint32_t block,
                                         uint32_t lane)
    {
        uint32_t pairs = (m.blocks + 1) / 2, fours = (m.blocks + 3) / 4;
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            bool real = tile + i < m.tiles && block < m.blocks;
            const uint4 *p = reinterpret_cast<const uint4 *>(weights) +
                             ((size_t)(tile + i) * pairs + block / 2) * 32 + lane;
            const uint2 *q = reinterpret_cast<const uint2 *>(scales) +
                             ((size_t)(tile + i) * fours + block / 4) * 8 + lane / 4;
            r[to][i] = real ? __ldg(p) : make_uint4(0, 0, 0, 0);
            s[to][i] = real ? __ldg(q) : make_uint2(0, 0);
        }
    }
    __device__ __forceinline__ void begin(const cuda_matrix &m, const uint8_t *weights,
                                          const uint8_t *scales, uint32_t tile, uint32_t lane)
    {
        load(0, m, weights, scales, tile, 0, lane);
    }
    template <int ODD, int B>
    __device__ __forceinline__ void request(const cuda_matrix &m, const uint8_t *weights,
                                            const uint8_t *scales, uint32_t tile,
                                            uint32_t block, uint32_t lane)
    {
        if (B == 0)
            load(1 - ODD, m, weights, scales, tile, block + 2, lane);
    }
    template <int ODD, int B>
    __device__ __forceinline__ void get(int i, uint32_t block, uint32_t low[4],
                                        uint32_t high[4]) const
    {
        uint32_t which = block % 4, select = 0x0404 | which << 4 | which << 12;
        decode_mxfp4(B == 0 ? r[ODD][i].x : r[ODD][i].z,
                     __byte_perm(s[ODD][i].x, 0, select) >> 1, low);
        decode_mxfp4(B == 0 ? r[ODD][i].y : r[ODD][i].w,
                     __byte_perm(s[ODD][i].y, 0, select) >> 1, high);
    }
};

/* One block of 32 columns: loads the next weights, multiplies these. */
template <int ODD, int B, class Fragments>
__device__ __forceinline__ void
multiply_block(const cuda_gemm &a, const uint8_t *weights, const uint8_t *scales, uint32_t tile,
               uint32_t block, uint32_t lane, const uint8_t *x, Fragments &w,
               float acc[ROW_TILES][COLUMN_TILES][4])
{
    w.template request<ODD, B>(a.m, weights, scales, tile, block, lane);
    uint32_t low[ROW_TILES][4], high[ROW_TILES][4];
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
        w.template get<ODD, B>(i, block, low[i], high[i]);
#pragma unroll
    for (int n = 0; n < COLUMN_TILES; n++) {
        uint4 v =
            *reinterpret_cast<const uint4 *>(x + B * (CUDA_TILE_TOKENS * 64) + n * 8 * 64);
#pragma unroll
        for (int i = 0; i < ROW_TILES; i++) {
            mma(acc[i][n], low[i][0], high[i][0], low[i][1], high[i][1], v.x, v.y);
            mma(acc[i][n], low[i][2], high[i][2], low[i][3], high[i][3], v.z, v.w);
        }
    }
}

/* source(i): row of x that column i of this tile reads; column(i): its meaning for the
 * epilogue. */
template <class Fragments, class Epilogue, class Source, class Column>
__device__ __forceinline__ void
run_tile(const cuda_gemm &a, const uint8_t *weights, const uint8_t *scales, uint32_t row_block,
         uint32_t first_token, uint32_t count, uint32_t expert, Source source, Column column)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ typename Epilogue::shared extra;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    const uint32_t tile = row_block * (CUDA_TILE_ROWS / 16) + warp % ROW_WARPS * ROW_TILES;
    const uint32_t first_column = warp / ROW_WARPS * 64;
    const uint32_t steps = (a.m.blocks + STAGE_BLOCKS - 1) / STAGE_BLOCKS;

    /* The threads of a token copy its 8 pieces of 16 bytes a stage. */
    const uint32_t token = threadIdx.x / PER_TOKEN, pieces = 8 / PER_TOKEN,
                   first_piece = threadIdx.x % PER_TOKEN * pieces;
    const bool real_token = token < count;
    const uint8_t *from = reinterpret_cast<const uint8_t *>(
        a.x + (size_t)(real_token ? source(token) : 0) * a.x_stride);
    auto fetch = [&](uint32_t step) {
        uint8_t *to = shared + step % STAGES * STAGE_BYTES + token * 64;
        uint32_t block = step * STAGE_BLOCKS + first_piece / 4;
#pragma unroll
        for (uint32_t i = 0; i < pieces; i++) {
            uint32_t at = (first_piece % 4 + i) * 16;
            copy_async(to + first_piece / 4 * (CUDA_TILE_TOKENS * 64) + at,
                       from + (size_t)block * 64 + at, real_token && block < a.m.blocks);
        }
    };

    float acc[ROW_TILES][COLUMN_TILES][4];
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++)
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++)
            acc[i][n][0] = acc[i][n][1] = acc[i][n][2] = acc[i][n][3] = 0;

    for (uint32_t s = 0; s < STAGES - 1; s++) {
        if (s < steps)
            fetch(s);
        asm volatile("cp.async.commit_group;");
    }
    Epilogue::stage(a, extra, first_token,
                    count); /* barriers in the loop come before its use */
    Fragments w;
    w.begin(a.m, weights, scales, tile, lane);
    auto next_stage = [&](uint32_t step) -> const uint8_t * {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2));
        __syncthreads();
        if (step + STAGES - 1 < steps)
            fetch(step + STAGES - 1);
        asm volatile("cp.async.commit_group;");
        return shared + step % STAGES * STAGE_BYTES + (first_column + g) * 64 + t * 16;
    };
    for (uint32_t step = 0; step < steps; step += 2) {
        const uint8_t *x = next_stage(step);
        multiply_block<0, 0>(a, weights, scales, tile, step * 2, lane, x, w, acc);
        multiply_block<0, 1>(a, weights, scales, tile, step * 2 + 1, lane, x, w, acc);
        if (step + 1 == steps)
            break;
        x = next_stage(step + 1);
        multiply_block<1, 0>(a, weights, scales, tile, step * 2 + 2, lane, x, w, acc);
        multiply_block<1, 1>(a, weights, scales, tile, step * 2 + 3, lane, x, w, acc);
    }
#pragma unroll
    for (int i = 0; i < ROW_TILES; i++) {
        if (tile + i >= a.m.tiles)
            break;
        early_bias bias = Epilogue::early(a, tile + i, g, expert);
#pragma unroll
        for (int n = 0; n < COLUMN_TILES; n++)
#pragma unroll
            for (int c = 0; c < 2; c++) {
                uint32_t at = first_column + n * 8 + 2 * t + c;
                if (at < count)
                    Epilogue::put(a, extra, bias, CUDA_TILE_TOKENS, tile + i, g, at, column(at),
                                  acc[i][n][c], acc[i][n][c + 2]);
            }
    }
}

/* grid: (token tiles, row blocks): neighbours share weights. */
template <class Epilogue> __device__ __forceinline__ void tile_dense(const cuda_gemm &a)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t first = blockIdx.x * CUDA_TILE_TOKENS;
    run_tile<fragments_bf16, Epilogue>(
        a, static_cast<const uint8_t *>(a.m.weights), nullptr, blockIdx.y, first,
        min(a.tokens - first, (uint32_t)CUDA_TILE_TOKENS), 0,
        [&](uint32_t i) { return first + i; }, [&](uint32_t i) { return first + i; });
}

/* grid: (row blocks, most expert tiles): surplus blocks return at once. */
template <class Epilogue>
__device__ __forceinline__ void tile_expert(const cuda_gemm &a, bool by_assignment)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    if (blockIdx.y >= *a.tile_count)
        return;
    const uint32_t *entry = a.expert_tile + blockIdx.y * 4;
    const uint32_t expert = entry[0], start = entry[1], count = entry[2];
    const uint32_t *sorted = a.sorted + start;
    run_tile<fragments_mxfp4, Epilogue>(
        a, static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights,
        static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales, blockIdx.x, 0,
        count, expert,
        [&](uint32_t i) { return by_assignment ? sorted[i] : sorted[i] / a.topk; },
        [&](uint32_t i) { return sorted[i]; });
}

#define KERNEL extern "C" __global__ void __launch_bounds__(TILE_THREADS, 1)

KERNEL rows_tiled_qkv(const __grid_constant__ cuda_gemm a)
{
    tile_dense<qkv_epilogue>(a);
}

KERNEL rows_tiled_out(const __grid_constant__ cuda_gemm a)
{
    tile_dense<residual_epilogue>(a);
}

KERNEL rows_tiled_logits(const __grid_constant__ cuda_gemm a)
{
    tile_dense<logits_epilogue>(a);
}

KERNEL rows_tiled_gate_up(const __grid_constant__ cuda_gemm a)
{
    tile_expert<swiglu_epilogue>(a, false);
}

KERNEL rows_tiled_down(const __grid_constant__ cuda_gemm a)
{
    tile_expert<expert_epilogue>(a, true);
}
