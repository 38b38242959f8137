// gptoss/backend/shaders/mx.glsl - the parts of an expert's MXFP4 matrix, for a few tokens.
#include "strides.glsl"
layout(set = 0, binding = 0) readonly buffer W { uvec4 blocks[]; };
layout(set = 0, binding = 1) readonly buffer S { uint scales[]; };
layout(set = 0, binding = 2) readonly buffer B { uint bias[]; };

// Activations in shared memory, a block of 32 in eight pieces of 16 bytes.  Invocations read
// the same piece of different blocks at a time, so the pieces are rotated over the banks.
shared vec4 activation[SHARED_PIECES];

uint rotated(uint piece)
{
    return (piece & ~7u) | (piece + piece / 8u & 7u);
}

float scale_of(uint at)
{
    return mx_scale(scales[at / 4u] >> at % 4u * 8u & 255u, p.excess);
}

// The sums of MX_ROWS rows of the matrix, which begin at those blocks, over `count` blocks.
// `first` is the place of the activations, `shift` is scale_shift() of the expert.
void add_rows(inout float sum[MX_ROWS], uint start[MX_ROWS], uint first, uint count, uint shift)
{
    for (uint g = gl_SubgroupInvocationID; g < count; g += gl_SubgroupSize) {
        uvec4 w[MX_ROWS];
        float scale[MX_ROWS], s[MX_ROWS];
        [[unroll]] for (uint r = 0u; r < MX_ROWS; r++) {
            w[r] = blocks[start[r] + g];
            scale[r] = scale_of(start[r] + g + shift);
            s[r] = 0.0;
        }
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            vec4 low = activation[first + rotated(g * 8u + 2u * i)];
            vec4 high = activation[first + rotated(g * 8u + 2u * i + 1u)];
            [[unroll]] for (uint r = 0u; r < MX_ROWS; r++)
                s[r] += mx_dot(w[r][i], low, high);
        }
        [[unroll]] for (uint r = 0u; r < MX_ROWS; r++)
            sum[r] += s[r] * scale[r];
    }
}
