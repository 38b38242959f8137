#version 450
// q, k, v of a few tokens: norm, product, bias, rotation; k and v go to their pages.
// A subgroup computes the rows d, d + 1, d + 32, d + 33 of a head.  Grid: rows / (4 * subgroups).
#include "common.glsl"
// Bits: 1: norm, otherwise x is normalized already; 2: PAIRED of rope.glsl.
layout(constant_id = 1) const uint MODE = 1u;
#define PAIRED ((MODE & 2u) != 0u)
#define ROWS   4
#define UNROLL (TOKENS > 2 ? 1 : TOKENS > 1 ? 2 : 3)
#include "few.glsl"
layout(push_constant) uniform P { push_qkv p; };
layout(set = 0, binding = 4) readonly buffer I { gpu_row info[]; };
layout(set = 0, binding = 5) readonly buffer R { float rope[]; }; // [token][cos 32, sin 32]
layout(set = 0, binding = 6) buffer Q { float q[]; };
layout(set = 0, binding = 7) buffer KV { uint kv[]; };
#include "rope.glsl"

// The bias of the four rows.
vec4 bias_of(uint row)
{
    if (is_paired(row)) {
        uint at = (row + stored(row, 0u)) / 2u;
        return vec4(bf16_pair(bias[at]), bf16_pair(bias[at + 1u])).xzyw;
    }
    return vec4(bf16_pair(bias[row / 2u]), bf16_pair(bias[row / 2u + 16u]));
}

void main()
{
    uint quad = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    uint start[ROWS], from[TOKENS];

    if (quad * 4u >= p.count)
        return;
    uint local = quad / 16u * 64u + quad % 16u * 2u, row = p.first + local;
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        start[r] = (local + stored(row, r)) * (p.columns / 8u);
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        from[t] = min(t, p.tokens - 1u);
    multiply(start, from, p.columns, (MODE & 1u) != 0u, p.eps);
    vec4 b = bias_of(row);
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        if (gl_SubgroupInvocationID == t % gl_SubgroupSize && t < p.tokens)
            put(t, row, vec4(sum[0][t], sum[1][t], sum[2][t], sum[3][t]) + b);
}
