#version 450
// many_down by cooperative matrices; inner is packed.  Grid: (rows / 128, tiles).
#include "common.glsl"
#include "many_mx_m.glsl"
layout(set = 0, binding = 6) readonly buffer C { uvec2 choice[]; };
layout(set = 0, binding = 7) buffer Y { float y[]; };

uint from_row(uint j)
{
    return tile.first + j;
}

void main()
{
    if (!many_multiply())
        return;
    [[unroll]] for (uint r = 0u; r < ROW_PARTS; r++)
        [[unroll]] for (uint n = 0u; n < TOKEN_PARTS; n++) {
            uint first, token;
            tile_take(r, n, first, token);
            for (uint i = gl_SubgroupInvocationID; i < 256u; i += 32u) {
                uint row = gl_WorkGroupID.x * TILE_ROWS + first + i % 16u;
                if (token + i / 16u >= tile.count || row >= p.rows)
                    continue;
                uint pair = sorted[tile.first + token + i / 16u], at = tile.expert * p.rows + row;
                y[pair * p.rows + row] = uintBitsToFloat(choice[pair].y) *
                                         (tile_part[gl_SubgroupID][i] * UNSCALED + bf16_of(bias[at / 2u], at));
            }
        }
}
