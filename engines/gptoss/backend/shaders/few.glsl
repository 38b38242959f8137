// gptoss/backend/shaders/few.glsl - a BF16 matrix times up to TOKENS rows.
//
// A subgroup computes ROWS rows of the matrix for all tokens.  Its invocations read adjacent
// pieces of 16 bytes, UNROLL pieces of each row at a time.  With the norm the sum of squares
// comes from the same reads, so no invocation waits for another one.
#ifndef TOKENS
#define TOKENS 1
#endif
layout(set = 0, binding = 0) readonly buffer W { uvec4 weight[]; };
layout(set = 0, binding = 1) readonly buffer B { uint bias[]; };
layout(set = 0, binding = 2) readonly buffer X { vec4 x[]; };
layout(set = 0, binding = 3) readonly buffer N { uvec4 norm[]; };

float sum[ROWS][TOKENS];

// start: the piece of 16 bytes with which a matrix row begins; from: the index of x's rows.
void multiply(uint start[ROWS], uint from[TOKENS], uint columns, bool normed, float eps)
{
    uint pieces = columns / 8u;
    float square[TOKENS];

    [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
        square[t] = 0.0;
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r][t] = 0.0;
    }
    for (uint c = gl_SubgroupInvocationID; c < pieces; c += UNROLL * gl_SubgroupSize) {
        uvec4 w[UNROLL][ROWS];
        [[unroll]] for (uint u = 0u; u < UNROLL; u++) {
            uint at = c + u * gl_SubgroupSize;
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                w[u][r] = at < pieces ? weight[start[r] + at] : uvec4(0u);
        }
        [[unroll]] for (uint u = 0u; u < UNROLL; u++) {
            uint at = min(c + u * gl_SubgroupSize, pieces - 1u);
            bool inside = c + u * gl_SubgroupSize < pieces;
            vec4 n0 = vec4(1.0), n1 = vec4(1.0);
            if (normed) {
                uvec4 n = norm[at];
                n0 = bf16_low(n);
                n1 = bf16_high(n);
            }
            [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
                uint i = from[t] * pieces * 2u + at * 2u;
                vec4 a = x[i], b = x[i + 1u];
                if (normed) {
                    if (inside)
                        square[t] += dot(a, a) + dot(b, b);
                    a *= n0;
                    b *= n1;
                }
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    sum[r][t] += dot(bf16_low(w[u][r]), a) + dot(bf16_high(w[u][r]), b);
            }
        }
    }
    [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
        float factor = 1.0;
        if (normed)
            factor = inversesqrt(subgroupAdd(square[t]) / float(columns) + eps);
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r][t] = subgroupAdd(sum[r][t]) * factor;
    }
}
