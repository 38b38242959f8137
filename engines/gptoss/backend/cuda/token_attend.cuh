/* gptoss/backend/cuda/token_attend.cuh - attention of a token, as a step of token.cu.
 *
 * Block b works for KV head b % 8 of a token (token_plan.cuh).  Keys and values come through
 * the ring, a page (64 tokens) a piece, loaded before the query is known.  While the context is
 * short one block has all keys of a head; else the last block of a head to finish merges.
 */
#ifndef GPTOSS_CUDA_TOKEN_ATTEND_CUH
#define GPTOSS_CUDA_TOKEN_ATTEND_CUH

#include "engines/gptoss/backend/cuda/attend.cuh"
#include "engines/gptoss/backend/cuda/token_consume.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* Small weights of attention, loaded a step ahead.  They stay bf16, because converting them
 * would wait for the loads. */
struct attend_early {
    float2 rope;         /* of dimension tid % 32 */
    uint16_t q_bias[2];  /* of dimensions d and d + 32 of this thread's query head */
    uint16_t kv_bias[2]; /* of the token's own K or V */
    uint16_t sinks[2];   /* of heads tid / 64 and tid / 64 + 4 */

    __device__ __forceinline__ float sink(int i) const /* log2 domain */
    {
        return from_bf16(i == 0 ? sinks[0] : sinks[1]) * LOG2_E;
    }
};

template <class C> struct attention_step {
    C &c;
    const token_layer &l;
    const key_group group;
    const key_run keys;
    const uint32_t kv_head;

    static __device__ __forceinline__ uint32_t tile_row(uint32_t head, uint32_t d)
    {
        return (head * 4 + d / 8) * 16 + d % 8;
    }
    /* The head of K (first warp) or V (second warp) this thread finishes. */
    __device__ __forceinline__ uint32_t kv_row_head() const
    {
        return TOKEN_HEADS + (c.tid < WARP ? 0 : TOKEN_KV_HEADS) + kv_head;
    }
    __device__ __forceinline__ bool works() const
    {
        return keys.first < keys.last;
    }
    /* The token's own key is the last one. */
    __device__ __forceinline__ bool has_token() const
    {
        return keys.last == group.position / CUDA_PAGE_TOKENS + 1;
    }

    __device__ __forceinline__ void ask(attend_early &e) const
    {
        if (!works() || c.tid >= 256)
            return;
        uint32_t row = tile_row(kv_head * GROUP + c.warp, c.lane);
        e.q_bias[0] = __ldg(l.qkv_bias + row);
        e.q_bias[1] = __ldg(l.qkv_bias + row + 8);
        if (c.warp < 2) {
            row = tile_row(kv_row_head(), c.lane);
            e.kv_bias[0] = __ldg(l.qkv_bias + row);
            e.kv_bias[1] = __ldg(l.qkv_bias + row + 8);
        }
        for (int i = 0; i < 2; i++)
            e.sinks[i] = __ldg(l.sinks + kv_head * GROUP + c.tid / 64 + i * 4);
    }

    /* Dimensions d and d + 32 of a head: sums of both blocks, bias, RoPE. */
    struct pair {
        uint32_t low[2], high[2];
    };
    __device__ __forceinline__ pair load_pair(uint32_t head) const
    {
        const float *in = c.a.qkv_sums + group.token * TOKEN_QKV_ROWS + tile_row(head, c.lane),
                    *rest = in + C::TOKENS * TOKEN_QKV_ROWS;
        return {{hear(in), hear(rest)}, {hear(in + 8), hear(rest + 8)}};
    }
    __device__ __forceinline__ bool is_new(const pair &p) const
    {
        const uint32_t wanted = c.round != 0 ? ROUND_OF_SUM : 0;
        return (((p.low[0] ^ wanted) | (p.low[1] ^ wanted) | (p.high[0] ^ wanted) |
                 (p.high[1] ^ wanted)) &
                ROUND_OF_SUM) == 0;
    }
    static __device__ __forceinline__ void finish_pair(const pair &p, const uint16_t bias[2],
                                                       bool rotate, float2 rope, uint16_t *out)
    {
        float low = told_sum(p.low[0]) + told_sum(p.low[1]) + from_bf16(bias[0]),
              high = told_sum(p.high[0]) + told_sum(p.high[1]) + from_bf16(bias[1]);
        if (rotate) {
            float turned = low * rope.x - high * rope.y;
            high = high * rope.x + low * rope.y;
            low = turned;
        }
        out[0] = to_bf16(low);
        out[32] = to_bf16(high);
    }

    /* q to shared memory; the token's own K and V there and to their page. */
    __device__ __forceinline__ void finish_qkv(const attend_early &e, uint16_t *q,
                                               uint32_t slot)
    {
        if (c.tid < 256) {
            bool own = c.warp < 2 && has_token();
            pair mine, kv;
            for (;;) {
                mine = kv = load_pair(kv_head * GROUP + c.warp);
                if (own)
                    kv = load_pair(kv_row_head());
                if (is_new(mine) && is_new(kv))
                    break;
                hear_again();
            }
            finish_pair(mine, e.q_bias, true, e.rope, q + c.warp * 64 + c.lane);
            if (own) {
                uint16_t *fresh = c.s.fresh + c.warp * CUDA_HEAD_DIM + c.lane;
                finish_pair(kv, e.kv_bias, c.warp == 0, e.rope, fresh);
                uint16_t *page = reinterpret_cast<uint16_t *>(l.keys + slot / CUDA_PAGE_TOKENS *
                                                                           l.page_bytes);
                page += ((kv_row_head() - TOKEN_HEADS) * CUDA_PAGE_TOKENS +
                         slot % CUDA_PAGE_TOKENS) *
                            CUDA_HEAD_DIM +
                        c.lane;
                page[0] = fresh[0];
                page[32] = fresh[32];
            }
        }
        c.meet();
    }

    /* The page in the ring was copied before the token existed: adds the token's K and V. */
    __device__ __forceinline__ void patch(uint8_t *piece)
    {
        uint4 *row = reinterpret_cast<uint4 *>(piece) + group.position % CUDA_PAGE_TOKENS * 8;
        const uint4 *fresh = reinterpret_cast<const uint4 *>(c.s.fresh);
        if (c.lane < 8)
            row[c.lane] = fresh[c.lane];
        else if (c.lane < 16)
            row[KEY_BYTES / 16 + c.lane - 8] = fresh[c.lane];
        __syncwarp();
    }

    /* Chunks of 16 keys are divided among the warps in turn. */
    template <int W> __device__ __forceinline__ void walk(rows8 &rows)
    {
        uint32_t turn = c.warp; /* this warp's chunk of this page, if below 4 */
        for (uint32_t p = keys.first; p < keys.last; p++) {
            uint8_t *piece = c.take(2 * KEY_BYTES);
            uint32_t first = p * CUDA_PAGE_TOKENS + turn * 16;
            bool seen = turn < 4 && first <= group.position &&
                        (l.window == 0 || first + 15 + l.window > group.position);
            if (seen) {
                bool newest = first + 16 > group.position;
                if (newest)
                    patch(piece);
                keys16 k;
                load_keys(k, piece, 1, turn * 16, c.g, c.t);
                add_keys(rows, k, (int32_t)first, (uint32_t)l.window, c.t);
                if (newest) /* the ring's next copy to this place comes after these writes */
                    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            }
            c.release(0); /* the branch above has used the values it read */
            turn = (turn + 4 * W - 4) % W;
        }
    }

    __device__ __forceinline__ void tell_mixed(uint32_t head, uint32_t d, float v) const
    {
        tell(c.a.mixed + ((group.token * TOKEN_KV_HEADS + kv_head) * GROUP + head) * 64 + d,
             (uint32_t)to_bf16(v) << 16 | (c.round != 0 ? ROUND_OF_SUM : 0));
    }

    template <int W> __device__ __forceinline__ void merge(const attend_early &e, float *parts)
    {
        auto &s = c.s;
        float *partial = c.a.partial + (size_t)(group.token * TOKEN_KV_HEADS + kv_head) *
                                           TOKEN_SPLITS * GROUP * PARTIAL;
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t head = c.tid / 64 + i * 4, d = c.tid % 64;
            if (c.tid >= 256)
                break;
            float top = -INFINITY, sum = 0, value = 0;
            for (int w = 0; w < W; w++)
                top = fmaxf(top, parts[(w * GROUP + head) * PARTIAL]);
            for (int w = 0; w < W; w++) {
                const float *in = parts + (w * GROUP + head) * PARTIAL;
                float keep = exp2f(in[0] - top);
                sum += in[1] * keep;
                value += in[2 + d] * keep;
            }
            if (keys.active == 1) {
                float base = fmaxf(top, e.sink(i)), keep = exp2f(top - base);
                tell_mixed(head, d, value * keep / (sum * keep + exp2f(e.sink(i) - base)));
            } else {
                float *out = partial + (group.split * GROUP + head) * PARTIAL;
                out[2 + d] = value;
                if (d == 0) {
                    out[0] = top;
                    out[1] = sum;
                }
            }
        }
        if (keys.active == 1)
            return;
        __threadfence();
        c.meet();
        if (c.tid == 0) {
            uint32_t *ticket = c.a.tickets + group.token * TOKEN_KV_HEADS + kv_head;
            s.is_last = atomicAdd(ticket, 1) == keys.active - 1;
            if (s.is_last)
                *ticket = 0;
            __threadfence();
        }
        c.meet();
        if (s.is_last && c.tid < 256)
            merge_blocks(e, partial);
    }

    /* Loads of several blocks are started at once, because one after the other each would take
     * a latency: of all blocks if one token can have all. */
    __device__ __forceinline__ void merge_blocks(const attend_early &e, const float *partial)
    {
        constexpr uint32_t N = C::TOKENS <= 2 ? TOKEN_SPLITS / C::TOKENS : 4;
#pragma unroll 1
        for (uint32_t i = 0; i < 2; i++) {
            const uint32_t head = c.tid / 64 + i * 4, d = c.tid % 64;
            const float sink = e.sink(i);
            float top = sink, sum = 0, value = 0;
#pragma unroll 1
            for (uint32_t first = 0; first < keys.active; first += N) {
                float tops[N], of[N], values[N], before = top;
#pragma unroll
                for (uint32_t p = 0; p < N; p++) {
                    const float *in = partial + ((first + p) * GROUP + head) * PARTIAL;
                    bool real = first + p < keys.active;
                    tops[p] = real ? __ldcg(in) : -INFINITY;
                    of[p] = real ? __ldcg(in + 1) : 0.0f;
                    values[p] = real ? __ldcg(in + 2 + d) : 0.0f;
                }
#pragma unroll
                for (uint32_t p = 0; p < N; p++)
                    top = fmaxf(top, tops[p]);
                sum *= exp2f(before - top);
                value *= exp2f(before - top);
#pragma unroll
                for (uint32_t p = 0; p < N; p++) {
                    float keep = exp2f(tops[p] - top);
                    sum += of[p] * keep;
                    value += values[p] * keep;
                }
            }
            tell_mixed(head, d, value / (sum + exp2f(sink - top)));
        }
    }

    template <int W> __device__ __forceinline__ void run(const attend_early &e, uint32_t slot)
    {
        if (!works())
            return;
        uint16_t *q = reinterpret_cast<uint16_t *>(c.sums + q_offset<C::TOKENS>);
        float *parts = reinterpret_cast<float *>(c.x); /* [warp][8][PARTIAL] */
        finish_qkv(e, q, slot);
        rows8 rows;
        clear(rows);
        const uint4 *mine = reinterpret_cast<const uint4 *>(q + c.g * 64);
        rows.q[0][0] = mine[c.t];
        rows.q[1][0] = mine[4 + c.t];
        rows.pos[0] = (int32_t)group.position;
        walk<W>(rows);
        gather_sums(rows);
        float *out = parts + (c.warp * GROUP + c.g) * PARTIAL;
        if (c.t == 0) {
            out[0] = rows.top[0];
            out[1] = rows.sum[0];
        }
#pragma unroll
        for (int j = 0; j < 8; j++) {
            out[2 + 16 * c.t + j] = rows.o[j][0] + rows.o[j][2];
            out[2 + 16 * c.t + 8 + j] = rows.o[j][1] + rows.o[j][3];
        }
        c.meet();
        merge<W>(e, parts);
    }
};

#endif
#endif
