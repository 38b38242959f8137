#version 450
// y[t] = matrix . x[t] + bias for TOKENS rows of x; with experts or heads each row, or each head,
// has its own matrix.  Eight invocations share a row of the matrix.  Work groups of 64.
// Grid: (rows / NATIVE_GPU_ROWS, tokens / TOKENS, heads).
#include "common.glsl"
layout(push_constant) uniform P { push_matrix p; };
#include "matrix.glsl"
layout(set = 0, binding = 2) readonly buffer X { float x[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };
layout(set = 0, binding = 4) readonly buffer B { float bias[]; };
layout(set = 0, binding = 5) readonly buffer C { uint choice[]; };

const bool EXPERTS = (MODE & NATIVE_MODE_EXPERTS) != 0u;

vec4 x_quad(uint at, uint column)
{
    vec4 v;

    [[unroll]] for (uint k = 0u; k < 4u; k++)
        v[k] = column + k < p.columns ? x[at + column + k] : 0.0;
    return v;
}

void main()
{
    uint place = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID, lane = place % 8u;
    uint row = gl_WorkGroupID.x * NATIVE_GPU_ROWS + place / 8u, first = gl_WorkGroupID.y * TOKENS;
    uint matrix = gl_WorkGroupID.z + p.matrix, from[TOKENS];
    float sum[TOKENS];

    if (EXPERTS) {
        uint token = first / p.chosen;
        matrix = choice[p.choice_at + token * p.choice_stride + p.chosen + first % p.chosen];
        if (matrix < p.matrix || matrix >= p.matrix + p.matrices)
            return;
    }
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
        uint item = min(first + t, p.tokens - 1u);
        if (EXPERTS && (MODE & NATIVE_MODE_PAIRS) == 0u)
            item /= p.chosen;
        from[t] = p.x_at + item * p.x_stride + gl_WorkGroupID.z * p.x_head;
        sum[t] = 0.0;
    }
    uint own = min(row, p.rows - 1u), start = ((matrix - p.matrix) * p.rows + own) * p.units;
    uint base = scales_of(matrix, p.first_row + own);
    for (uint u = lane; u < p.units; u += 8u) {
        uvec4 w = weight[start + u];
        [[unroll]] for (uint i = 0u; i < UNIT / 4u; i++) {
            uint column = u * UNIT + 4u * i;
            if (column >= p.columns)
                break;
            vec4 v = quad(w, i, base, u * UNIT, matrix);
            [[unroll]] for (uint t = 0u; t < TOKENS; t++)
                sum[t] += dot(v, x_quad(from[t], column));
        }
    }
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        [[unroll]] for (uint d = 1u; d < 8u; d *= 2u)
            sum[t] += subgroupShuffleXor(sum[t], d);
    if (row >= p.rows)
        return;
    row += p.first_row;
    [[unroll]] for (uint t = 0u; t < TOKENS; t++)
        if (lane == t % 8u && first + t < p.tokens)
            y[p.y_at + (first + t) * p.y_stride + gl_WorkGroupID.z * p.y_head + row] =
                sum[t] + (p.bias_at != NATIVE_GPU_ABSENT ? bias[p.bias_at + (EXPERTS ? matrix : 0u) * p.bias_matrix + row] : 0.0);
}
