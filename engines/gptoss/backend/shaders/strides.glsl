// gptoss/backend/shaders/strides.glsl - where the parts of an expert are.
// STRIDED 0: each part of all experts is adjacent; 1: the strides of the push constants are used.
layout(constant_id = 1) const uint STRIDED = 0u;
layout(push_constant) uniform P { push_experts p; };

// The number of the first block of a row.
uint block_of(uint expert, uint row)
{
    uint groups = p.columns / 32u;

    if (STRIDED != 0u)
        return (expert - p.first) * p.block_stride + row * groups;
    return ((expert - p.first) * p.rows + row) * groups;
}

// The scale of block b is the byte b + scale_shift().
uint scale_shift(uint expert)
{
    return STRIDED != 0u ? (expert - p.first) * (p.scale_stride - p.block_stride) : 0u;
}

// The number of a row's bias.
uint bias_of(uint expert, uint row)
{
    return expert * (STRIDED != 0u ? p.bias_stride : p.rows) + row;
}
