// native/shaders/matrix.glsl - the numbers of a matrix of any kind.
//
// A row is `units` pieces of 16 bytes, each with UNIT columns; the last may be partly empty.
// Scales and what belongs to them lie in `side`.  The includer has the push constants `p`.
layout(constant_id = 1) const uint MODE = 0u;
layout(set = 0, binding = 0) readonly buffer W { uvec4 weight[]; };
layout(set = 0, binding = 1) readonly buffer S { uint side[]; };

const uint CODE = MODE & NATIVE_MODE_CODE;
const uint SCALE = MODE >> NATIVE_MODE_SCALE & 7u;
const bool FOUR = (MODE & NATIVE_MODE_FOUR) != 0u;
const uint UNIT = CODE == NATIVE_CODED_F32 ? 4u : CODE < NATIVE_CODED_F32 ? 8u : FOUR ? 32u : 16u;

float e4m3_of(uint x)
{
    uint rest = x & 127u;
    float v = rest < 8u ? float(rest) * 0.001953125 : uintBitsToFloat((rest << 20) + (120u << 23));

    return (x & 128u) != 0u ? -v : v;
}

float e2m1_of(uint x)
{
    uint rest = x & 7u;
    float v = rest < 2u ? float(rest) * 0.5 : uintBitsToFloat((rest << 22) + (126u << 23));

    return (x & 8u) != 0u ? -v : v;
}

float number_of(uint code)
{
    if (CODE == NATIVE_CODED_INT)
        return float(code) - p.zero;
    if (CODE == NATIVE_CODED_SIGNED)
        return float(int(code << 24) >> 24) - p.zero;
    if (CODE == NATIVE_CODED_E4M3)
        return e4m3_of(code);
    if (CODE == NATIVE_CODED_E2M1)
        return e2m1_of(code);
    return uintBitsToFloat(side[p.table_at + code]);
}

float scale_number(uint at, uint matrix)
{
    if (SCALE == NATIVE_SCALED_F32)
        return uintBitsToFloat(side[at]);
    if (SCALE == NATIVE_SCALED_BF16)
        return uintBitsToFloat(side[at / 2u] >> 16u * (at & 1u) << 16);
    if (SCALE == NATIVE_SCALED_F16)
        return unpackHalf2x16(side[at / 2u] >> 16u * (at & 1u)).x;
    uint code = side[at / 4u] >> 8u * (at & 3u) & 255u;
    if (SCALE == NATIVE_SCALED_E8M0)
        return uintBitsToFloat(code == 0u ? 1u << 22 : code << 23);
    return e4m3_of(code) * uintBitsToFloat(side[p.factors_at + matrix]);
}

// Scale and shift of a column; base: the first scale of its row.
vec2 scale_of(uint base, uint column, uint matrix)
{
    uint at = min(column, p.columns - 1u);
    bool listed = (MODE & NATIVE_MODE_EACH) != 0u && p.groups_at != NATIVE_GPU_ABSENT;

    at = base + (listed ? side[p.groups_at + matrix * p.columns + at] : at / p.columns_each);
    return vec2(scale_number(at, matrix),
                (MODE & NATIVE_MODE_SHIFT) != 0u ? uintBitsToFloat(side[p.shifts_at + at]) : 0.0);
}

// The place of a row's first scale; the row of the whole matrix.
uint scales_of(uint matrix, uint row)
{
    return SCALE == NATIVE_SCALED_NOT
               ? 0u
               : matrix * p.matrix_scales + (row + p.row_shift) / p.rows_each * p.row_scales;
}

// Columns 4 i .. 4 i + 3 of a unit, the first of which is `column`.
vec4 quad(uvec4 w, uint i, uint base, uint column, uint matrix)
{
    vec4 v;

    if (CODE == NATIVE_CODED_F32)
        return uintBitsToFloat(w);
    if (CODE == NATIVE_CODED_BF16)
        return uintBitsToFloat(uvec4(w[2u * i] << 16, w[2u * i] & 0xFFFF0000u, w[2u * i + 1u] << 16,
                                     w[2u * i + 1u] & 0xFFFF0000u));
    if (CODE == NATIVE_CODED_F16)
        return vec4(unpackHalf2x16(w[2u * i]), unpackHalf2x16(w[2u * i + 1u]));
    uint word = FOUR ? w[i / 2u] >> 16u * (i & 1u) : w[i], step = FOUR ? 4u : 8u;
    uint mask = FOUR ? 15u : 255u;
    [[unroll]] for (uint k = 0u; k < 4u; k++)
        v[k] = number_of(word >> step * k & mask);
    column += 4u * i;
    if ((MODE & NATIVE_MODE_EACH) != 0u) {
        [[unroll]] for (uint k = 0u; k < 4u; k++) {
            vec2 s = scale_of(base, column + k, matrix);
            v[k] = v[k] * s.x + s.y;
        }
        return v;
    }
    vec2 s = scale_of(base, column, matrix);
    return v * s.x + s.y;
}
