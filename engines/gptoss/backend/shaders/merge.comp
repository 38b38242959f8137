#version 450
// Adds up the splits of attention.  Grid: (heads, rows), one work group of 64 each.
#include "common.glsl"
layout(push_constant) uniform P { push_attend p; };
layout(set = 0, binding = 0) readonly buffer A { float part[]; };
layout(set = 0, binding = 1) readonly buffer S { uint sinks[]; };
layout(set = 0, binding = 2) buffer O { float result[]; };

void main()
{
    uint head = gl_WorkGroupID.x, row = gl_WorkGroupID.y;

    for (uint d = gl_LocalInvocationID.x; d < 64u; d += gl_WorkGroupSize.x) {
        uint at = (row * p.heads + head) * p.splits * 66u;
        float sink = bf16_of(sinks[head / 2u], head), high = sink, sum = 0.0;
        for (uint s = 0u; s < p.splits; s++)
            high = max(high, part[at + s * 66u + 64u]);
        float w = exp(sink - high);
        for (uint s = 0u; s < p.splits; s++) {
            float f = exp(part[at + s * 66u + 64u] - high);
            w += f * part[at + s * 66u + 65u];
            sum += f * part[at + s * 66u + d];
        }
        result[((p.row + row) * p.heads + head) * 64u + d] = sum / w;
    }
}
