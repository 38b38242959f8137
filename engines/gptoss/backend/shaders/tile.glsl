// gptoss/backend/shaders/tile.glsl - a tile of a matrix product: TILE_ROWS rows of a weight
// times TILE_TOKENS rows of activations, 256 invocations.  The includer has load_weights() and
// load_tokens(), which put 32 columns into shared memory, and takes the sums.
#ifndef TILE_TOKENS
#define TILE_TOKENS 64
#endif
#define TILE_ROWS 128
#define TILE_K    32
#if TILE_TOKENS == 64
#define ROW_THREADS 16
#else
#define ROW_THREADS 32
#endif
#define QUADS  (TILE_ROWS / 4 / ROW_THREADS)        // of rows of an invocation
#define TOKENS (TILE_TOKENS * ROW_THREADS / 256)    // of an invocation

shared vec4 tile_w[TILE_K][TILE_ROWS / 4 + 1];
shared float tile_x[TILE_K][TILE_TOKENS + 4];

vec4 tile_sum[QUADS][TOKENS];

void load_weights(uint column);
void load_tokens(uint column);

void tile_put_weight(uint k, uint row, float v)
{
    tile_w[k][row / 4u][row % 4u] = v;
}

// The first row of a quad of this invocation, and its tokens.
uint tile_row(uint quad)
{
    return (quad * ROW_THREADS + gl_LocalInvocationID.x % ROW_THREADS) * 4u;
}

uint tile_token(uint i)
{
    return gl_LocalInvocationID.x / ROW_THREADS * TOKENS + i;
}

void tile_multiply(uint columns)
{
    uint quad = gl_LocalInvocationID.x % ROW_THREADS;
    uint token = gl_LocalInvocationID.x / ROW_THREADS * TOKENS;

    [[unroll]] for (uint q = 0u; q < QUADS; q++)
        [[unroll]] for (uint t = 0u; t < TOKENS; t++)
            tile_sum[q][t] = vec4(0.0);
    for (uint column = 0u; column < columns; column += TILE_K) {
        load_weights(column);
        load_tokens(column);
        barrier();
        [[unroll]] for (uint k = 0u; k < TILE_K; k++) {
            vec4 w[QUADS];
            [[unroll]] for (uint q = 0u; q < QUADS; q++)
                w[q] = tile_w[k][q * ROW_THREADS + quad];
            [[unroll]] for (uint t = 0u; t < TOKENS; t++) {
                float v = tile_x[k][token + t];
                [[unroll]] for (uint q = 0u; q < QUADS; q++)
                    tile_sum[q][t] += w[q] * v;
            }
        }
        barrier();
    }
}
