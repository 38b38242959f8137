#version 450
// RMS norm of a row.  Grid: rows; one work group each.
#include "common.glsl"
layout(push_constant) uniform P { push_norm p; };
layout(set = 0, binding = 0) readonly buffer X { vec2 x[]; };
layout(set = 0, binding = 1) readonly buffer W { uint weight[]; };
layout(set = 0, binding = 2) readonly buffer O { uint out_row[]; };
layout(set = 0, binding = 3) buffer Y { vec2 y[]; };
shared float part[64];

void main()
{
    uint t = gl_WorkGroupID.x, pairs = p.columns / 2u, from = p.gather != 0u ? out_row[t] : t;
    float sum = 0.0;

    for (uint i = gl_LocalInvocationID.x; i < pairs; i += gl_WorkGroupSize.x) {
        vec2 v = x[from * pairs + i];
        sum += dot(v, v);
    }
    sum = subgroupAdd(sum);
    if (subgroupElect())
        part[gl_SubgroupID] = sum;
    barrier();
    sum = 0.0;
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        sum += part[i];
    float factor = inversesqrt(sum / float(p.columns) + p.eps);
    for (uint i = gl_LocalInvocationID.x; i < pairs; i += gl_WorkGroupSize.x)
        y[t * pairs + i] = bf16_pair(weight[i]) * (x[from * pairs + i] * factor);
}
