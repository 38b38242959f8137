#version 450
// The router's logits of a few tokens: norm, product, bias.  A work group computes one expert for
// eight tokens, so that this short step has little to wait for.  With PACK the groups also write
// the normalized tokens as pack.comp does, each a share of them.  Grid: (experts, tokens / 8).
#include "common.glsl"
layout(push_constant) uniform P { push_dense p; };
layout(set = 0, binding = 0) readonly buffer W { uvec2 weight[]; };
layout(set = 0, binding = 1) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 2) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 3) readonly buffer N { uvec2 norm[]; };
#ifdef PACK
layout(set = 0, binding = 4) buffer R { float result[]; };
layout(set = 0, binding = 5) buffer Y { uvec4 y[]; };
#include "pack.glsl"
#else
layout(set = 0, binding = 4) buffer R { float result[]; };
#endif
#define TOKENS 8u
shared vec2 part[TOKENS][64]; // of a subgroup: product, sum of squares

void main()
{
    uint row = gl_WorkGroupID.x, pieces = p.columns / 4u;
    uint base = gl_WorkGroupID.y * TOKENS, count = min(p.tokens - base, TOKENS);
    vec2 sum[TOKENS];

    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        sum[t] = vec2(0.0);
    for (uint i = gl_LocalInvocationID.x; i < pieces; i += gl_WorkGroupSize.x) {
        uvec2 w = weight[row * pieces + i], n = norm[i];
        vec4 wn = vec4(bf16_pair(w.x), bf16_pair(w.y)) * vec4(bf16_pair(n.x), bf16_pair(n.y));
        [[unroll]] for (uint t = 0u; t < TOKENS; t++)
            if (t < count) {
                vec4 v = x[(base + t) * pieces + i];
                sum[t] += vec2(dot(v, wn), dot(v, v));
            }
    }
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        if (t < count) {
            vec2 all = vec2(subgroupAdd(sum[t].x), subgroupAdd(sum[t].y));
            if (subgroupElect())
                part[t][gl_SubgroupID] = all;
        }
    barrier();
#ifdef PACK
    for (uint i = gl_WorkGroupID.x * gl_WorkGroupSize.x + gl_LocalInvocationID.x; i < count * (pieces / 2u);
         i += gl_NumWorkGroups.x * gl_WorkGroupSize.x) {
        uint t = i / (pieces / 2u), at = i % (pieces / 2u);
        float square = 0.0;
        for (uint n = 0u; n < gl_NumSubgroups; n++)
            square += part[t][n].y;
        float factor = inversesqrt(square / float(p.columns) + p.eps);
        uvec2 n0 = norm[at * 2u], n1 = norm[at * 2u + 1u];
        t += base;
        put_packed(t * pieces + at, pieces / 2u,
                   x[t * pieces + at * 2u] * factor * vec4(bf16_pair(n0.x), bf16_pair(n0.y)),
                   x[t * pieces + at * 2u + 1u] * factor * vec4(bf16_pair(n1.x), bf16_pair(n1.y)));
    }
#endif
    uint t = gl_LocalInvocationID.x;
    if (t >= count)
        return;
    vec2 all = vec2(0.0);
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        all += part[t][i];
    uint at = p.first + row;
    result[(base + t) * p.y_stride + at] = all.x * inversesqrt(all.y / float(p.columns) + p.eps) +
                                  bf16_of(bias[at / 2u], at);
}
