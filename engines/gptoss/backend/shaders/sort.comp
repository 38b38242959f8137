#version 450
// Groups the pairs (token, rank) by expert, and cuts each group into tiles of TILE tokens.
// One work group.
#include "common.glsl"
layout(constant_id = 1) const uint TILE = 64u;
layout(push_constant) uniform P { push_route p; };
layout(set = 0, binding = 0) readonly buffer C { uvec2 choice[]; };
layout(set = 0, binding = 1) buffer L { uint sorted[]; };
layout(set = 0, binding = 2) buffer T { gpu_tile tiles[]; };
shared uint count[256], first[256], first_tile[257];

void main()
{
    uint pairs = p.tokens * p.chosen, me = gl_LocalInvocationID.x, most = pairs / TILE + p.experts;

    for (uint e = me; e < p.experts; e += gl_WorkGroupSize.x)
        count[e] = 0u;
    barrier();
    for (uint i = me; i < pairs; i += gl_WorkGroupSize.x)
        atomicAdd(count[choice[i].x], 1u);
    barrier();
    if (me == 0u) {
        uint sum = 0u, tile = 0u;
        for (uint e = 0u; e < p.experts; e++) {
            first[e] = sum;
            first_tile[e] = tile;
            sum += count[e];
            tile += (count[e] + TILE - 1u) / TILE;
        }
        first_tile[p.experts] = tile;
    }
    barrier();
    for (uint e = me; e < p.experts; e += gl_WorkGroupSize.x)
        for (uint i = first_tile[e]; i < first_tile[e + 1u]; i++) {
            uint done = (i - first_tile[e]) * TILE;
            tiles[i] = gpu_tile(e, first[e] + done, min(TILE, count[e] - done), 0u);
        }
    for (uint i = first_tile[p.experts] + me; i < most; i += gl_WorkGroupSize.x)
        tiles[i] = gpu_tile(0u, 0u, 0u, 0u);
    barrier();
    for (uint e = me; e < p.experts; e += gl_WorkGroupSize.x)
        count[e] = 0u;
    barrier();
    for (uint i = me; i < pairs; i += gl_WorkGroupSize.x) {
        uint e = choice[i].x;
        sorted[first[e] + atomicAdd(count[e], 1u)] = i;
    }
}
