/* gptoss/backend/cuda/chunk.cuh - weights that are loaded through registers.
 *
 * A chunk is what a warp loads of one 16-row tile at a time: a few blocks of 32 columns, in the
 * order of args.h. load() starts the loads, use() waits and multiplies with activations in
 * shared memory (row n of them at x + n * 8 * stride for column tile n).
 */
#ifndef GPTOSS_CUDA_CHUNK_CUH
#define GPTOSS_CUDA_CHUNK_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

/* A chunk of bf16 weights: 3 or 4 blocks of 32 columns.  With 4 more bytes are in flight, with
 * 3 more blocks fit a multiprocessor. */
template <int COUNT> struct chunk_bf16 {
    enum { BLOCKS = COUNT };
    uint4 r[2 * BLOCKS];

    __device__ __forceinline__ void load(const cuda_matrix &m, const uint8_t *weights,
                                         const uint8_t *, uint32_t tile, uint32_t block,
                                         uint32_t end, uint32_t lane)
    {
        const uint4 *p = reinterpret_cast<const uint4 *>(weights) +
                         ((size_t)tile * m.blocks + block) * 64 + lane;
#pragma unroll
        for (int u = 0; u < BLOCKS; u++) {
            bool real = block + u < end;
            r[2 * u] = real ? load_stream(p + u * 64) : make_uint4(0, 0, 0, 0);
            r[2 * u + 1] = real ? load_stream(p + u * 64 + 32) : make_uint4(0, 0, 0, 0);
        }
    }

    template <int NT>
    __device__ __forceinline__ void use(const uint8_t *x, uint32_t stride, uint32_t block,
                                        uint32_t end, float acc[NT][4]) const
    {
#pragma unroll
        for (int u = 0; u < BLOCKS; u++) {
            if (block + u >= end)
                break;
            const uint4 a = r[2 * u], b = r[2 * u + 1];
#pragma unroll
            for (int n = 0; n < NT; n++) {
                uint4 v =
                    *reinterpret_cast<const uint4 *>(x + n * 8 * stride + (block + u) * 64);
                mma(acc[n], a.x, b.x, a.y, b.y, v.x, v.y);
                mma(acc[n], a.z, b.z, a.w, b.w, v.z, v.w);
            }
        }
    }
};

/* A chunk of MXFP4 weights: 8 blocks of 32 columns; chunks start at multiples of 4. */
struct chunk_mxfp4 {
    enum { BLOCKS = 8 };
    uint4 r[BLOCKS / 2];
    uint2 s[BLOCKS / 4];

    __device__ __forceinline__ void load(const cuda_matrix &m, const uint8_t *weights,
                                         const uint8_t *scales, uint32_t tile, uint32_t block,
                                         uint32_t end, uint32_t lane)
    {
        uint32_t pairs = (m.blocks + 1) / 2, fours = (m.blocks + 3) / 4;
        const uint4 *p = reinterpret_cast<const uint4 *>(weights) +
                         ((size_t)tile * pairs + block / 2) * 32 + lane;
        const uint2 *q = reinterpret_cast<const uint2 *>(scales) +
                         ((size_t)tile * fours + block / 4) * 8 + lane / 4;
#pragma unroll
        for (int u = 0; u < BLOCKS / 2; u++)
            r[u] = block + 2 * u < end ? load_stream(p + u * 32) : make_uint4(0, 0, 0, 0);
#pragma unroll
        for (int u = 0; u < BLOCKS / 4; u++)
            s[u] = block + 4 * u < end ? load_stream(q + u * 8) : make_uint2(0, 0);
    }

    template <int NT>
    __device__ __forceinline__ void use(const uint8_t *x, uint32_t stride, uint32_t block,
                                        uint32_t end, float acc[NT][4]) const
    {
#pragma unroll
        for (int u = 0; u < BLOCKS; u++) {
            if (block + u >= end)
                break;
            uint32_t a[4], b[4];
            const uint4 w = r[u / 2];
            decode_mxfp4(u % 2 == 0 ? w.x : w.z, scale_pair(s[u / 4].x, u % 4), a);
            decode_mxfp4(u % 2 == 0 ? w.y : w.w, scale_pair(s[u / 4].y, u % 4), b);
#pragma unroll
            for (int n = 0; n < NT; n++) {
                uint4 v =
                    *reinterpret_cast<const uint4 *>(x + n * 8 * stride + (block + u) * 64);
                mma(acc[n], a[0], b[0], a[1], b[1], v.x, v.y);
                mma(acc[n], a[2], b[2], a[3], b[3], v.z, v.w);
            }
        }
    }
};

#endif
