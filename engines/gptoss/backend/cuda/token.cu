/* gptoss/backend/cuda/token.cu - all layers of one token, or of two, in one kernel (Hopper).
 *
 * One block a multiprocessor stays for the whole token.  Its producer warps stream weights,
 * keys and values through a ring in shared memory and do not stop at the barriers between
 * steps; its consumer warps multiply what is in the ring.  Only the experts' weights must wait
 * until the choice is known.  The steps of a layer are below.  Blocks exchange values in L2
 * (token_exchange.cuh), and except for attention all blocks wait for all before the next step:
 *
 *   qkv        every block normalizes the residual itself; sums of its tiles to L2
 *   attention  few blocks while the context is short; bias and RoPE first
 *   out        sums to L2, and the part of the router that is linear in them
 *   gate_up    every block adds up residual and router and knows the choice; SwiGLU
 *   down       all experts of a row in one sum, to L2
 *
 * The residual lies in registers, the same in every block.  Nothing is added atomically, so the
 * same step gives the same bits.
 *
 * Two tokens of two sequences share the barriers and the dense weights; each has experts and
 * attention of its own (token_plan.cuh).
 *
 * Precision: like the kernels it replaces; bf16 products, float32 sums and residual, the router
 * in float32.  Bound: reading the weights.  Shape: token.h.
 */
#include "engines/gptoss/backend/cuda/token_attend.cuh"
#include "engines/gptoss/backend/cuda/token_multiply.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

/* Small weights that steps need at their end, loaded long before.  They stay bf16, because
 * converting them would wait for the loads. */
struct early_weights {
    attend_early attention;
    uint4
        router[TOKEN_EXPERTS_MAX / WARP]; /* of expert lane + 32 k, rows 8 warp ... of out's */
    uint16_t out_bias, mlp_norm;          /* of this thread's row of out */
    uint16_t gate_bias, up_bias;          /* of gate_up's pair of rows tid */
    uint16_t down_bias[TOKEN_TOPK];       /* of down's row tid, by choice */
};

template <class C> struct steps {
    enum { W = C::WARPS, R = C::TOKENS };
    C &c;
    early_weights e;
    uint32_t position; /* of the token whose attention this block works for */
    uint32_t step;
    step_plan plan; /* of the step */

    /* ---- output projection and router ---- */

    __device__ __forceinline__ bool routes(int k, const step_plan &out) const
    {
        return k * WARP < c.a.experts && c.warp < out.tiles * 2;
    }

    __device__ __forceinline__ void ask_out(const token_layer &l)
    {
        const step_plan &out = c.s.plan[STEP_OUT];
        const uint32_t first = out.tile * 16;
#pragma unroll
        for (int k = 0; k < TOKEN_EXPERTS_MAX / WARP; k++)
            if (routes(k, out))
                e.router[k] = __ldg(reinterpret_cast<const uint4 *>(
                    l.router + (size_t)(k * WARP + c.lane) * TOKEN_HIDDEN + first +
                    c.warp * 8));
        const typename C::place at = c.place_of(out, R);
        if (at.is) {
            e.out_bias = __ldg(l.out_bias + first + at.row);
            e.mlp_norm = __ldg(l.mlp_norm + first + at.row);
        }
    }

    /* Keeps this block's rows of the residuals for finish_out(). */
    __device__ __forceinline__ void keep_rows()
    {
#pragma unroll
        for (int i = 0; i < R * C::MINE; i++) {
            uint32_t quad = c.tid + i % C::MINE * C::THREADS - plan.tile * 4;
            if (quad < plan.tiles * 4)
                reinterpret_cast<float4 *>(c.s.rows[i / C::MINE])[quad] =
                    c.r[i / C::MINE][i % C::MINE];
        }
    }

    __device__ __forceinline__ float finish_out(bool begins, float v, typename C::place at)
    {
        float *row = &c.s.rows[at.token][at.row];
        v += begins ? from_bf16(e.out_bias) : 0.0f;
        *row = (v + (begins ? *row : 0.0f)) * from_bf16(e.mlp_norm);
        return v;
    }

    /* This block's part of the router's sums: its rows of the new residual, times the norm's
     * weights, times the router's.  The norm's factor is applied later. */
    __device__ __forceinline__ void route()
    {
        const uint32_t experts = c.a.experts;
        c.meet(); /* after this `sums` may be reused */
#pragma unroll
        for (int i = 0; i < R * (TOKEN_EXPERTS_MAX / WARP); i++) {
            const int k = i / R, token = i % R;
            if (!routes(k, plan))
                continue;
            const float *v = c.s.rows[token] + c.warp * 8;
            const uint4 w = e.router[k];
            c.sums[(token * W + c.warp) * experts + k * WARP + c.lane] =
                from_bf16((uint16_t)w.x) * v[0] + from_bf16((uint16_t)(w.x >> 16)) * v[1] +
                from_bf16((uint16_t)w.y) * v[2] + from_bf16((uint16_t)(w.y >> 16)) * v[3] +
                from_bf16((uint16_t)w.z) * v[4] + from_bf16((uint16_t)(w.z >> 16)) * v[5] +
                from_bf16((uint16_t)w.w) * v[6] + from_bf16((uint16_t)(w.w >> 16)) * v[7];
        }
        c.meet();
        if (c.tid < R * experts) {
            const uint32_t token = c.tid >= experts ? 1 : 0, expert = c.tid - token * experts;
            float sum = 0;
            for (uint32_t i = 0; i < plan.tiles * 2; i++)
                sum += c.sums[(token * W + i) * experts + expert];
            tell_sum(c.a.router_sums + (size_t)(token * gridDim.x + blockIdx.x) * experts +
                         expert,
                     sum, c.round);
        }
    }

    /* Adds up the blocks' sums, each warp a part of the blocks, for choose(); with two tokens
     * half of the warps for each. */
    __device__ __forceinline__ void gather_router()
    {
        constexpr int N = R == 1 ? 6 : 10; /* loads that are started at once */
        constexpr uint32_t THREADS = C::THREADS / R;
        const uint32_t token = c.tid / THREADS, tid = c.tid % THREADS, quads = c.a.experts / 4,
                       parts = THREADS / quads;
        const float4 *in = reinterpret_cast<const float4 *>(c.a.router_sums) +
                           (size_t)token * gridDim.x * quads + tid % quads;
        float4 sum = make_float4(0, 0, 0, 0);
        for (uint32_t first = tid / quads; first < gridDim.x; first += N * parts) {
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

    /* ---- experts ---- */

    /* Row tid of gate_up's pairs of rows is row tid % 8 of unit tid / 8. */
    __device__ __forceinline__ void ask_experts(const token_layer &l)
    {
        const uint32_t unit = plan.first + c.tid / 8, row = unit % UP_TILES * 16 + c.tid % 8;
        if (unit < plan.last) {
            const uint16_t *bias =
                l.up_bias + (size_t)c.s.choice[unit / UP_TILES] * (TOKEN_INNER * 2) + row;
            e.gate_bias = __ldg(bias);
            e.up_bias = __ldg(bias + 8);
        }
        const step_plan &down = c.s.plan[STEP_DOWN];
        const uint32_t token = token_of_down(down);
#pragma unroll
        for (int k = 0; k < TOKEN_TOPK; k++)
            if (c.tid < down.tiles * 16)
                e.down_bias[k] =
                    __ldg(l.down_bias + down.tile * 16 + c.tid +
                          ((size_t)c.s.choice[token * TOKEN_TOPK + k] - token) * TOKEN_HIDDEN);
    }

    /* The token whose row of down this thread finishes. */
    __device__ __forceinline__ uint32_t token_of_down(const step_plan &down) const
    {
        return R > 1 && down.tile + c.tid / 16 >= DOWN_TILES ? 1 : 0;
    }

    __device__ __forceinline__ void finish_up()
    {
        const token_args &a = c.a;
        const uint32_t unit = plan.first + c.tid / 8, choice = unit / UP_TILES;
        float h = 0;
        if (unit < plan.last) {
            float gate = c.sum_of(c.tid / 8, c.tid % 8) / TOKEN_LIFT + from_bf16(e.gate_bias);
            float up = c.sum_of(c.tid / 8, c.tid % 8 + 8) / TOKEN_LIFT + from_bf16(e.up_bias);
            gate = fminf(gate, a.limit);
            up = fminf(fmaxf(up, -a.limit), a.limit);
            h = gate / (1.0f + __expf(-1.702f * gate)) * (up + 1.0f) * c.s.weight[choice] /
                TOKEN_INNER_SCALE;
        }
        const uint32_t pair = pack_bf16(h, __shfl_down_sync(0xFFFFFFFFu, h, 1));
        if (unit < plan.last && c.tid % 2 == 0)
            tell(a.inner + (size_t)choice * TOKEN_INNER + unit % UP_TILES * 8 + c.tid % 8,
                 (pair & ~(uint32_t)ROUND_OF_PAIR) | (c.round != 0 ? ROUND_OF_PAIR : 0));
    }

    __device__ __forceinline__ float finish_down(bool begins, float v) const
    {
        const float *weight = c.s.weight + token_of_down(plan) * TOKEN_TOPK;
        v /= TOKEN_LIFT;
#pragma unroll
        for (int k = 0; k < TOKEN_TOPK; k++)
            v += begins ? weight[k] * from_bf16(e.down_bias[k]) : 0.0f;
        return v;
    }

    /* ---- the whole kernel ---- */

    __device__ __forceinline__ attention_step<C> attention(const token_layer &l) const
    {
        const key_group group = even_group<R>(position);
        return {c, l, group, keys_of(group, (uint32_t)l.window), own_kv_head()};
    }

    /* Puts the step's activations into c.x; then starts loads of small weights that later steps
     * need, so that nothing waits for them. */
    __device__ __forceinline__ void prepare(const token_layer &l, bool first,
                                            const uint16_t *next_norm)
    {
        const bool up = step == STEP_UP;
        if (step != STEP_QKV || !first)
            c.grid_meet();
        if (step == STEP_OUT) {
            keep_rows();
            c.stage_mixed();
        } else if (step == STEP_DOWN) {
            c.stage_inner();
            c.load_norm(c.norm[0], next_norm);
        } else {
            if (up)
                gather_router();
            if (up || !first)
                c.add_sums(up ? c.a.out_sums : c.a.down_sums, up ? c.round : c.round ^ 1);
            c.add_squares();
            if (up)
                all_meet<C::THREADS, R>();
            else
                c.meet();
            c.normalize(up, up ? TOKEN_LIFT : 1);
            if (up) {
                c.wait_for_piece(); /* the choice was made before the piece was loaded */
                ask_experts(l);
            } else {
                c.load_norm(c.norm[1], l.mlp_norm);
                ask_out(l);
                attention(l).ask(e.attention);
            }
        }
    }

    /* Finishes the sums of the step's tiles. */
    __device__ __forceinline__ void finish(const token_layer &l)
    {
        const token_args &a = c.a;
        if (step == STEP_UP) {
            c.meet();
            finish_up();
            return;
        }
        const bool qkv = step == STEP_QKV, is_out = step == STEP_OUT;
        c.put_sums(
            qkv      ? a.qkv_sums
            : is_out ? a.out_sums
                     : a.down_sums,
            qkv      ? TOKEN_QKV_ROWS
            : is_out ? TOKEN_HIDDEN
                     : R * TOKEN_HIDDEN,
            qkv || is_out ? R : 1, plan, parts_of(step),
            [&](bool begins, float v, typename C::place at) {
                return qkv ? v : is_out ? finish_out(begins, v, at) : finish_down(begins, v);
            });
        if (qkv) {
            const uint32_t *slots = l.window != 0 ? a.slot_window : a.slot_full;
            attention(l).template run<W>(e.attention, slots[even_token<R>()]);
        } else if (is_out) {
            route();
        }
    }

    /* One loop for all steps, so that each product has its code only once: a layer runs through
     * all of the kernel's code, and with 140 KB of code everything was slower. */
    __device__ __forceinline__ void layer(const token_layer &l, bool first,
                                          const uint16_t *next_norm)
    {
#pragma unroll 1
        for (step = 0; step < STEPS; step++) {
            plan = c.s.plan[step];
            prepare(l, first, next_norm);
            const multiplier<C> product = {c, c.g, c.t};
            if (step <= STEP_OUT)
                product.dense(plan, step == STEP_QKV ? QKV_BLOCKS : OUT_BLOCKS, parts_of(step));
            else
                product.experts(plan, step == STEP_DOWN);
            finish(l);
        }
    }

    __device__ __forceinline__ void start()
    {
        const token_args &a = c.a;
#pragma unroll
        for (int i = 0; i < R * C::MINE; i++) {
            const uint32_t quad = c.tid + i % C::MINE * C::THREADS;
            if (quad < C::QUADS) {
                const uint2 v =
                    __ldg(reinterpret_cast<const uint2 *>(
                              a.embed + (size_t)a.token[i / C::MINE] * TOKEN_HIDDEN) +
                          quad);
                c.r[i / C::MINE][i % C::MINE] =
                    make_float4(from_bf16((uint16_t)v.x), from_bf16((uint16_t)(v.x >> 16)),
                                from_bf16((uint16_t)v.y), from_bf16((uint16_t)(v.y >> 16)));
            }
        }
        c.load_norm(c.norm[0], c.s.layers[0].attn_norm);
        c.target = a.sync[1];
        position = a.seq[even_token<R>()].position;
        e.attention.rope = reinterpret_cast<const float2 *>(
            a.rope)[(size_t)position * (CUDA_HEAD_DIM / 2) + c.lane];
    }

    __device__ __forceinline__ void run_layers()
    {
        const token_args &a = c.a;
        const uint32_t before = a.sync[2]; /* layers so far: words start at 0, so rounds at 1 */
        start();
#pragma unroll 1
        for (uint32_t i = 0; i < a.layer_count; i++) {
            c.round = ~(before + i) & 1;
            layer(c.s.layers[i], i == 0,
                  c.s.layers[i + 1 < a.layer_count ? i + 1 : i].attn_norm);
        }
        if (blockIdx.x != 0)
            return;
        c.add_sums(a.down_sums, c.round);
#pragma unroll
        for (int i = 0; i < R * C::MINE; i++) {
            const uint32_t quad = c.tid + i % C::MINE * C::THREADS;
            if (quad < C::QUADS)
                reinterpret_cast<float4 *>(a.residual)[i / C::MINE * C::QUADS + quad] =
                    c.r[i / C::MINE][i % C::MINE];
        }
        if (c.tid == 0) {
            a.sync[1] = c.target;
            a.sync[2] = before + a.layer_count;
        }
    }
};

template <int W, int R> __device__ __forceinline__ void token(const token_args &a)
{
    extern __shared__ __align__(128) uint8_t dynamic[];
    __shared__ token_shared<R> s;
    uint8_t *ring = dynamic, *x = ring + ring_bytes<W, R>;
    float *sums = reinterpret_cast<float *>(x + R * X_BYTES);
    const uint32_t tid = threadIdx.x, words = a.layer_count * (sizeof(token_layer) / 8);
    if (tid == 0) {
        for (int i = 0; i < SLOTS; i++) {
            ring_init(&s.full[i], 1);
            ring_init(&s.empty[i], W);
        }
        ring_publish();
    }
    for (uint32_t i = tid; i < words; i += (W + PRODUCERS) * WARP)
        reinterpret_cast<uint64_t *>(s.layers)[i] =
            reinterpret_cast<const uint64_t *>(a.layers)[i];
    if (tid < R * TOKEN_TOPK)
        s.choice[tid] = 0;
    if (tid < STEPS)
        s.plan[tid] = plan_of<R>(tid);
    __syncthreads();
    /* The producers give their registers to the consumers. */
    if (tid >= W * WARP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        produce<W, R>(a, s, ring, sums);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(W == 8 ? 232 : 152));
    consumer<W, R> c = {a,          s,          ring,           x,      sums, tid,
                        tid / WARP, tid % WARP, tid % WARP / 4, tid % 4};
    steps<consumer<W, R>> all = {c};
    all.run_layers();
}

#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
extern "C" __global__ void __launch_bounds__(12 * WARP, 1)
    token_layers(const __grid_constant__ token_args a)
{
    static_assert(dynamic_bytes<8, 1> == TOKEN_DYNAMIC, "what token.c asks for");
    token<8, 1>(a);
}
extern "C" __global__ void __launch_bounds__(12 * WARP, 1)
    token_layers_2(const __grid_constant__ token_args a)
{
    static_assert(dynamic_bytes<8, 2> == TOKEN_DYNAMIC_2, "what token.c asks for");
    token<8, 2>(a);
}
#endif
