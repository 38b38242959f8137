/* gptoss/backend/cuda/attend.cuh - a warp's 16 or 8 query rows against keys, 16 at a time.
 *
 * Scores are computed by mma, softmax keeps a running maximum and sum in float32, and the
 * output is computed by two mma: a probability is multiplied with V as the sum of two bf16
 * values, which has an error of 2^-17 instead of 2^-9.  K and V go from their pages to
 * registers without shared memory.  With the head dimension permuted alike in Q and K, a lane's
 * 16 bytes of a K row are a fragment; V's fragments are made by byte permutes.
 *
 *   rows     lane (g, t): rows g and g + 8;  keys 2t, 2t + 1 of each 8
 *   output   lane (g, t): dimensions 16t .. 16t + 15 of rows g and g + 8
 */
#ifndef GPTOSS_CUDA_ATTEND_CUH
#define GPTOSS_CUDA_ATTEND_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

enum { PARTIAL = 66 /* maximum, sum, 64 values */ };
#define LOG2_E 1.44269504f

/* FOLD: 8 rows only.  The upper parts of their probabilities are rows g of an mma, the lower
 * parts rows g + 8, so that one mma is enough; an output is the sum of its two halves. */
template <bool FOLD> struct rows_of {
    enum { HALVES = FOLD ? 1 : 2 };
    uint4 q[2][HALVES]; /* [32-dimension block][row half] */
    float o[8][4];      /* [j]: rows g, g + 8; dimensions 16t + j and 16t + 8 + j */
    float top[HALVES];  /* maximum, log2 domain, of rows g and g + 8 */
    float sum[HALVES];
    int32_t pos[HALVES]; /* positions of the rows' tokens */
};
using rows8 = rows_of<true>;
using rows16 = rows_of<false>;

template <bool FOLD> __device__ __forceinline__ void clear(rows_of<FOLD> &r)
{
#pragma unroll
    for (int j = 0; j < 8; j++)
        r.o[j][0] = r.o[j][1] = r.o[j][2] = r.o[j][3] = 0;
#pragma unroll
    for (int h = 0; h < r.HALVES; h++) {
        r.top[h] = -INFINITY;
        r.sum[h] = 0;
    }
}

struct keys16 {
    uint4 k[2][2]; /* [8 keys][32-dimension block] */
    uint4 v[4];    /* keys 2t, 2t + 1, 2t + 8, 2t + 9; dimensions 8g .. 8g + 7 */
};

/* `page` is the address of K's head within its page; V's head lies kv_heads heads further. */
__device__ __forceinline__ void load_k(keys16 &s, const uint8_t *page, uint32_t slot,
                                       uint32_t g, uint32_t t)
{
    const uint4 *k = reinterpret_cast<const uint4 *>(page) + slot * 8;
#pragma unroll
    for (int n = 0; n < 2; n++)
#pragma unroll
        for (int b = 0; b < 2; b++)
            s.k[n][b] = k[(n * 8 + g) * 8 + b * 4 + t];
}

__device__ __forceinline__ void load_v(keys16 &s, const uint8_t *page, uint32_t kv_heads,
                                       uint32_t slot, uint32_t g, uint32_t t)
{
    const uint4 *v = reinterpret_cast<const uint4 *>(page) + slot * 8 +
                     (size_t)kv_heads * CUDA_PAGE_TOKENS * 8;
#pragma unroll
    for (int i = 0; i < 4; i++)
        s.v[i] = v[(2 * t + (i & 1) + (i >> 1) * 8) * 8 + g];
}

__device__ __forceinline__ void load_keys(keys16 &s, const uint8_t *page, uint32_t kv_heads,
                                          uint32_t slot, uint32_t g, uint32_t t)
{
    load_k(s, page, slot, g, t);
    load_v(s, page, kv_heads, slot, g, t);
}

__device__ __forceinline__ uint32_t word(const uint4 &v, int i)
{
    return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

/* Two values as pairs of bf16: the upper halves, and the rounded rest. */
__device__ __forceinline__ void split_bf16(float low, float high, uint32_t &big, uint32_t &rest)
{
    uint32_t l = __float_as_uint(low), h = __float_as_uint(high);
    big = __byte_perm(l, h, 0x7632);
    rest = pack_bf16(low - __uint_as_float(l & 0xFFFF0000u),
                     high - __uint_as_float(h & 0xFFFF0000u));
}

/* 2^x for x <= 0; zero where the result is no normal number. */
__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Scores of 16 keys, not yet scaled. */
template <bool FOLD>
__device__ __forceinline__ void score_keys(const rows_of<FOLD> &r, const keys16 &s,
                                           float c[2][4])
{
#pragma unroll
    for (int n = 0; n < 2; n++) {
        c[n][0] = c[n][1] = c[n][2] = c[n][3] = 0;
#pragma unroll
        for (int b = 0; b < 2; b++) {
            const uint4 x = r.q[b][0], y = FOLD ? make_uint4(0, 0, 0, 0) : r.q[b][!FOLD],
                        k = s.k[n][b];
            mma(c[n], x.x, y.x, x.y, y.y, k.x, k.y);
            mma(c[n], x.z, y.z, x.w, y.w, k.z, k.w);
        }
    }
}

/* Scores of 16 keys, the first at position `first`, become probabilities. */
template <bool FOLD>
__device__ __forceinline__ void soften_keys(rows_of<FOLD> &r, float c[2][4], int32_t first,
                                            uint32_t window, uint32_t t)
{
    const float scale = 0.125f * LOG2_E; /* 1 / sqrt(64), and exp as a power of two */
    constexpr int HALVES = rows_of<FOLD>::HALVES;
    /* Most chunks are visible to all rows. */
    int32_t lowest = min(r.pos[0], r.pos[HALVES - 1]),
            highest = max(r.pos[0], r.pos[HALVES - 1]);
    bool whole = first + 15 <= lowest && (window == 0 || first + (int32_t)window > highest);
    if (!__all_sync(0xFFFFFFFFu, whole))
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                int32_t key = first + i / 2 * 8 + 2 * (int32_t)t + i % 2;
                if (key > r.pos[h] || (window != 0 && key + (int32_t)window <= r.pos[h]))
                    c[i / 2][h * 2 + i % 2] = -INFINITY;
            }
    float keep[HALVES];
    bool moved = false;
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
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
        for (int j = 0; j < 8; j++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                r.o[j][i] *= keep[i / 2 % HALVES];
}

/* Adds V of 16 keys times their probabilities. */
template <bool FOLD>
__device__ __forceinline__ void mix_values(rows_of<FOLD> &r, const keys16 &s,
                                           const float c[2][4])
{
    uint32_t big[4], rest[4]; /* [key half][row half] */
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
            mma(r.o[i + j], big[0], FOLD ? rest[0] : big[1], big[2], FOLD ? rest[2] : big[3],
                b0[j], b1[j]);
        }
#pragma unroll
        for (int j = 0; j < 4 && !FOLD; j++)
            mma(r.o[i + j], rest[0], rest[1], rest[2], rest[3], b0[j], b1[j]);
    }
}

/* Adds 16 keys, the first at position `first`, to the rows. */
template <bool FOLD>
__device__ __forceinline__ void add_keys(rows_of<FOLD> &r, const keys16 &s, int32_t first,
                                         uint32_t window, uint32_t t)
{
    float c[2][4];
    score_keys(r, s, c);
    soften_keys(r, c, first, window, t);
    mix_values(r, s, c);
}

/* The sums of a row lie spread over its four lanes. */
template <bool FOLD> __device__ __forceinline__ void gather_sums(rows_of<FOLD> &r)
{
#pragma unroll
    for (int h = 0; h < r.HALVES; h++) {
        r.sum[h] += __shfl_xor_sync(0xFFFFFFFFu, r.sum[h], 1);
        r.sum[h] += __shfl_xor_sync(0xFFFFFFFFu, r.sum[h], 2);
    }
}

/* Loads Q of query head `head`, in the row of q, into half h of the rows.  A missing row is
 * zero and sees the same keys as its neighbours: its result is not used, and it does not
 * disturb the check for fully visible chunks.  Read from L2, because in a persistent kernel
 * another multiprocessor has written it. */
template <bool FOLD>
__device__ __forceinline__ void load_query(rows_of<FOLD> &r, const uint16_t *q_row, int h,
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
