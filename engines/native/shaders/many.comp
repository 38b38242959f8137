#version 450
// The same for many rows of x: tiles of 64 rows of a matrix times NATIVE_GPU_TILE rows of x, which
// pass through shared memory 32 columns at a time.  Experts: the tiles of `sort`.  Work groups of
// 256.  Grid: (rows / 64, tokens / NATIVE_GPU_TILE or tiles, heads).
#include "common.glsl"
layout(push_constant) uniform P { push_matrix p; };
#include "matrix.glsl"
layout(set = 0, binding = 2) readonly buffer X { float x[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };
layout(set = 0, binding = 4) readonly buffer B { float bias[]; };
layout(set = 0, binding = 5) readonly buffer C { uint sorted[]; };

const bool EXPERTS = (MODE & NATIVE_MODE_EXPERTS) != 0u;
const uint K = 32u, ROWS = 64u;
shared vec4 tile_w[32][17];
shared float tile_x[32][33];
shared uint item_of[NATIVE_GPU_TILE];

void main()
{
    uint id = gl_LocalInvocationID.x, row0 = gl_WorkGroupID.x * ROWS;
    uint matrix = gl_WorkGroupID.z + p.matrix, first = gl_WorkGroupID.y * NATIVE_GPU_TILE;
    uint count = min(p.tokens - min(first, p.tokens), NATIVE_GPU_TILE);
    vec4 sum[2] = vec4[2](vec4(0.0), vec4(0.0));

    if (EXPERTS) {
        uint tile = p.choice_at + gl_WorkGroupID.y * 3u;
        matrix = sorted[tile];
        first = sorted[tile + 1u];
        count = sorted[tile + 2u];
        if (matrix < p.matrix || matrix >= p.matrix + p.matrices)
            return;
    }
    if (count == 0u)
        return;
    if (id < NATIVE_GPU_TILE) {
        uint at = first + min(id, count - 1u);
        item_of[id] = EXPERTS ? sorted[at] : at;
    }
    barrier();
    for (uint column = 0u; column < p.columns; column += K) {
        uint per = K / UNIT;
        for (uint i = id; i < ROWS * per; i += 256u) {
            uint r = i / per, u = column / UNIT + i % per, own = min(row0 + r, p.rows - 1u);
            uint base = scales_of(matrix, p.first_row + own);
            uvec4 w = u < p.units ? weight[((matrix - p.matrix) * p.rows + own) * p.units + u] : uvec4(0u);
            [[unroll]] for (uint j = 0u; j < UNIT / 4u; j++) {
                vec4 v = quad(w, j, base, u * UNIT, matrix);
                [[unroll]] for (uint k = 0u; k < 4u; k++)
                    tile_w[i % per * UNIT + 4u * j + k][r / 4u][r % 4u] = v[k];
            }
        }
        for (uint i = id; i < NATIVE_GPU_TILE * K; i += 256u) {
            uint t = i / K, k = i % K, item = item_of[t];
            if (EXPERTS && (MODE & NATIVE_MODE_PAIRS) == 0u)
                item /= p.chosen;
            tile_x[k][t] = column + k < p.columns
                               ? x[p.x_at + item * p.x_stride + gl_WorkGroupID.z * p.x_head + column + k]
                               : 0.0;
        }
        barrier();
        [[unroll]] for (uint k = 0u; k < K; k++) {
            vec4 w = tile_w[k][id % 16u];
            sum[0] += w * tile_x[k][id / 16u];
            sum[1] += w * tile_x[k][id / 16u + 16u];
        }
        barrier();
    }
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint t = id / 16u + 16u * i;
        if (t >= count)
            continue;
        uint at = p.y_at + item_of[t] * p.y_stride + gl_WorkGroupID.z * p.y_head;
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            uint row = row0 + id % 16u * 4u + k;
            if (row >= p.rows)
                continue;
            row += p.first_row;
            y[at + row] =
                sum[i][k] + (p.bias_at != NATIVE_GPU_ABSENT ? bias[p.bias_at + (EXPERTS ? matrix : 0u) * p.bias_matrix + row] : 0.0);
        }
    }
}
