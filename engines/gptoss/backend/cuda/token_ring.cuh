/* gptoss/backend/cuda/token_ring.cuh - the producer warps of token.cu: they fill the ring and
 * choose the experts, because they are the first to need the experts' weights.  attend_layer.cu
 * fills its ring by the same code. */
#ifndef GPTOSS_CUDA_TOKEN_RING_CUH
#define GPTOSS_CUDA_TOKEN_RING_CUH

#include "engines/gptoss/backend/cuda/ring.cuh"
#include "engines/gptoss/backend/cuda/token_plan.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* One thread's view of the ring while it fills the ring.  Positions only grow; a piece never
 * wraps, so the end of the ring may stay unused.  Starting a copy may take a warp longer than
 * the copy itself, so the producers take turns.  Each producer follows all pieces, because a
 * barrier only distinguishes its last two phases. */
template <int W, int R> struct producer {
    token_shared<R> &s;
    uint8_t *ring;
    uint32_t *starts;      /* positions of the pieces in flight */
    uint32_t self;         /* number of this producer */
    uint32_t count, freed; /* pieces so far; those known to be released */
    uint32_t head, offset; /* next position; the same within the ring */

    __device__ __forceinline__ uint32_t reserve(uint32_t bytes)
    {
        constexpr uint32_t SIZE = ring_bytes<W, R>;
        bytes = (bytes + 127) & ~127u;
        if (offset + bytes > SIZE) {
            head += SIZE - offset;
            offset = 0;
        }
        while (count - freed >= SLOTS ||
               (freed < count && head + bytes > starts[freed % SLOTS] + SIZE)) {
            ring_wait(&s.empty[freed % SLOTS], freed / SLOTS & 1);
            freed++;
        }
        uint32_t at = offset;
        starts[count % SLOTS] = head;
        head += bytes;
        offset += bytes;
        return at;
    }

    /* A piece of two parts, adjacent in the ring; at most `flight` pieces are in flight. */
    __device__ __forceinline__ void put(const uint8_t *one, uint32_t one_bytes,
                                        const uint8_t *two, uint32_t two_bytes, uint32_t flight)
    {
        const uint32_t at = reserve(one_bytes + two_bytes), n = count++, slot = n % SLOTS;
        if (n % PRODUCERS != self)
            return;
        if (n >= flight)
            ring_wait(&s.full[(n - flight) % SLOTS], (n - flight) / SLOTS & 1);
        ring_expect(&s.full[slot], one_bytes + two_bytes);
        ring_copy(ring + at, one, one_bytes, &s.full[slot]);
        if (two_bytes != 0)
            ring_copy(ring + at + one_bytes, two, two_bytes, &s.full[slot]);
    }

    /* keys_of_block(first, last): entries of the returned page table.
     *
     * A single place that copies, and loops that are not unrolled: a layer runs through all of
     * the kernel's code, and much code is slow (docs/cuda-notes.md). */
    template <class Keys>
    __device__ __forceinline__ void put_dense(const token_layer &l, Keys keys_of_block)
    {
#pragma unroll 1
        for (uint32_t which = 0; which < 3; which++) {
            const bool is_keys = which == 1;
            const step_plan &plan = s.plan[which == 0 ? STEP_QKV : STEP_OUT];
            const uint8_t *weights = which == 0 ? l.qkv : l.out;
            const uint32_t bytes = which == 0 ? QKV_BLOCKS * 1024 : OUT_BLOCKS * 1024;
            uint32_t u = plan.first, last = plan.last;
            const uint32_t *table = NULL;
            if (is_keys)
                table = keys_of_block(u, last);
#pragma unroll 1
            for (uint32_t n; u < last; u += n) {
                n = is_keys ? 1 : units_of_piece(u, last);
                const uint8_t *one = is_keys ? l.keys + table[u] * l.page_bytes +
                                                   (size_t)own_kv_head() * KEY_BYTES
                                             : weights + (size_t)u * bytes;
                put(one, is_keys ? (uint32_t)KEY_BYTES : n * bytes,
                    one + TOKEN_KV_HEADS * KEY_BYTES, is_keys ? (uint32_t)KEY_BYTES : 0,
                    is_keys ? (uint32_t)KEY_FLIGHT : (uint32_t)FLIGHT);
            }
        }
    }

    __device__ __forceinline__ void put_experts(const token_layer &l)
    {
#pragma unroll 1
        for (uint32_t step = STEP_UP; step <= STEP_DOWN; step++) {
            const bool down = step == STEP_DOWN;
            const step_plan &plan = s.plan[step];
#pragma unroll 1
            for (uint32_t u = plan.first, n; u < plan.last; u += n) {
                n = down ? units_of_piece(u, plan.last) : 1;
                const size_t tile =
                    down ? (size_t)s.choice[choice_of_down<R>(u)] * DOWN_TILES +
                               u / DOWN_PARTS % DOWN_TILES
                         : (size_t)s.choice[u / UP_TILES] * UP_TILES + u % UP_TILES;
                const mxfp4_piece p = down ? down_piece(u, n) : whole_piece();
                put((down ? l.down : l.up) + tile * TILE_BYTES + p.first * 512, p.pairs * 512,
                    (down ? l.down_scales : l.up_scales) + tile * TILE_SCALES + p.first * 32,
                    p.scale_bytes(), FLIGHT);
            }
        }
    }
};

/* An integer with the float's order. */
__device__ __forceinline__ uint32_t sortable(float v)
{
    uint32_t bits = __float_as_uint(v);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

/* Chooses the experts of a token, equal logits by lowest index, and their weights, in a warp.
 * squares: [W] sums of squares of the residual; parts: the router's sums, [PARTS][experts]. */
template <int W, int PARTS>
__device__ __forceinline__ void choose(const float *squares, const float *parts,
                                       uint32_t experts, const float bias[4], float eps,
                                       uint32_t *choice, float *weight)
{
    const uint32_t lane = threadIdx.x % WARP;
    uint32_t key[4];
    float square = 0, mine[4];
#pragma unroll
    for (int w = 0; w < W; w++)
        square += squares[w];
    const float scale = rsqrtf(square / (float)TOKEN_HIDDEN + eps);
#pragma unroll
    for (uint32_t k = 0; k < 4; k++) {
        key[k] = 0;
        mine[k] = 0;
        if (k * WARP >= experts)
            continue;
        float sum = 0;
#pragma unroll
        for (int w = 0; w < PARTS; w++)
            sum += parts[w * experts + k * WARP + lane];
        mine[k] = sum * scale + bias[k];
        key[k] = sortable(mine[k]);
    }
    float top = 0, chance = 0, sum = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < TOKEN_TOPK; i++) {
        uint32_t best = key[0], at = lane;
        float value = mine[0];
#pragma unroll
        for (uint32_t k = 1; k < 4; k++)
            if (key[k] > best) {
                best = key[k];
                at = k * WARP + lane;
                value = mine[k];
            }
        uint32_t largest = __reduce_max_sync(0xFFFFFFFFu, best);
        uint32_t expert = __reduce_min_sync(0xFFFFFFFFu, best == largest ? at : UINT32_MAX);
        value = __shfl_sync(0xFFFFFFFFu, value, (int)(expert % WARP));
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            if (k * WARP + lane == expert)
                key[k] = 0;
        top = i == 0 ? value : top;
        float v = __expf(value - top);
        sum += v;
        if (lane == i) {
            chance = v;
            choice[i] = expert;
        }
    }
    if (lane < TOKEN_TOPK)
        weight[lane] = chance / sum;
    __syncwarp();
}

/* Consumers and the producers that choose, one for each token. */
template <int THREADS, int R> __device__ __forceinline__ void all_meet()
{
    asm volatile("bar.sync 2, %0;" ::"n"(THREADS + R * WARP) : "memory");
}

template <int W, int R>
__device__ __forceinline__ void produce(const token_args &a, token_shared<R> &s, uint8_t *ring,
                                        const float *parts)
{
    const uint32_t lane = threadIdx.x % WARP, self = threadIdx.x / WARP - W;
    const cuda_seq seq = a.seq[even_token<R>()];
    const uint32_t *tables = a.tables + seq.table_start;
    producer<W, R> p = {s, ring, s.slot_start[self], self, 0, 0, 0, 0};
    for (uint32_t i = 0; i < a.layer_count; i++) {
        const token_layer &l = s.layers[i];
        float bias[4] = {0, 0, 0, 0};
        if (self < R)
#pragma unroll
            for (uint32_t k = 0; k < 4; k++)
                if (k * WARP < a.experts)
                    bias[k] = from_bf16(l.router_bias[k * WARP + lane]);
        if (lane == 0)
            p.put_dense(l, [&](uint32_t &first, uint32_t &last) {
                const key_run keys = keys_of(even_group<R>(seq.position), (uint32_t)l.window);
                first = keys.first;
                last = keys.last;
                return tables + (l.window != 0 ? seq.table_count : 0);
            });
        __syncwarp();
        if (self < R) {
            all_meet<W * WARP, R>();
            choose<W, W / R>(s.sums[self], parts + self * (W / R) * a.experts, a.experts, bias,
                             a.eps, s.choice + self * TOKEN_TOPK, s.weight + self * TOKEN_TOPK);
        }
        asm volatile("bar.sync 3, %0;" ::"n"(PRODUCERS * WARP) : "memory");
        if (lane == 0)
            p.put_experts(l);
        __syncwarp();
    }
}

#endif
#endif
