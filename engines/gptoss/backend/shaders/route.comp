#version 450
// The experts of many tokens, from the router's logits.  Grid: tokens, one invocation each.
#include "common.glsl"
layout(push_constant) uniform P { push_route p; };
layout(set = 0, binding = 0) readonly buffer L { float logits[]; };
layout(set = 0, binding = 1) buffer C { uvec2 choice[]; };

void main()
{
    uint t = gl_GlobalInvocationID.x;
    uint chosen[8];
    float best[8], sum = 0.0;

    if (t >= p.tokens)
        return;
    for (uint n = 0u; n < p.chosen; n++) {
        uint id = 0xFFFFFFFFu;
        float high = 0.0;
        for (uint e = 0u; e < p.experts; e++) {
            bool taken = false;
            for (uint i = 0u; i < n; i++)
                taken = taken || chosen[i] == e;
            float v = logits[t * p.experts + e];
            if (!taken && (id == 0xFFFFFFFFu || v > high)) {
                high = v;
                id = e;
            }
        }
        chosen[n] = id;
        best[n] = high;
        sum += exp(high - best[0]);
    }
    for (uint n = 0u; n < p.chosen; n++)
        choice[t * p.chosen + n] = uvec2(chosen[n], floatBitsToUint(exp(best[n] - best[0]) / sum));
}
