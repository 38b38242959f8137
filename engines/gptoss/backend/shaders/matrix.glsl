// gptoss/backend/shaders/matrix.glsl - products of up to four tokens by cooperative matrices.
//
// A subgroup of 32 multiplies 16 rows of a weight.  Invocation (g, q) = (id / 4, id % 4) holds
// columns of the rows g and g + 8 and of the token g % 4.  Which columns does not matter, as
// long as both sides agree, so every invocation reads whole pieces of 16 bytes of the weight,
// and nothing passes through shared memory.  The host has checked with layout_m.comp that the
// device's matrices lie like this.
//
// Activations are packed (pack.comp): float16 of the number, and float16 of what is left.  The
// tokens' first parts are the columns 0 to 3 of the matrix, the second parts 4 to 7, so the
// product is as exact as with float32.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, 16, 8, gl_MatrixUseB>
#define MATRIX_C coopmat<float, gl_ScopeSubgroup, 16, 8, gl_MatrixUseAccumulator>
#define TILE_ROWS_M 16u
#define TILE_PAIRS  4u // tokens of a product

// p: pairs of the row g, r: of the row g + 8, x: of the token.
MATRIX_C matrix_add(MATRIX_C sum, f16vec2 p0, f16vec2 p1, f16vec2 r0, f16vec2 r1, uint x0, uint x1)
{
    MATRIX_A a = MATRIX_A(float16_t(0.0));
    MATRIX_B b = MATRIX_B(float16_t(0.0));
    f16vec2 t0 = unpackFloat2x16(x0), t1 = unpackFloat2x16(x1);

    a[0] = p0.x;
    a[1] = p0.y;
    a[2] = p1.x;
    a[3] = p1.y;
    a[4] = r0.x;
    a[5] = r0.y;
    a[6] = r1.x;
    a[7] = r1.y;
    b[0] = t0.x;
    b[1] = t0.y;
    b[2] = t1.x;
    b[3] = t1.y;
    return coopMatMulAdd(a, b, sum);
}
