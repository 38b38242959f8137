// gptoss/backend/shaders/common.glsl - what the kernels share: sizes, number formats.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#include "push.h"

// Every kernel: the number of invocations of a work group.
layout(local_size_x_id = 0) in;

// Two BF16 numbers of a word.
vec2 bf16_pair(uint w)
{
    return vec2(uintBitsToFloat(w << 16), uintBitsToFloat(w & 0xFFFF0000u));
}

// The BF16 number `i` of an array, from its word i / 2.
float bf16_of(uint w, uint i)
{
    return uintBitsToFloat((i & 1u) != 0u ? w & 0xFFFF0000u : w << 16);
}

vec4 bf16_low(uvec4 w)
{
    return vec4(bf16_pair(w.x), bf16_pair(w.y));
}

vec4 bf16_high(uvec4 w)
{
    return vec4(bf16_pair(w.z), bf16_pair(w.w));
}

// Eight MXFP4 codes of a word, the first four and the others.  The codes i and i + 4 become a
// pair of float16 whose value is the code's times 2^-14.
void mx_values(uint w, out vec4 low, out vec4 high)
{
    vec2 a = unpackHalf2x16((w << 9 & 0x0E000E00u) | (w << 12 & 0x80008000u));
    vec2 b = unpackHalf2x16((w << 5 & 0x0E000E00u) | (w << 8 & 0x80008000u));
    vec2 c = unpackHalf2x16((w << 1 & 0x0E000E00u) | (w << 4 & 0x80008000u));
    vec2 d = unpackHalf2x16((w >> 3 & 0x0E000E00u) | (w & 0x80008000u));

    low = vec4(a.x, b.x, c.x, d.x);
    high = vec4(a.y, b.y, c.y, d.y);
}

// Eight codes times eight numbers.
float mx_dot(uint w, vec4 low, vec4 high)
{
    vec4 a, b;

    mx_values(w, a, b);
    return dot(a, low) + dot(b, high);
}

// The factor of a block with that scale byte, times the 2^14 of mx_dot.
float mx_scale(uint byte, uint excess)
{
    uint e = byte + 14u;

    return uintBitsToFloat((e > excess ? min(e - excess, 254u) : 0u) << 23);
}

float sigmoid_gate(float gate, float up, float limit)
{
    gate = min(gate, limit);
    up = clamp(up, -limit, limit);
    return gate / (1.0 + exp(-1.702 * gate)) * (up + 1.0);
}

uint pack_half(float a, float b)
{
    return packHalf2x16(clamp(vec2(a, b), vec2(-65504.0), vec2(65504.0)));
}
