#version 450
// The first matrix of the experts and SwiGLU, for many tokens; `inner` is in the order of
// `sorted`.  Grid: (rows / 128, tiles).
#include "common.glsl"
#include "many_mx.glsl"
layout(set = 0, binding = 6) buffer I { float inner[]; };

uint from_row(uint j)
{
    return sorted[tile.first + j] / p.chosen;
}

void main()
{
    if (!many_multiply())
        return;
    [[unroll]] for (uint i = 0u; i < TOKENS; i++)
        [[unroll]] for (uint q = 0u; q < QUADS; q++)
            [[unroll]] for (uint j = 0u; j < 4u; j += 2u) {
                uint token = tile_token(i), row = gl_WorkGroupID.x * TILE_ROWS + tile_row(q) + j;
                if (token >= tile.count || row >= p.rows)
                    continue;
                vec2 b = bf16_pair(bias[bias_of(tile.expert, row) / 2u]);
                inner[(tile.first + token) * (p.rows / 2u) + row / 2u] = sigmoid_gate(
                    tile_sum[q][i][j] + b.x, tile_sum[q][i][j + 1u] + b.y, p.limit);
            }
}
