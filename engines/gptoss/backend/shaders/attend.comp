#version 450
// Attention of one row and up to GROUP query heads of a KV head, over one split of its keys.
// Eight invocations share a key: each reads 16 bytes of K and of V.  Grid:
// (kv_heads * parts of a group, rows, splits).
#include "common.glsl"
layout(constant_id = 1) const uint GROUP = 1u; // query heads of a work group, at most GPU_GROUP_MAX
layout(push_constant) uniform P { push_attend p; };
layout(set = 0, binding = 0) readonly buffer Q { vec4 q[]; };
layout(set = 0, binding = 1) readonly buffer KV { uvec4 kv[]; };
layout(set = 0, binding = 2) readonly buffer I { gpu_row info[]; };
layout(set = 0, binding = 3) readonly buffer T { uint tables[]; };
layout(set = 0, binding = 4) readonly buffer S { uint sinks[]; };
layout(set = 0, binding = 5) buffer O { float result[]; };

const float NONE = -1e30;
shared float part[8 * GPU_GROUP_MAX * 66]; // of a subgroup: [head][64 sums, maximum, weight]

uint page_of(uint table, uint key, uint kv_head)
{
    uint page = tables[table + key / GPU_PAGE_TOKENS];

    return ((page * p.kv_heads + kv_head) * 2u * GPU_PAGE_TOKENS + key % GPU_PAGE_TOKENS) * 8u;
}

void unpack(uvec4 w, out vec4 low, out vec4 high)
{
    low = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    high = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
}

void main()
{
    uint row = p.row + gl_WorkGroupID.y, split = gl_WorkGroupID.z;
    uint parts = p.group / GROUP, kv_head = gl_WorkGroupID.x / parts;
    uint head = kv_head * p.group + gl_WorkGroupID.x % parts * GROUP; // the first query head
    uint position = info[row].position;
    uint table = p.window != 0u ? info[row].window_table : info[row].full_table;
    uint from = p.window != 0u && position >= p.window ? position - p.window + 1u : 0u;
    uint share = (position - from) / p.splits + 1u;
    uint begin = from + split * share, end = min(begin + share, position + 1u);
    uint clusters = gl_WorkGroupSize.x / 8u, cluster = gl_SubgroupID * (gl_SubgroupSize / 8u) +
         gl_SubgroupInvocationID / 8u, piece = gl_SubgroupInvocationID % 8u;
    vec4 q0[GPU_GROUP_MAX], q1[GPU_GROUP_MAX], sum0[GPU_GROUP_MAX], sum1[GPU_GROUP_MAX];
    float top[GPU_GROUP_MAX], weight[GPU_GROUP_MAX];

    [[unroll]] for (uint h = 0u; h < GROUP; h++) {
        uint at = (row * p.heads + head + h) * 16u + piece * 2u;
        q0[h] = q[at] * p.scale;
        q1[h] = q[at + 1u] * p.scale;
        sum0[h] = sum1[h] = vec4(0.0);
        top[h] = NONE;
        weight[h] = 0.0;
    }
    for (uint first = begin; first < end; first += 2u * clusters) {
        uint key0 = first + cluster, key1 = key0 + clusters;
        bool in0 = key0 < end, in1 = key1 < end;
        uint at0 = page_of(table, in0 ? key0 : end - 1u, kv_head) + piece;
        uint at1 = page_of(table, in1 ? key1 : end - 1u, kv_head) + piece;
        uvec4 k0 = kv[at0], k1 = kv[at1];
        uvec4 v0 = kv[at0 + GPU_PAGE_TOKENS * 8u], v1 = kv[at1 + GPU_PAGE_TOKENS * 8u];
        vec4 a0, a1, b0, b1, c0, c1, d0, d1;
        unpack(k0, a0, a1);
        unpack(k1, b0, b1);
        unpack(v0, c0, c1);
        unpack(v1, d0, d1);
        [[unroll]] for (uint h = 0u; h < GROUP; h++) {
            float s0 = dot(q0[h], a0) + dot(q1[h], a1), s1 = dot(q0[h], b0) + dot(q1[h], b1);
            [[unroll]] for (uint d = 1u; d < 8u; d *= 2u) {
                s0 += subgroupShuffleXor(s0, d);
                s1 += subgroupShuffleXor(s1, d);
            }
            s0 = in0 ? s0 : NONE;
            s1 = in1 ? s1 : NONE;
            float high = max(top[h], max(s0, s1)), shrink = exp(top[h] - high);
            float e0 = in0 ? exp(s0 - high) : 0.0, e1 = in1 ? exp(s1 - high) : 0.0;
            top[h] = high;
            weight[h] = weight[h] * shrink + e0 + e1;
            sum0[h] = sum0[h] * shrink + e0 * c0 + e1 * d0;
            sum1[h] = sum1[h] * shrink + e0 * c1 + e1 * d1;
        }
    }
    [[unroll]] for (uint h = 0u; h < GROUP; h++) {
        for (uint d = 8u; d < gl_SubgroupSize; d *= 2u) {
            float high = max(top[h], subgroupShuffleXor(top[h], d)), f = exp(top[h] - high);
            top[h] = high;
            weight[h] *= f;
            weight[h] += subgroupShuffleXor(weight[h], d);
            sum0[h] *= f;
            sum1[h] *= f;
            sum0[h] += subgroupShuffleXor(sum0[h], d);
            sum1[h] += subgroupShuffleXor(sum1[h], d);
        }
        if (gl_SubgroupInvocationID < 8u) {
            uint at = (gl_SubgroupID * GROUP + h) * 66u;
            [[unroll]] for (uint i = 0u; i < 4u; i++) {
                part[at + piece * 8u + i] = sum0[h][i];
                part[at + piece * 8u + 4u + i] = sum1[h][i];
            }
            if (piece == 0u) {
                part[at + 64u] = top[h];
                part[at + 65u] = weight[h];
            }
        }
    }
    barrier();
    for (uint i = gl_LocalInvocationID.x; i < GROUP * 64u; i += gl_WorkGroupSize.x) {
        uint h = i / 64u, d = i % 64u;
        float high = NONE, w = 0.0, sum = 0.0;
        for (uint s = 0u; s < gl_NumSubgroups; s++)
            high = max(high, part[(s * GROUP + h) * 66u + 64u]);
        if (p.splits == 1u) {
            uint n = head + h;
            float sink = bf16_of(sinks[n / 2u], n);
            high = max(high, sink);
            w = exp(sink - high);
        }
        for (uint s = 0u; s < gl_NumSubgroups; s++) {
            uint at = (s * GROUP + h) * 66u;
            float f = exp(part[at + 64u] - high);
            w += f * part[at + 65u];
            sum += f * part[at + d];
        }
        if (p.splits == 1u) {
            result[(row * p.heads + head + h) * 64u + d] = sum / w;
            continue;
        }
        uint at = (((gl_WorkGroupID.y * p.heads) + head + h) * p.splits + split) * 66u;
        result[at + d] = sum;
        if (d == 0u) {
            result[at + 64u] = high;
            result[at + 65u] = w;
        }
    }
}
