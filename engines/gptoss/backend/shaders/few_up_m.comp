#version 450
// The first matrix of the experts and SwiGLU by cooperative matrices, for a few tokens, with the
// choice of the experts before it.  The first pair (token, rank) of an expert computes up to
// TILE_PAIRS of its tokens.  Eight subgroups: MX_TILES tiles of rows, the splits of the columns.
// `inner` is packed.  Grid: (rows / (16 * MX_TILES), tokens * chosen).
#include "common.glsl"
#include "matrix_mx.glsl"
layout(set = 0, binding = 4) readonly buffer L { float logits[]; };
layout(set = 0, binding = 5) buffer I { uint inner[]; };
layout(set = 0, binding = 6) buffer C { uvec2 choice[]; }; // number and logit of an expert
#define PACK_NOTHING
#include "pack.glsl"
shared uint expert_of[128]; // GPU_FEW_PAIRS

// The experts of a token: the largest logits come first, of equal ones the lowest number.
void choose(uint t)
{
    if (p.experts <= gl_SubgroupSize) {
        float mine = logits[t * p.experts + min(gl_SubgroupInvocationID, p.experts - 1u)];
        uint me = gl_SubgroupInvocationID, rank = 0u;
        [[unroll]] for (uint i = 0u; i < 32u; i++) {
            float other = subgroupShuffle(mine, i);
            rank += i < p.experts && (other > mine || (other == mine && i < me)) ? 1u : 0u;
        }
        if (me < p.experts && rank < p.chosen) {
            expert_of[t * p.chosen + rank] = me;
            if (gl_WorkGroupID.x == 0u && gl_WorkGroupID.y == 0u)
                choice[t * p.chosen + rank] = uvec2(me, floatBitsToUint(mine));
        }
        return;
    }
    float last = 0.0;
    uint last_id = NOBODY;

    for (uint n = 0u; n < p.chosen; n++) {
        float best = 0.0;
        uint id = NOBODY;
        for (uint e = gl_SubgroupInvocationID; e < p.experts; e += gl_SubgroupSize) {
            float v = logits[t * p.experts + e];
            bool after = last_id == NOBODY || v < last || (v == last && e > last_id);
            if (after && (id == NOBODY || v > best)) {
                best = v;
                id = e;
            }
        }
        last = subgroupMax(id == NOBODY ? -3.4e38 : best);
        last_id = subgroupMin(id != NOBODY && best == last ? id : NOBODY);
        if (subgroupElect()) {
            expert_of[t * p.chosen + n] = last_id;
            if (gl_WorkGroupID.x == 0u && gl_WorkGroupID.y == 0u)
                choice[t * p.chosen + n] = uvec2(last_id, floatBitsToUint(last));
        }
    }
}

void main()
{
    uint y = gl_WorkGroupID.y, pairs = p.tokens * p.chosen, before = 0u, found = 0u, mine = NOBODY;
    uint g = gl_SubgroupInvocationID / 4u, q = gl_SubgroupInvocationID % 4u;

    for (uint t = gl_SubgroupID; t < p.tokens; t += gl_NumSubgroups)
        choose(t);
    barrier();
    uint expert = expert_of[y];
    for (uint i = 0u; i < pairs; i++)
        if (expert_of[i] == expert) {
            if (i < y)
                before++;
            else if (found++ == (g & 3u))
                mine = i;
        }
    if (before % TILE_PAIRS != 0u || expert < p.first || expert - p.first >= p.count)
        return;
    if (gl_SubgroupID == 0u && q == 0u && g < TILE_PAIRS)
        tile_pair[g] = mine;
    uint row = (gl_WorkGroupID.x * MX_TILES + gl_SubgroupID / MX_SPLITS) * TILE_ROWS_M;
    uint x = mine == NOBODY ? NOBODY : mine / p.chosen * 2u + g / 4u;
    if (row < p.rows) {
        MATRIX_C sum = multiply_m(expert, row, gl_SubgroupID % MX_SPLITS, MX_SPLITS, x);
        coopMatStore(sum, part, gl_SubgroupID * 128u, 8u, gl_CooperativeMatrixLayoutRowMajor);
    }
    barrier();
    // (tile, token, column of inner)
    uint i = gl_LocalInvocationID.x, tile = i / 32u, token = i / 8u % 4u, c = i % 8u;
    if (i >= 32u * MX_TILES)
        return;
    uint first = gl_WorkGroupID.x * MX_TILES + tile, pair = tile_pair[token];
    vec2 b = bf16_pair(bias[(expert * p.rows + min(first * TILE_ROWS_M, p.rows - 16u)) / 2u + c]);
    float v = sigmoid_gate(sum_m(tile * MX_SPLITS, MX_SPLITS, 2u * c, token) + b.x,
                           sum_m(tile * MX_SPLITS, MX_SPLITS, 2u * c + 1u, token) + b.y, p.limit);
    float other = subgroupShuffleXor(v, 4u);
    if (c >= 4u || pair == NOBODY || first * TILE_ROWS_M >= p.rows)
        return;
    uint pieces = p.rows / 16u;
    vec2 high = vec2(first_part(v), first_part(other));
    inner[(pair * 2u * pieces + first) * 4u + c] = packHalf2x16(high);
    inner[((pair * 2u + 1u) * pieces + first) * 4u + c] = pack_half(v - high.x, other - high.y);
}
