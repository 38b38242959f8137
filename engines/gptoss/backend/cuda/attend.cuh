/* gptoss/backend/cuda/attend.cuh - a warp's 16 query rows against keys, 16 at a time.
 *
 * Scores by mma, softmax kept as running maximum and sum in float32, output by two mma: a
 * probability meets V as the sum of two bf16 values, which leaves 2^-17 of it out where one
 * would leave 2^-9.  K and V go from their pages to registers without shared memory: with the
 * head dimension permuted alike in Q and K a lane's 16 bytes of a K row are a fragment, and
 * V's fragments are made by byte permutes.
 *   rows     lane (g, t): rows g and g + 8;  keys 2t, 2t + 1 of each 8
 *   output   lane (g, t): dimensions 16t .. 16t + 15 of rows g and g + 8
 */
#ifndef GPTOSS_CUDA_ATTEND_CUH
#define GPTOSS_CUDA_ATTEND_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

enum { PARTIAL = 66 /* maximum, sum, 64 values */ };
#define LOG2_E 1.44269504f

struct rows16 {
    uint4 q[2][2]; /* [32-dimension block][row half] */
    float o[8][4]; /* [j]: rows g, g + 8; dimensions 16t + j and 16t + 8 + j */
    float top[2];  /* maximum, log2 domain, of rows g and g + 8 */
    float sum[2];
    int32_t pos[2]; /* positions of the rows' tokens */
};

__device__ __forceinline__ void clear(rows16 &r)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        r.o[j][0] = r.o[j][1] = r.o[j][2] = r.o[j][3] = 0;
    r.top[0] = r.top[1] = -INFINITY;
    r.sum[0] = r.sum[1] = 0;
}

struct keys16 {
    uint4 k[2][2]; /* [8 keys][32-dimension block] */
    uint4 v[4];    /* keys 2t, 2t + 1, 2t + 8, 2t + 9; dimensions 8g .. 8g + 7 */
};

/* `page` is the address of K's head within its page; V's lies kv_heads heads further. */
__device__ __forceinline__ void load_keys(keys16 &s, const uint8_t *page, uint32_t kv_heads,
                                          uint32_t slot, uint32_t g, uint32_t t)
{
    const uint4 *k = reinterpret_cast<const uint4 *>(page) + slot * 8;
    const uint4 *v = k + (size_t)kv_heads * CUDA_PAGE_TOKENS * 8;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int b = 0; b < 2; b++)
            s.k[n][b] = k[(n * 8 + g) * 8 + b * 4 + t];
#pragma unroll
    for (int i = 0; i < 4; i++)
        s.v[i] = v[(2 * t + (i & 1) + (i >> 1) * 8) * 8 + g];
}

__device__ __forceinline__ uint32_t word(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Two values as pairs of bf16: their upper halves, and what those leave out, rounded. */
__device__ __forceinline__ void split_bf16(float low, float high, uint32_t &big, uint32_t &rest)
{
    uint32_t l = __float_as_uint(low), h = __float_as_uint(high);
    big = __byte_perm(l, h, 0x7632);
    rest = pack_bf16(low - __uint_as_float(l & 0xFFFF0000u),
                     high - __uint_as_float(h & 0xFFFF0000u));
}

/* 2^x for x <= 0: what is too small for a normal number is zero. */
__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Adds 16 keys, the first at position `first`, to the rows. */
__device__ __forceinline__ void add_keys(rows16 &r, const keys16 &s, int32_t first,
                                         uint32_t window, uint32_t t)
{
    const float scale = 0.125f * LOG2_E; /* 1 / sqrt(64), and exp as a power of two */
    float c[2][4];
#pragma unroll
    for (int n = 0; n < 2; n++) {
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const uint4 x = r.q[b][0], y = r.q[b][1], k = s.k[n][b];
            mma(c[n], x.x, y.x, x.y, y.y, k.x, k.y);
            mma(c[n], x.z, y.z, x.w, y.w, k.z, k.w);
        }
    }
    /* Most chunks lie in sight of all rows. */
    bool whole = first + 15 <= min(r.pos[0], r.pos[1]) &&
                 (window == 0 || first + (int32_t)window > max(r.pos[0], r.pos[1]));
    if (!__all_sync(0xFFFFFFFFu, whole))
#pragma unroll
        for (int i = 0; i < 8; i++) {
            int32_t key = first + i / 4 * 8 + 2 * (int32_t)t + i % 2, pos = r.pos[i / 2 % 2];
            if (key > pos || (window != 0 && key + (int32_t)window <= pos))
                c[i / 4][i % 4] = -INFINITY;
        }
    float keep[2];
    bool moved = false;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float best =
            fmaxf(fmaxf(c[0][h * 2], c[0][h * 2 + 1]), fmaxf(c[1][h * 2], c[1][h * 2 + 1]));
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
        best = fmaxf(best * scale, r.top[h]);
        float base = best == -INFINITY ? 0.0f : best;
        keep[h] = power_of_two(r.top[h] - base);
        moved = moved || best != r.top[h];
        r.top[h] = best;
        r.sum[h] *= keep[h];
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float &v = c[n][h * 2 + i];
                v = power_of_two(fmaf(v, scale, -base));
                r.sum[h] += v;
            }
    }
    if (__any_sync(0xFFFFFFFFu, moved))
#pragma unroll
        for (int j = 0; j < 8; j++) {
            r.o[j][0] *= keep[0];
            r.o[j][1] *= keep[0];
            r.o[j][2] *= keep[1];
            r.o[j][3] *= keep[1];
        }
    uint32_t big[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        split_bf16(c[i / 2][i % 2 * 2], c[i / 2][i % 2 * 2 + 1], big[i], rest[i]);
        /* Four at a time, so that the second mma of a sum does not wait for the first. */
#pragma unroll
    for (int i = 0; i < 8; i += 4) {
        uint32_t b0[4], b1[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            uint32_t pick = j % 2 == 0 ? 0x5410u : 0x7632u;
            b0[j] = __byte_perm(word(s.v[0], (i + j) / 2), word(s.v[1], (i + j) / 2), pick);
            b1[j] = __byte_perm(word(s.v[2], (i + j) / 2), word(s.v[3], (i + j) / 2), pick);
            mma(r.o[i + j], big[0], big[1], big[2], big[3], b0[j], b1[j]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++)
            mma(r.o[i + j], rest[0], rest[1], rest[2], rest[3], b0[j], b1[j]);
    }
}

/* The sums of a row lie spread over its four lanes. */
__device__ __forceinline__ void gather_sums(rows16 &r)
{
#pragma unroll
    for (int h = 0; h < 2; h++) {
        r.sum[h] += __shfl_xor_sync(0xFFFFFFFFu, r.sum[h], 1);
        r.sum[h] += __shfl_xor_sync(0xFFFFFFFFu, r.sum[h], 2);
    }
}

/* Q of query head `head`, in the row of q, into half h of the rows.  A row that is not there
 * is zero and sees what its neighbours see: nobody asks for its result, and it keeps nobody
 * from seeing whole chunks.  Read from L2: in a kernel that stays, another multiprocessor
 * wrote it. */
__device__ __forceinline__ void load_query(rows16 &r, const uint16_t *q_row, int h,
                                           uint32_t head, bool there, int32_t pos, uint32_t t)
{
    const uint4 *q = reinterpret_cast<const uint4 *>(q_row + head * 64);
    r.q[0][h] = there ? __ldcg(q + t) : make_uint4(0, 0, 0, 0);
    r.q[1][h] = there ? __ldcg(q + 4 + t) : make_uint4(0, 0, 0, 0);
    r.pos[h] = pos;
}

/* K of a KV head in a page. */
__device__ __forceinline__ const uint8_t *key_page(const cuda_kv &kv, uint32_t page,
                                                   uint32_t kv_head)
{
    return kv.pages + page * kv.page_bytes + kv.layer_offset +
           (size_t)kv_head * CUDA_PAGE_TOKENS * 128;
}

#endif
