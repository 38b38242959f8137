#version 450
// Pairs of token and expert by expert, then tiles of up to NATIVE_GPU_TILE pairs of one expert:
// (expert, first, count).  One work group of 256.
#include "common.glsl"
layout(push_constant) uniform P { push_sort p; };
layout(set = 0, binding = 0) readonly buffer C { uint choice[]; };
layout(set = 0, binding = 1) buffer O { uint sorted[]; };

shared uint count[NATIVE_GPU_EXPERTS];
shared uint next[NATIVE_GPU_EXPERTS];
shared uint tile[NATIVE_GPU_EXPERTS];
shared uint tiles;

uint expert_of(uint pair)
{
    return min(choice[p.choice_at + pair / p.chosen * p.choice_stride + p.chosen + pair % p.chosen],
               p.experts - 1u);
}

void main()
{
    uint id = gl_LocalInvocationID.x, pairs = p.tokens * p.chosen;

    for (uint i = id; i < p.experts; i += 256u)
        count[i] = 0u;
    barrier();
    for (uint i = id; i < pairs; i += 256u)
        atomicAdd(count[expert_of(i)], 1u);
    barrier();
    if (id == 0u) {
        uint sum = 0u;
        tiles = 0u;
        for (uint i = 0u; i < p.experts; i++) {
            next[i] = sum;
            tile[i] = tiles;
            sum += count[i];
            tiles += (count[i] + NATIVE_GPU_TILE - 1u) / NATIVE_GPU_TILE;
        }
    }
    barrier();
    for (uint e = id; e < p.experts; e += 256u)
        for (uint i = 0u; i < count[e]; i += NATIVE_GPU_TILE) {
            uint at = pairs + (tile[e] + i / NATIVE_GPU_TILE) * 3u;
            sorted[at] = e;
            sorted[at + 1u] = next[e] + i;
            sorted[at + 2u] = min(count[e] - i, NATIVE_GPU_TILE);
        }
    for (uint i = tiles + id; i < p.tiles; i += 256u)
        sorted[pairs + i * 3u + 2u] = 0u;
    barrier();
    for (uint i = id; i < pairs; i += 256u)
        sorted[atomicAdd(next[expert_of(i)], 1u)] = i;
}
