#version 450
// y[t] = weight . x[t] + bias for many tokens.  Grid: (rows / 128, tokens / 64).
#include "common.glsl"
#include "tile.glsl"
layout(constant_id = 1) const uint MODE = 0u; // 2: add to y, 4: bias
layout(push_constant) uniform P { push_dense p; };
layout(set = 0, binding = 0) readonly buffer W { uvec4 weight[]; };
layout(set = 0, binding = 1) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 2) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };

void load_weights(uint column)
{
    for (uint i = gl_LocalInvocationID.x; i < TILE_ROWS * 4u; i += 256u) {
        uint row = i % TILE_ROWS, piece = i / TILE_ROWS, from = gl_WorkGroupID.x * TILE_ROWS + row;
        uvec4 w = weight[min(from, p.count - 1u) * (p.columns / 8u) + column / 8u + piece];
        vec4 low = bf16_low(w), high = bf16_high(w);
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            tile_put_weight(piece * 8u + j, row, low[j]);
            tile_put_weight(piece * 8u + 4u + j, row, high[j]);
        }
    }
}

void load_tokens(uint column)
{
    for (uint i = gl_LocalInvocationID.x; i < TILE_TOKENS * 8u; i += 256u) {
        uint token = i % TILE_TOKENS, piece = i / TILE_TOKENS;
        uint from = min(gl_WorkGroupID.y * TILE_TOKENS + token, p.tokens - 1u);
        vec4 v = x[from * (p.columns / 4u) + column / 4u + piece];
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            tile_x[piece * 4u + j][token] = v[j];
    }
}

void main()
{
    tile_multiply(p.columns);
    [[unroll]] for (uint i = 0u; i < TOKENS; i++) {
        uint t = gl_WorkGroupID.y * TILE_TOKENS + tile_token(i);
        [[unroll]] for (uint q = 0u; q < QUADS; q++)
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                uint row = gl_WorkGroupID.x * TILE_ROWS + tile_row(q) + j;
                if (t >= p.tokens || row >= p.count)
                    continue;
                row += p.first;
                float v = tile_sum[q][i][j];
                if ((MODE & 4u) != 0u)
                    v += bf16_of(bias[row / 2u], row);
                if ((MODE & 2u) != 0u)
                    v += y[t * p.y_stride + row];
                y[t * p.y_stride + row] = v;
            }
    }
}
