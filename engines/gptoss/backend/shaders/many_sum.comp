#version 450
// x[t] += the results of its experts, in the order of their rank.  Grid: (columns, tokens).
#include "common.glsl"
layout(push_constant) uniform P { push_route p; };
layout(set = 0, binding = 0) readonly buffer Y { float y[]; };
layout(set = 0, binding = 1) buffer X { float x[]; };

void main()
{
    uint i = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y;
    float sum = 0.0;

    if (i >= p.columns)
        return;
    for (uint n = 0u; n < p.chosen; n++)
        sum += y[(t * p.chosen + n) * p.columns + i];
    x[t * p.columns + i] += sum;
}
