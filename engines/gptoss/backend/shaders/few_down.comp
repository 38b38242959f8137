#version 450
// x += the weighted second matrices of a token's experts, for a few tokens.  A subgroup computes
// MX_ROWS rows of one of the experts; the experts' sums meet in shared memory.  With less shared
// memory than the activations of all experts take, there are several passes.
// Grid: (rows / (MX_ROWS * (subgroups / chosen)), tokens).
#include "common.glsl"
#define MX_ROWS 4
#ifndef SHARED_PIECES
#define SHARED_PIECES 1536
#endif
#include "mx.glsl"
layout(set = 0, binding = 3) readonly buffer I { vec4 inner[]; };
layout(set = 0, binding = 4) readonly buffer C { uvec2 choice[]; }; // number and logit
layout(set = 0, binding = 5) buffer X { float x[]; };
shared float results[64 * MX_ROWS];

// The softmax over the chosen experts.
float weight_of(uint t, float logit)
{
    float top = uintBitsToFloat(choice[t * p.chosen].y), sum = 0.0;

    for (uint n = 0u; n < p.chosen; n++)
        sum += exp(uintBitsToFloat(choice[t * p.chosen + n].y) - top);
    return exp(logit - top) / sum;
}

void main()
{
    uint t = gl_WorkGroupID.y, sets = gl_NumSubgroups / p.chosen, groups = p.columns / 32u;
    uint rank = gl_SubgroupID % p.chosen, set = gl_SubgroupID / p.chosen;
    uint first = (gl_WorkGroupID.x * sets + set) * MX_ROWS, start[MX_ROWS];
    uvec2 mine = choice[t * p.chosen + rank];
    bool works = set < sets && first < p.rows && mine.x >= p.first && mine.x - p.first < p.count;
    uint pass = SHARED_PIECES / (p.chosen * 8u);
    float sum[MX_ROWS];

    [[unroll]] for (uint r = 0u; r < MX_ROWS; r++)
        sum[r] = 0.0;
    for (uint base = 0u; base < groups; base += pass) {
        uint count = min(pass, groups - base), pieces = count * 8u;
        for (uint i = gl_LocalInvocationID.x; i < pieces * p.chosen; i += gl_WorkGroupSize.x) {
            uint n = i / pieces, at = i % pieces;
            activation[n * pass * 8u + rotated(at)] =
                inner[(t * p.chosen + n) * (p.columns / 4u) + base * 8u + at];
        }
        barrier();
        [[unroll]] for (uint r = 0u; r < MX_ROWS; r++)
            start[r] = block_of(mine.x, min(first + r, p.rows - 1u)) + base;
        if (works)
            add_rows(sum, start, rank * pass * 8u, count, scale_shift(mine.x));
        barrier();
    }
    float weight = weight_of(t, uintBitsToFloat(mine.y));
    [[unroll]] for (uint r = 0u; r < MX_ROWS; r++) {
        uint row = first + r;
        float v = subgroupAdd(sum[r]);
        if (gl_SubgroupInvocationID != r)
            continue;
        if (works && row < p.rows) {
            uint at = bias_of(mine.x, row);
            v = weight * (v + bf16_of(bias[at / 2u], at));
        }
        results[gl_SubgroupID * MX_ROWS + r] = works ? v : 0.0;
    }
    barrier();
    if (gl_LocalInvocationID.x >= sets * MX_ROWS)
        return;
    uint at = gl_LocalInvocationID.x, row = gl_WorkGroupID.x * sets * MX_ROWS + at;
    if (row >= p.rows)
        return;
    float total = 0.0;
    for (uint n = 0u; n < p.chosen; n++)
        total += results[(at / MX_ROWS * p.chosen + n) * MX_ROWS + at % MX_ROWS];
    x[t * p.rows + row] += total;
}
