// gptoss/backend/shaders/many_mx.glsl - a tile of an expert's MXFP4 matrix for the tokens of
// that expert.  from_row(j): the row of activations of the tile's token j.
#include "tile.glsl"
#include "strides.glsl"
layout(set = 0, binding = 0) readonly buffer W { uvec2 blocks[]; };
layout(set = 0, binding = 1) readonly buffer S { uint scales[]; };
layout(set = 0, binding = 2) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 3) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 4) readonly buffer T { gpu_tile tiles[]; };
layout(set = 0, binding = 5) readonly buffer L { uint sorted[]; };
shared uint token_row[TILE_TOKENS];

gpu_tile tile;

uint from_row(uint j);

void load_weights(uint column)
{
    uint row = gl_LocalInvocationID.x % TILE_ROWS, part = gl_LocalInvocationID.x / TILE_ROWS;
    uint from = min(gl_WorkGroupID.x * TILE_ROWS + row, p.rows - 1u);
    uint block = block_of(tile.expert, from) + column / 32u, at = block + scale_shift(tile.expert);
    uvec2 w = blocks[block * 2u + part];
    float scale = mx_scale(scales[at / 4u] >> at % 4u * 8u & 255u, p.excess);

    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint k = part * 16u + i * 8u;
        vec4 low, high;
        mx_values(w[i], low, high);
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            tile_put_weight(k + j, row, low[j] * scale);
            tile_put_weight(k + 4u + j, row, high[j] * scale);
        }
    }
}

void load_tokens(uint column)
{
    for (uint i = gl_LocalInvocationID.x; i < TILE_TOKENS * 8u; i += 256u) {
        uint token = i % TILE_TOKENS, piece = i / TILE_TOKENS;
        vec4 v = x[token_row[token] * (p.columns / 4u) + column / 4u + piece];
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            tile_x[piece * 4u + j][token] = v[j];
    }
}

// False: there is nothing to do for this work group.
bool many_multiply()
{
    tile = tiles[gl_WorkGroupID.y];
    if (tile.count == 0u || tile.expert < p.first || tile.expert - p.first >= p.count)
        return false;
    if (gl_LocalInvocationID.x < TILE_TOKENS)
        token_row[gl_LocalInvocationID.x] = from_row(min(gl_LocalInvocationID.x, tile.count - 1u));
    barrier();
    tile_multiply(p.columns);
    return true;
}
