/* native/cpu/kernels.h - the arithmetic that is worth vector registers.
 *
 * One text, body.h, is compiled for each kind of registers (plain.c, avx2_kernels.c,
 * avx512_kernels.c, neon_kernels.c); dispatch.c chooses at run time.  All versions give the
 * same bits.  Each output is one sum in one order, which depends on its row alone: not on the
 * number of tokens or rows in a call, and not on the thread.
 */
#ifndef NATIVE_CPU_KERNELS_H
#define NATIVE_CPU_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engines/native/spec/spec.h"

enum { NATIVE_PAGE_TOKENS = 32, NATIVE_CPU_ALIGN = 64, NATIVE_LOOK_HEADS = 16 };

/* y[t * y_stride + r] = row r . x[t], for rows first .. first + rows - 1 of the matrix. */
struct native_dense {
    const struct native_matrix *matrix;
    uint32_t first, rows;
    uint32_t tokens;
    const float *const *x; /* one vector for each token */
    float *y;              /* of row `first` */
    size_t y_stride;
};

/* Query heads that share a key head, against one sequence's cache: positions from..to, in pages
 * of NATIVE_PAGE_TOKENS. */
struct native_look {
    const float *q; /* [group][key_size], scaled */
    uint32_t group; /* at most NATIVE_LOOK_HEADS */
    uint32_t key_size, value_size;
    bool values_are_keys;
    float softcap;      /* 0: none */
    const float *sinks; /* [group], or NULL */
    uint32_t from, to;
    const uint32_t *pages; /* page of positions i * NATIVE_PAGE_TOKENS.. */
    const float *base;     /* of this cache and head in page 0: K [key_size][page tokens], V
                            * [page tokens][value_size] */
    size_t page_stride;    /* floats from one page to the next */
    float *out;            /* [group][value_size] */
};

/* One head of the gated delta rule, one token: the state is [key_size][value_size]. */
struct native_delta_step {
    float *state;
    const float *q, *k, *v;
    uint32_t key_size, value_size;
    float decay, beta;
    float *out, *scratch; /* value_size */
};

/* One head of a state space, one token: the state is [state_size][head_size]. */
struct native_ssm_step {
    float *state;
    const float *x, *b, *c;
    uint32_t head_size, state_size;
    float decay, dt, skip;
    float *out;
};

struct native_kernels {
    const char *name;
    void (*dense)(const struct native_dense *job);
    void (*look)(const struct native_look *job);
    void (*delta)(const struct native_delta_step *job);
    void (*ssm)(const struct native_ssm_step *job);
    /* x[i] = act(x[i]) */
    void (*act)(enum native_act act, float *x, size_t n);
};

const struct native_kernels *native_kernels_plain(void);
const struct native_kernels *native_kernels_avx2(void); /* NULL: not this processor */
const struct native_kernels *native_kernels_avx512(void);
const struct native_kernels *native_kernels_neon(void);
const struct native_kernels *native_kernels_best(void);

#endif
