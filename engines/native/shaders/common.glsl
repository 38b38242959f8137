// native/shaders/common.glsl - what the kernels share: sums over a work group, activations.
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require

#include "push.h"

// Every kernel: the number of invocations of a work group.
layout(local_size_x_id = 0) in;

shared float common_part[32];

// The sum of v over the work group; all invocations call it.
float group_add(float v)
{
    float sum = 0.0;

    v = subgroupAdd(v);
    barrier();
    if (subgroupElect())
        common_part[gl_SubgroupID] = v;
    barrier();
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        sum += common_part[i];
    return sum;
}

float group_max(float v)
{
    v = subgroupMax(v);
    barrier();
    if (subgroupElect())
        common_part[gl_SubgroupID] = v;
    barrier();
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        v = max(v, common_part[i]);
    return v;
}

float tanh_of(float x)
{
    float a = abs(x), square = x * x, far = 1.0 - 2.0 / (exp(min(2.0 * a, 88.0)) + 1.0);
    float near = a * (1.0 + square * (-0.33333333 + square * (0.13333333 - square * 0.05396825)));

    return (a < 0.1 ? near : far) * sign(x);
}

float sigmoid_of(float x)
{
    return 1.0 / (1.0 + exp(clamp(-x, -88.0, 88.0)));
}

float softplus_of(float x)
{
    return x > 20.0 ? x : log(1.0 + exp(x));
}

// The error function by a rational approximation: an error of 1.5e-7 at most.
float erf_of(float x)
{
    float a = abs(x), t = 1.0 / (1.0 + 0.3275911 * a);
    float p = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))));

    return sign(x) * (1.0 - p * exp(-min(a * a, 87.0)));
}

// enum native_act; the clipped gate of gpt-oss needs both its numbers and is in `rows`.
float act_of(uint act, float x)
{
    switch (act) {
    case 1u:
        return x * sigmoid_of(x);
    case 2u:
        return 0.5 * x * (1.0 + erf_of(x * 0.70710678));
    case 3u:
        return 0.5 * x * (1.0 + tanh_of(0.79788456 * (x + 0.044715 * x * x * x)));
    case 4u:
        return x > 0.0 ? x * x : 0.0;
    case 5u:
        return sigmoid_of(x);
    case 7u:
        return tanh_of(x);
    default:
        return x;
    }
}
