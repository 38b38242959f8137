/* gptoss/backend/cuda/repack.cu - weights from the order of the file to the order of args.h.
 *
 * One thread makes one 16-byte piece (or 8 bytes of scales).  Missing rows and blocks past the
 * width become zeros.
 */
#include "engines/gptoss/backend/cuda/device.cuh"

/* Which row of the file is row `row` of the tiles. */
enum { ORDER_PLAIN = 0, ORDER_ROPE = 1, ORDER_GATE_UP = 2 };

__device__ __forceinline__ uint32_t file_row(uint32_t order, uint32_t tile, uint32_t r)
{
    if (order == ORDER_ROPE) /* rows g and g + 8: dimensions d and d + 32 of a head */
        return tile / 4 * 64 + tile % 4 * 8 + r % 8 + (r >= 8 ? 32 : 0);
    if (order == ORDER_GATE_UP) /* gate i, up i; they alternate in the file */
        return (tile * 8 + r % 8) * 2 + (r >= 8 ? 1 : 0);
    return tile * 16 + r;
}

extern "C" __global__ void repack_bf16(const uint16_t *in, uint4 *out, uint32_t rows,
                                       uint32_t blocks, uint32_t tiles, uint32_t order)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)tiles * blocks * 64)
        return;
    uint32_t lane = i % 32, half = i / 32 % 2;
    uint32_t block = (uint32_t)(i / 64 % blocks), tile = (uint32_t)(i / 64 / blocks);
    uint32_t row = file_row(order, tile, lane / 4 + half * 8);
    uint16_t v[8];
    for (int k = 0; k < 8; k++)
        v[k] = row < rows ? in[(size_t)row * blocks * 32 + block * 32 + lane % 4 * 8 + k] : 0;
    out[i] =
        make_uint4(v[0] | v[1] << 16, v[2] | v[3] << 16, v[4] | v[5] << 16, v[6] | v[7] << 16);
}

extern "C" __global__ void repack_bias(const uint16_t *in, uint16_t *out, uint32_t rows,
                                       uint32_t tiles, uint32_t order)
{
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= tiles * 16)
        return;
    uint32_t row = file_row(order, i / 16, i % 16);
    out[i] = row < rows ? in[row] : 0;
}

/* Eight codes of 4 bits, element 2b in the low nibble of byte b, spread as
 * device.cuh's decode_mxfp4 wants them. */
__device__ __forceinline__ uint32_t spread(uint32_t codes)
{
    const uint32_t magnitude_at[4] = {6, 3, 0, 9}, sign_at[4] = {15, 12, 14, 13};
    uint32_t out = 0;
    for (int e = 0; e < 8; e++) {
        uint32_t code = codes >> 4 * e & 15, pair = e / 2, half = e % 2 * 16;
        out |= (code & 7) << (magnitude_at[pair] + half) | (code >> 3)
                                                               << (sign_at[pair] + half);
    }
    return out;
}

/* One expert. */
extern "C" __global__ void repack_mxfp4(const uint8_t *in, uint4 *out, uint32_t rows,
                                        uint32_t blocks, uint32_t tiles, uint32_t order)
{
    uint32_t pairs = (blocks + 1) / 2;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)tiles * pairs * 32)
        return;
    uint32_t lane = i % 32, pair = (uint32_t)(i / 32 % pairs),
             tile = (uint32_t)(i / 32 / pairs);
    uint32_t w[4];
    for (int part = 0; part < 4; part++) {
        uint32_t block = pair * 2 + part / 2,
                 row = file_row(order, tile, lane / 4 + part % 2 * 8);
        uint32_t codes = 0;
        if (row < rows && block < blocks)
            for (int b = 0; b < 4; b++)
                codes |= (uint32_t)in[((size_t)row * blocks + block) * 16 + lane % 4 * 4 + b]
                         << 8 * b;
        w[part] = spread(codes);
    }
    out[i] = make_uint4(w[0], w[1], w[2], w[3]);
}

/* Scale s of the file means 2^(s - excess - 127); the kernels need the exponent field of 2^(s -
 * excess - 1).  A scale above 2 does not fit: *too_large counts those. */
extern "C" __global__ void repack_scales(const uint8_t *in, uint2 *out, uint32_t rows,
                                         uint32_t blocks, uint32_t tiles, uint32_t order,
                                         uint32_t excess, uint32_t *too_large)
{
    uint32_t fours = (blocks + 3) / 4;
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= (size_t)tiles * fours * 8)
        return;
    uint32_t g = i % 8, four = (uint32_t)(i / 8 % fours), tile = (uint32_t)(i / 8 / fours);
    uint32_t word[2] = {0, 0};
    for (int half = 0; half < 2; half++)
        for (int k = 0; k < 4; k++) {
            uint32_t block = four * 4 + k, row = file_row(order, tile, g + half * 8);
            if (row >= rows || block >= blocks)
                continue;
            int32_t field = (int32_t)in[(size_t)row * blocks + block] - (int32_t)excess + 126;
            if (field > 254)
                atomicAdd(too_large, 1);
            word[half] |= (uint32_t)min(max(field, 0), 254) << 8 * k;
        }
    out[i] = make_uint2(word[0], word[1]);
}

/* Benchmarks without a file: bytes of a counter hash, in the repacked layout. */
extern "C" __global__ void fill_random(uint32_t *out, size_t words, uint32_t seed,
                                       uint32_t kind)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < words;
         i += (size_t)gridDim.x * blockDim.x) {
        uint32_t h = ((uint32_t)i ^ (uint32_t)(i >> 32) * 0x9E3779B9u ^ seed) * 0x85EBCA6Bu;
        h = (h ^ h >> 13) * 0xC2B2AE35u;
        h ^= h >> 16;
        if (kind == 0) /* bf16 pairs of about +-0.02 */
            out[i] = (h & 0x807F807Fu) | 0x3C003C00u | (h >> 3 & 0x00800080u);
        else if (kind == 1) /* codes */
            out[i] = h;
        else /* scales: exponent fields of about 2^-6 .. 2^-7, times 2^126 */
            out[i] = 0xF7F7F7F7u + (h & 0x01010101u);
    }
}

/* Measures memory bandwidth: reads every word once, with four pieces of 16 bytes in flight in
 * each thread.  The sum is written only so that the compiler keeps the loads. */
extern "C" __global__ void __launch_bounds__(512)
    read_memory(const uint4 *in, size_t pieces, uint32_t *sum)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    uint32_t x = 0;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < pieces; i += 4 * step) {
        uint4 v[4];
#pragma unroll
        for (int k = 0; k < 4; k++)
            v[k] =
                i + k * step < pieces ? load_stream(in + i + k * step) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int k = 0; k < 4; k++)
            x ^= v[k].x ^ v[k].y ^ v[k].z ^ v[k].w;
    }
    if (x == 0x9E3779B9u)
        *sum = x;
}
