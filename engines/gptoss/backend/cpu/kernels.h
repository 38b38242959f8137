/* gptoss/backend/cpu/kernels.h - the arithmetic of the CPU device, in several versions.
 *
 * plain.c is portable C; avx2_*.c need AVX2 and FMA, avx512_*.c also AVX-512 with VNNI,
 * neon_*.c are for arm64, neon_dot_*.c need its dot products of bytes.  Each is compiled with
 * the flags that it needs; dispatch.c chooses at run time.  One version is used from open to
 * close.
 *
 * Batch invariance: every output element is one sum in one order, which depends only on its row
 * and the length of the row, not on the number of tokens or rows in a call or on the thread.
 * So a token's logits are bitwise the same alone, in any batch and in any chunk.  The AVX2, the
 * AVX-512 and the NEON versions give the same bits, so that an answer continues exactly on the
 * other kind of machine; the plain version differs from them in the last bits.
 *
 * Activations are converted once per vector to the order that a kernel needs (pack_*), because
 * each vector is multiplied with thousands of rows.
 */
#ifndef GPTOSS_BACKEND_CPU_KERNELS_H
#define GPTOSS_BACKEND_CPU_KERNELS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    CPU_MX_BLOCK = 32,         /* elements that share a scale */
    CPU_MX_OCTET_BYTES = 1024, /* packed activations of eight blocks */
    CPU_PAGE_TOKENS = 32,      /* positions of one KV page; a multiple of 8 */
    CPU_ALIGN = 64,            /* of every buffer handed to a kernel */
};

static inline size_t cpu_mx_packed_bytes(size_t columns)
{
    return (columns / CPU_MX_BLOCK + 7) / 8 * CPU_MX_OCTET_BYTES;
}

/* To the nearest bf16 value, ties to even. */
static inline float cpu_round_bf16(float v)
{
    uint32_t bits;

    memcpy(&bits, &v, sizeof(bits));
    bits = (bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000u;
    memcpy(&v, &bits, sizeof(v));
    return v;
}

static inline float cpu_bf16(uint16_t bits)
{
    union {
        uint32_t u;
        float f;
    } v = {.u = (uint32_t)bits << 16};
    return v.f;
}

/* y[t * y_stride + r] = sum over k of w[r * columns + k] * x[t][k], no bias. */
struct cpu_dense {
    const uint16_t *weight; /* BF16, row-major, 2-byte aligned */
    size_t columns;
    uint32_t rows;
    uint32_t tokens;
    const float *x; /* packed; token t at x + t * x_stride */
    size_t x_stride;
    float *y;
    size_t y_stride;
};

/* The same for MXFP4 rows; x[t] is a vector packed by pack_mx. */
struct cpu_mx {
    const uint8_t *blocks; /* of row 0 */
    const uint8_t *scales;
    uint32_t scale_excess;
    uint32_t rows;
    size_t columns; /* multiple of CPU_MX_BLOCK */
    const uint8_t *const *x;
    uint32_t tokens;
    float *y;
    size_t y_stride;
};

/* A group of query heads that share a KV head against one sequence's cache.  Keys from..to
 * (inclusive) are visible. */
struct cpu_attend {
    const float *q; /* [group][head_dim], rotated */
    uint32_t group;
    uint32_t head_dim;
    float scale;
    const float *sink; /* [group] */
    uint32_t from;
    uint32_t to;
    const uint32_t *pages; /* page of positions i * CPU_PAGE_TOKENS.. */
    const float *base;     /* K of this layer and head in page 0: [head_dim][page] */
    size_t v_offset;       /* floats from K to V: [page][head_dim] */
    size_t page_stride;    /* floats from one page to the next */
    float *out;            /* [group][head_dim] */
    float *scratch;        /* cpu_attend_scratch(group, head_dim) floats */
};

static inline size_t cpu_attend_scratch(uint32_t group, uint32_t head_dim)
{
    return (size_t)group * (CPU_PAGE_TOKENS + head_dim + 16);
}

struct cpu_kernels {
    const char *name;
    void (*pack_dense)(const float *x, size_t columns, float *out);
    void (*dense)(const struct cpu_dense *job);
    /* `count` blocks of x become blocks first.. of the packed vector.  `first` is even, and so
     * is `count` unless these are the last blocks. */
    void (*pack_mx)(const float *x, size_t first, size_t count, uint8_t *vector);
    void (*mx)(const struct cpu_mx *job);
    void (*attend)(const struct cpu_attend *job);
    /* out = weight * x / sqrt(mean(x^2) + eps) */
    void (*norm)(const float *x, const uint16_t *weight, size_t n, float eps, float *out);
    /* out[i] = gate * sigmoid(1.702 gate) * (up + 1) with u = gate, up alternating */
    void (*swiglu)(const float *u, size_t n, float limit, float *out);
};

const struct cpu_kernels *cpu_kernels_plain(void);
const struct cpu_kernels *cpu_kernels_avx2(void);   /* NULL: not supported by this processor */
const struct cpu_kernels *cpu_kernels_avx512(void); /* the same */
const struct cpu_kernels *cpu_kernels_neon(void);
const struct cpu_kernels *cpu_kernels_neon_dot(void);
const struct cpu_kernels *cpu_kernels_best(void);

#endif
