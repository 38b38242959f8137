/* gptoss/backend/cuda/expert_work.cuh - how expert_stream.cu divides its work: assignments
 * sorted by expert, and a block's share of all experts' units. */
#ifndef GPTOSS_CUDA_EXPERT_WORK_CUH
#define GPTOSS_CUDA_EXPERT_WORK_CUH

#include "engines/gptoss/backend/cuda/device.cuh"

#if __CUDA_ARCH__ >= 900

enum {
    UNIT = 2, /* tiles */
    LIST = CUDA_TOPK_MAX * CUDA_STREAM_TOKENS,
    HISTOGRAMS = LIST / WARP,
};

/* Up to COLUMNS tokens of one expert, 8 or 16. */
struct item {
    uint16_t expert, first, count, pad;
};

template <int COLUMNS> struct work {
    uint64_t full[CUDA_STREAM_STAGES], empty[CUDA_STREAM_STAGES];
    uint64_t sums_full[CUDA_STREAM_SUMS], sums_empty[CUDA_STREAM_SUMS];
    uint16_t bias[CUDA_STREAM_SUMS][UNIT * 16];
    float weight[LIST];    /* routing weight of an assignment of the list */
    uint16_t sorted[LIST]; /* assignments by expert */
    item items[CUDA_EXPERTS_MAX + LIST / COLUMNS];
    uint32_t item_count, two_count; /* items; those with more than one column tile come first */
    uint16_t start[CUDA_EXPERTS_MAX];
    uint8_t histogram[HISTOGRAMS][CUDA_EXPERTS_MAX]; /* of each 32 assignments */
};
static_assert(sizeof(work<8>) <= CUDA_STREAM_LISTS && sizeof(work<16>) <= CUDA_STREAM_LISTS,
              "the launch leaves room for the lists");

/* make_work() of up to 32 assignments of up to 8 tokens: one warp has all of them. */
template <int COLUMNS>
__device__ __forceinline__ void make_little_work(const cuda_gemm &a, work<COLUMNS> &w)
{
    const uint32_t lane = threadIdx.x, pairs = a.tokens * a.topk;
    if (threadIdx.x < WARP) {
        const bool real = lane < pairs;
        const uint32_t expert = real ? __ldcg(a.choice + lane) : CUDA_EXPERTS_MAX;
        const float weight = real ? __ldcg(a.weight + lane) : 0.0f;
        const uint32_t same = __match_any_sync(0xFFFFFFFFu, expert), lower = (1u << lane) - 1,
                       first = __ffs(same) - 1;
        const bool leads = real && first == lane;
        const uint32_t leaders = __ballot_sync(0xFFFFFFFFu, leads);
        const uint32_t count = leads ? __popc(same) : 0;
        uint32_t start = count;
#pragma unroll
        for (int d = 1; d < WARP; d <<= 1) {
            uint32_t x = __shfl_up_sync(0xFFFFFFFFu, start, d);
            start += lane >= d ? x : 0;
        }
        start -= count;
        const uint32_t at = __shfl_sync(0xFFFFFFFFu, start, first) + __popc(same & lower);
        if (real) {
            w.sorted[at] = (uint16_t)lane;
            w.weight[at] = weight;
        }
        if (leads)
            w.items[__popc(leaders & lower)] = {(uint16_t)expert, (uint16_t)start,
                                                (uint16_t)count, 0};
        if (lane == 0) {
            w.item_count = __popc(leaders);
            w.two_count = 0;
        }
    }
    __syncthreads();
}

/* Sorts assignments by expert and makes the items.  Every block does this itself, because a
 * separate kernel would cost more.  Called by all threads; there must be at least as many as
 * experts and as assignments. */
template <int COLUMNS>
__device__ __forceinline__ void make_work(const cuda_gemm &a, work<COLUMNS> &w)
{
    constexpr int WARPS = CUDA_EXPERTS_MAX / WARP;
    __shared__ uint32_t warp_total[WARPS], warp_items[WARPS], warp_twos[WARPS];
    const uint32_t i = threadIdx.x, warp = i / WARP, lane = i % WARP;
    const uint32_t pairs = a.tokens * a.topk;
    if (pairs <= WARP && a.tokens <= 8) {
        make_little_work(a, w);
        return;
    }
    for (uint32_t k = i; k < sizeof(w.histogram) / 4; k += blockDim.x)
        reinterpret_cast<uint32_t *>(w.histogram)[k] = 0;
    const bool real = i < pairs;
    const uint32_t expert = real ? __ldcg(a.choice + i) : CUDA_EXPERTS_MAX;
    const float weight = real ? __ldcg(a.weight + i) : 0.0f;
    const uint32_t same = __match_any_sync(0xFFFFFFFFu, expert);
    const uint32_t before = __popc(same & ((1u << lane) - 1));
    __syncthreads();
    if (real && before == 0)
        w.histogram[warp][expert] = (uint8_t)__popc(same);
    __syncthreads();
    /* Thread e: how many tokens expert e has, then where its share starts. */
    uint32_t mine = 0, items = 0, twos = 0, total = 0, total_items = 0, total_twos = 0;
    if (i < CUDA_EXPERTS_MAX) {
        for (uint32_t k = 0; k < HISTOGRAMS; k++) {
            uint32_t n = w.histogram[k][i];
            w.histogram[k][i] = (uint8_t)mine; /* at most 64 tokens choose an expert */
            mine += n;
        }
        items = (mine + COLUMNS - 1) / COLUMNS;
        twos = COLUMNS == 8 ? 0 : mine / COLUMNS + (mine % COLUMNS > 8 ? 1 : 0);
        total = mine;
        total_items = items;
        total_twos = twos;
#pragma unroll
        for (int d = 1; d < WARP; d <<= 1) {
            uint32_t x = __shfl_up_sync(0xFFFFFFFFu, total, d),
                     y = __shfl_up_sync(0xFFFFFFFFu, total_items, d),
                     z = __shfl_up_sync(0xFFFFFFFFu, total_twos, d);
            total += lane >= d ? x : 0;
            total_items += lane >= d ? y : 0;
            total_twos += lane >= d ? z : 0;
        }
        if (lane == WARP - 1) {
            warp_total[warp] = total;
            warp_items[warp] = total_items;
            warp_twos[warp] = total_twos;
        }
    }
    __syncthreads();
    if (i < CUDA_EXPERTS_MAX) {
        uint32_t all_twos = 0;
        for (uint32_t k = 0; k < WARPS; k++) {
            total += k < warp ? warp_total[k] : 0;
            total_items += k < warp ? warp_items[k] : 0;
            total_twos += k < warp ? warp_twos[k] : 0;
            all_twos += warp_twos[k];
        }
        w.start[i] = (uint16_t)(total - mine);
        if (i == CUDA_EXPERTS_MAX - 1) {
            w.item_count = total_items;
            w.two_count = all_twos;
        }
        const uint32_t first_two = total_twos - twos,
                       first_one = all_twos + (total_items - items) - first_two;
        for (uint32_t k = 0; k < items; k++)
            w.items[k < twos ? first_two + k : first_one + (k - twos)] = {
                (uint16_t)i, (uint16_t)(total - mine + k * COLUMNS),
                (uint16_t)min(mine - k * COLUMNS, (uint32_t)COLUMNS), 0};
    }
    __syncthreads();
    if (real) {
        uint32_t at = w.start[expert] + w.histogram[warp][expert] + before;
        w.sorted[at] = (uint16_t)i;
        w.weight[at] = weight;
    }
    __syncthreads();
}

/* A block's share of the list of all items' units, and a warp's position in it. */
template <int COLUMNS> struct place {
    uint32_t left, item, unit, units; /* units: of one matrix */
    uint32_t stage, round;            /* of the ring */
    uint32_t buffer, turn;            /* of the sums */

    __device__ __forceinline__ place(const cuda_gemm &a, const work<COLUMNS> &w)
        : units(a.m.tiles / UNIT), stage(0), round(0), buffer(0), turn(0)
    {
        const uint32_t first = border(w, blockIdx.x);
        left = border(w, blockIdx.x + 1) - first;
        item = first / units;
        unit = first % units;
    }
    /* The first unit of block b: units of two column tiles take a third longer. */
    __device__ __forceinline__ uint32_t border(const work<COLUMNS> &w, uint32_t b) const
    {
        const uint32_t twos = w.two_count * units, ones = w.item_count * units - twos;
        const uint32_t at = (uint32_t)((uint64_t)(twos * 4 + ones * 3) * b / gridDim.x);
        return at < twos * 4 ? (at + 3) / 4 : twos + (at - twos * 4 + 2) / 3;
    }
    /* True when another item begins. */
    __device__ __forceinline__ bool next()
    {
        left--;
        if (++stage == CUDA_STREAM_STAGES) {
            stage = 0;
            round ^= 1;
        }
        if (++buffer == CUDA_STREAM_SUMS) {
            buffer = 0;
            turn ^= 1;
        }
        if (++unit < units)
            return false;
        unit = 0;
        item++;
        return true;
    }
};

#endif
#endif
