#version 450
// The second matrix of the experts times the expert's weight, for many tokens; the result is in
// the order of the tokens and their experts.  Grid: (rows / 128, tiles).
#include "common.glsl"
#include "many_mx.glsl"
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
    [[unroll]] for (uint i = 0u; i < TOKENS; i++) {
        uint token = tile_token(i);
        if (token >= tile.count)
            continue;
        uint pair = sorted[tile.first + token];
        float weight = uintBitsToFloat(choice[pair].y);
        [[unroll]] for (uint q = 0u; q < QUADS; q++)
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uint row = gl_WorkGroupID.x * TILE_ROWS + tile_row(q) + j;
                if (row >= p.rows)
                    continue;
                uint at = bias_of(tile.expert, row);
                y[pair * p.rows + row] =
                    weight * (tile_sum[q][i][j] + bf16_of(bias[at / 2u], at));
            }
    }
}
