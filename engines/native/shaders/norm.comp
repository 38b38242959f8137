#version 450
// RMS and layer norm of each group of a row.  Grid: (groups, tokens).
#include "common.glsl"
layout(push_constant) uniform P { push_norm p; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer G { float gate[]; };
layout(set = 0, binding = 2) readonly buffer V { float weight[]; };
layout(set = 0, binding = 3) readonly buffer S { float shift[]; };
layout(set = 0, binding = 4) buffer Y { float y[]; };

float gate_of(uint i)
{
    float g = gate[p.gate_at + gl_WorkGroupID.y * p.gate_stride + i];

    return g * sigmoid_of(g);
}

float value_of(uint i)
{
    float v = x[p.x_at + gl_WorkGroupID.y * p.x_stride + i];

    return (p.flags & NATIVE_NORM_GATE) != 0u && (p.flags & NATIVE_NORM_GATE_FIRST) != 0u ? v * gate_of(i) : v;
}

void main()
{
    uint begin = gl_WorkGroupID.x * p.group, id = gl_LocalInvocationID.x;
    float middle = 0.0, square = 0.0;

    if ((p.flags & NATIVE_NORM_LAYER) != 0u) {
        for (uint i = id; i < p.group; i += gl_WorkGroupSize.x)
            middle += value_of(begin + i);
        middle = group_add(middle) / float(p.group);
    }
    for (uint i = id; i < p.group; i += gl_WorkGroupSize.x) {
        float v = value_of(begin + i) - middle;
        square += v * v;
    }
    float factor = inversesqrt(group_add(square) / float(p.group) + p.eps);
    for (uint i = id; i < p.group; i += gl_WorkGroupSize.x) {
        uint at = (p.flags & NATIVE_NORM_WIDE) != 0u ? begin + i : i;
        float v = (value_of(begin + i) - middle) * factor;
        if ((p.flags & NATIVE_NORM_WEIGHT) != 0u)
            v *= weight[at] + ((p.flags & NATIVE_NORM_PLUS_ONE) != 0u ? 1.0 : 0.0);
        if ((p.flags & NATIVE_NORM_SHIFT) != 0u)
            v += shift[at];
        if ((p.flags & NATIVE_NORM_GATE) != 0u && (p.flags & NATIVE_NORM_GATE_FIRST) == 0u)
            v *= gate_of(begin + i);
        y[p.y_at + gl_WorkGroupID.y * p.y_stride + begin + i] = v;
    }
}
