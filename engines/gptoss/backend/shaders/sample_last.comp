#version 450
// The best of a row's parts.  Grid: rows.
#include "common.glsl"
#include "sample.glsl"
layout(push_constant) uniform P { push_sample p; };
layout(set = 0, binding = 0) readonly buffer B { uvec2 best[]; };
layout(set = 0, binding = 1) buffer O { uint sampled[]; };

void main()
{
    uint row = gl_WorkGroupID.x, id = NO_ID;
    float value = 0.0;

    for (uint i = gl_LocalInvocationID.x; i < p.parts; i += gl_WorkGroupSize.x) {
        uvec2 b = best[row * p.parts + i];
        take(value, id, uintBitsToFloat(b.x), b.y);
    }
    group_best(value, id);
    if (gl_LocalInvocationID.x == 0u)
        sampled[row] = id;
}
