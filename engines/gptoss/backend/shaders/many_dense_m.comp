#version 450
// many_dense by cooperative matrices; x is packed.  Grid: (rows / 128, tokens / 64).
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 0u; // 2: add to y, 4: bias, 16: both parts of packed numbers
#define TWO_PARTS   ((MODE & 16u) != 0u)
layout(push_constant) uniform P { push_dense p; };
layout(set = 0, binding = 0) readonly buffer W { uvec4 weight[]; };
layout(set = 0, binding = 1) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 2) readonly buffer X { uvec4 packed[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };
#include "tile_m.glsl"
uvec4 fetched[2];

uint token_at(uint i)
{
    return min(gl_WorkGroupID.y * TILE_TOKENS + i, p.tokens - 1u);
}

void fetch_weights(uint column)
{
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint at = gl_LocalInvocationID.x + i * 256u, row = gl_WorkGroupID.x * TILE_ROWS + at / 4u;
        fetched[i] = weight[min(row, p.count - 1u) * (p.columns / 8u) + column / 8u + at % 4u];
    }
}

void put_weights()
{
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint at = gl_LocalInvocationID.x + i * 256u;
        vec4 a = bf16_low(fetched[i]), b = bf16_high(fetched[i]);
        tile_w[at / 4u * STRIDE + at % 4u] = uvec4(packHalf2x16(vec2(a.x, b.x)), packHalf2x16(vec2(a.y, b.y)),
                                                   packHalf2x16(vec2(a.z, b.z)), packHalf2x16(vec2(a.w, b.w)));
    }
}

void main()
{
    tile_multiply(p.columns);
    [[unroll]] for (uint r = 0u; r < ROW_PARTS; r++)
        [[unroll]] for (uint n = 0u; n < TOKEN_PARTS; n++) {
            uint first, token;
            tile_take(r, n, first, token);
            for (uint i = gl_SubgroupInvocationID; i < 256u; i += 32u) {
                uint t = gl_WorkGroupID.y * TILE_TOKENS + token + i / 16u;
                uint row = gl_WorkGroupID.x * TILE_ROWS + first + i % 16u;
                if (t >= p.tokens || row >= p.count)
                    continue;
                row += p.first;
                float v = tile_part[gl_SubgroupID][i];
                if ((MODE & 4u) != 0u)
                    v += bf16_of(bias[row / 2u], row);
                if ((MODE & 2u) != 0u)
                    v += y[t * p.y_stride + row];
                y[t * p.y_stride + row] = v;
            }
        }
}
