#version 450
// The mean of a text's rows.  Grid: (width / 64, texts).
#include "common.glsl"
layout(push_constant) uniform P { push_pool p; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 2) buffer Y { float y[]; };

void main()
{
    uint i = gl_GlobalInvocationID.x, at = p.text_at + gl_WorkGroupID.y * 2u;
    uint from = inputs[at], to = inputs[at + 1u];
    float sum = 0.0;

    if (i >= p.width)
        return;
    for (uint t = from; t < to; t++)
        sum += x[p.x_at + t * p.x_stride + i];
    y[p.y_at + gl_WorkGroupID.y * p.y_stride + i] = sum / float(to - from);
}
