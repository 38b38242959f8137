#version 450
// One head of the gated delta rule, a sequence's tokens in their order.  The state is
// [key size][value size]; an invocation has columns of it.  Grid: (value heads, steps).
#include "common.glsl"
layout(push_constant) uniform P { push_state p; }; // n: key heads, value heads, key size, value size
layout(set = 0, binding = 0) readonly buffer X { float x[]; }; // queries, keys, values
layout(set = 0, binding = 1) readonly buffer B { float beta[]; };
layout(set = 0, binding = 2) readonly buffer A { float decay[]; };
layout(set = 0, binding = 3) readonly buffer R { float rate[]; };
layout(set = 0, binding = 4) readonly buffer D { float bias[]; };
layout(set = 0, binding = 5) buffer S { float state[]; };
layout(set = 0, binding = 6) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 7) buffer Y { float y[]; };

shared float query[NATIVE_GPU_HEAD];
shared float key[NATIVE_GPU_HEAD];

float unit_factor(uint at)
{
    float square = 0.0;

    for (uint d = gl_LocalInvocationID.x; d < p.n2; d += gl_WorkGroupSize.x)
        square += x[at + d] * x[at + d];
    return inversesqrt(group_add(square) + 1e-6);
}

void main()
{
    uint head = gl_WorkGroupID.x, at = p.step_at + gl_WorkGroupID.y * NATIVE_STEP_WORDS;
    uint own = p.state_at + inputs[at] * p.state_stride + head * p.n2 * p.n3, id = gl_LocalInvocationID.x;
    uint key_head = head / (p.n1 / p.n0), keys = p.n0 * p.n2;
    uint first = inputs[at + 1u], end = first + inputs[at + 2u];

    for (uint t = first; t < end; t++) {
        uint from = p.x_at + t * p.x_stride + key_head * p.n2;
        float q = unit_factor(from) * inversesqrt(float(p.n2)), k = unit_factor(from + keys);
        for (uint d = id; d < p.n2; d += gl_WorkGroupSize.x) {
            query[d] = x[from + d] * q;
            key[d] = x[from + keys + d] * k;
        }
        float fade = exp(-exp(rate[head]) * softplus_of(decay[p.b_at + t * p.b_stride + head] + bias[head]));
        float learn = sigmoid_of(beta[p.a_at + t * p.a_stride + head]);
        barrier();
        for (uint i = id; i < p.n3; i += gl_WorkGroupSize.x) {
            float known = 0.0, result = 0.0;
            for (uint d = 0u; d < p.n2; d++) {
                float v = state[own + d * p.n3 + i] * fade;
                state[own + d * p.n3 + i] = v;
                known += v * key[d];
            }
            float gain = (x[p.x_at + t * p.x_stride + 2u * keys + head * p.n3 + i] - known) * learn;
            for (uint d = 0u; d < p.n2; d++) {
                float v = state[own + d * p.n3 + i] + key[d] * gain;
                state[own + d * p.n3 + i] = v;
                result += v * query[d];
            }
            y[p.y_at + t * p.y_stride + head * p.n3 + i] = result;
        }
    }
}
