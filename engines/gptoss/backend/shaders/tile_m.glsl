// gptoss/backend/shaders/tile_m.glsl - tile.glsl by cooperative matrices: 128 rows of a weight
// times TILE_TOKENS packed rows of activations, eight subgroups of 32.  The includer has
// fetch_weights(), which reads 32 columns, put_weights(), which puts them into shared memory as
// float16, and token_at(): the row of packed numbers of a token of the tile.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define TILE_ROWS 128
#define TILE_K    32
#define STRIDE    5 // pieces of 16 bytes of a row in shared memory: four and one against conflicts
#if TILE_TOKENS == 64
#define ROW_PARTS   2 // 16 x 16 matrices of a subgroup
#define TOKEN_PARTS 2
#define TOKEN_SETS  2 // subgroups beside each other
#else
#define ROW_PARTS   1
#define TOKEN_PARTS 1
#define TOKEN_SETS  1
#endif
#define TILE_A coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define TILE_B coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define TILE_C coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

shared uvec4 tile_w[TILE_ROWS * STRIDE];
shared uvec4 tile_x[2][TILE_TOKENS * STRIDE];
shared float tile_part[8][256]; // of a subgroup: [token][row]
TILE_C tile_sum[ROW_PARTS][TOKEN_PARTS];
uvec4 fetched_x[2];

void fetch_weights(uint column);
void put_weights();
uint token_at(uint i);

void fetch_tokens(uint from, uint pieces, uint column)
{
    if (gl_LocalInvocationID.x >= TILE_TOKENS * 4u)
        return;
    fetched_x[0] = packed[from + column / 8u];
    if (TWO_PARTS)
        fetched_x[1] = packed[from + pieces + column / 8u];
}

void put_tokens()
{
    uint i = gl_LocalInvocationID.x, at = i / 4u * STRIDE + i % 4u;

    if (i >= TILE_TOKENS * 4u)
        return;
    tile_x[0][at] = fetched_x[0];
    if (TWO_PARTS)
        tile_x[1][at] = fetched_x[1];
}

void tile_multiply(uint columns)
{
    uint rows = gl_SubgroupID / TOKEN_SETS * ROW_PARTS * 16u;
    uint tokens = gl_SubgroupID % TOKEN_SETS * TOKEN_PARTS * 16u, pieces = columns / 8u;
    uint from = token_at(min(gl_LocalInvocationID.x / 4u, TILE_TOKENS - 1u)) * 2u * pieces + gl_LocalInvocationID.x % 4u;

    [[unroll]] for (uint r = 0u; r < ROW_PARTS; r++)
        [[unroll]] for (uint t = 0u; t < TOKEN_PARTS; t++)
            tile_sum[r][t] = TILE_C(0.0);
    fetch_weights(0u);
    fetch_tokens(from, pieces, 0u);
    for (uint column = 0u; column < columns; column += TILE_K) {
        put_weights();
        put_tokens();
        barrier();
        if (column + TILE_K < columns) {
            fetch_weights(column + TILE_K);
            fetch_tokens(from, pieces, column + TILE_K);
        }
        [[unroll]] for (uint k = 0u; k < 2u; k++) {
            TILE_A a[ROW_PARTS];
            [[unroll]] for (uint r = 0u; r < ROW_PARTS; r++)
                coopMatLoad(a[r], tile_w, (rows + r * 16u) * STRIDE + k * 2u, STRIDE, gl_CooperativeMatrixLayoutRowMajor);
            [[unroll]] for (uint part = 0u; part < (TWO_PARTS ? 2u : 1u); part++)
                [[unroll]] for (uint t = 0u; t < TOKEN_PARTS; t++) {
                    TILE_B b;
                    coopMatLoad(b, tile_x[part], (tokens + t * 16u) * STRIDE + k * 2u, STRIDE, gl_CooperativeMatrixLayoutColumnMajor);
                    [[unroll]] for (uint r = 0u; r < ROW_PARTS; r++)
                        tile_sum[r][t] = coopMatMulAdd(a[r], b, tile_sum[r][t]);
                }
        }
        barrier();
    }
}

// Puts 16 x 16 sums where this subgroup can read them, and says which rows and tokens they are.
void tile_take(uint r, uint t, out uint row, out uint token)
{
    subgroupBarrier();
    coopMatStore(tile_sum[r][t], tile_part[gl_SubgroupID], 0, 16, gl_CooperativeMatrixLayoutColumnMajor);
    subgroupMemoryBarrierShared();
    subgroupBarrier();
    row = gl_SubgroupID / TOKEN_SETS * ROW_PARTS * 16u + r * 16u;
    token = gl_SubgroupID % TOKEN_SETS * TOKEN_PARTS * 16u + t * 16u;
}
