#version 450
// Keys and values of the step's tokens into their pages.  Grid: (pairs of a token / 64, tokens).
#include "common.glsl"
#include "cache.glsl"
layout(set = 0, binding = 0) readonly buffer K { float k[]; };
layout(set = 0, binding = 1) readonly buffer V { float v[]; };
layout(set = 0, binding = 2) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 3) buffer KV { uint kv[]; };

void put(uint at, float low, float high)
{
    if (MODE == 0u) {
        kv[at] = packHalf2x16(clamp(vec2(low, high), vec2(-65504.0), vec2(65504.0)));
        return;
    }
    kv[at * 2u] = floatBitsToUint(low);
    kv[at * 2u + 1u] = floatBitsToUint(high);
}

void main()
{
    uint i = gl_GlobalInvocationID.x, token = gl_WorkGroupID.y;
    uint keys = p.key_size / 2u, values = p.cache_values / 2u, head = i / (keys + values);
    uint d = i % (keys + values), at = p.token_at + token * NATIVE_TOKEN_WORDS;
    uint position = inputs[at + 1u], slot = position % NATIVE_GPU_PAGE;

    if (head >= p.kv_heads)
        return;
    uint page = inputs[inputs[at + 3u] + p.kind * inputs[at + 4u] + position / NATIVE_GPU_PAGE];
    uint to = head_at(page, head);
    if (d < keys) {
        uint from = p.k_at + token * p.k_stride + head * p.key_size + 2u * d;
        put(to + slot * keys + d, k[from], k[from + 1u]);
        return;
    }
    d -= keys;
    uint from = p.v_at + token * p.v_stride + head * p.cache_values + 2u * d;
    put(to + NATIVE_GPU_PAGE * keys + slot * values + d, v[from], v[from + 1u]);
}
