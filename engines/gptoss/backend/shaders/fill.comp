#version 450
// Benchmarks without a file: random weights of a trained model's size.  Grid: any.
#include "common.glsl"
layout(push_constant) uniform P { push_fill p; };
layout(set = 0, binding = 0) buffer O { uint words[]; };

void main()
{
    for (uint i = gl_GlobalInvocationID.x; i < p.words; i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint h = (i ^ p.seed) * 0x85EBCA6Bu;
        h = (h ^ h >> 13) * 0xC2B2AE35u;
        h ^= h >> 16;
        if (p.kind == GPU_FILL_BF16) // pairs of about +-0.02
            h = (h & 0x807F807Fu) | 0x3C003C00u | (h >> 3 & 0x00800080u);
        else if (p.kind == GPU_FILL_SCALES) // 2^-6, 2^-7
            h = 0x78787878u + (h & 0x01010101u);
        else if (p.kind == GPU_FILL_ONES)
            h = 0x3F803F80u;
        words[i] = h;
    }
}
