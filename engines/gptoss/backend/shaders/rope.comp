#version 450
// The rotation and the pages for many tokens: x is [token][q, k, v], q is written to its own
// buffer.  Grid: (quads, tokens).
#include "common.glsl"
layout(constant_id = 1) const uint MODE = 0u; // 1: PAIRED of rope.glsl
#define PAIRED (MODE != 0u)
layout(push_constant) uniform P { push_qkv p; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer I { gpu_row info[]; };
layout(set = 0, binding = 2) readonly buffer R { float rope[]; };
layout(set = 0, binding = 3) buffer Q { float q[]; };
layout(set = 0, binding = 4) buffer KV { uint kv[]; };
#include "rope.glsl"

void main()
{
    uint quad = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y;
    uint rows = (p.heads + 2u * p.kv_heads) * 64u;

    if (quad * 4u >= rows)
        return;
    uint row = quad / 16u * 64u + quad % 16u * 2u, at = t * rows + row;
    put(t, row, vec4(x[at + stored(row, 0u)], x[at + stored(row, 1u)], x[at + stored(row, 2u)],
                     x[at + stored(row, 3u)]));
}
