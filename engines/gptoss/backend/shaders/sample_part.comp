#version 450
// The plain sampling of sampler/sampler.h: greedy, or temperature with Gumbel noise.
// Grid: (parts, rows); sample_last compares the parts.
#include "common.glsl"
#include "sample.glsl"
layout(push_constant) uniform P { push_sample p; };
layout(set = 0, binding = 0) readonly buffer L { float logits[]; };
layout(set = 0, binding = 1) readonly buffer U { uint usable[]; };
layout(set = 0, binding = 2) readonly buffer H { gpu_sample how[]; };
layout(set = 0, binding = 3) buffer B { uvec2 best[]; };

uvec4 philox(uint k0, uint k1, uint c0, uint c1)
{
    uvec4 c = uvec4(c0, c1, 0u, 0u);

    [[unroll]] for (uint i = 0u; i < 10u; i++) {
        uint h0, l0, h1, l1;
        umulExtended(0xD2511F53u, c.x, h0, l0);
        umulExtended(0xCD9E8D57u, c.z, h1, l1);
        c = uvec4(h1 ^ c.y ^ k0, l1, h0 ^ c.w ^ k1, l0);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

// The logarithm to float32 precision also near 1, where the built-in one may be wrong by 2^-21.
float exact_log(float v)
{
    uint bits = floatBitsToUint(v);
    int e = int(bits >> 23) - 127;
    float m = uintBitsToFloat((bits & 0x7FFFFFu) | 0x3F800000u);

    if (m > 1.41421356) {
        m *= 0.5;
        e++;
    }
    float s = (m - 1.0) / (m + 1.0), q = s * s;
    float series = q * (1.0 / 3.0 + q * (0.2 + q * (1.0 / 7.0 + q * (1.0 / 9.0 + q / 11.0))));
    return float(e) * 0.693147181 + 2.0 * (s + s * series);
}

float gumbel(uint word)
{
    float u = (float(word >> 9) + 0.5) * (1.0 / 8388608.0);

    return -exact_log(-exact_log(u));
}

void main()
{
    uint row = gl_WorkGroupID.y;
    gpu_sample s = how[row];
    float value = 0.0;
    uint id = NO_ID;

    for (uint quad = gl_GlobalInvocationID.x; quad < (p.vocab + 3u) / 4u;
         quad += p.parts * gl_WorkGroupSize.x) {
        uint legal = usable[quad / 8u] >> quad % 8u * 4u & 15u;
        uvec4 words = uvec4(0u);
        if (legal != 0u && s.temperature > 0.0)
            words = philox(s.seed_low, s.seed_high, quad, s.index);
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            if (quad * 4u + i >= p.vocab || (legal >> i & 1u) == 0u)
                continue;
            float v = logits[row * p.stride + quad * 4u + i];
            if (s.temperature > 0.0)
                v = v / s.temperature + gumbel(words[i]);
            take(value, id, v, quad * 4u + i);
        }
    }
    group_best(value, id);
    if (gl_LocalInvocationID.x == 0u)
        best[row * p.parts + gl_WorkGroupID.x] = uvec2(floatBitsToUint(value), id);
}
