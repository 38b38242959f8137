#version 450
// Short convolution of a sequence's tokens, in their order.  The state holds the last inputs of
// each channel, [input][channel].  Grid: (channels / 64, steps).
#include "common.glsl"
layout(push_constant) uniform P { push_state p; }; // n: channels, kernel, activation, has bias
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer V { float weight[]; };
layout(set = 0, binding = 2) readonly buffer B { float bias[]; };
layout(set = 0, binding = 3) buffer S { float state[]; };
layout(set = 0, binding = 4) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 5) buffer Y { float y[]; };

void main()
{
    uint channel = gl_GlobalInvocationID.x, at = p.step_at + gl_WorkGroupID.y * NATIVE_STEP_WORDS;
    uint own = p.state_at + inputs[at] * p.state_stride + channel, past = p.n1 - 1u;
    uint first = inputs[at + 1u], end = first + inputs[at + 2u];

    if (channel >= p.n0)
        return;
    for (uint t = first; t < end; t++) {
        float v = x[p.x_at + t * p.x_stride + channel], sum = weight[channel * p.n1 + past] * v;
        for (uint k = 0u; k < past; k++) {
            float old = state[own + k * p.n0];
            sum += weight[channel * p.n1 + k] * old;
            if (k > 0u)
                state[own + (k - 1u) * p.n0] = old;
        }
        if (past > 0u)
            state[own + (past - 1u) * p.n0] = v;
        y[p.y_at + t * p.y_stride + channel] = act_of(p.n2, p.n3 != 0u ? sum + bias[channel] : sum);
    }
}
