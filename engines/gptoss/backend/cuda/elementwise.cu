/* gptoss/backend/cuda/elementwise.cu - the small operations between the products: embedding,
 * norm, sorting assignments by expert, adding up experts. */
#include "engines/gptoss/backend/cuda/device.cuh"

/* grid: rows. */
extern "C" __global__ void __launch_bounds__(256)
    embed(const uint32_t *tokens, const uint16_t *table, float *residual, uint32_t hidden)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t row = blockIdx.x;
    const uint32_t *from =
        reinterpret_cast<const uint32_t *>(table + (size_t)tokens[row] * hidden);
    float2 *to = reinterpret_cast<float2 *>(residual + (size_t)row * hidden);
    for (uint32_t i = threadIdx.x; i < hidden / 2; i += blockDim.x) {
        uint32_t v = from[i];
        to[i] = make_float2(from_bf16((uint16_t)v), from_bf16((uint16_t)(v >> 16)));
    }
}

/* RMS norm to bf16.  grid: rows. */
extern "C" __global__ void __launch_bounds__(256) norm_only(const __grid_constant__ cuda_norm a)
{
    __shared__ float sums[256 / WARP];
    constexpr int HELD = 12;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.x;
    float norm[HELD], x[HELD],
        sum = 0; /* up to 3,072 columns; further columns are read again */
    let_next_kernel_start();
#pragma unroll
    for (int i = 0; i < HELD; i++)
        norm[i] =
            threadIdx.x + i * 256 < a.hidden ? from_bf16(a.norm[threadIdx.x + i * 256]) : 0.0f;
    wait_for_previous_kernel();
    const float *in = a.residual + (size_t)(a.rows != nullptr ? a.rows[row] : row) * a.hidden;
    uint16_t *out = a.out + (size_t)row * a.hidden;
#pragma unroll
    for (int i = 0; i < HELD; i++) {
        x[i] = threadIdx.x + i * 256 < a.hidden ? in[threadIdx.x + i * 256] : 0.0f;
        sum += x[i] * x[i];
    }
    for (uint32_t i = HELD * 256 + threadIdx.x; i < a.hidden; i += 256)
        sum += in[i] * in[i];
    sum = warp_sum(sum);
    if (lane == 0)
        sums[warp] = sum;
    __syncthreads();
    sum = warp_sum(lane < 256 / WARP ? sums[lane] : 0.0f);
    float scale = rsqrtf(sum / (float)a.hidden + a.eps);
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (threadIdx.x + i * 256 < a.hidden)
            out[threadIdx.x + i * 256] = to_bf16(x[i] * scale * norm[i]);
    for (uint32_t i = HELD * 256 + threadIdx.x; i < a.hidden; i += 256)
        out[i] = to_bf16(in[i] * scale * from_bf16(a.norm[i]));
}

/* residual += the weighted outputs of a row's experts.  grid: rows. */
extern "C" __global__ void __launch_bounds__(256)
    add_experts(float *residual, const float *outputs, uint32_t hidden, uint32_t topk)
{
    let_next_kernel_start();
    wait_for_previous_kernel();
    const uint32_t row = blockIdx.x, quads = hidden / 4;
    float4 *out = reinterpret_cast<float4 *>(residual + (size_t)row * hidden);
    for (uint32_t i = threadIdx.x; i < quads; i += blockDim.x) {
        float4 sum = out[i];
        for (uint32_t k = 0; k < topk; k++) {
            float4 v = reinterpret_cast<const float4 *>(outputs +
                                                        ((size_t)row * topk + k) * hidden)[i];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        out[i] = sum;
    }
}

/* The same, and the RMS norm of the sum to bf16, which the next layer begins with. */
extern "C" __global__ void __launch_bounds__(256)
    add_experts_norm(float *residual, const float *outputs, uint32_t hidden, uint32_t topk,
                     const uint16_t *norm, uint16_t *normed, float eps)
{
    __shared__ float sums[256 / WARP];
    constexpr int HELD = 3; /* up to 3,072 columns; further columns are read again */
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, row = blockIdx.x,
                   quads = hidden / 4;
    uint2 weights[HELD];
    float4 held[HELD];
    let_next_kernel_start();
#pragma unroll
    for (int i = 0; i < HELD; i++)
        weights[i] = threadIdx.x + i * 256 < quads
                         ? reinterpret_cast<const uint2 *>(norm)[threadIdx.x + i * 256]
                         : make_uint2(0, 0);
    wait_for_previous_kernel();
    float4 *out = reinterpret_cast<float4 *>(residual + (size_t)row * hidden);
    uint2 *to = reinterpret_cast<uint2 *>(normed + (size_t)row * hidden);
    float square = 0;
    auto add = [&](uint32_t i) {
        float4 sum = out[i];
        for (uint32_t k = 0; k < topk; k++) {
            float4 v = reinterpret_cast<const float4 *>(outputs +
                                                        ((size_t)row * topk + k) * hidden)[i];
            sum.x += v.x;
            sum.y += v.y;
            sum.z += v.z;
            sum.w += v.w;
        }
        out[i] = sum;
        square += sum.x * sum.x + sum.y * sum.y + sum.z * sum.z + sum.w * sum.w;
        return sum;
    };
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (threadIdx.x + i * 256 < quads)
            held[i] = add(threadIdx.x + i * 256);
    for (uint32_t i = HELD * 256 + threadIdx.x; i < quads; i += 256)
        (void)add(i);
    square = warp_sum(square);
    if (lane == 0)
        sums[warp] = square;
    __syncthreads();
    square = warp_sum(lane < 256 / WARP ? sums[lane] : 0.0f);
    const float scale = rsqrtf(square / (float)hidden + eps);
    auto put = [&](uint32_t i, float4 v, uint2 w) {
        to[i] = make_uint2(pack_bf16(v.x * scale * from_bf16((uint16_t)w.x),
                                     v.y * scale * from_bf16((uint16_t)(w.x >> 16))),
                           pack_bf16(v.z * scale * from_bf16((uint16_t)w.y),
                                     v.w * scale * from_bf16((uint16_t)(w.y >> 16))));
    };
#pragma unroll
    for (int i = 0; i < HELD; i++)
        if (threadIdx.x + i * 256 < quads)
            put(threadIdx.x + i * 256, held[i], weights[i]);
    for (uint32_t i = HELD * 256 + threadIdx.x; i < quads; i += 256)
        put(i, out[i], reinterpret_cast<const uint2 *>(norm)[i]);
}

/* Sorts the assignments of a prompt by expert and splits each expert's share into equal tiles
 * of at most tile_tokens.  Tiles with more room come first; the room, a multiple of 16, is the
 * same for all tiles of an expert.  One block of 1024 threads.  The order within an expert is
 * not fixed; no result depends on it, because every assignment is its own column. */
extern "C" __global__ void __launch_bounds__(1024)
    sort_assignments(const uint32_t *choice, uint32_t count, uint32_t experts,
                     uint32_t tile_tokens, uint32_t *sorted, uint32_t *expert_tile,
                     uint32_t *tile_count)
{
    __shared__ uint32_t size[CUDA_EXPERTS_MAX], start[CUDA_EXPERTS_MAX];
    let_next_kernel_start();
    wait_for_previous_kernel();
    for (uint32_t e = threadIdx.x; e < experts; e += blockDim.x)
        size[e] = 0;
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        atomicAdd(&size[choice[i]], 1);
    __syncthreads();
    if (threadIdx.x < experts) {
        const uint32_t e = threadIdx.x, mine = size[e];
        auto tiles_of = [&](uint32_t n) { return (n + tile_tokens - 1) / tile_tokens; };
        auto room_of = [&](uint32_t n) {
            return n == 0 ? 0 : ((n + tiles_of(n) - 1) / tiles_of(n) + 15) / 16 * 16;
        };
        const uint32_t room = room_of(mine), tiles = tiles_of(mine);
        uint32_t at = 0, first = 0, all = 0;
        for (uint32_t other = 0; other < experts; other++) {
            uint32_t n = size[other], its_room = room_of(n);
            at += other < e ? n : 0;
            first += its_room > room || (its_room == room && other < e) ? tiles_of(n) : 0;
            all += tiles_of(n);
        }
        start[e] = at;
        const uint32_t each = tiles == 0 ? 0 : (mine + tiles - 1) / tiles;
        for (uint32_t i = 0; i < tiles; i++)
            reinterpret_cast<uint4 *>(expert_tile)[first + i] =
                make_uint4(e, at + i * each, min(each, mine - i * each), room);
        if (e == 0)
            *tile_count = all;
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < count; i += blockDim.x)
        sorted[atomicAdd(&start[choice[i]], 1)] = i;
}
