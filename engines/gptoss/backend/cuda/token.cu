/* gptoss/backend/cuda/token.cu - all layers of one token in one kernel (Hopper).
 *
 * A block a multiprocessor stays for the whole token.  Its producer warp streams weights, keys
 * and values through a ring in shared memory and does not stop at the barriers between steps;
 * its consumer warps multiply what is in the ring.  Only the experts' weights must wait until
 * it is known which.  Steps of a layer, a barrier of all blocks behind each:
 *   qkv        every block normalizes the residual itself; sums of its tiles to L2
 *   attention  few blocks while the context is short; bias and RoPE first
 *   out        sums to L2, and of the router the part that is linear in them
 *   gate_up    every block adds up residual and router and knows the choice; SwiGLU
 *   down       all experts of a row in one sum, to L2
 * The residual lies in registers, the same in every block.  Nothing is added atomically: the
 * same step gives the same bits.
 *
 * Precision: as the kernels it replaces; bf16 products, float32 sums and residual, the router
 * in float32.  Bound: reading the weights.  Shape: token.h.
 */
#include "engines/gptoss/backend/cuda/token_attend.cuh"

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900

template <class C> struct steps {
    C &c;

    /* ---- output projection and router ---- */

    /* What of the weights a step needs at its end, asked for before the barrier ahead of it;
     * bf16 as it comes, since to widen it would be to wait for it. */
    struct out_early {
        uint4 router[TOKEN_EXPERTS_MAX / WARP]; /* of expert lane + 32 k, eight rows */
        uint16_t bias, norm;                    /* of row tid */
        uint32_t tile, tiles;

        __device__ __forceinline__ bool has(int k, uint32_t eight, uint32_t experts) const
        {
            return k * WARP < experts && eight < tiles * 2;
        }
    };

    __device__ __forceinline__ void ask_out(const token_layer &l, out_early &e)
    {
        const run units = run_of(OUT_UNITS);
        e.tile = units.first / OUT_PARTS;
        e.tiles = (units.last - 1) / OUT_PARTS + 1 - e.tile;
        const uint32_t first = e.tile * 16, rows = e.tiles * 16;
#pragma unroll
        for (int k = 0; k < TOKEN_EXPERTS_MAX / WARP; k++)
            if (e.has(k, c.warp, c.a.experts))
                e.router[k] = __ldg(reinterpret_cast<const uint4 *>(
                    l.router + (size_t)(k * WARP + c.lane) * TOKEN_HIDDEN + first +
                    c.warp * 8));
        if (c.tid < rows) {
            e.bias = __ldg(l.out_bias + first + c.tid);
            e.norm = __ldg(l.mlp_norm + first + c.tid);
        }
    }

    __device__ __forceinline__ void out(const out_early &e)
    {
        const token_args &a = c.a;
        const run units = run_of(OUT_UNITS);
#pragma unroll
        for (int j = 0; j < C::MINE; j++) {
            uint32_t quad = c.tid + j * C::THREADS - e.tile * 4;
            if (quad < e.tiles * 4)
                reinterpret_cast<float4 *>(c.s.rows)[quad] = c.r[j];
        }
        c.template stage<TOKEN_HEADS * 8>(a.mixed);
        c.template multiply_dense<OUT_BLOCKS, OUT_PARTS>(units);
        c.template put_sums<OUT_PARTS>(
            a.out_sums, TOKEN_HIDDEN, units, [&](uint32_t i, bool begins, float v) {
                v += begins ? from_bf16(e.bias) : 0.0f;
                c.s.rows[i] = (v + (begins ? c.s.rows[i] : 0.0f)) * from_bf16(e.norm);
                return v;
            });
        c.meet(); /* behind it `sums` are free for other use */
        route(e);
    }

    /* This block's part of the router's sums: its rows of the new residual, times the norm's
     * weights, times the router's.  The norm's factor comes later. */
    __device__ __forceinline__ void route(const out_early &early)
    {
        const uint32_t experts = c.a.experts;
        const float *v = c.s.rows + c.warp * 8;
#pragma unroll
        for (int k = 0; k < TOKEN_EXPERTS_MAX / WARP; k++) {
            if (!early.has(k, c.warp, experts))
                continue;
            const uint4 w = early.router[k];
            c.sums[c.warp * experts + k * WARP + c.lane] =
                from_bf16((uint16_t)w.x) * v[0] + from_bf16((uint16_t)(w.x >> 16)) * v[1] +
                from_bf16((uint16_t)w.y) * v[2] + from_bf16((uint16_t)(w.y >> 16)) * v[3] +
                from_bf16((uint16_t)w.z) * v[4] + from_bf16((uint16_t)(w.z >> 16)) * v[5] +
                from_bf16((uint16_t)w.w) * v[6] + from_bf16((uint16_t)(w.w >> 16)) * v[7];
        }
        c.meet();
        for (uint32_t e = c.tid; e < experts; e += C::THREADS) {
            float sum = 0;
            for (uint32_t i = 0; i < early.tiles * 2; i++)
                sum += c.sums[i * experts + e];
            c.a.router_sums[(size_t)blockIdx.x * experts + e] = sum;
        }
    }

    /* Adds up the blocks' sums, a warp a part of the blocks, for choose(). */
    __device__ __forceinline__ void gather_router()
    {
        const uint32_t quads = c.a.experts / 4, parts = C::THREADS / quads;
        const float4 *in = reinterpret_cast<const float4 *>(c.a.router_sums) + c.tid % quads;
        float4 sum = make_float4(0, 0, 0, 0);
        for (uint32_t first = c.tid / quads; first < gridDim.x; first += 6 * parts) {
            float4 v[6];
#pragma unroll
            for (int i = 0; i < 6; i++)
                v[i] = first + i * parts < gridDim.x
                           ? __ldcg(in + (size_t)(first + i * parts) * quads)
                           : make_float4(0, 0, 0, 0);
#pragma unroll
            for (int i = 0; i < 6; i++) {
                sum.x += v[i].x;
                sum.y += v[i].y;
                sum.z += v[i].z;
                sum.w += v[i].w;
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

    __device__ __forceinline__ void gate_up(const token_layer &l)
    {
        const token_args &a = c.a;
        const run units = run_of(UP_UNITS);
        const uint32_t unit = units.first + c.tid / 8, choice = unit / UP_TILES,
                       row = unit % UP_TILES * 16 + c.tid % 8;
        uint16_t gate_bias = 0, up_bias = 0;
        (void)c.take(); /* the choice was made before the first piece was asked for */
        if (unit < units.last) {
            const uint16_t *bias =
                l.up_bias + (size_t)c.s.choice[choice] * (TOKEN_INNER * 2) + row;
            gate_bias = __ldg(bias);
            up_bias = __ldg(bias + 8);
        }
        c.multiply_up(units);
        c.meet();
        if (unit < units.last) {
            float gate = c.sum_of(c.tid / 8, c.tid % 8) / TOKEN_LIFT + from_bf16(gate_bias);
            float up = c.sum_of(c.tid / 8, c.tid % 8 + 8) / TOKEN_LIFT + from_bf16(up_bias);
            gate = fminf(gate, a.limit);
            up = fminf(fmaxf(up, -a.limit), a.limit);
            float h = gate / (1.0f + __expf(-1.702f * gate)) * (up + 1.0f);
            a.inner[(size_t)choice * TOKEN_INNER + unit % UP_TILES * 8 + c.tid % 8] =
                to_bf16(h * c.s.weight[choice] * TOKEN_LIFT);
        }
    }

    struct down_early {
        uint16_t bias[TOKEN_TOPK]; /* of row tid, by choice */
    };
    __device__ __forceinline__ void ask_down(const token_layer &l, down_early &e) const
    {
        const run units = run_of(DOWN_UNITS);
        const uint32_t first = units.first / DOWN_PARTS * 16,
                       rows = ((units.last - 1) / DOWN_PARTS + 1) * 16 - first;
#pragma unroll
        for (int k = 0; k < TOKEN_TOPK; k++)
            e.bias[k] =
                c.tid < rows
                    ? __ldg(l.down_bias + (size_t)c.s.choice[k] * TOKEN_HIDDEN + first + c.tid)
                    : 0;
    }

    __device__ __forceinline__ void down(const down_early &e)
    {
        const run units = run_of(DOWN_UNITS);
        c.template stage<X_BYTES / 16>(c.a.inner);
        c.multiply_down(units);
        c.template put_sums<DOWN_PARTS>(
            c.a.down_sums, TOKEN_HIDDEN, units, [&](uint32_t, bool begins, float v) {
                v /= TOKEN_LIFT;
#pragma unroll
                for (int k = 0; k < TOKEN_TOPK; k++)
                    v += begins ? c.s.weight[k] * from_bf16(e.bias[k]) : 0.0f;
                return v;
            });
    }

    /* ---- the whole ---- */

    __device__ __forceinline__ void start()
    {
        const token_args &a = c.a;
        const uint2 *embed =
            reinterpret_cast<const uint2 *>(a.embed + (size_t)*a.token * TOKEN_HIDDEN);
#pragma unroll
        for (int j = 0; j < C::MINE; j++)
            if (c.tid + j * C::THREADS < C::QUADS) {
                uint2 v = __ldg(embed + c.tid + j * C::THREADS);
                c.r[j] =
                    make_float4(from_bf16((uint16_t)v.x), from_bf16((uint16_t)(v.x >> 16)),
                                from_bf16((uint16_t)v.y), from_bf16((uint16_t)(v.y >> 16)));
            }
        c.load_norm(c.s.layers[0].attn_norm);
        c.target = a.sync[1];
    }

    template <int W>
    __device__ __forceinline__ void layer(const token_layer &l, attend_early &early, bool first,
                                          const uint16_t *next_norm)
    {
        const token_args &a = c.a;
        const run qkv = run_of(QKV_UNITS);
        attention_step<C> attention = {c, l, keys_of(early.position, (uint32_t)l.window),
                                       blockIdx.x % TOKEN_KV_HEADS, early.position};
        if (!first)
            c.add_sums(a.down_sums);
        c.add_squares();
        c.meet();
        c.normalize(1);
        attention.ask(early);
        c.template multiply_dense<QKV_BLOCKS, QKV_PARTS>(qkv);
        c.template put_sums<QKV_PARTS>(a.qkv_sums, TOKEN_QKV_ROWS, qkv,
                                       [](uint32_t, bool, float v) { return v; });
        c.grid_meet();
        attention.template run<W>(early, l.window != 0 ? *a.slot_window : *a.slot_full);
        c.load_norm(l.mlp_norm);
        out_early out_weights;
        ask_out(l, out_weights);
        c.grid_meet();
        out(out_weights);
        c.grid_meet();
        gather_router();
        c.add_sums(a.out_sums);
        c.add_squares();
        all_meet<C::THREADS>();
        c.normalize(TOKEN_LIFT);
        gate_up(l);
        down_early down_weights;
        ask_down(l, down_weights);
        c.grid_meet();
        c.load_norm(next_norm);
        down(down_weights);
        c.grid_meet();
    }

    template <int W> __device__ __forceinline__ void run_layers()
    {
        const token_args &a = c.a;
        attend_early early;
        early.position = a.seq->position;
        early.rope = reinterpret_cast<const float2 *>(
            a.rope)[(size_t)early.position * (CUDA_HEAD_DIM / 2) + c.lane];
        start();
        for (uint32_t i = 0; i < a.layer_count; i++)
            layer<W>(c.s.layers[i], early, i == 0,
                     c.s.layers[i + 1 < a.layer_count ? i + 1 : i].attn_norm);
        if (blockIdx.x != 0)
            return;
        c.add_sums(a.down_sums);
#pragma unroll
        for (int j = 0; j < C::MINE; j++)
            if (c.tid + j * C::THREADS < C::QUADS)
                reinterpret_cast<float4 *>(a.residual)[c.tid + j * C::THREADS] = c.r[j];
        if (c.tid == 0)
            a.sync[1] = c.target;
    }
};

template <int W> __device__ __forceinline__ void token(const token_args &a)
{
    extern __shared__ __align__(128) uint8_t dynamic[];
    __shared__ token_shared s;
    uint8_t *ring = dynamic, *x = ring + ring_bytes<W>;
    float *sums = reinterpret_cast<float *>(x + X_BYTES);
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
    if (tid < TOKEN_TOPK)
        s.choice[tid] = 0;
    __syncthreads();
    /* The producers leave their registers to the consumers. */
    if (tid >= W * WARP) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        produce<W>(a, s, ring, sums);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(W == 8 ? 232 : 152));
    consumer<W> c = {a,       s, ring, x, sums, tid, tid / WARP, tid % WARP, tid % WARP / 4,
                     tid % 4, 0, 0,    0, 0};
    steps<consumer<W>> all = {c};
    all.template run_layers<W>();
}

#endif

extern "C" __global__ void __launch_bounds__(12 * WARP, 1)
    token_layers(const __grid_constant__ token_args a)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    static_assert(dynamic_bytes<8> == TOKEN_DYNAMIC, "what token.c asks for");
    token<8>(a);
#endif
}
