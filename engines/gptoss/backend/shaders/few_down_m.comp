#version 450
// The second matrix of the experts by cooperative matrices, for a few tokens.
// SETS 0: the first pair of an expert computes up to TILE_PAIRS of its tokens, times their
//   weights, to y; eight subgroups: MX_TILES tiles of rows.  Grid: (rows / (16 * MX_TILES), pairs).
// SETS n: one token with n experts; x += their sum; 8 / n splits for each.  Grid: rows / 16.
#include "common.glsl"
#include "matrix_mx.glsl"
layout(constant_id = 1) const uint SETS = 0u;
layout(set = 0, binding = 4) readonly buffer C { uvec2 choice[]; }; // number and logit
layout(set = 0, binding = 5) buffer Y { float y[]; };               // or x

// The softmax over the chosen experts.
float weight_of(uint pair)
{
    uint first = pair / p.chosen * p.chosen;
    float top = uintBitsToFloat(choice[first].y), sum = 0.0;

    for (uint n = 0u; n < p.chosen; n++)
        sum += exp(uintBitsToFloat(choice[first + n].y) - top);
    return exp(uintBitsToFloat(choice[pair].y) - top) / sum;
}

bool bound(uint expert)
{
    return expert >= p.first && expert - p.first < p.count;
}

void one_token()
{
    uint splits = 8u / SETS, set = gl_SubgroupID / splits, row = gl_WorkGroupID.x * TILE_ROWS_M;
    uint g = gl_SubgroupInvocationID / 4u, expert = choice[set].x;
    MATRIX_C sum = MATRIX_C(0.0);

    if (bound(expert))
        sum = multiply_m(expert, row, gl_SubgroupID % splits, splits, (g & 3u) == 0u ? set * 2u + g / 4u : NOBODY);
    coopMatStore(sum, part, gl_SubgroupID * 128u, 8u, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    uint i = gl_LocalInvocationID.x;
    if (i >= TILE_ROWS_M)
        return;
    float total = 0.0;
    for (uint n = 0u; n < SETS; n++) {
        uint e = choice[n].x, at = e * p.rows + row + i;
        if (bound(e))
            total += weight_of(n) * (sum_m(n * splits, splits, i, 0u) + bf16_of(bias[at / 2u], at));
    }
    y[row + i] += total;
}

void several_tokens()
{
    uint me = gl_WorkGroupID.y, pairs = p.tokens * p.chosen, before = 0u, found = 0u, mine = NOBODY;
    uint g = gl_SubgroupInvocationID / 4u, expert = choice[me].x;

    for (uint i = 0u; i < pairs; i++)
        if (choice[i].x == expert) {
            if (i < me)
                before++;
            else if (found++ == (g & 3u))
                mine = i;
        }
    if (before % TILE_PAIRS != 0u || !bound(expert))
        return;
    if (gl_SubgroupID == 0u && gl_SubgroupInvocationID % 4u == 0u && g < TILE_PAIRS)
        tile_pair[g] = mine;
    uint row = (gl_WorkGroupID.x * MX_TILES + gl_SubgroupID / MX_SPLITS) * TILE_ROWS_M;
    if (row < p.rows) {
        MATRIX_C sum = multiply_m(expert, row, gl_SubgroupID % MX_SPLITS, MX_SPLITS, mine == NOBODY ? NOBODY : mine * 2u + g / 4u);
        coopMatStore(sum, part, gl_SubgroupID * 128u, 8u, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    // (token, tile, row)
    uint i = gl_LocalInvocationID.x, width = 16u * MX_TILES, token = i / width, tile = i / 16u % MX_TILES;
    uint at = gl_WorkGroupID.x * width + i % width;
    if (token >= TILE_PAIRS || at >= p.rows || tile_pair[token] == NOBODY)
        return;
    uint pair = tile_pair[token], n = expert * p.rows + at;
    y[pair * p.rows + at] = weight_of(pair) * (sum_m(tile * MX_SPLITS, MX_SPLITS, i % 16u, token) + bf16_of(bias[n / 2u], n));
}

void main()
{
    if (SETS != 0u)
        one_token();
    else
        several_tokens();
}
