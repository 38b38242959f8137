#version 450
// Rows for the kernels with cooperative matrices: [row][float16 of the number, of what is
// left][column / 8], each with the pairs (i, i + 4) of its eight columns.  Grid: rows.
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 0u; // 1: RMS norm
layout(push_constant) uniform P { push_norm p; };
layout(set = 0, binding = 0) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 1) readonly buffer W { uvec4 weight[]; };
layout(set = 0, binding = 2) readonly buffer O { uint out_row[]; };
layout(set = 0, binding = 3) buffer Y { uvec4 y[]; };
#include "pack.glsl"
shared float part[64];

void main()
{
    uint t = gl_WorkGroupID.x, pieces = p.columns / 8u, from = p.gather != 0u ? out_row[t] : t;
    float sum = 0.0, factor = 1.0;

    if (MODE != 0u) {
        for (uint i = gl_LocalInvocationID.x; i < pieces; i += gl_WorkGroupSize.x) {
            vec4 a = x[(from * pieces + i) * 2u], b = x[(from * pieces + i) * 2u + 1u];
            sum += dot(a, a) + dot(b, b);
        }
        sum = subgroupAdd(sum);
        if (subgroupElect())
            part[gl_SubgroupID] = sum;
        barrier();
        sum = 0.0;
        for (uint i = 0u; i < gl_NumSubgroups; i++)
            sum += part[i];
        factor = inversesqrt(sum / float(p.columns) + p.eps);
    }
    for (uint i = gl_LocalInvocationID.x; i < pieces; i += gl_WorkGroupSize.x) {
        vec4 a = x[(from * pieces + i) * 2u], b = x[(from * pieces + i) * 2u + 1u];
        if (MODE != 0u) {
            a *= factor * bf16_low(weight[i]);
            b *= factor * bf16_high(weight[i]);
        }
        put_packed(t * 2u * pieces + i, pieces, a, b);
    }
}
