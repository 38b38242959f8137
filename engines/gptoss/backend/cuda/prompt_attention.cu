/* gptoss/backend/cuda/prompt_attention.cu - attention of prompts on Hopper's wgmma.
 *
 * A block has four warpgroups of 64 query rows (tokens times the heads of a group) and one KV
 * head; another warpgroup copies a page of K and V at a time into a ring in shared memory.
 * Scores are Q (shared memory) times K, and softmax runs in registers with a running maximum
 * and sum.  The probabilities are multiplied with V from registers: the same lanes hold a score
 * as accumulator and as the a fragment of the next product.  The softmax of one warpgroup
 * overlaps with the products of others.  A sink is an additional score without a value: it is
 * added to the sum once, at the end.
 * Precision: probabilities as fp16, of 11 bits, and their sum is that of the rounded values, so
 * that an error all of them have cancels out.  The copying warpgroup converts V to fp16, which
 * is exact for values from 2^-14 to 65,504.  Reference: the CPU backend's attention.
 */
#include "engines/gptoss/backend/cuda/wgmma.cuh"

enum {
    GROUPS = CUDA_QUERY_GROUPS,
    COPIERS = 128,
    STAGES = CUDA_QUERY_STAGES,
    MATRIX_BYTES = CUDA_PAGE_TOKENS * 128,
    STAGE_BYTES = 2 * MATRIX_BYTES,
    LIFT = 8 /* probabilities are multiplied by 2^LIFT, so that small ones have all bits */
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/* d = a * b (first) or d += a * b; a and b in shared memory, 64 x 16 times 16 x 64. */
__device__ __forceinline__ void multiply_scores(float *d, uint64_t a, uint64_t b, int add)
{
    asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" WGMMA_OUT_64
                 "}, %32, %33, add, 1, 1, 0, 0;\n}"
                 : WGMMA_SUMS_64
                 : "l"(a), "l"(b), "r"(add));
}

/* d += a * b in fp16; b has a row of 64 columns for each of a's 16 columns. */
__device__ __forceinline__ void multiply_values(float *d, const uint32_t *a, uint64_t b)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" WGMMA_OUT_64
                 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
                 : WGMMA_SUMS_64
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ __forceinline__ float power_of_two(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* Two values as fp16, a value too large as the largest one. */
__device__ __forceinline__ uint32_t pack_fp16(float low, float high)
{
    uint32_t both;
    asm("cvt.rn.satfinite.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
    return both;
}

__device__ __forceinline__ float2 from_fp16(uint32_t both)
{
    float2 v;
    asm("{\n.reg .b16 low, high;\nmov.b32 {low, high}, %2;\ncvt.f32.f16 %0, low;\n"
        "cvt.f32.f16 %1, high;\n}"
        : "=f"(v.x), "=f"(v.y)
        : "r"(both));
    return v;
}

/* Eight bf16 values as fp16. */
__device__ __forceinline__ uint4 to_fp16(uint4 v)
{
    auto pair = [](uint32_t w) {
        return pack_fp16(__uint_as_float(w << 16), __uint_as_float(w & 0xFFFF0000u));
    };
    return make_uint4(pair(v.x), pair(v.y), pair(v.z), pair(v.w));
}

/* Query rows of a lane: g and g + 8 of its warp's 16. */
struct rows {
    float o[32]; /* [8 dimensions][row half][2] */
    float top[2], sum[2];
    int32_t pos[2]; /* -1: no such row */
};

/* Turns the scores of a page into probabilities. */
__device__ __forceinline__ void soften(rows &r, float *s, uint32_t p[16], bool mask,
                                       int32_t first, int32_t window, uint32_t t)
{
    const float scale = 0.125f * 1.44269504f; /* 1 / sqrt(64), and exp as a power of two */
    float kept[2];
    if (mask) {
#pragma unroll
        for (int i = 0; i < 32; i++) {
            int32_t key = first + i / 4 * 8 + 2 * (int32_t)t + i % 2, pos = r.pos[i / 2 % 2];
            if (key > pos || (window != 0 && key + window <= pos))
                s[i] = -INFINITY;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float best = s[2 * h];
#pragma unroll
        for (int j = 0; j < 8; j++)
            best = fmaxf(best, fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 1));
        best = fmaxf(best, __shfl_xor_sync(0xFFFFFFFFu, best, 2));
        best = fmaxf(best * scale, r.top[h]);
        float base = best == -INFINITY ? 0.0f : best;
        float keep = power_of_two(r.top[h] - base), sum = 0;
        r.top[h] = best;
        base -= LIFT;
#pragma unroll
        for (int j = 0; j < 8; j++) {
            float x = power_of_two(s[4 * j + 2 * h] * scale - base);
            float y = power_of_two(s[4 * j + 2 * h + 1] * scale - base);
            p[2 * j + h] = pack_fp16(x, y);
            const float2 rounded = from_fp16(p[2 * j + h]);
            sum += rounded.x + rounded.y;
        }
        r.sum[h] = r.sum[h] * keep + sum;
        kept[h] = keep;
    }
    /* A maximum seldom moves behind the first pages. */
    if (__any_sync(0xFFFFFFFFu, kept[0] != 1.0f || kept[1] != 1.0f))
#pragma unroll
        for (int i = 0; i < 32; i++)
            r.o[i] *= kept[i / 2 % 2];
}

/* The 64 rows of a warpgroup's Q into shared memory. */
template <class Row>
__device__ __forceinline__ void stage_queries(const cuda_attention &a, uint32_t to,
                                              uint32_t group, Row row_of)
{
#pragma unroll
    for (uint32_t i = threadIdx.x % 128; i < 64 * 8; i += 128) {
        uint32_t row = i / 8, piece = i % 8, head, token;
        bool real = row_of(row, head, token);
        copy_piece(to + row * 128 + ((piece ^ (row & 7)) << 4),
                   a.q + ((size_t)token * a.heads + head) * 64 + piece * 8, real);
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    fence_for_wgmma();
    asm volatile("bar.sync %0, 128;" ::"r"(1 + threadIdx.x / 128) : "memory");
}

__device__ __forceinline__ void store_piece(uint32_t to, uint4 v)
{
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(v.x), "r"(v.y),
                 "r"(v.z), "r"(v.w)
                 : "memory");
}

/* Pages begin .. end - 1 of one KV head. */
__device__ __forceinline__ void copy_pages(const cuda_attention &a, const uint32_t *table,
                                           uint32_t kv_head, uint32_t begin, uint32_t end,
                                           uint32_t data, uint64_t *full, uint64_t *empty,
                                           uint32_t thread)
{
    enum { PIECES = MATRIX_BYTES / (COPIERS * 16) };
    const uint32_t row = thread / 8, piece = thread % 8;
    const uint32_t at = row * 128 + ((piece ^ (row & 7)) << 4);
    const size_t to_values = (size_t)a.kv.kv_heads * MATRIX_BYTES;
    uint4 values[PIECES]; /* of the next page, asked for a page ahead */
    uint32_t slot = 0, parity = 1;
    auto keys_of = [&](uint32_t page) {
        return a.kv.pages + table[page] * a.kv.page_bytes + a.kv.layer_offset +
               (size_t)kv_head * MATRIX_BYTES + thread * 16;
    };
    auto ask = [&](const uint8_t *k) {
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            values[i] = *reinterpret_cast<const uint4 *>(k + to_values + i * (COPIERS * 16));
    };
    const uint8_t *k = keys_of(begin);
    ask(k);
    for (uint32_t page = begin; page < end; page++) {
        const uint32_t to = data + slot * STAGE_BYTES + at;
        ring_wait(empty + slot, parity);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            copy_piece(to + i * (COPIERS * 16), k + i * (COPIERS * 16), true);
        arrive_after_copies(full + slot);
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            store_piece(to + MATRIX_BYTES + i * (COPIERS * 16), to_fp16(values[i]));
        ring_arrive(full + slot);
        k = keys_of(min(page + 1, end - 1));
        ask(k);
        if (++slot == STAGES) {
            slot = 0;
            parity ^= 1;
        }
    }
}

/* One page: scores, softmax, values. */
__device__ __forceinline__ void attend_page(rows &r, uint32_t q, uint32_t data, bool mask,
                                            int32_t first, int32_t window, uint32_t t)
{
    float s[32];
    uint32_t p[16];
    const uint64_t queries = wgmma_matrix(q), keys = wgmma_matrix(data),
                   values = wgmma_matrix(data + MATRIX_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++)
        multiply_scores(s, queries + step * 2, keys + step * 2, step);
    wgmma_commit();
    wgmma_wait<0>();
    soften(r, s, p, mask, first, window, t);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < 4; step++)
        multiply_values(r.o, p + 4 * step, values + step * 128);
    wgmma_commit();
    wgmma_wait<0>();
}

/* Four lanes have word t of four pieces each; afterwards lane t has piece t. */
__device__ __forceinline__ uint4 gather_words(const uint32_t w[4], uint32_t t)
{
    const bool even = t % 2 == 0;
    const uint32_t a = __shfl_xor_sync(0xFFFFFFFFu, even ? w[1] : w[0], 1),
                   b = __shfl_xor_sync(0xFFFFFFFFu, even ? w[3] : w[2], 1);
    /* Words t & ~1 and the next of piece t & 1 and of that plus 2. */
    const uint2 low = even ? make_uint2(w[0], a) : make_uint2(a, w[1]),
                high = even ? make_uint2(w[2], b) : make_uint2(b, w[3]);
    const uint2 give = t < 2 ? high : low;
    const uint32_t c = __shfl_xor_sync(0xFFFFFFFFu, give.x, 2),
                   d = __shfl_xor_sync(0xFFFFFFFFu, give.y, 2);
    return t < 2 ? make_uint4(low.x, low.y, c, d) : make_uint4(c, d, high.x, high.y);
}

/* Divides by the sum, sink included, and writes a row. */
__device__ __forceinline__ void put_row(const cuda_attention &a, rows &r, int h, uint32_t token,
                                        uint32_t head, uint32_t t)
{
    float sum = r.sum[h] + __shfl_xor_sync(0xFFFFFFFFu, r.sum[h], 1);
    sum += __shfl_xor_sync(0xFFFFFFFFu, sum, 2);
    float sink = from_bf16(a.sinks[head]) * 1.44269504f;
    float base = fmaxf(r.top[h], sink), keep = exp2f(r.top[h] - base);
    float factor = keep / (sum * keep + exp2f(sink - base + LIFT));
    uint32_t packed[8];
#pragma unroll
    for (int j = 0; j < 8; j++)
        packed[j] = pack_bf16(r.o[4 * j + 2 * h] * factor, r.o[4 * j + 2 * h + 1] * factor);
    const uint4 first = gather_words(packed, t), second = gather_words(packed + 4, t);
    if (r.pos[h] < 0)
        return;
    uint4 *out = reinterpret_cast<uint4 *>(a.out + ((size_t)token * a.heads + head) * 64);
    out[t] = first;
    out[4 + t] = second;
}

/* grid: (query tiles, kv heads); a tile is tokens_per_tile tokens of one sequence. */
extern "C" __global__ void __launch_bounds__(CUDA_QUERY_THREADS, 1)
    prompt_attention(const __grid_constant__ cuda_attention a)
{
    extern __shared__ __align__(1024) uint8_t shared[];
    __shared__ uint64_t full[STAGES], empty[STAGES];
    const uint32_t data = (ring_address(shared) + 1023) & ~1023u;
    let_next_kernel_start();
    if (threadIdx.x < STAGES) {
        ring_init(full + threadIdx.x, 2 * COPIERS); /* K's copies, and V's stores */
        ring_init(empty + threadIdx.x, GROUPS * 4);
        ring_publish();
    }
    __syncthreads();
    wait_for_previous_kernel();
    /* The last tiles see the most keys: start them first. */
    const uint32_t tile = a.tiles - 1 - blockIdx.x, kv_head = blockIdx.y;
    const cuda_seq s = a.seqs[a.tile_seq[tile]];
    const uint32_t *table = a.tables + s.table_start + (a.kv.window != 0 ? s.table_count : 0);
    const uint32_t group = a.heads / a.kv.kv_heads, per_group = a.tokens_per_tile / GROUPS;
    const uint32_t first = a.tile_first[tile], count = min(a.tokens_per_tile, s.count - first);
    const uint32_t lowest = s.position + first, highest = lowest + count - 1;
    const uint32_t begin = a.kv.window != 0 && lowest >= a.kv.window
                               ? (lowest + 1 - a.kv.window) / CUDA_PAGE_TOKENS
                               : 0;
    const uint32_t end = highest / CUDA_PAGE_TOKENS + 1;
    const uint32_t lane = threadIdx.x % WARP, which = threadIdx.x / 128, t = lane % 4;
    if (which == GROUPS) {
        give_registers<64>();
        copy_pages(a, table, kv_head, begin, end, data, full, empty, threadIdx.x % 128);
        return;
    }
    take_registers<104>();

    /* Row i of this warpgroup: a token of the batch and a head. */
    auto row_of = [&](uint32_t i, uint32_t &head, uint32_t &token) -> bool {
        uint32_t at = which * per_group + i / group;
        bool real = i / group < per_group && at < count;
        head = kv_head * group + (real ? i % group : 0);
        token = s.first_row + first + (real ? at : 0);
        return real;
    };
    const uint32_t q = data + STAGES * STAGE_BYTES + which * MATRIX_BYTES;
    stage_queries(a, q, group, row_of);
    rows r;
    const uint32_t row = threadIdx.x % 128 / WARP * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 32; i++)
        r.o[i] = 0;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t head, token;
        bool real = row_of(row + h * 8, head, token);
        r.pos[h] = real ? (int32_t)(s.position + token - s.first_row) : -1;
        r.top[h] = -INFINITY;
        r.sum[h] = 0;
    }
    uint32_t slot = 0, parity = 0;
    for (uint32_t page = begin; page < end; page++) {
        const uint32_t from = page * CUDA_PAGE_TOKENS;
        const bool mask = from + CUDA_PAGE_TOKENS > lowest + which * per_group + 1 ||
                          (a.kv.window != 0 && from + a.kv.window <= highest);
        ring_wait(full + slot, parity);
        fence_for_wgmma();
        attend_page(r, q, data + slot * STAGE_BYTES, mask, (int32_t)from, (int32_t)a.kv.window,
                    t);
        if (lane == 0)
            ring_arrive(empty + slot);
        if (++slot == STAGES) {
            slot = 0;
            parity ^= 1;
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t head, token;
        (void)row_of(row + h * 8, head, token);
        put_row(a, r, h, token, head, t);
    }
}

#endif
