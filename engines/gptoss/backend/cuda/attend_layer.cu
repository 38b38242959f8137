/* gptoss/backend/cuda/attend_layer.cu - everything of a layer before its experts, for 3 to 8
 * single tokens, in one kernel (Hopper): q, k, v, attention, output, norm, router.
 *
 * As kernels of their own these operations take three times as long as reading their weights:
 * each waits for the one before, and then for its first weights.  Here one block a
 * multiprocessor stays for all of them, and its producer warps fill a ring with the next
 * weights meanwhile, as in token.cu, whose parts this kernel uses:
 *
 *   qkv        the normalized input of all tokens to shared memory; sums of tiles to L2
 *   attention  a group of blocks for each token and KV head
 *   out        sums to L2, and the part of the router that is linear in them
 *   choice     block i adds up residual and router of token i, normalizes, chooses the experts
 *
 * R is the most tokens of a kernel; columns of tokens that do not exist are computed and not
 * used.  Nothing is added atomically, so the same step gives the same bits.
 *
 * All blocks must be resident, because they wait for each other: there is one for each
 * multiprocessor, and the next kernel may start only when all have begun.
 *
 * Bound: reading the weights of qkv and out.  Shape: token.h.
 */
#include "engines/gptoss/backend/cuda/token_attend.cuh"
#include "engines/gptoss/backend/cuda/token_multiply.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class C> struct attend_steps {
    enum {
        W = C::WARPS,
        R = C::TOKENS,
        PLACES = (3 * 16 * R + C::THREADS - 1) / C::THREADS, /* of out, of a thread */
        QKV_PLACES = (5 * 16 * R + C::THREADS - 1) / C::THREADS,
        ROUTER = TOKEN_EXPERTS_MAX / WARP,
    };
    C &c;
    const attend_args &a;
    const token_layer &l;
    attend_early early;
    uint4 router[ROUTER]; /* of expert lane + 32 k, rows 8 warp ... of out's */
    uint16_t out_bias[PLACES], mlp_norm[PLACES];

    /* Row and token of this thread's i-th place among those of a block's tiles. */
    struct place {
        uint32_t token, row;
        bool is;
    };
    __device__ __forceinline__ place place_of(const step_plan &plan, uint32_t i) const
    {
        const uint32_t rows = plan.tiles * 16, at = c.tid + i * C::THREADS, token = at / rows;
        return {token, at - token * rows, token < R};
    }

    __device__ __forceinline__ bool routes(int k) const
    {
        return k * WARP < c.a.experts && c.warp < c.s.plan[STEP_OUT].tiles * 2;
    }

    /* Small weights that are needed at the end. */
    __device__ __forceinline__ void ask()
    {
        const step_plan &out = c.s.plan[STEP_OUT];
#pragma unroll
        for (int k = 0; k < ROUTER; k++)
            if (routes(k))
                router[k] = __ldg(reinterpret_cast<const uint4 *>(
                    l.router + (size_t)(k * WARP + c.lane) * TOKEN_HIDDEN + out.tile * 16 +
                    c.warp * 8));
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            const place at = place_of(out, i);
            if (at.is) {
                out_bias[i] = __ldg(l.out_bias + out.tile * 16 + at.row);
                mlp_norm[i] = __ldg(l.mlp_norm + out.tile * 16 + at.row);
            }
        }
    }

    __device__ __forceinline__ void stage_normed()
    {
        constexpr uint32_t QUADS = TOKEN_HIDDEN / 8;
#pragma unroll 4
        for (uint32_t i = c.tid; i < a.rows * QUADS; i += C::THREADS)
            reinterpret_cast<uint4 *>(c.x + i / QUADS * x_stride<R>)[i % QUADS] =
                __ldcg(reinterpret_cast<const uint4 *>(a.normed) + i);
    }

    /* This block's rows of the residual, for finish_out(). */
    __device__ __forceinline__ void stage_residual()
    {
        const step_plan &out = c.s.plan[STEP_OUT];
#pragma unroll
        for (int i = 0; i < PLACES; i++) {
            const place at = place_of(out, i);
            if (at.token < a.rows)
                c.s.rows[at.token][at.row] =
                    __ldcg(c.a.residual + at.token * TOKEN_HIDDEN + out.tile * 16 + at.row);
        }
    }

    /* Attention's output, of four tokens at a time. */
    __device__ __forceinline__ void stage_mixed()
    {
        constexpr int N = TOKEN_HEADS * 64 / 4 / C::THREADS; /* quads of a token in a thread */
        constexpr int AT_ONCE = 4;
#pragma unroll
        for (uint32_t first = 0; first < R; first += AT_ONCE) {
            uint4 v[AT_ONCE * N];
            if (first >= a.rows)
                break;
            hear_all(v, ROUND_OF_SUM, c.round, [&](int i) {
                return reinterpret_cast<const uint4 *>(c.a.mixed) +
                       min(first + i / N, a.rows - 1) * (TOKEN_HEADS * 16) + c.tid +
                       i % N * C::THREADS;
            });
#pragma unroll
            for (int i = 0; i < AT_ONCE * N; i++)
                reinterpret_cast<uint2 *>(c.x + (first + i / N) *
                                                    x_stride<R>)[c.tid + i % N * C::THREADS] =
                    make_uint2(__byte_perm(v[i].x, v[i].y, 0x7632),
                               __byte_perm(v[i].z, v[i].w, 0x7632));
        }
    }

    /* Writes the sums of tiles like consumer::put_sums(), for all tokens. */
    template <int MOST, class Finish>
    __device__ __forceinline__ void put_sums(float *out, uint32_t rows, const step_plan &plan,
                                             uint32_t parts, Finish finish)
    {
        c.meet();
#pragma unroll
        for (int i = 0; i < MOST; i++) {
            const place at = place_of(plan, i);
            if (!at.is)
                continue;
            const uint32_t here = plan.tile + at.row / 16,
                           row = at.token * rows + plan.tile * 16 + at.row,
                           rest = R * rows + row;
            const bool begins = here * parts >= plan.first;
            float v = 0;
#pragma unroll
            for (int w = 0; w < W; w++)
                v += c.sums[((at.row / 16 * W + w) * R + at.token) * 16 + at.row % 16];
            tell_sum(out + (begins ? row : rest), finish(begins, v, at, i), c.round);
            if (begins && (here + 1) * parts <= plan.last)
                tell_sum(out + rest, 0, c.round);
        }
    }

    __device__ __forceinline__ float finish_out(bool begins, float v, place at, int i)
    {
        float *row = &c.s.rows[at.token][at.row];
        v += begins ? from_bf16(out_bias[i]) : 0.0f;
        *row = (v + (begins ? *row : 0.0f)) * from_bf16(mlp_norm[i]);
        return v;
    }

    /* This block's part of the router's sums: its rows of the new residual, times the norm's
     * weights, times the router's.  The norm's factor is applied later. */
    __device__ __forceinline__ void route()
    {
        const uint32_t experts = c.a.experts;
        c.meet(); /* after this `sums` may be reused */
#pragma unroll
        for (int k = 0; k < ROUTER; k++) {
            if (!routes(k))
                continue;
            const uint4 w = router[k];
            const float low[4] = {from_bf16((uint16_t)w.x), from_bf16((uint16_t)w.y),
                                  from_bf16((uint16_t)w.z), from_bf16((uint16_t)w.w)},
                        high[4] = {
                            from_bf16((uint16_t)(w.x >> 16)), from_bf16((uint16_t)(w.y >> 16)),
                            from_bf16((uint16_t)(w.z >> 16)), from_bf16((uint16_t)(w.w >> 16))};
#pragma unroll
            for (int token = 0; token < R; token++) {
                const float4 *v =
                    reinterpret_cast<const float4 *>(c.s.rows[token] + c.warp * 8);
                const float4 p = v[0], q = v[1];
                c.sums[(token * W + c.warp) * experts + k * WARP + c.lane] =
                    low[0] * p.x + high[0] * p.y + low[1] * p.z + high[1] * p.w + low[2] * q.x +
                    high[2] * q.y + low[3] * q.z + high[3] * q.w;
            }
        }
        c.meet();
        const uint32_t warps = c.s.plan[STEP_OUT].tiles * 2;
        for (uint32_t i = c.tid; i < a.rows * experts; i += C::THREADS) {
            const uint32_t token = i / experts, expert = i % experts;
            float sum = 0;
            for (uint32_t w = 0; w < warps; w++)
                sum += c.sums[(token * W + w) * experts + expert];
            tell_sum(c.a.router_sums + (size_t)(token * gridDim.x + blockIdx.x) * experts +
                         expert,
                     sum, c.round);
        }
    }

    /* Adds up the blocks' sums of a token's router, each warp a part of the blocks. */
    __device__ __forceinline__ void gather_router(uint32_t token)
    {
        constexpr int N = 6; /* loads that are started at once */
        const uint32_t quads = c.a.experts / 4, parts = C::THREADS / quads;
        const float4 *in = reinterpret_cast<const float4 *>(c.a.router_sums) +
                           (size_t)token * gridDim.x * quads + c.tid % quads;
        float4 sum = make_float4(0, 0, 0, 0);
        for (uint32_t first = c.tid / quads; first < gridDim.x; first += N * parts) {
            uint4 v[N];
            hear_all(v, ROUND_OF_SUM, c.round, [&](int i) {
                return in + (size_t)min(first + i * parts, gridDim.x - 1) * quads;
            });
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float4 p = told_sums(v[i]);
                const bool is = first + i * parts < gridDim.x;
                sum.x += is ? p.x : 0.0f;
                sum.y += is ? p.y : 0.0f;
                sum.z += is ? p.z : 0.0f;
                sum.w += is ? p.w : 0.0f;
            }
        }
        for (uint32_t lanes = quads; lanes < WARP; lanes *= 2) {
            sum.x += __shfl_xor_sync(0xFFFFFFFFu, sum.x, lanes);
            sum.y += __shfl_xor_sync(0xFFFFFFFFu, sum.y, lanes);
            sum.z += __shfl_xor_sync(0xFFFFFFFFu, sum.z, lanes);
            sum.w += __shfl_xor_sync(0xFFFFFFFFu, sum.w, lanes);
        }
        if (c.lane < quads)
            reinterpret_cast<float4 *>(c.sums)[c.warp * quads + c.lane] = sum;
    }

    /* Residual, normalized input of the experts and choice of a token. */
    __device__ __forceinline__ void finish_token(uint32_t token)
    {
        enum { MINE = C::MINE, QUADS = C::QUADS };
        float4 *residual = reinterpret_cast<float4 *>(c.a.residual) + token * QUADS;
        const float4 *sums = reinterpret_cast<const float4 *>(c.a.out_sums) + token * QUADS;
        float4 r[MINE];
        uint2 norm[MINE];
        float bias[4] = {0, 0, 0, 0}, square = 0;
#pragma unroll
        for (uint32_t k = 0; k < 4; k++)
            if (c.warp == 0 && k * WARP < c.a.experts)
                bias[k] = from_bf16(__ldg(l.router_bias + k * WARP + c.lane));
#pragma unroll
        for (int j = 0; j < MINE; j++) {
            const uint32_t quad = min(c.tid + j * C::THREADS, QUADS - 1u);
            r[j] = __ldcg(residual + quad);
            norm[j] = __ldg(reinterpret_cast<const uint2 *>(l.mlp_norm) + quad);
        }
        c.meet(); /* `sums` of route() have been read */
        gather_router(token);
        uint4 v[2 * MINE];
        hear_all(v, ROUND_OF_SUM, c.round, [&](int i) {
            return sums + i / MINE * (R * QUADS) +
                   min(c.tid + i % MINE * C::THREADS, QUADS - 1u);
        });
#pragma unroll
        for (int j = 0; j < MINE; j++) {
            const float4 p = told_sums(v[j]), q = told_sums(v[MINE + j]);
            r[j].x += p.x + q.x;
            r[j].y += p.y + q.y;
            r[j].z += p.z + q.z;
            r[j].w += p.w + q.w;
            if (c.tid + j * C::THREADS < QUADS)
                square += r[j].x * r[j].x + r[j].y * r[j].y + r[j].z * r[j].z + r[j].w * r[j].w;
        }
        square = warp_sum(square);
        if (c.lane == 0)
            c.s.sums[0][c.warp] = square;
        c.meet();
        if (c.warp == 0)
            choose<W, W>(c.s.sums[0], c.sums, c.a.experts, bias, c.a.eps,
                         a.choice + token * TOKEN_TOPK, a.weight + token * TOKEN_TOPK);
        float all = 0;
#pragma unroll
        for (int w = 0; w < W; w++)
            all += c.s.sums[0][w];
        const float scale = rsqrtf(all / (float)TOKEN_HIDDEN + c.a.eps);
#pragma unroll
        for (int j = 0; j < MINE; j++) {
            const uint32_t quad = c.tid + j * C::THREADS;
            if (quad >= QUADS)
                continue;
            const uint2 n = norm[j];
            residual[quad] = r[j];
            reinterpret_cast<uint2 *>(a.normed)[token * QUADS + quad] =
                make_uint2(pack_bf16(r[j].x * scale * from_bf16((uint16_t)n.x),
                                     r[j].y * scale * from_bf16((uint16_t)(n.x >> 16))),
                           pack_bf16(r[j].z * scale * from_bf16((uint16_t)n.y),
                                     r[j].w * scale * from_bf16((uint16_t)(n.y >> 16))));
        }
    }

    __device__ __forceinline__ void run()
    {
        const multiplier<C> product = {c, c.g, c.t};
        const step_plan qkv = c.s.plan[STEP_QKV], out = c.s.plan[STEP_OUT];
        const key_group group = group_of<R>(c.a.seq, a.rows);
        attention_step<C> attention = {c, l, group, keys_of(group, (uint32_t)l.window),
                                       own_kv_head()};
        early.rope = reinterpret_cast<const float2 *>(
            c.a.rope)[(size_t)group.position * (CUDA_HEAD_DIM / 2) + c.lane];
        ask();
        attention.ask(early);
        wait_for_previous_kernel();
        const uint32_t before = c.a.sync[2];
        c.target = c.a.sync[1];
        c.round = ~before & 1;
        stage_normed();
        stage_residual();
        c.meet();
        product.dense_columns(qkv, QKV_BLOCKS, QKV_PARTS);
        put_sums<QKV_PLACES>(c.a.qkv_sums, TOKEN_QKV_ROWS, qkv, QKV_PARTS,
                             [&](bool, float v, place, int) { return v; });
        const uint32_t *slots = l.window != 0 ? c.a.slot_window : c.a.slot_full;
        attention.template run<W>(early, slots[group.token]);
        c.grid_meet();
        stage_mixed();
        c.meet();
        product.dense_columns(out, OUT_BLOCKS, OUT_PARTS);
        put_sums<PLACES>(c.a.out_sums, TOKEN_HIDDEN, out, OUT_PARTS,
                         [&](bool begins, float v, place at, int i) {
                             return finish_out(begins, v, at, i);
                         });
        route();
        if (blockIdx.x < a.rows)
            finish_token(blockIdx.x);
        if (blockIdx.x == 0 && c.tid == 0) {
            c.a.sync[1] = c.target;
            c.a.sync[2] = before + 1;
        }
    }
};

template <int W, int R> __device__ __forceinline__ void attend_layer(const attend_args &a)
{
    extern __shared__ __align__(128) uint8_t dynamic[];
    __shared__ token_shared<R> s;
    uint8_t *ring = dynamic, *x = ring + ring_bytes<W, R>;
    float *sums = reinterpret_cast<float *>(x + R * x_stride<R>);
    const uint32_t tid = threadIdx.x;
    let_next_kernel_start();
    if (tid == 0) {
        for (int i = 0; i < SLOTS; i++) {
            ring_init(&s.full[i], 1);
            ring_init(&s.empty[i], W);
        }
        ring_publish();
    }
    if (tid < sizeof(token_layer) / 8)
        reinterpret_cast<uint64_t *>(s.layers)[tid] =
            reinterpret_cast<const uint64_t *>(a.t.layers + a.layer)[tid];
    if (tid < STEPS)
        s.plan[tid] = plan_of<R>(tid);
    __syncthreads();
    const token_layer &l = s.layers[0];
    /* The producers give their registers to the consumers. */
    if (tid >= W * WARP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        const uint32_t self = tid / WARP - W;
        if (tid % WARP != 0)
            return;
        producer<W, R> p = {s, ring, s.slot_start[self], self, 0, 0, 0, 0};
        p.put_dense(l, [&](uint32_t &first, uint32_t &last) {
            const key_group group = group_of<R>(a.t.seq, a.rows);
            const key_run keys = keys_of(group, (uint32_t)l.window);
            const cuda_seq *seq = a.t.seq + group.token;
            first = keys.first;
            last = keys.last;
            return a.t.tables + seq->table_start + (l.window != 0 ? seq->table_count : 0);
        });
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(W == 8 ? 232 : 152));
    consumer<W, R> c = {a.t,        s,          ring,           x,      sums, tid,
                        tid / WARP, tid % WARP, tid % WARP / 4, tid % 4};
    attend_steps<consumer<W, R>> all = {c, a, l};
    all.run();
}

#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
extern "C" __global__ void __launch_bounds__(12 * WARP, 1)
    attend_layer_4(const __grid_constant__ attend_args a)
{
    static_assert(dynamic_bytes<8, 4> == ATTEND_DYNAMIC_4, "what token.c asks for");
    attend_layer<8, 4>(a);
}
extern "C" __global__ void __launch_bounds__(12 * WARP, 1)
    attend_layer_8(const __grid_constant__ attend_args a)
{
    static_assert(dynamic_bytes<8, 8> == ATTEND_DYNAMIC_8, "what token.c asks for");
    attend_layer<8, 8>(a);
}
#endif
