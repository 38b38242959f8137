#version 450
// One head of a state space, a sequence's tokens in their order.  The state is
// [state size][head size]; an invocation has columns of it.  Grid: (heads, steps).
#include "common.glsl"
layout(push_constant) uniform P { push_state p; }; // n: heads, head size, groups, state size
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer T { float times[]; };
layout(set = 0, binding = 2) readonly buffer R { float rate[]; };
layout(set = 0, binding = 3) readonly buffer K { float skip[]; };
layout(set = 0, binding = 4) readonly buffer B { float bias[]; };
layout(set = 0, binding = 5) buffer S { float state[]; };
layout(set = 0, binding = 6) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 7) buffer Y { float y[]; };

void main()
{
    uint head = gl_WorkGroupID.x, at = p.step_at + gl_WorkGroupID.y * NATIVE_STEP_WORDS;
    uint own = p.state_at + inputs[at] * p.state_stride + head * p.n1 * p.n3;
    uint group = head / (p.n0 / p.n2), inner = p.n0 * p.n1;
    uint first = inputs[at + 1u], end = first + inputs[at + 2u];

    for (uint t = first; t < end; t++) {
        uint from = p.x_at + t * p.x_stride;
        float dt = clamp(softplus_of(times[p.a_at + t * p.a_stride + head] + bias[head]), p.f0, p.f1);
        float fade = exp(-exp(rate[head]) * dt);
        for (uint i = gl_LocalInvocationID.x; i < p.n1; i += gl_WorkGroupSize.x) {
            float v = x[from + head * p.n1 + i], result = skip[head] * v;
            for (uint s = 0u; s < p.n3; s++) {
                uint place = own + s * p.n1 + i;
                float kept = state[place] * fade + dt * x[from + inner + group * p.n3 + s] * v;
                state[place] = kept;
                result += kept * x[from + inner + (p.n2 + group) * p.n3 + s];
            }
            y[p.y_at + t * p.y_stride + head * p.n1 + i] = result;
        }
    }
}
