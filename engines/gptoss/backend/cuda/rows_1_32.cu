/* gptoss/backend/cuda/rows_1_32.cu - products of a large matrix with few tokens: a pass over
 * the weights serves 1 to 32 rows of activations, more rows need further passes.
 *
 * Bound by reading the weights.  Weights go from memory to registers in 16-byte pieces that
 * already are tensor-core fragments (args.h), one chunk is in flight while another is used, and
 * the first chunk is loaded before the kernel waits for its predecessor.  Up to 8 tokens cost
 * as much as one (the 8 columns of an mma); NT column tiles serve up to 8 * NT.
 *
 * Threads: a block has 8 warps; KSPLIT warps share a tile of 16 rows and split its columns, and
 * 8 / KSPLIT such groups work side by side.  Sums are combined in shared memory in a fixed
 * order: results do not depend on the number of tokens.  Precision: bf16 products, float32
 * sums.  Reference: the linear and expert operations of the CPU backend.
 *
 * Shared memory: activations [tokens][activation_stride] bf16, then the groups' sums.
 */
#include "engines/gptoss/backend/cuda/chunk.cuh"
#include "engines/gptoss/backend/cuda/epilogue.cuh"

enum { PASS_THREADS = 256, PASS_WARPS = 8, DOWN_WARPS = 16 };

/* Copies bf16 rows to shared memory; row i comes from x + source(i) * x_stride. */
template <class Source>
__device__ __forceinline__ void stage_rows(const cuda_gemm &a, uint8_t *x, uint32_t stride,
                                           uint32_t count, uint32_t bytes, Source source)
{
    uint32_t pieces = bytes / 16;
    for (uint32_t i = threadIdx.x; i < count * pieces; i += blockDim.x) {
        uint32_t row = i / pieces, piece = i % pieces;
        const uint4 *from =
            reinterpret_cast<const uint4 *>(a.x + (size_t)source(row) * a.x_stride);
        *reinterpret_cast<uint4 *>(x + row * stride + piece * 16) = from[piece];
    }
}

/* RMS norm of float32 rows into bf16 rows in shared memory: one warp a row, or the whole block
 * for a single row. */
__device__ __forceinline__ void normalize_rows(const cuda_gemm &a, uint8_t *x, uint32_t stride)
{
    __shared__ float sums[PASS_WARPS];
    uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, quads = a.hidden / 4;
    bool whole_block = a.tokens == 1;
    uint32_t first = whole_block ? threadIdx.x : lane, step = whole_block ? PASS_THREADS : WARP;
    for (uint32_t row = whole_block ? 0 : warp; row < a.tokens; row += PASS_WARPS) {
        const float4 *in =
            reinterpret_cast<const float4 *>(a.residual + (size_t)row * a.hidden);
        float sum = 0;
        for (uint32_t i = first; i < quads; i += step) {
            float4 v = in[i];
            sum += v.x * v.x + v.y * v.y + v.z * v.z + v.w * v.w;
        }
        sum = warp_sum(sum);
        if (whole_block) {
            if (lane == 0)
                sums[warp] = sum;
            __syncthreads();
            sum = 0;
            for (int w = 0; w < PASS_WARPS; w++)
                sum += sums[w];
        }
        float scale = rsqrtf(sum / (float)a.hidden + a.eps);
        for (uint32_t i = first; i < quads; i += step) {
            float4 v = in[i];
            uint2 n = reinterpret_cast<const uint2 *>(a.norm)[i];
            uint2 out;
            out.x = pack_bf16(v.x * scale * from_bf16((uint16_t)n.x),
                              v.y * scale * from_bf16((uint16_t)(n.x >> 16)));
            out.y = pack_bf16(v.z * scale * from_bf16((uint16_t)n.y),
                              v.w * scale * from_bf16((uint16_t)(n.y >> 16)));
            *reinterpret_cast<uint2 *>(x + row * stride + i * 8) = out;
        }
    }
}

/* A barrier of the KSPLIT warps that share a tile. */
template <int KSPLIT> __device__ __forceinline__ void meet_group()
{
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.x / (KSPLIT * WARP) + 1), "r"(KSPLIT * WARP)
                 : "memory");
}

/* A finished tile: adds the parts of its group in a fixed order, gives the sums to the epilogue
 * and clears them.  `flip` alternates between two areas, so that one barrier a tile is
 * enough. */
template <int NT, int KSPLIT, class Epilogue, class Column>
__device__ __forceinline__ void
finish_tile(const cuda_gemm &a, const typename Epilogue::shared &extra, early_bias bias,
            float *sums, uint32_t tile, uint32_t count, uint32_t flip, float acc[NT][4],
            Column column)
{
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const uint32_t group = warp / KSPLIT, part = warp % KSPLIT, g = lane / 4, t = lane % 4;
    if (KSPLIT > 1) {
        float *mine = sums + (flip * (PASS_WARPS / KSPLIT) + group) * KSPLIT * (NT * 128);
#pragma unroll
        for (int i = 0; i < NT * 4; i++)
            mine[part * (NT * 128) + i * WARP + lane] = acc[i / 4][i % 4];
        meet_group<KSPLIT>();
        for (int n = part; n < NT; n += KSPLIT) {
            float total[4] = {0, 0, 0, 0};
            for (int p = 0; p < KSPLIT; p++)
#pragma unroll
                for (int i = 0; i < 4; i++)
                    total[i] += mine[p * (NT * 128) + (n * 4 + i) * WARP + lane];
            for (int i = 0; i < 2; i++)
                if (n * 8 + 2 * t + i < count)
                    Epilogue::put(a, extra, bias, count, tile, g, n * 8 + 2 * t + i,
                                  column(n * 8 + 2 * t + i), total[i], total[i + 2]);
        }
    } else {
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int i = 0; i < 2; i++)
                if (n * 8 + 2 * t + i < count)
                    Epilogue::put(a, extra, bias, count, tile, g, n * 8 + 2 * t + i,
                                  column(n * 8 + 2 * t + i), acc[n][i], acc[n][i + 2]);
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
        acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
}

/* The loop over a group's tiles.  Column(n): the token or assignment of column n of the
 * product; columns >= count are not written. */
template <int NT, int KSPLIT, class Chunk, class Epilogue, class Column> struct tile_loop {
    const cuda_gemm &a;
    const uint8_t *weights, *scales;
    uint32_t first, last, begin, end; /* tiles; blocks of this warp's part */
    uint32_t load_tile, load_block;   /* next to load */
    uint32_t load_end;                /* end of a tile, in loads */
    Chunk one, two;

    __device__ __forceinline__ tile_loop(const cuda_gemm &args, const uint8_t *w,
                                         const uint8_t *s, uint32_t group_index)
        : a(args), weights(w), scales(s)
    {
        /* Parts start at multiples of 4 blocks, where scales can be read. */
        const uint32_t per = ((a.m.blocks + KSPLIT - 1) / KSPLIT + 3) / 4 * 4;
        const uint32_t part = threadIdx.x / WARP % KSPLIT;
        first = min(group_index * a.tiles_per_group, a.m.tiles);
        last = min(first + a.tiles_per_group, a.m.tiles);
        begin = min(part * per, a.m.blocks);
        end = min(begin + per, a.m.blocks);
        /* If warps have a barrier, a tile is a whole number of rounds of both chunks. */
        const uint32_t turn = KSPLIT > 1 ? 2 * Chunk::BLOCKS : Chunk::BLOCKS;
        load_end = begin + (end - begin + turn - 1) / turn * turn;
        load_tile = first;
        load_block = begin;
    }
    __device__ __forceinline__ void request(Chunk &c)
    {
        if (load_tile >= last)
            return;
        c.load(a.m, weights, scales, load_tile, load_block, end, threadIdx.x % WARP);
        load_block += Chunk::BLOCKS;
        if (load_block >= load_end) {
            load_block = begin;
            load_tile++;
        }
    }
    /* Starts the loads of two chunks before anything is waited for. */
    __device__ __forceinline__ void start()
    {
        request(one);
        request(two);
    }
    __device__ __forceinline__ void run(const typename Epilogue::shared &extra, uint8_t *x,
                                        float *sums, uint32_t stride, uint32_t count,
                                        uint32_t expert, Column column)
    {
        const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
        /* One token: every column of the product reads its row, and only column 0 is used. */
        const uint32_t row_stride = count == 1 ? 0 : stride;
        const uint8_t *mine = x + g * row_stride + t * 16;
        float acc[NT][4];
#pragma unroll
        for (int n = 0; n < NT; n++)
            acc[n][0] = acc[n][1] = acc[n][2] = acc[n][3] = 0;
        uint32_t tile = first, block = begin, flip = 0;
        early_bias bias = tile < last ? Epilogue::early(a, tile, g, expert) : early_bias{0, 0};
        /* Uses a chunk and loads the chunk after the next in its place.  Two chunks alternate,
         * because copying a chunk would wait for its loads. */
        auto advance = [&](Chunk &now) {
            now.template use<NT>(mine, row_stride, block, end, acc);
            request(now);
            block += Chunk::BLOCKS;
        };
        auto finish = [&]() {
            finish_tile<NT, KSPLIT, Epilogue>(a, extra, bias, sums, tile, count, flip, acc,
                                              column);
            flip ^= 1;
            block = begin;
            if (++tile < last)
                bias = Epilogue::early(a, tile, g, expert);
        };
        /* Warps with a common barrier at the end of a tile all reach it here, however many
         * chunks each has: synccheck requires a single place. */
        while (KSPLIT > 1 && tile < last) {
            advance(one);
            advance(two);
            if (block >= end)
                finish();
        }
        while (KSPLIT == 1 && tile < last) {
            advance(one);
            if (block >= end)
                finish();
            if (tile >= last)
                break;
            advance(two);
            if (block >= end)
                finish();
        }
        /* A group with fewer tiles executes as many barriers as the others: racecheck orders
         * accesses by the number of barriers. */
        for (; KSPLIT > 1 && tile < first + a.tiles_per_group; tile++)
            meet_group<KSPLIT>();
    }
};

/* Dense matrices.  grid.x: groups of tiles; grid.y: passes of 8 * NT tokens. */
template <int NT, int KSPLIT, int CHUNK, class Epilogue>
__device__ __forceinline__ void dense_passes(const cuda_gemm &a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ typename Epilogue::shared extra;
    constexpr uint32_t GROUPS = PASS_WARPS / KSPLIT;
    const uint32_t stride = activation_stride(a.m.blocks);
    const uint32_t first_token = blockIdx.y * NT * 8;
    const uint32_t count = min(a.tokens - first_token, (uint32_t)(NT * 8));
    float *sums = reinterpret_cast<float *>(shared + (a.tokens == 1 ? 1 : NT * 8) * stride);
    auto column = [&](uint32_t n) { return first_token + n; };
    tile_loop<NT, KSPLIT, chunk_bf16<CHUNK>, Epilogue, decltype(column)> loop(
        a, static_cast<const uint8_t *>(a.m.weights), nullptr,
        blockIdx.x * GROUPS + threadIdx.x / WARP / KSPLIT);

    let_next_kernel_start();
    loop.start();
    wait_for_previous_kernel();
    Epilogue::stage(a, extra, first_token, count);
    if (a.residual != nullptr)
        normalize_rows(a, shared, stride);
    else
        stage_rows(a, shared, stride, count, a.m.blocks * 64, column);
    __syncthreads();
    loop.run(extra, shared, sums, stride, count, 0, column);
}

/* Experts, few tokens: grid.y is an assignment (token, choice). */
template <int KSPLIT, class Epilogue>
__device__ __forceinline__ void one_assignment(const cuda_gemm &a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ typename Epilogue::shared extra;
    constexpr uint32_t GROUPS = PASS_WARPS / KSPLIT;
    const uint32_t stride = activation_stride(a.m.blocks), assignment = blockIdx.y;
    float *sums = reinterpret_cast<float *>(shared + stride);
    auto column = [&](uint32_t) { return assignment; };

    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t expert = a.choice[assignment];
    tile_loop<1, KSPLIT, chunk_mxfp4, Epilogue, decltype(column)> loop(
        a, static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights,
        static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales,
        blockIdx.x * GROUPS + threadIdx.x / WARP / KSPLIT);
    loop.start();
    stage_rows(a, shared, stride, 1, a.m.blocks * 64,
               [&](uint32_t) { return assignment / a.topk; });
    __syncthreads();
    loop.run(extra, shared, sums, stride, 1, expert, column);
}

/* Down projection, few tokens: one block computes 16 rows of one token from all its experts and
 * adds them to the residual, without a second pass.  Units of 8 blocks, over all experts, are
 * divided among 16 warps; two units a warp are in flight at once. grid.x: tiles; grid.y:
 * tokens. */
__device__ __forceinline__ void one_row_down(const cuda_gemm &a)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ float sums[DOWN_WARPS][WARP][2];
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    const uint32_t stride = activation_stride(a.m.blocks), token = blockIdx.y,
                   tile = blockIdx.x;
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t units = (a.m.blocks + 7) / 8, all = units * a.topk;
    float acc[1][4] = {{0, 0, 0, 0}};
    auto load = [&](chunk_mxfp4 &c, uint32_t unit) {
        if (unit >= all)
            return;
        uint32_t expert = a.choice[token * a.topk + unit / units];
        c.load(a.m, static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights,
               static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales, tile,
               unit % units * 8, a.m.blocks, lane);
    };
    chunk_mxfp4 ring[2];
    load(ring[0], warp);
    load(ring[1], warp + DOWN_WARPS);
    /* Loads what the end of the kernel needs. */
    float *out = a.out_f32 + (size_t)token * a.out_stride + tile * 16 + g;
    float low = 0, high = 0;
    if (warp == 0 && t == 0) {
        low = tile * 16 + g < a.m.rows ? out[0] : 0.0f;
        high = tile * 16 + g + 8 < a.m.rows ? out[8] : 0.0f;
        for (uint32_t i = 0; i < a.topk; i++) {
            uint32_t expert = a.choice[token * a.topk + i];
            float w = a.weight[token * a.topk + i];
            const uint16_t *bias = a.m.bias + expert * a.m.expert_bias + tile * 16 + g;
            low += w * from_bf16(bias[0]);
            high += w * from_bf16(bias[8]);
        }
    }
    stage_rows(a, shared, stride, a.topk, a.m.blocks * 64,
               [&](uint32_t i) { return token * a.topk + i; });
    __syncthreads();
    for (uint32_t unit = warp; unit < all; unit += 2 * DOWN_WARPS)
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t mine = unit + i * DOWN_WARPS;
            if (mine >= all)
                break;
            /* Every column of the product reads the same row; only column 0 is used. */
            ring[i].use<1>(shared + mine / units * stride + t * 16, 0, mine % units * 8,
                           a.m.blocks, acc);
            load(ring[i], mine + 2 * DOWN_WARPS);
        }
    sums[warp][lane][0] = acc[0][0];
    sums[warp][lane][1] = acc[0][2];
    __syncthreads();
    if (warp != 0 || t != 0)
        return;
    for (int w = 0; w < DOWN_WARPS; w++) {
        low += sums[w][lane][0];
        high += sums[w][lane][1];
    }
    if (tile * 16 + g < a.m.rows)
        out[0] = low;
    if (tile * 16 + g + 8 < a.m.rows)
        out[8] = high;
}

/* Experts, more tokens: grid.y is an expert, which processes every token that chose it, 8 * NT
 * at a time. */
template <int NT, int KSPLIT, class Epilogue>
__device__ __forceinline__ void expert_passes(const cuda_gemm &a, bool by_assignment)
{
    extern __shared__ __align__(128) uint8_t shared[];
    __shared__ typename Epilogue::shared extra;
    __shared__ uint32_t list[CUDA_TOPK_MAX * 64];
    __shared__ uint32_t list_count;
    constexpr uint32_t GROUPS = PASS_WARPS / KSPLIT;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, expert = blockIdx.y;
    const uint32_t stride = activation_stride(a.m.blocks);
    float *sums = reinterpret_cast<float *>(shared + NT * 8 * stride);

    let_next_kernel_start();
    wait_for_previous_kernel();
    if (warp == 0) {
        uint32_t found = 0;
        for (uint32_t i = 0; i < a.tokens * a.topk; i += WARP) {
            bool hit = i + lane < a.tokens * a.topk && a.choice[i + lane] == expert;
            uint32_t hits = __ballot_sync(0xFFFFFFFFu, hit);
            if (hit)
                list[found + __popc(hits & ((1u << lane) - 1))] = i + lane;
            found += __popc(hits);
        }
        if (lane == 0)
            list_count = found;
    }
    __syncthreads();
    for (uint32_t pass = 0; pass < list_count; pass += NT * 8) {
        uint32_t count = min(list_count - pass, (uint32_t)(NT * 8));
        auto column = [&](uint32_t n) { return list[pass + n]; };
        tile_loop<NT, KSPLIT, chunk_mxfp4, Epilogue, decltype(column)> loop(
            a, static_cast<const uint8_t *>(a.m.weights) + expert * a.m.expert_weights,
            static_cast<const uint8_t *>(a.m.scales) + expert * a.m.expert_scales,
            blockIdx.x * GROUPS + warp / KSPLIT);
        loop.start();
        stage_rows(a, shared, stride, count, a.m.blocks * 64, [&](uint32_t i) {
            return by_assignment ? list[pass + i] : list[pass + i] / a.topk;
        });
        __syncthreads();
        loop.run(extra, shared, sums, stride, count, expert, column);
        __syncthreads();
    }
}

/* MIN_BLOCKS a multiprocessor: the whole grid of a product for one token should be resident. */
#define KERNEL(threads, min_blocks)                                                            \
    extern "C" __global__ void __launch_bounds__(threads, min_blocks)
#define DENSE(name, NT, KSPLIT, CHUNK, min_blocks, epilogue)                                   \
    KERNEL(PASS_THREADS, min_blocks) name(const __grid_constant__ cuda_gemm a)                 \
    {                                                                                          \
        dense_passes<NT, KSPLIT, CHUNK, epilogue>(a);                                          \
    }

DENSE(rows_1_32_qkv_8, 1, 8, 3, 3, qkv_epilogue)
DENSE(rows_1_32_qkv_16, 2, 8, 4, 2, qkv_epilogue)
DENSE(rows_1_32_qkv_32, 4, 8, 4, 1, qkv_epilogue)
DENSE(rows_1_32_out_8, 1, 8, 4, 2, residual_epilogue)
DENSE(rows_1_32_out_16, 2, 8, 4, 1, residual_epilogue)
DENSE(rows_1_32_out_32, 4, 8, 4, 1, residual_epilogue)
DENSE(rows_1_32_logits_8, 1, 1, 4, 2, logits_epilogue)
DENSE(rows_1_32_logits_16, 2, 1, 4, 2, logits_epilogue)
DENSE(rows_1_32_logits_32, 4, 1, 4, 1, logits_epilogue)

KERNEL(PASS_THREADS, 3) rows_1_32_gate_up_1(const __grid_constant__ cuda_gemm a)
{
    one_assignment<2, swiglu_epilogue>(a);
}

KERNEL(DOWN_WARPS *WARP, 2) rows_1_32_down_1(const __grid_constant__ cuda_gemm a)
{
    one_row_down(a);
}

KERNEL(PASS_THREADS, 2) rows_1_32_gate_up_16(const __grid_constant__ cuda_gemm a)
{
    expert_passes<2, 2, swiglu_epilogue>(a, false);
}

KERNEL(PASS_THREADS, 2) rows_1_32_down_16(const __grid_constant__ cuda_gemm a)
{
    expert_passes<2, 2, expert_epilogue>(a, true);
}
