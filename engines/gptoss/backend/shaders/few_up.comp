#version 450
// The first matrix of a token's experts, with the choice of the experts before it and SwiGLU
// after it, for a few tokens.  A subgroup computes MX_ROWS rows.
// Grid: (rows / (MX_ROWS * subgroups), tokens * chosen).
#include "common.glsl"
#define MX_ROWS       4
#define SHARED_PIECES 1024
#include "mx.glsl"
layout(set = 0, binding = 3) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 4) readonly buffer N { uvec2 norm[]; };
layout(set = 0, binding = 5) readonly buffer L { float logits[]; };
layout(set = 0, binding = 6) buffer I { float inner[]; };
layout(set = 0, binding = 7) buffer C { uvec2 choice[]; }; // number and logit of an expert
shared float squares[64];
shared uint picked;

// The expert of that rank: the largest logits come first, of equal ones the lowest number.
void choose(uint t, uint rank)
{
    for (uint e = gl_LocalInvocationID.x; e < p.experts; e += gl_WorkGroupSize.x) {
        float mine = logits[t * p.experts + e];
        uint before = 0u;
        for (uint i = 0u; i < p.experts; i++) {
            float other = logits[t * p.experts + i];
            before += other > mine || (other == mine && i < e) ? 1u : 0u;
        }
        if (before != rank)
            continue;
        picked = e;
        if (gl_WorkGroupID.x == 0u)
            choice[t * p.chosen + rank] = uvec2(e, floatBitsToUint(mine));
    }
}

void main()
{
    uint slot = gl_WorkGroupID.y, t = slot / p.chosen, pieces = p.columns / 4u;
    float square = 0.0;

    for (uint i = gl_LocalInvocationID.x; i < pieces; i += gl_WorkGroupSize.x) {
        vec4 v = x[t * pieces + i];
        uvec2 n = norm[i];
        square += dot(v, v);
        activation[rotated(i)] = v * vec4(bf16_pair(n.x), bf16_pair(n.y));
    }
    square = subgroupAdd(square);
    if (subgroupElect())
        squares[gl_SubgroupID] = square;
    choose(t, slot % p.chosen);
    barrier();
    uint expert = picked;
    if (expert < p.first || expert - p.first >= p.count)
        return;
    square = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        square += squares[i];
    float factor = inversesqrt(square / float(p.columns) + p.eps);
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * MX_ROWS;
    uint groups = p.columns / 32u, start[MX_ROWS];
    float sum[MX_ROWS];
    if (first >= p.rows)
        return;
    [[unroll]] for (uint r = 0u; r < MX_ROWS; r++) {
        start[r] = block_of(expert, min(first + r, p.rows - 1u));
        sum[r] = 0.0;
    }
    add_rows(sum, start, 0u, groups, scale_shift(expert));
    [[unroll]] for (uint r = 0u; r < MX_ROWS; r++)
        sum[r] = subgroupAdd(sum[r]) * factor;
    [[unroll]] for (uint i = 0u; i < MX_ROWS / 2u; i++) {
        uint row = first + 2u * i;
        if (gl_SubgroupInvocationID != i || row >= p.rows)
            continue;
        vec2 b = bf16_pair(bias[bias_of(expert, row) / 2u]);
        inner[slot * (p.rows / 2u) + row / 2u] =
            sigmoid_gate(sum[2u * i] + b.x, sum[2u * i + 1u] + b.y, p.limit);
    }
}
