// gptoss/backend/shaders/matrix_mx.glsl - rows of an expert's MXFP4 matrix times the tokens of
// that expert.  Float16 holds a code times its scale exactly for scales from 2^-17 to 2^7.
#include "matrix.glsl"
layout(push_constant) uniform P { push_experts p; };
layout(set = 0, binding = 0) readonly buffer W { uvec4 blocks[]; };
layout(set = 0, binding = 1) readonly buffer S { uint scales[]; };
layout(set = 0, binding = 2) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 3) readonly buffer X { uvec4 packed[]; };
#define SPANS     3 // of 128 columns that an invocation reads at a time
#define MX_TILES  2u              // of 16 rows of a work group
#define MX_SPLITS (8u / MX_TILES) // of their columns

const uint NOBODY = 0xFFFFFFFFu;
shared uint tile_pair[TILE_PAIRS];
shared float part[8 * 128];

#include "scale_m.glsl"

// The packed numbers of this invocation's block of a span.
void tokens_m(uint x, uint from, uint at, uint groups, out uvec4 t[4])
{
    bool inside = x != NOBODY && at + gl_SubgroupInvocationID % 4u < groups;

    [[unroll]] for (uint w = 0u; w < 4u; w++)
        t[w] = inside ? packed[from + at * 4u + w] : uvec4(0u);
}

// Rows `row` and on of an expert's matrix, every `splits`-th span from `split` on.  x: the row
// of packed numbers of this invocation's token, or NOBODY.
MATRIX_C multiply_m(uint expert, uint row, uint split, uint splits, uint x)
{
    uint g = gl_SubgroupInvocationID / 4u, q = gl_SubgroupInvocationID % 4u;
    uint groups = p.columns / 32u, spans = (groups + 3u) / 4u;
    uint low = ((expert - p.first) * p.rows + row + g) * groups + q, high = low + 8u * groups;
    uint from = (x == NOBODY ? 0u : x) * (p.columns / 8u) + q * 4u;
    MATRIX_C sum = MATRIX_C(0.0);

    for (uint base = split; base < spans; base += splits * SPANS) {
        uvec4 a[SPANS], b[SPANS];
        f16vec2 sa[SPANS], sb[SPANS];
        [[unroll]] for (uint u = 0u; u < SPANS; u++) {
            uint at = (base + u * splits) * 4u;
            bool inside = at + q < groups;
            a[u] = inside ? blocks[low + at] : uvec4(0u);
            b[u] = inside ? blocks[high + at] : uvec4(0u);
        }
        [[unroll]] for (uint u = 0u; u < SPANS; u++) {
            uint at = min((base + u * splits) * 4u, groups - 1u - q);
            sa[u] = scale_m(low + at);
            sb[u] = scale_m(high + at);
        }
        [[unroll]] for (uint u = 0u; u < SPANS; u++) {
            uint at = (base + u * splits) * 4u;
            if (at >= groups)
                break;
            uvec4 t[4];
            tokens_m(x, from, at, groups, t);
            [[unroll]] for (uint w = 0u; w < 4u; w++) {
                f16vec2 i[4], j[4];
                codes_m(a[u][w], sa[u], i);
                codes_m(b[u][w], sb[u], j);
                sum = matrix_add(sum, i[0], i[1], j[0], j[1], t[w].x, t[w].y);
                sum = matrix_add(sum, i[2], i[3], j[2], j[3], t[w].z, t[w].w);
            }
        }
    }
    return sum;
}

// The sum over the splits for row `row` and token `token` of the subgroups from `first` on.
float sum_m(uint first, uint splits, uint row, uint token)
{
    float sum = 0.0;

    for (uint i = first; i < first + splits; i++)
        sum += part[i * 128u + row * 8u + token] + part[i * 128u + row * 8u + token + 4u];
    return sum * UNSCALED;
}
