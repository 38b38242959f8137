#version 450
// The experts of a token and their weights.  The row is weights, then the experts' numbers as bits.
// Work groups of 64.  Grid: (tokens).
#include "common.glsl"
layout(push_constant) uniform P { push_route p; };
layout(set = 0, binding = 0) readonly buffer X { float x[]; };
layout(set = 0, binding = 1) readonly buffer B { float bias[]; };
layout(set = 0, binding = 2) readonly buffer S { float scales[]; };
layout(set = 0, binding = 3) buffer Y { float y[]; };

const float NEVER = -3.0e38, TAKEN = -3.3e38;
shared float score[NATIVE_GPU_EXPERTS]; // a choice's weight
shared float left[NATIVE_GPU_EXPERTS];  // what the choice goes by
shared float group_score[NATIVE_GPU_EXPERTS];
shared uint chosen[64];
shared float weights[64];
shared uint best_part[32];

#define EACH(i, n) for (uint i = gl_LocalInvocationID.x; i < (n); i += 64u)

// The place of the largest value of `left`, the first of equal ones.
uint best(bool groups, uint n)
{
    float top = TAKEN;
    uint at = 0xFFFFFFFFu;

    barrier();
    EACH (i, n)
        top = max(top, groups ? group_score[i] : left[i]);
    top = group_max(top);
    EACH (i, n)
        if ((groups ? group_score[i] : left[i]) == top)
            at = min(at, i);
    at = subgroupMin(at);
    if (subgroupElect())
        best_part[gl_SubgroupID] = at;
    barrier();
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        at = min(at, best_part[i]);
    barrier();
    return min(at, n - 1u);
}

// Only the best groups stay; a group counts by its two largest scores, or by its largest.
void keep_groups()
{
    uint size = p.experts / p.groups;

    EACH (g, p.groups) {
        float first = NEVER, second = NEVER;
        for (uint i = g * size; i < (g + 1u) * size; i++) {
            float v = left[i];
            second = v > first ? first : max(second, v);
            first = max(first, v);
        }
        group_score[g] = size > 1u && (p.flags & NATIVE_ROUTE_BY_BEST) == 0u ? first + second : first;
    }
    for (uint n = 0u; n < p.group_count; n++) {
        uint g = best(true, p.groups);
        if (gl_LocalInvocationID.x == 0u)
            group_score[g] = TAKEN;
    }
    barrier();
    EACH (i, p.experts)
        left[i] = group_score[i / size] == TAKEN ? left[i] : NEVER;
}

// The weight of a choice of sparsemixer: its softmax among the scores near its own.
float weight_near(uint from, float top)
{
    float sum = 0.0;

    EACH (i, p.experts) {
        float v = x[from + i], unit = max(abs(v), top);
        if (left[i] > NEVER && !((top - v) / unit > 2.0 * p.jitter))
            sum += exp(left[i] - top);
    }
    return 1.0 / group_add(sum);
}

void main()
{
    uint from = p.x_at + gl_WorkGroupID.x * p.x_stride, id = gl_LocalInvocationID.x;
    float top = NEVER, sum = 0.0;

    EACH (i, p.experts)
        top = max(top, x[from + i]);
    top = group_max(top);
    EACH (i, p.experts)
        sum += exp(x[from + i] - top);
    sum = group_add(sum);
    EACH (i, p.experts) {
        float v = x[from + i];
        score[i] = p.score == 0u ? exp(v - top) / sum : p.score == 1u ? sigmoid_of(v) : v;
        left[i] = score[i] + ((p.flags & NATIVE_ROUTE_BIAS) != 0u ? bias[i] : 0.0);
    }
    barrier();
    if (p.score != 2u && p.groups > 1u && p.group_count < p.groups)
        keep_groups();
    for (uint n = 0u; n < p.chosen; n++) {
        uint at = best(false, p.experts);
        float w = p.score == 2u ? weight_near(from, left[at]) : score[at];
        barrier();
        if (id == 0u) {
            chosen[n] = at;
            weights[n] = w;
            left[at] = p.score == 2u ? NEVER : TAKEN;
        }
    }
    barrier();
    sum = 0.0;
    for (uint n = 0u; n < p.chosen; n++)
        sum += weights[n];
    sum = p.epsilon < 0.0 ? max(sum, -p.epsilon) : sum + p.epsilon;
    if (id < p.chosen) {
        float w = weights[id] / ((p.flags & NATIVE_ROUTE_NORMALIZE) != 0u ? sum : 1.0) * p.scale;
        uint to = p.y_at + gl_WorkGroupID.x * p.y_stride;
        y[to + id] = (p.flags & NATIVE_ROUTE_SCALES) != 0u ? w * scales[chosen[id]] : w;
        y[to + p.chosen + id] = uintBitsToFloat(chosen[id]);
    }
}
