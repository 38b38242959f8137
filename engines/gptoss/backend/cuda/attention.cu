/* gptoss/backend/cuda/attention.cu - attention with sinks, grouped heads and both windows.
 *
 * attend.cuh computes a warp's 16 query rows (a token's heads that share a KV head, or several
 * tokens of a prompt).  Decode: 8 warps of a block share one token's keys, and `splits` blocks
 * share them further; the last block to finish (found by a ticket) merges, so no second kernel
 * is needed.  Prefill: every warp has its own rows.  A sink is an additional score without a
 * value: it is added to the sum once, at the end.  Precision: bf16 Q, K and V, probabilities as
 * two bf16 values, float32 sums.  Bound: decode reads each K and V once.  Reference: the CPU
 * backend's attention.
 */
#include "engines/gptoss/backend/cuda/attend.cuh"

enum { DECODE_WARPS = 8, MANY_WARPS = 4, PREFILL_WARPS = 4 };

/* Processes chunks of 16 keys: begin, begin + step, ... below end.  AHEAD: K and V are loaded a
 * whole chunk ahead, into a second set of registers, for few blocks with many keys each.
 * Otherwise K is loaded as soon as this chunk has used its K, and V likewise, so that twice as
 * many warps fit. */
template <bool AHEAD, bool FOLD>
__device__ __forceinline__ void walk(rows_of<FOLD> &r, const cuda_attention &a,
                                     const uint32_t *table, uint32_t kv_head, uint32_t begin,
                                     uint32_t end, uint32_t step, uint32_t g, uint32_t t)
{
    if (begin >= end)
        return;
    keys16 one, two;
    uint32_t chunk = begin;
    const uint32_t last = (end - 1) * 16 / CUDA_PAGE_TOKENS;
    /* The page after the next is looked up before its keys are loaded. */
    auto page_of = [&](uint32_t c) { return table[min(c * 16 / CUDA_PAGE_TOKENS, last)]; };
    uint32_t after = page_of(begin + step);
    load_keys(one, key_page(a.kv, page_of(begin), kv_head), a.kv.kv_heads,
              begin * 16 % CUDA_PAGE_TOKENS, g, t);
    auto advance = [&](keys16 &now, keys16 &next) -> bool {
        const bool more = chunk + step < end;
        const uint32_t slot = (chunk + step) * 16 % CUDA_PAGE_TOKENS;
        const uint8_t *page = key_page(a.kv, after, kv_head);
        float c[2][4];
        after = page_of(chunk + 2 * step);
        if (AHEAD && more)
            load_keys(next, page, a.kv.kv_heads, slot, g, t);
        score_keys(r, now, c);
        if (!AHEAD && more)
            load_k(next, page, slot, g, t);
        soften_keys(r, c, (int32_t)(chunk * 16), a.kv.window, t);
        mix_values(r, now, c);
        if (!AHEAD && more)
            load_v(next, page, a.kv.kv_heads, slot, g, t);
        chunk += step;
        return more;
    };
    if (AHEAD) {
        while (advance(one, two) && advance(two, one)) {
        }
    } else {
        while (advance(one, one)) {
        }
    }
}

/* Divides by the sum, sink included, and writes 16 dimensions of a row. */
__device__ __forceinline__ void put_row(const cuda_attention &a, uint32_t row, uint32_t head,
                                        uint32_t first_dim, float top, float sum,
                                        const float *o)
{
    float sink = from_bf16(a.sinks[head]) * LOG2_E;
    float base = fmaxf(top, sink);
    float keep = exp2f(top - base);
    float factor = keep / (sum * keep + exp2f(sink - base));
    uint32_t packed[8];
#pragma unroll
    for (int i = 0; i < 8; i++)
        packed[i] = pack_bf16(o[2 * i] * factor, o[2 * i + 1] * factor);
    uint4 *out =
        reinterpret_cast<uint4 *>(a.out + (size_t)row * a.heads * 64 + head * 64 + first_dim);
    out[0] = make_uint4(packed[0], packed[1], packed[2], packed[3]);
    out[1] = make_uint4(packed[4], packed[5], packed[6], packed[7]);
}

/* One token a block of WARPS warps; the rows are the heads of a group. */
template <bool FOLD, int WARPS> __device__ __forceinline__ void decode(const cuda_attention &a)
{
    __shared__ float merged[WARPS][FOLD ? 8 : CUDA_GROUP_MAX][PARTIAL];
    __shared__ uint32_t is_last;
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    const uint32_t kv_head = blockIdx.y, group = a.heads / a.kv.kv_heads;
    uint32_t row = blockIdx.z, part = blockIdx.x;
    let_next_kernel_start();
    wait_for_previous_kernel();
    if (row >= a.singles) {
        const uint32_t listed = a.parts[row - a.singles];
        row = listed & 0xFFFF;
        part = listed >> 16;
    }
    const cuda_seq s = a.seqs[row];
    const uint32_t *table = a.tables + s.table_start + (a.kv.window != 0 ? s.table_count : 0);
    const int32_t pos = (int32_t)s.position;

    /* The visible chunks of this token, and this block's share. */
    uint32_t low = a.kv.window != 0 && pos >= (int32_t)a.kv.window
                       ? (uint32_t)(pos + 1 - (int32_t)a.kv.window) / 16
                       : 0;
    uint32_t high = (uint32_t)pos / 16 + 1, chunks = high - low;
    /* With other rows to process, a second block is worth its merging only for many keys. */
    uint32_t share = max((chunks + a.splits - 1) / a.splits,
                         (uint32_t)(FOLD ? 8 * DECODE_WARPS : DECODE_WARPS));
    const bool listed = s.share != 0 && a.kv.window == 0;
    if (listed)
        share = s.share;
    uint32_t active = (chunks + share - 1) / share;
    if (part >= active)
        return;
    uint32_t begin = low + part * share, end = min(begin + share, high);

    rows_of<FOLD> r;
    clear(r);
#pragma unroll
    for (int h = 0; h < r.HALVES; h++)
        load_query(r, a.q + (size_t)row * a.heads * 64, h, kv_head * group + g + h * 8,
                   g + h * 8 < group, pos, t);
    walk<!FOLD>(r, a, table, kv_head, begin + warp, end, WARPS, g, t);
    gather_sums(r);
#pragma unroll
    for (int h = 0; h < r.HALVES; h++) {
        if (g + h * 8 >= group)
            continue;
        float *out = merged[warp][g + h * 8];
        if (t == 0) {
            out[0] = r.top[h];
            out[1] = r.sum[h];
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            out[2 + 16 * t + j] = r.o[j][h * 2] + (FOLD ? r.o[j][2] : 0.0f);
            out[2 + 16 * t + 8 + j] = r.o[j][h * 2 + 1] + (FOLD ? r.o[j][3] : 0.0f);
        }
    }
    __syncthreads();

    /* 64 threads a row, one dimension each: adds the warps' parts in order. */
    const size_t stride = (size_t)(listed ? a.kv.kv_heads : 1) * CUDA_GROUP_MAX * PARTIAL;
    const uint32_t splits = listed ? 1 : a.splits;
    float *partial =
        a.partial + ((size_t)(listed ? s.first_part : row) * a.kv.kv_heads + kv_head) * splits *
                        CUDA_GROUP_MAX * PARTIAL;
    for (uint32_t i = threadIdx.x; i < group * 64; i += WARPS * WARP) {
        uint32_t head = i / 64, d = i % 64;
        float top = -INFINITY, sum = 0, value = 0;
        for (int w = 0; w < WARPS; w++)
            top = fmaxf(top, merged[w][head][0]);
        for (int w = 0; w < WARPS; w++) {
            float keep = exp2f(merged[w][head][0] - top);
            sum += merged[w][head][1] * keep;
            value += merged[w][head][2 + d] * keep;
        }
        if (active == 1) {
            float sink = from_bf16(a.sinks[kv_head * group + head]) * LOG2_E;
            float base = fmaxf(top, sink), keep = exp2f(top - base);
            a.out[(size_t)row * a.heads * 64 + (kv_head * group + head) * 64 + d] =
                to_bf16(value * keep / (sum * keep + exp2f(sink - base)));
        } else {
            float *out = partial + part * stride + head * PARTIAL;
            out[2 + d] = value;
            if (d == 0) {
                out[0] = top;
                out[1] = sum;
            }
        }
    }
    if (active == 1)
        return;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t *ticket = a.tickets + row * a.kv.kv_heads + kv_head;
        is_last = atomicAdd(ticket, 1) == active - 1;
        if (is_last)
            *ticket = 0;
    }
    __syncthreads();
    if (!is_last)
        return;
    __threadfence();
    for (uint32_t i = threadIdx.x; i < group * 64; i += WARPS * WARP) {
        uint32_t head = i / 64, d = i % 64;
        float sink = from_bf16(a.sinks[kv_head * group + head]) * LOG2_E;
        float top = sink, sum = 0, value = 0;
        for (uint32_t p = 0; p < active; p++)
            top = fmaxf(top, __ldcg(partial + p * stride + head * PARTIAL));
        for (uint32_t p = 0; p < active; p++) {
            const float *in = partial + p * stride + head * PARTIAL;
            float keep = exp2f(__ldcg(in) - top);
            sum += __ldcg(in + 1) * keep;
            value += __ldcg(in + 2 + d) * keep;
        }
        a.out[(size_t)row * a.heads * 64 + (kv_head * group + head) * 64 + d] =
            to_bf16(value / (sum + exp2f(sink - top)));
    }
}

/* grid: (splits, kv heads, rows of the batch).  The first kernel is for many rows whose groups
 * have up to 8 heads: two blocks a multiprocessor. */
extern "C" __global__ void __launch_bounds__(DECODE_WARPS *WARP, 2)
    attention_decode_8(const __grid_constant__ cuda_attention a)
{
    decode<true, DECODE_WARPS>(a);
}

/* The same for enough rows: fewer warps a row keep all multiprocessors busy. */
extern "C" __global__ void __launch_bounds__(MANY_WARPS *WARP, 16 / MANY_WARPS)
    attention_decode_8_many(const __grid_constant__ cuda_attention a)
{
    decode<true, MANY_WARPS>(a);
}

extern "C" __global__ void __launch_bounds__(DECODE_WARPS *WARP)
    attention_decode_16(const __grid_constant__ cuda_attention a)
{
    decode<false, DECODE_WARPS>(a);
}

/* A prompt: a warp has 16 rows = tokens_per_tile tokens times the heads of a group.
 * grid: (tiles / PREFILL_WARPS, kv heads). */
extern "C" __global__ void __launch_bounds__(PREFILL_WARPS *WARP)
    attention_prefill(const __grid_constant__ cuda_attention a)
{
    const uint32_t warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4,
                   t = lane % 4;
    /* The last tiles see the most keys: start them first. */
    const uint32_t index = blockIdx.x * PREFILL_WARPS + warp, kv_head = blockIdx.y;
    const uint32_t group = a.heads / a.kv.kv_heads;
    let_next_kernel_start();
    wait_for_previous_kernel();
    if (index >= a.tiles)
        return;
    const uint32_t tile = a.tiles - 1 - index;
    const cuda_seq s = a.seqs[a.tile_seq[tile]];
    const uint32_t first = a.tile_first[tile], count = min(a.tokens_per_tile, s.count - first);
    const uint32_t *table = a.tables + s.table_start + (a.kv.window != 0 ? s.table_count : 0);

    rows16 r;
    clear(r);
    uint32_t row[2], head[2];
    bool there[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        uint32_t i = g + h * 8, token = first + i / group;
        there[h] = i / group < count && i < a.tokens_per_tile * group;
        token = there[h] ? token : first;
        row[h] = s.first_row + token;
        head[h] = kv_head * group + i % group;
        load_query(r, a.q + (size_t)row[h] * a.heads * 64, h, head[h], there[h],
                   (int32_t)(s.position + token), t);
    }
    uint32_t lowest = s.position + first, highest = lowest + count - 1;
    uint32_t begin =
        a.kv.window != 0 && lowest >= a.kv.window ? (lowest + 1 - a.kv.window) / 16 : 0;
    walk<false>(r, a, table, kv_head, begin, highest / 16 + 1, 1, g, t);
    gather_sums(r);
#pragma unroll
    for (int h = 0; h < 2; h++) {
        if (!there[h])
            continue;
        float o[16];
#pragma unroll
        for (int j = 0; j < 8; j++) {
            o[j] = r.o[j][h * 2];
            o[8 + j] = r.o[j][h * 2 + 1];
        }
        put_row(a, row[h], head[h], 16 * t, r.top[h], r.sum[h], o);
    }
}
