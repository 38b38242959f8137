#version 450
// y[t] = weight . norm(x[t]) + bias for a few tokens.  Grid: rows / (ROWS * subgroups).
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 0u; // 1: norm, 2: add to y, 4: bias, 8: rows of x are listed
#if TOKENS > 2
#define ROWS   4
#define UNROLL 1
#else
#define ROWS   2
#define UNROLL (4 / TOKENS)
#endif
#include "few.glsl"
layout(push_constant) uniform P { push_dense p; };
layout(set = 0, binding = 4) buffer Y { float y[]; };
layout(set = 0, binding = 5) readonly buffer O { uint out_row[]; };

void main()
{
    uint first = (gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID) * ROWS;
    uint start[ROWS], from[TOKENS];

    if (first >= p.count)
        return;
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        start[r] = min(first + r, p.count - 1u) * (p.columns / 8u);
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
        uint row = min(t, p.tokens - 1u);
        from[t] = (MODE & 8u) != 0u ? out_row[row] : row;
    }
    multiply(start, from, p.columns, (MODE & 1u) != 0u, p.eps);
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint lane = (t * ROWS + r) % gl_SubgroupSize, row = first + r;
            if (gl_SubgroupInvocationID != lane || t >= p.tokens || row >= p.count)
                continue;
            row += p.first;
            float v = sum[r][t];
            if ((MODE & 4u) != 0u)
                v += bf16_of(bias[row / 2u], row);
            if ((MODE & 2u) != 0u)
                v += y[t * p.y_stride + row];
            y[t * p.y_stride + row] = v;
        }
}
