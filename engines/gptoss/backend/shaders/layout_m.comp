#version 450
// How the device lays out cooperative matrices: invocation i of a subgroup writes the numbers
// (row * 16 + column of A; row * 8 + column of B) that it holds.  Grid: 1, one subgroup.
#include "common.glsl"
#include "matrix.glsl"
layout(push_constant) uniform P { push_fill p; };
layout(set = 0, binding = 0) buffer O { uint held[]; };
shared float16_t number[256];

void main()
{
    uint me = gl_SubgroupInvocationID;
    MATRIX_A a;
    MATRIX_B b;

    for (uint i = me; i < 256u; i += gl_SubgroupSize)
        number[i] = float16_t(float(i));
    barrier();
    coopMatLoad(a, number, 0, 16, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, number, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    held[me * 14u] = uint(a.length());
    held[me * 14u + 1u] = uint(b.length());
    if (a.length() != 8 || b.length() != 4)
        return;
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        held[me * 14u + 2u + i] = uint(a[i]);
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        held[me * 14u + 10u + i] = uint(b[i]);
}
