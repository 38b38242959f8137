#version 450
// Rows of the embedding table, as float32.  Grid: (columns, rows).
#include "common.glsl"
layout(push_constant) uniform P { push_embed p; };
layout(set = 0, binding = 0) readonly buffer Table { uint table[]; };
layout(set = 0, binding = 1) readonly buffer Rows { gpu_row row[]; };
layout(set = 0, binding = 2) buffer X { vec2 x[]; };

void main()
{
    uint pair = gl_GlobalInvocationID.x, t = gl_WorkGroupID.y, half_columns = p.columns / 2u;
    uint token = row[t].token;

    if (pair >= half_columns || token < p.first || token - p.first >= p.count)
        return;
    x[t * half_columns + pair] = bf16_pair(table[(token - p.first) * half_columns + pair]);
}
