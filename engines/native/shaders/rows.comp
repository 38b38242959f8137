#version 450
// Operations on each value of a row alone; which one, and what n and f are: push.h.
// Grid: (count / 64, tokens).
#include "common.glsl"
layout(push_constant) uniform P { push_rows p; };
layout(set = 0, binding = 0) readonly buffer A { float a[]; };
layout(set = 0, binding = 1) readonly buffer B { float b[]; };
layout(set = 0, binding = 2) readonly buffer V { float vector[]; };
layout(set = 0, binding = 3) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 4) buffer Y { float y[]; };

float glu_of(uint at, uint i)
{
    float gate = a[at + (p.n1 != 0u ? 2u * i : i)];
    float up = a[at + (p.n1 != 0u ? 2u * i + 1u : p.count + i)];

    if (p.n0 != 6u)
        return act_of(p.n0, gate) * up;
    gate = min(gate, p.f);
    return gate * sigmoid_of(1.702 * gate) * (clamp(up, -p.f, p.f) + 1.0);
}

void rotate(uint at, uint i, uint token)
{
    uint head = i / p.n0, pair = i % p.n0, angle = p.n4 + token * 2u * p.n0 + pair;
    uint first = at + head * p.n1 + p.n2 + (p.n3 != 0u ? 2u * pair : pair);
    uint second = first + (p.n3 != 0u ? 1u : p.n0);
    float cosine = uintBitsToFloat(inputs[angle]), sine = uintBitsToFloat(inputs[angle + p.n0]);
    float u = y[first], v = y[second];

    y[first] = u * cosine - v * sine;
    y[second] = v * cosine + u * sine;
}

void main()
{
    uint i = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    uint from = p.a_at + token * p.a_stride, beside = p.b_at + token * p.b_stride;
    uint to = p.y_at + token * p.y_stride;

    if (i >= p.count)
        return;
    switch (p.kind) {
    case NATIVE_ROWS_SLICE:
        y[to + i / p.n0 * p.n3 + p.n4 + i % p.n0] = a[from + i / p.n0 * p.n1 + p.n2 + i % p.n0];
        break;
    case NATIVE_ROWS_GATE:
        y[to + i] = a[from + i] * act_of(p.n0, b[beside + i / p.n1]);
        break;
    case NATIVE_ROWS_ACT:
        y[to + i] = act_of(p.n0, a[from + i]);
        break;
    case NATIVE_ROWS_ADD:
        y[to + i] += p.f * b[beside + i];
        break;
    case NATIVE_ROWS_SCALE:
        y[to + i] *= p.f * (p.n0 != 0u ? vector[i % p.n0] : 1.0);
        break;
    case NATIVE_ROWS_SOFTCAP:
        y[to + i] = p.f * tanh_of(y[to + i] / p.f);
        break;
    case NATIVE_ROWS_GLU:
        y[to + i] = glu_of(from, i);
        break;
    case NATIVE_ROWS_COMBINE: {
        float sum = 0.0;
        for (uint n = 0u; n < p.n0; n++)
            sum += b[beside + n] * a[p.a_at + (token * p.n0 + n) * p.a_stride + i];
        y[to + i] = sum;
        break;
    }
    case NATIVE_ROWS_ROPE:
        rotate(to, i, token);
        break;
    }
}
