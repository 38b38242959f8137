#version 450
// A row of a table for each token.  Grid: (units / 64, tokens).
#include "common.glsl"
layout(push_constant) uniform P { push_matrix p; };
#include "matrix.glsl"
layout(set = 0, binding = 2) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };

void main()
{
    uint unit = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    uint at = p.x_at + token * NATIVE_TOKEN_WORDS, row = p.from;

    if (unit >= p.units)
        return;
    if (p.by != 2u) // its id, its position, the first row, its text's row
        row = p.by == 0u ? inputs[at] : p.from + inputs[at + (p.by == 1u ? 1u : 5u)];
    row = min(row, p.matrices - 1u); // the rows of the whole table
    if (row < p.first_row || row >= p.first_row + p.rows)
        return;
    uvec4 w = weight[(row - p.first_row) * p.units + unit];
    uint base = scales_of(0u, row), out_at = p.y_at + token * p.y_stride;
    for (uint i = 0u; i < UNIT / 4u; i++) {
        vec4 v = quad(w, i, base, unit * UNIT, 0u) * p.factor;
        for (uint k = 0u; k < 4u; k++) {
            uint column = unit * UNIT + 4u * i + k;
            if (column < p.columns)
                y[out_at + column] = v[k] + (p.add != 0u ? y[out_at + column] : 0.0);
        }
    }
}
