/* gptoss/backend/cuda/rank.cuh - where a run of ranks ends, without sorting, computed by the
 * blocks of a cluster together.
 *
 * As in sampler/rank.c: the bits of |x|, read as an integer, order the ids by rank.  The upper
 * bits select a bucket, the sums of the buckets tell in which bucket the run ends, and the next
 * bits split that bucket.  If the run takes only some of several equal values, their ids are
 * split the same way.
 *
 * A block sums its own part in its shared memory; after a barrier of the cluster every block
 * reads the sums of all blocks, so that all come to the same result without further
 * communication.  Sums of exp(x) are integers in units of 2^-43 of the bucket's largest weight.
 * Adding them is exact, so the result does not depend on the order of threads; the precision is
 * 1e-13.
 */
#ifndef GPTOSS_CUDA_RANK_CUH
#define GPTOSS_CUDA_RANK_CUH

#include "engines/gptoss/backend/cuda/buckets.cuh"
#include "engines/gptoss/backend/cuda/cluster.cuh"
#include "engines/gptoss/backend/cuda/noise.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* A block's quads of the row; thread t owns t, t + RANK_THREADS, ... */
struct row_part {
    float4 *values; /* shared: l, later x; -infinity: not available */
    uint32_t first; /* quad of the row */
    uint32_t quads;
};

/* The last kept rank: ids with fewer bits are kept, and equal ones up to this id. */
struct rank_border {
    uint32_t bits;
    uint32_t id;
};

struct rank_found {
    uint32_t bucket;
    int exponent;
    double before; /* sum of the buckets before it */
    uint64_t units;
};

/* Shared memory.  Two sets of buckets are used alternately: a block clears one while other
 * blocks may still read the other. */
struct rank_state {
    uint32_t low[2][RANK_BUCKETS], high[2][RANK_BUCKETS];
    double rest[2]; /* weights outside of all buckets */
    double warp_sums[RANK_WARPS];
    uint32_t warp_first[RANK_WARPS], warp_last[RANK_WARPS];
    rank_found found;
};

__device__ __forceinline__ bool within(rank_border b, uint32_t bits, uint32_t id)
{
    return bits < b.bits || (bits == b.bits && id <= b.id);
}

/* Sums in a fixed order. */
__device__ __forceinline__ double block_sum(double v, double *warp_sums)
{
#pragma unroll
    for (int d = 16; d != 0; d >>= 1)
        v += __shfl_xor_sync(0xFFFFFFFFu, v, d);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        warp_sums[threadIdx.x / WARP] = v;
    __syncthreads();
    v = 0;
    for (uint32_t w = 0; w < RANK_WARPS; w++)
        v += warp_sums[w];
    return v;
}

/* ---- a pass ---- */

enum rank_key { BY_COUNT, BY_WEIGHT, BY_ID };

/* The parameters of a pass. */
struct rank_query {
    rank_range range;
    rank_border limit; /* ids outside are ignored */
    uint32_t least;    /* by weight: values with more bits go to no bucket */
    uint32_t equal;    /* by id: only ids with these bits */
};

/* Adds the block's values to its buckets; returns this thread's weights that go to no
 * bucket. */
template <rank_key KEY>
__device__ __forceinline__ double tally(const row_part &part, const rank_query &q,
                                        uint32_t *low, uint32_t *high)
{
    double rest = 0;
    for (uint32_t k = threadIdx.x; k < part.quads; k += RANK_THREADS) {
        float4 v = part.values[k];
        const float x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t bits = bits_of(x[i]), id = (part.first + k) * 4 + i;
            uint32_t key = KEY == BY_ID ? id : bits;
            if (key < q.range.from || key > q.range.to || !within(q.limit, bits, id) ||
                (KEY == BY_ID && bits != q.equal))
                continue;
            uint32_t bucket = bucket_of(q.range, key);
            if (KEY != BY_WEIGHT) {
                atomicAdd(&low[bucket], 1);
                continue;
            }
            double w = weight(x[i]);
            if (bits > q.least)
                rest += w;
            else
                add_units(&low[bucket], &high[bucket],
                          units_of(w, exponent_of(q.range, bucket)));
        }
    }
    return rest;
}

/* A thread's bucket, summed over the whole row. */
struct rank_bucket {
    uint64_t units;
    int exponent;
    double before, sum;
    double total; /* of all buckets and of weights outside; the same in all threads */
};

template <rank_key KEY>
__device__ rank_bucket pass(rank_state &s, const row_part &part, const rank_query &q,
                            uint32_t &turn)
{
    const uint32_t t = threadIdx.x, lane = t % WARP, warp = t / WARP, place = turn++ & 1;
    rank_bucket b = {};
    s.low[place][t] = s.high[place][t] = 0;
    __syncthreads();
    double rest = tally<KEY>(part, q, s.low[place], s.high[place]);
    const bool rests = KEY == BY_WEIGHT && q.least < q.range.to;
    if (rests) {
        rest = block_sum(rest, s.warp_sums);
        if (t == 0)
            s.rest[place] = rest;
    }
    cluster_sync();
    rest = 0;
#pragma unroll
    for (uint32_t rank = 0; rank < CUDA_FILTER_BLOCKS; rank++) {
        b.units += *cluster_at(&s.low[place][t], rank);
        if (KEY == BY_WEIGHT)
            b.units += (uint64_t)*cluster_at(&s.high[place][t], rank) << 32;
        if (rests)
            rest += *cluster_at(&s.rest[place], rank);
    }
    b.sum = (double)b.units;
    if (KEY == BY_WEIGHT && b.units != 0) { /* an empty bucket may lie beyond all weights */
        b.exponent = exponent_of(q.range, t);
        b.sum *= power_of_two(-UNIT_BITS - b.exponent);
    }
    double run = b.sum;
#pragma unroll
    for (int d = 1; d < WARP; d *= 2) {
        double left = __shfl_up_sync(0xFFFFFFFFu, run, d);
        run += lane >= d ? left : 0;
    }
    if (lane == WARP - 1)
        s.warp_sums[warp] = run;
    double left = __shfl_up_sync(0xFFFFFFFFu, run, 1);
    b.before = lane != 0 ? left : 0;
    __syncthreads();
    double ahead = 0;
    for (uint32_t w = 0; w < RANK_WARPS; w++) {
        ahead += w < warp ? s.warp_sums[w] : 0;
        b.total += s.warp_sums[w];
    }
    b.before += ahead;
    b.total += rest;
    return b;
}

/* The bucket in which a run that needs `enough` more ends, or the last bucket that is not
 * empty. */
__device__ __forceinline__ rank_found pick(rank_state &s, const rank_bucket &b, double enough)
{
    const uint32_t t = threadIdx.x, warp = t / WARP;
    bool reached = b.units != 0 && b.before + b.sum >= enough;
    uint32_t first = __reduce_min_sync(0xFFFFFFFFu, reached ? t : NO_ID);
    uint32_t last = __reduce_max_sync(0xFFFFFFFFu, b.units != 0 ? t : 0);
    if (t % WARP == 0) {
        s.warp_first[warp] = first;
        s.warp_last[warp] = last;
    }
    __syncthreads();
    first = NO_ID;
    last = 0;
    for (uint32_t w = 0; w < RANK_WARPS; w++) {
        first = min(first, s.warp_first[w]);
        last = max(last, s.warp_last[w]);
    }
    if (t == (first != NO_ID ? first : last))
        s.found = {t, b.exponent, b.before, b.units};
    __syncthreads();
    return s.found;
}

/* ---- a run ---- */

/* The n-th id with these bits. */
__device__ uint32_t nth_id(rank_state &s, const row_part &part, rank_border limit,
                           uint32_t bits, uint32_t vocab, double n, uint32_t &turn)
{
    rank_query q = {{0, vocab - 1, 0, 0}, limit, 0, bits};
    while (q.range.from != q.range.to) {
        divide(q.range);
        rank_bucket b = pass<BY_ID>(s, part, q, turn);
        rank_found f = pick(s, b, n);
        narrow(q.range, f.bucket);
        n -= f.before;
    }
    return q.range.from;
}

/* How many of n equal weights a run that needs `enough` more takes: sampler/rank.c. */
__device__ __forceinline__ double take_ties(double n, double weight, double enough)
{
    double taken = fmax(fmin(ceil(enough / weight), n), 1.0);
    while (taken > 1 && (taken - 1) * weight >= enough)
        taken--;
    while (taken < n && taken * weight < enough)
        taken++;
    return taken;
}

/* The end of the shortest run of ranks within `limit` that has `amount` ids or (by weight) that
 * part of the sum of exp(x); at least one id.  By weight x below -36.75 count as zero, and the
 * run does not go below `least`. */
template <rank_key KEY>
__device__ rank_border select(rank_state &s, const row_part &part, rank_border limit,
                              uint32_t vocab, double amount, float least, uint32_t &turn)
{
    const uint32_t lowest = KEY == BY_WEIGHT ? WEIGHTLESS : LARGEST_BITS;
    rank_query q = {{0, min(lowest, limit.bits), 0, 0}, limit, bits_of(least), 0};
    double enough = amount;
    rank_found f;
    divide_octaves(q.range);
    for (bool first = true;; first = false) {
        rank_bucket b = pass<KEY>(s, part, q, turn);
        if (first && KEY == BY_WEIGHT)
            enough = amount * b.total;
        f = pick(s, b, enough);
        enough -= f.before;
        narrow(q.range, f.bucket);
        q.least = lowest;
        if (q.range.from == q.range.to)
            break;
        divide(q.range);
    }
    double w = KEY == BY_WEIGHT ? weight(-__uint_as_float(q.range.from)) : 1;
    double n = (double)(KEY == BY_WEIGHT ? f.units / units_of(w, f.exponent) : f.units);
    double taken = take_ties(n, w, enough);
    rank_border end = {q.range.from, NO_ID};
    if (taken < n)
        end.id = nth_id(s, part, limit, end.bits, vocab, taken, turn);
    else if (end.bits == limit.bits)
        end.id = limit.id;
    return end;
}

#endif

#endif
