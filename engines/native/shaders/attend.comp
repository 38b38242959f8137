#version 450
// Attention of one head of one token: 64 keys at a time, with a running maximum.  An invocation
// scores one key and then sums some of the values.  Work groups of 64.  Grid: (heads, tokens).
#include "common.glsl"
#include "cache.glsl"
layout(set = 0, binding = 0) readonly buffer Q { float q[]; };
layout(set = 0, binding = 1) readonly buffer KV { uint kv[]; };
layout(set = 0, binding = 2) readonly buffer I { uint inputs[]; };
layout(set = 0, binding = 3) readonly buffer S { float sinks[]; };
layout(set = 0, binding = 4) buffer Y { float y[]; };

const uint PARTS = NATIVE_GPU_VALUES / 128u; // pairs of values of an invocation
shared float query[NATIVE_GPU_HEAD];
shared float weight[64];
shared uint place[64];

vec2 pair_of(uint at)
{
    return MODE == 0u ? unpackHalf2x16(kv[at])
                      : vec2(uintBitsToFloat(kv[at * 2u]), uintBitsToFloat(kv[at * 2u + 1u]));
}

float score_of(uint at)
{
    float sum = 0.0;

    for (uint d = 0u; d < p.key_size / 2u; d++) {
        vec2 v = pair_of(at + d);
        sum += query[2u * d] * v.x + query[2u * d + 1u] * v.y;
    }
    return p.softcap > 0.0 ? p.softcap * tanh_of(sum / p.softcap) : sum;
}

void main()
{
    uint id = gl_LocalInvocationID.x, head = gl_WorkGroupID.x, token = p.first + gl_WorkGroupID.y;
    uint at = p.token_at + token * NATIVE_TOKEN_WORDS, position = inputs[at + 1u];
    uint table = inputs[at + 3u] + p.kind * inputs[at + 4u];
    uint kv_head = head / (p.heads / p.kv_heads), keys = p.key_size / 2u;
    uint words = p.value_size / 2u, stride = p.cache_values != 0u ? p.cache_values / 2u : keys;
    uint value_at = p.cache_values != 0u ? NATIVE_GPU_PAGE * keys : 0u;
    bool both = (p.flags & NATIVE_ATTEND_BOTH_WAYS) != 0u;
    uint to = both ? inputs[at + 2u] : position;
    uint from = p.window != 0u && position >= p.window ? position - p.window + 1u : 0u;
    float scale = p.scale, top = -3.0e38, own = 0.0;
    vec2 sum[PARTS];

    if (both && p.window != 0u) {
        uint reach = p.window / 2u;
        from = position > reach ? position - reach : 0u;
        to = min(to, position + reach);
    }
    if (p.query_beta > 0.0)
        scale *= 1.0 + p.query_beta * log(1.0 + float(position / p.query_floor));
    for (uint d = id; d < p.key_size; d += 64u)
        query[d] = q[p.q_at + token * p.q_stride + head * p.key_size + d] * scale;
    [[unroll]] for (uint i = 0u; i < PARTS; i++)
        sum[i] = vec2(0.0);
    barrier();
    for (uint first = from; first <= to; first += 64u) {
        uint key = first + id, count = min(to - first + 1u, 64u);
        uint page = inputs[table + min(key, to) / NATIVE_GPU_PAGE], slot = key % NATIVE_GPU_PAGE;
        uint base = head_at(page, kv_head);
        float score = key <= to ? score_of(base + slot * keys) : -3.0e38;
        float high = max(top, group_max(score)), shrink = exp(top - high);
        float e = key <= to ? exp(score - high) : 0.0;
        weight[id] = e;
        place[id] = base + value_at + slot * stride;
        own = own * shrink + e;
        top = high;
        barrier();
        [[unroll]] for (uint i = 0u; i < PARTS; i++) {
            uint d = id + 64u * i;
            if (d >= words)
                break;
            vec2 part = vec2(0.0);
            for (uint n = 0u; n < count; n++)
                part += weight[n] * pair_of(place[n] + d);
            sum[i] = sum[i] * shrink + part;
        }
    }
    float total = group_add(own);
    if ((p.flags & NATIVE_ATTEND_SINKS) != 0u) {
        float high = max(top, sinks[head]), shrink = exp(top - high);
        total = total * shrink + exp(sinks[head] - high);
        [[unroll]] for (uint i = 0u; i < PARTS; i++)
            sum[i] *= shrink;
    }
    uint to_at = p.y_at + token * p.y_stride + head * p.value_size;
    [[unroll]] for (uint i = 0u; i < PARTS; i++) {
        uint d = id + 64u * i;
        if (d < words) {
            y[to_at + 2u * d] = sum[i].x / total;
            y[to_at + 2u * d + 1u] = sum[i].y / total;
        }
    }
}
