/* gptoss/backend/cuda/sample_filtered.cu - the parts of sampler/sampler.h that sample_plain
 * does not do: penalties, bias, mask, top_k, top_p, min_p, log probabilities (Hopper and
 * later).
 *
 * A cluster of eight blocks processes a row, each block an eighth of it in shared memory: the
 * logits are read once, from L2 (twice with log probabilities), and every operation below works
 * in shared memory.  Rare cases are left to the host (no id can be sampled, or NaN where log
 * probabilities are requested).
 */
#include "engines/gptoss/backend/cuda/rank.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

struct best {
    float value;
    uint32_t id;
};

#define NONE (best{-INFINITY, NO_ID})

/* Shared memory.  Values that other blocks read have a separate place for each use. */
struct sample_state {
    rank_state rank;
    best likely, chosen, raw; /* this block's */
    uint32_t odd;
    double sum;
    best top[CUDA_TOP_MAX];
    best all[CUDA_FILTER_BLOCKS * CUDA_TOP_MAX]; /* used by the first block only */
};

/* ---- the row ---- */

/* Loads the block's part; true in a thread that found a NaN. */
__device__ __forceinline__ bool load(const cuda_filter &a, const cuda_filter_row &how,
                                     const row_part &part, const uint32_t *mask)
{
    const float4 *logits =
        reinterpret_cast<const float4 *>(a.logits + (size_t)how.row * a.stride) + part.first;
    bool odd = false;
#pragma unroll 4
    for (uint32_t k = threadIdx.x; k < part.quads; k += RANK_THREADS) {
        uint32_t q = part.first + k, left = a.vocab - q * 4;
        uint32_t legal = a.usable[q / 8] >> q % 8 * 4 & (left < 4 ? (1u << left) - 1 : 15);
        if (mask != nullptr)
            legal &= mask[q / 8] >> q % 8 * 4;
        float4 v = logits[k];
        float l[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            bool there = (legal >> i & 1) != 0;
            odd = odd || (there && isnan(l[i]));
            l[i] = there && l[i] > -INFINITY ? l[i] : -INFINITY;
        }
        part.values[k] = make_float4(l[0], l[1], l[2], l[3]);
    }
    return odd;
}

/* Penalties and bias, rounded as the host rounds them. */
__device__ __forceinline__ void edit(const cuda_filter &a, const cuda_filter_row &how,
                                     const row_part &part)
{
    const cuda_edit *edits = reinterpret_cast<const cuda_edit *>(a.input + how.edits);
    float *values = reinterpret_cast<float *>(part.values);
    for (uint32_t k = threadIdx.x; k < how.edit_count; k += RANK_THREADS) {
        cuda_edit e = edits[k];
        uint32_t at = e.id - part.first * 4; /* huge below the part */
        if (at >= part.quads * 4 || !(values[at] > -INFINITY))
            continue;
        float l = values[at];
        if (e.seen != 0)
            l = l > 0 ? __fdiv_rn(l, how.repetition) : __fmul_rn(l, how.repetition);
        if (e.seen > 1)
            l = __fsub_rn(
                l, __fadd_rn(how.presence, __fmul_rn((float)(e.seen - 1), how.frequency)));
        l = __fadd_rn(l, e.bias);
        values[at] = l > -INFINITY ? l : -INFINITY;
    }
}

/* The best of all blocks, in all threads; `own` is the place for this use. */
__device__ __forceinline__ best cluster_best(best b, best &own)
{
    block_argmax(b.value, b.id);
    if (threadIdx.x == 0)
        own = b;
    cluster_sync();
    b = NONE;
    for (uint32_t rank = 0; rank < CUDA_FILTER_BLOCKS; rank++) {
        const best *other = cluster_at(&own, rank);
        take(b.value, b.id, other->value, other->id);
    }
    return b;
}

/* The best of this thread's values after `after`; NO_ID: of all. */
__device__ __forceinline__ best next_best(const row_part &part, best after)
{
    best b = NONE;
    for (uint32_t k = threadIdx.x; k < part.quads; k += RANK_THREADS) {
        float4 v = part.values[k];
        const float l[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t id = (part.first + k) * 4 + i;
            if (l[i] > -INFINITY && (after.id == NO_ID || l[i] < after.value ||
                                     (l[i] == after.value && id > after.id)))
                take(b.value, b.id, l[i], id);
        }
    }
    return b;
}

/* ---- the choice ---- */

__device__ __forceinline__ float scaled(float l, float top, float temperature)
{
    float x = __fsub_rn(l, top);
    return temperature != 1 ? __fdiv_rn(x, temperature) : x;
}

__device__ __forceinline__ void scale(const row_part &part, float top, float temperature)
{
    for (uint32_t k = threadIdx.x; k < part.quads; k += RANK_THREADS) {
        float4 v = part.values[k];
        part.values[k] =
            make_float4(scaled(v.x, top, temperature), scaled(v.y, top, temperature),
                        scaled(v.z, top, temperature), scaled(v.w, top, temperature));
    }
}

/* The largest x + g of this thread's values within the border. */
__device__ __forceinline__ best noisy(const row_part &part, const cuda_filter_row &how,
                                      rank_border border)
{
    best b = NONE;
    for (uint32_t k = threadIdx.x; k < part.quads; k += RANK_THREADS) {
        float4 v = part.values[k];
        const float x[4] = {v.x, v.y, v.z, v.w};
        uint32_t q = part.first + k, kept = 0, words[4];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            kept |= (x[i] >= how.floor && within(border, bits_of(x[i]), q * 4 + i)) << i;
        if (kept == 0)
            continue;
        philox(how.seed, q, how.index, words);
#pragma unroll
        for (uint32_t i = 0; i < 4; i++)
            if ((kept >> i & 1) != 0)
                take(b.value, b.id, x[i] + gumbel(words[i]), q * 4 + i);
    }
    return b;
}

/* NO_ID: no id can be sampled.  The same in all threads of all blocks. */
__device__ uint32_t choose(const cuda_filter &a, const cuda_filter_row &how, sample_state &s,
                           const row_part &part)
{
    (void)load(a, how, part, how.mask != 0 ? a.input + how.mask : nullptr);
    if (how.edit_count != 0) {
        __syncthreads();
        edit(a, how, part);
        __syncthreads();
    }
    best likely = cluster_best(next_best(part, NONE), s.likely);
    if (likely.id == NO_ID || !(how.temperature > 0) || likely.value == INFINITY)
        return likely.id;
    rank_border border = {LARGEST_BITS, NO_ID};
    uint32_t turn = 0;
    scale(part, likely.value, how.temperature);
    if (how.top_k != 0)
        border = select<BY_COUNT>(s.rank, part, border, a.vocab, how.top_k, 0, turn);
    if (how.top_p < 1)
        border = select<BY_WEIGHT>(s.rank, part, border, a.vocab, (double)how.top_p, how.least,
                                   turn);
    uint32_t chosen = cluster_best(noisy(part, how, border), s.chosen).id;
    return chosen != NO_ID ? chosen : likely.id;
}

/* ---- log probabilities ---- */

/* This thread's part of the sum of exp(logit - largest). */
__device__ __forceinline__ double weigh(const row_part &part, float largest)
{
    double sum = 0;
    for (uint32_t k = threadIdx.x; k < part.quads; k += RANK_THREADS) {
        float4 v = part.values[k];
        const float l[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            float x = __fsub_rn(l[i], largest);
            if (bits_of(x) <= WEIGHTLESS)
                sum += weight(x);
        }
    }
    return sum;
}

/* The block's first ranks, in order. */
__device__ __forceinline__ void list_top(const row_part &part, uint32_t wanted, best *top)
{
    best own = next_best(part, NONE);
    for (uint32_t i = 0; i < wanted; i++) {
        best b = own;
        block_argmax(b.value, b.id);
        if (threadIdx.x == 0)
            top[i] = b;
        if (b.id != NO_ID && b.id == own.id)
            own = next_best(part, b);
    }
}

/* In the first block: merges the lists of all blocks, in order.  Returns how many ids there
 * are. */
__device__ __forceinline__ uint32_t merge_top(sample_state &s, uint32_t wanted,
                                              cuda_filtered *out)
{
    const uint32_t t = threadIdx.x, count = CUDA_FILTER_BLOCKS * wanted;
    uint32_t rank = 0, there = 0;
    if (t < count)
        s.all[t] = *cluster_at(&s.top[t % wanted], t / wanted);
    __syncthreads();
    if (t >= count)
        return 0;
    best own = s.all[t];
    for (uint32_t i = 0; i < count; i++) {
        best b = s.all[i];
        there += b.id != NO_ID;
        rank +=
            b.id != NO_ID && (b.value > own.value || (b.value == own.value && b.id < own.id));
    }
    if (own.id != NO_ID && rank < wanted)
        out->top[rank] = {own.id, own.value};
    return min(there, wanted);
}

/* False: left to the host. */
__device__ bool report(const cuda_filter &a, const cuda_filter_row &how, sample_state &s,
                       const row_part &part, uint32_t id, cuda_filtered *out)
{
    const uint32_t wanted = how.report - 1;
    const bool met = load(a, how, part, nullptr), odd = __syncthreads_or(met) != 0;
    if (threadIdx.x == 0)
        s.odd = odd;
    best raw = cluster_best(next_best(part, NONE), s.raw);
    uint32_t odds = 0;
    for (uint32_t rank = 0; rank < CUDA_FILTER_BLOCKS; rank++)
        odds |= *cluster_at(&s.odd, rank);
    if (odds != 0 || raw.id == NO_ID || raw.value == INFINITY)
        return false;
    double sum = block_sum(weigh(part, raw.value), s.rank.warp_sums);
    if (threadIdx.x == 0)
        s.sum = sum;
    list_top(part, wanted, s.top);
    cluster_sync();
    if (cluster_rank() != 0)
        return true;
    uint32_t listed = wanted != 0 ? merge_top(s, wanted, out) : 0;
    if (threadIdx.x == 0) {
        out->count = listed;
        out->logit = a.logits[(size_t)how.row * a.stride + id];
        out->largest = raw.value;
        double all = 0;
        for (uint32_t rank = 0; rank < CUDA_FILTER_BLOCKS; rank++)
            all += *cluster_at(&s.sum, rank);
        out->sum = all;
    }
    return true;
}

/* grid: (CUDA_FILTER_BLOCKS, rows) in clusters of a row; shared memory for the block's part. */
extern "C" __global__ void __launch_bounds__(CUDA_FILTER_THREADS, 2)
    sample_filtered(const __grid_constant__ cuda_filter a)
{
    extern __shared__ float4 values[];
    __shared__ sample_state s;
    const cuda_filter_row how = reinterpret_cast<const cuda_filter_row *>(a.input)[blockIdx.y];
    cuda_filtered *out = &a.out[blockIdx.y];
    const uint32_t all = (a.vocab + 3) / 4,
                   each = (all + CUDA_FILTER_BLOCKS - 1) / CUDA_FILTER_BLOCKS;
    const uint32_t first = min(cluster_rank() * each, all);
    const row_part part = {values, first, min(each, all - first)};
    uint32_t id = choose(a, how, s, part);
    if (id != NO_ID && how.report != 0 && !report(a, how, s, part, id, out))
        id = NO_ID;
    if (cluster_rank() == 0 && threadIdx.x == 0)
        out->id = id;
    cluster_sync(); /* no block may exit while another reads its shared memory */
}

#endif
