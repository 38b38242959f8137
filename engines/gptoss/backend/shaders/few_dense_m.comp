#version 450
// A BF16 matrix times tokens by cooperative matrices, eight tokens for a work group; x is packed.
// Eight subgroups split the columns of 16 rows.  With QKV the rows are d .. d + 7 and
// d + 32 .. d + 39 of a head, which are rotated together.  Grid: (tokens / 8, rows / 16), so
// that the groups that read the same rows run together.
#include "common.glsl"
#include "matrix.glsl"
layout(set = 0, binding = 0) readonly buffer W { uvec4 weight[]; };
layout(set = 0, binding = 1) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 2) readonly buffer X { uvec4 packed[]; };
#ifdef QKV
layout(push_constant) uniform P { push_qkv p; };
layout(set = 0, binding = 3) readonly buffer I { gpu_row info[]; };
layout(set = 0, binding = 4) readonly buffer R { float rope[]; }; // [token][cos 32, sin 32]
layout(set = 0, binding = 5) buffer Q { float q[]; };
layout(set = 0, binding = 6) buffer KV { uint kv[]; };
#define PAIRED false
#include "rope.glsl"
#else
layout(constant_id = 1) const uint MODE = 0u; // 2: add to y, 4: bias
layout(push_constant) uniform P { push_dense p; };
layout(set = 0, binding = 3) buffer Y { float y[]; };
#endif
#define SPANS  4 // of 32 columns that an invocation reads at a time
#define TOKENS 8u
shared float part[2][8 * 128]; // tokens 0 to 3, 4 to 7

// Eight BF16 numbers as pairs i, i + 4.
void halves(uvec4 w, out f16vec2 v[4])
{
    v[0] = f16vec2(bf16_pair(w.x).x, bf16_pair(w.z).x);
    v[1] = f16vec2(bf16_pair(w.x).y, bf16_pair(w.z).y);
    v[2] = f16vec2(bf16_pair(w.y).x, bf16_pair(w.w).x);
    v[3] = f16vec2(bf16_pair(w.y).y, bf16_pair(w.w).y);
}

void multiply_d(uint low, uint high)
{
    uint g = gl_SubgroupInvocationID / 4u, k = gl_SubgroupInvocationID % 4u, pieces = p.columns / 8u;
    uint token = gl_WorkGroupID.x * TOKENS + (g & 3u), last = p.tokens - 1u;
    uint from0 = (min(token, last) * 2u + g / 4u) * pieces + k;
    uint from1 = (min(token + 4u, last) * 2u + g / 4u) * pieces + k;
    bool more = p.tokens - gl_WorkGroupID.x * TOKENS > 4u;
    MATRIX_C sum0 = MATRIX_C(0.0), sum1 = MATRIX_C(0.0);

    for (uint base = gl_SubgroupID * 4u; base < pieces; base += 32u * SPANS) {
        uvec4 a[SPANS], b[SPANS], t0[SPANS], t1[SPANS];
        [[unroll]] for (uint u = 0u; u < SPANS; u++) {
            uint at = base + u * 32u;
            bool inside = at + k < pieces;
            a[u] = inside ? weight[low * pieces + at + k] : uvec4(0u);
            b[u] = inside ? weight[high * pieces + at + k] : uvec4(0u);
            t0[u] = inside ? packed[from0 + at] : uvec4(0u);
            t1[u] = inside && more ? packed[from1 + at] : uvec4(0u);
        }
        [[unroll]] for (uint u = 0u; u < SPANS; u++) {
            uint at = base + u * 32u;
            if (at >= pieces)
                break;
            uvec4 t = t0[u];
            f16vec2 i[4], j[4];
            halves(a[u], i);
            halves(b[u], j);
            sum0 = matrix_add(sum0, i[0], i[1], j[0], j[1], t.x, t.y);
            sum0 = matrix_add(sum0, i[2], i[3], j[2], j[3], t.z, t.w);
            if (more) {
                t = t1[u];
                sum1 = matrix_add(sum1, i[0], i[1], j[0], j[1], t.x, t.y);
                sum1 = matrix_add(sum1, i[2], i[3], j[2], j[3], t.z, t.w);
            }
        }
    }
    coopMatStore(sum0, part[0], gl_SubgroupID * 128u, 8u, gl_CooperativeMatrixLayoutRowMajor);
    coopMatStore(sum1, part[1], gl_SubgroupID * 128u, 8u, gl_CooperativeMatrixLayoutRowMajor);
}

// token: of this work group
float sum_d(uint row, uint token)
{
    float sum = 0.0;
    uint at = row * 8u + token % 4u;

    [[unroll]] for (uint i = 0u; i < 8u; i++)
        sum += part[token / 4u][i * 128u + at] + part[token / 4u][i * 128u + at + 4u];
    return sum;
}

#ifdef QKV
void main()
{
    uint g = gl_SubgroupInvocationID / 4u, local = gl_WorkGroupID.y / 4u * 64u + gl_WorkGroupID.y % 4u * 8u;

    multiply_d(local + g, local + 32u + g);
    barrier();
    uint t = gl_LocalInvocationID.x / 4u, d = gl_LocalInvocationID.x % 4u * 2u;
    uint token = gl_WorkGroupID.x * TOKENS + t;
    if (t >= TOKENS || token >= p.tokens)
        return;
    uint row = p.first + local + d;
    vec2 low = bf16_pair(bias[row / 2u]), high = bf16_pair(bias[row / 2u + 16u]);
    put(token, row, vec4(sum_d(d, t) + low.x, sum_d(d + 1u, t) + low.y, sum_d(d + 8u, t) + high.x,
                     sum_d(d + 9u, t) + high.y));
}
#else
void main()
{
    uint g = gl_SubgroupInvocationID / 4u, first = gl_WorkGroupID.y * TILE_ROWS_M;

    multiply_d(min(first + g, p.count - 1u), min(first + g + 8u, p.count - 1u));
    barrier();
    uint t = gl_LocalInvocationID.x / 16u, row = first + gl_LocalInvocationID.x % 16u;
    uint token = gl_WorkGroupID.x * TOKENS + t;
    if (t >= TOKENS || token >= p.tokens || row >= p.count)
        return;
    float v = sum_d(gl_LocalInvocationID.x % 16u, t);
    row += p.first;
    if ((MODE & 4u) != 0u)
        v += bf16_of(bias[row / 2u], row);
    if ((MODE & 2u) != 0u)
        v += y[token * p.y_stride + row];
    y[token * p.y_stride + row] = v;
}
#endif
