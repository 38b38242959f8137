/* gptoss/backend/cuda/attend.cuh - a warp's 16 query rows against keys, 16 at a time.
 *
 * Scores by mma, softmax kept as running maximum and sum in float32, output by mma.  K and V
 * go from their pages to registers without shared memory: with the head dimension permuted
 * alike in Q and K a lane's 16 bytes of a K row are a fragment, and V's fragments are made
 * by byte permutes.
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
    int32_t pos[2]; /* positions of the rows' tokens; -1: no such row */
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

/* Adds 16 keys, the first at position `first`, to the rows. */
__device__ __forceinline__ void add_keys(rows16 &r, const keys16 &s, int32_t first,
                                         uint32_t window, uint32_t t)
{
    const float scale = 0.125f * 1.44269504f; /* 1 / sqrt(64), and exp as a power of two */
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
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float best = r.top[h];
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int32_t key = first + n * 8 + 2 * (int32_t)t + i;
                bool seen =
                    key <= r.pos[h] && (window == 0 || key + (int32_t)window > r.pos[h]);
                float &v = c[n][h * 2 + i];
                v = seen ? v * scale : -INFINITY;
                best = fmaxf(best, v);
            }
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
        float base = best == -INFINITY ? 0.0f : best;
        float keep = exp2f(r.top[h] - base);
        r.top[h] = best;
        r.sum[h] *= keep;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            r.o[j][h * 2] *= keep;
            r.o[j][h * 2 + 1] *= keep;
        }
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int i = 0; i < 2; i++) {
                float &v = c[n][h * 2 + i];
                v = exp2f(v - base);
                r.sum[h] += v;
            }
    }
    uint32_t p0 = pack_bf16(c[0][0], c[0][1]), p1 = pack_bf16(c[0][2], c[0][3]);
    uint32_t p2 = pack_bf16(c[1][0], c[1][1]), p3 = pack_bf16(c[1][2], c[1][3]);
#pragma unroll
    for (int j = 0; j < 8; j++) {
        uint32_t pick = j % 2 == 0 ? 0x5410u : 0x7632u;
        uint32_t b0 = __byte_perm(word(s.v[0], j / 2), word(s.v[1], j / 2), pick);
        uint32_t b1 = __byte_perm(word(s.v[2], j / 2), word(s.v[3], j / 2), pick);
        mma(r.o[j], p0, p1, p2, p3, b0, b1);
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

/* Q of query head `head`, in the row of q, into half h of the rows; pos < 0: no such row.
 * Read from L2: in a kernel that stays, another multiprocessor wrote it. */
__device__ __forceinline__ void load_query(rows16 &r, const uint16_t *q_row, int h,
                                           uint32_t head, int32_t pos, uint32_t t)
{
    const uint4 *q = reinterpret_cast<const uint4 *>(q_row + head * 64);
    bool real = pos >= 0;
    r.q[0][h] = real ? __ldcg(q + t) : make_uint4(0, 0, 0, 0);
    r.q[1][h] = real ? __ldcg(q + 4 + t) : make_uint4(0, 0, 0, 0);
    r.pos[h] = pos;
}

/* K of a KV head in the page that holds a chunk of 16 keys. */
__device__ __forceinline__ const uint8_t *key_page(const cuda_kv &kv, const uint32_t *table,
                                                   uint32_t chunk, uint32_t kv_head)
{
    uint32_t page = table[chunk * 16 / CUDA_PAGE_TOKENS];
    return kv.pages + page * kv.page_bytes + kv.layer_offset +
           (size_t)kv_head * CUDA_PAGE_TOKENS * 128;
}

#endif
