#version 450
// many_up by cooperative matrices; x and inner are packed.  Grid: (rows / 128, tiles).
#include "common.glsl"
#include "many_mx_m.glsl"
layout(set = 0, binding = 6) buffer I { uvec4 y[]; };
#include "pack.glsl"

uint from_row(uint j)
{
    return sorted[tile.first + j] / p.chosen;
}

void main()
{
    if (!many_multiply())
        return;
    [[unroll]] for (uint r = 0u; r < ROW_PARTS; r++)
        [[unroll]] for (uint n = 0u; n < TOKEN_PARTS; n++) {
            uint row, token, me = gl_SubgroupInvocationID;
            tile_take(r, n, row, token);
            row += gl_WorkGroupID.x * TILE_ROWS;
            if (me >= 16u || token + me >= tile.count || row >= p.rows)
                continue;
            vec4 v[2];
            [[unroll]] for (uint c = 0u; c < 8u; c++) {
                vec2 b = bf16_pair(bias[(tile.expert * p.rows + row) / 2u + c]);
                v[c / 4u][c % 4u] = sigmoid_gate(tile_part[gl_SubgroupID][me * 16u + 2u * c] * UNSCALED + b.x,
                                                 tile_part[gl_SubgroupID][me * 16u + 2u * c + 1u] * UNSCALED + b.y, p.limit);
            }
            uint pieces = p.rows / 16u;
            put_packed((tile.first + token + me) * 2u * pieces + row / 16u, pieces, v[0], v[1]);
        }
}
