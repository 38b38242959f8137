// gptoss/backend/shaders/many_mx_m.glsl - many_mx.glsl by cooperative matrices.
layout(constant_id = 1) const uint PARTS = 1u; // of packed numbers that are used
#define TWO_PARTS (PARTS == 2u)
layout(push_constant) uniform P { push_experts p; };
layout(set = 0, binding = 0) readonly buffer W { uvec2 blocks[]; };
layout(set = 0, binding = 1) readonly buffer S { uint scales[]; };
layout(set = 0, binding = 2) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 3) readonly buffer X { uvec4 packed[]; };
layout(set = 0, binding = 4) readonly buffer T { gpu_tile tiles[]; };
layout(set = 0, binding = 5) readonly buffer L { uint sorted[]; };
#include "tile_m.glsl"
#include "scale_m.glsl"

gpu_tile tile;
uvec2 fetched;
f16vec2 fetched_scale;

uint from_row(uint j);

uint token_at(uint i)
{
    return from_row(min(i, tile.count - 1u));
}

void fetch_weights(uint column)
{
    uint row = gl_WorkGroupID.x * TILE_ROWS + gl_LocalInvocationID.x / 2u;
    uint block = ((tile.expert - p.first) * p.rows + min(row, p.rows - 1u)) * (p.columns / 32u) + column / 32u;

    fetched = blocks[block * 2u + gl_LocalInvocationID.x % 2u];
    fetched_scale = scale_m(block);
}

void put_weights()
{
    uint at = gl_LocalInvocationID.x / 2u * STRIDE + gl_LocalInvocationID.x % 2u * 2u;

    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        f16vec2 v[4];
        codes_m(fetched[i], fetched_scale, v);
        tile_w[at + i] = uvec4(packFloat2x16(v[0]), packFloat2x16(v[1]), packFloat2x16(v[2]), packFloat2x16(v[3]));
    }
}

// False: there is nothing to do for this work group.
bool many_multiply()
{
    tile = tiles[gl_WorkGroupID.y];
    if (tile.count == 0u || tile.expert < p.first || tile.expert - p.first >= p.count)
        return false;
    tile_multiply(p.columns);
    return true;
}
