#version 450
// q, k, v of a few tokens: norm, product, bias, rotation; k and v go to their pages.
// A subgroup computes the rows d, d + 1, d + 32, d + 33 of a head.  Grid: rows / (4 * subgroups).
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 1u; // 1: norm; 0: x is normalized already
#define ROWS   4
#define UNROLL (TOKENS > 2 ? 1 : TOKENS > 1 ? 2 : 3)
#include "few.glsl"
layout(push_constant) uniform P { push_qkv p; };
layout(set = 0, binding = 4) readonly buffer I { gpu_row info[]; };
layout(set = 0, binding = 5) readonly buffer R { float rope[]; }; // [token][cos 32, sin 32]
layout(set = 0, binding = 6) buffer Q { float q[]; };
layout(set = 0, binding = 7) buffer KV { uint kv[]; };
#include "rope.glsl"

void main()
{
    uint quad = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    uint start[ROWS], from[TOKENS];

    if (quad * 4u >= p.count)
        return;
    uint local = quad / 16u * 64u + quad % 16u * 2u, row = p.first + local;
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        start[r] = (local + (r & 1u) + (r / 2u) * 32u) * (p.columns / 8u);
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        from[t] = min(t, p.tokens - 1u);
    multiply(start, from, p.columns, MODE != 0u, p.eps);
    vec2 low = bf16_pair(bias[row / 2u]), high = bf16_pair(bias[row / 2u + 16u]);
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        if (gl_SubgroupInvocationID == t % gl_SubgroupSize && t < p.tokens)
            put(t, row, vec4(sum[0][t] + low.x, sum[1][t] + low.y, sum[2][t] + high.x,
                             sum[3][t] + high.y));
}
