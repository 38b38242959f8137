/* native/cpu/cpu.h - the processor: its state, and the operations of a step.
 *
 * Most weights are used in their mapping (weights.c).  A step goes through the list of
 * operations once, for all its tokens; each operation shares its work over the threads. Results
 * do not depend on how: see kernels.h.  Operations with state take a sequence's tokens in their
 * order.
 *
 * Thread: the engine's caller.
 */
#ifndef NATIVE_CPU_CPU_H
#define NATIVE_CPU_CPU_H

#include "engines/devices/cpu/pool.h"
#include "engines/native/cpu/kernels.h"
#include "engines/native/model.h"
#include "engines/native/spec/open.h"
#include "engines/serving/backend.h"

enum { NATIVE_LINEAR_ROWS = 64, NATIVE_TOKEN_BLOCK = 24, NATIVE_DOWN_ROWS = 32 };

struct native_token {
    const struct serving_step *step;
    uint32_t position, id;
};

/* Addresses for the most pages; memory only behind the first ones. */
struct native_region {
    char *base;
    size_t reserved, usable;
    uint64_t page_bytes;
};

/* Tokens of one expert: pairs first .. first + count - 1. */
struct native_share {
    uint32_t expert, first, count;
};

struct serving_backend {
    const struct native_spec *spec;       /* borrowed */
    struct native_weights *weights;       /* owned */
    const struct native_matrix *matrices; /* of the weights, by the numbers of spec */
    const uint32_t *usable;               /* borrowed */
    const struct native_kernels *kernels;
    struct serving_plan plan;
    struct engine_pool *pool;
    struct sampler **samplers;                           /* one per thread */
    struct native_region regions[SERVING_KINDS_MAX + 1]; /* owned; the last: snapshots */
    uint32_t head_rows; /* rows of the registers behind spec->head_ops */

    /* Workspace. */
    void *block;  /* owned */
    float *state; /* [slot][state_floats] */
    struct native_token *tokens;
    uint32_t *step_first;        /* by step: its first token */
    float **buffers;             /* by buffer */
    float *ropes;                /* [table][token][cosines, sines] */
    size_t *rope_at;             /* by table: floats before it */
    struct native_share *shares; /* experts with tokens */
    uint32_t *pair_token;        /* by pair */
    uint32_t *pair_of;           /* [token][rank]: its pair */
    uint32_t *expert_count;      /* by expert */
    float *inner;                /* [pair][inner] */
    float *thread_scratch;       /* [thread][scratch] */
    size_t scratch;
    uint32_t *sample_steps;
    const float **sample_rows;
};

/* A step on its way through the operations. */
struct native_run {
    struct serving_backend *b;
    const struct serving_batch *batch;
    const struct native_op *op;
    uint32_t tokens;    /* behind spec->stateful_ops: only those with logits */
    uint32_t head_from; /* behind spec->head_ops: the first of its block of tokens */
    bool in_head;
    uint32_t texts;      /* vectors: steps that need one */
    uint32_t first_text; /* of the head's block */
    uint32_t rows;       /* vectors: tokens of all texts */
};

/* A row of a register. */
static inline float *native_row(const struct native_run *run, reg r, uint32_t token)
{
    const struct native_register *at = &run->b->spec->registers[r];
    uint32_t shift = run->in_head && at->first < run->b->spec->head_ops ? run->head_from : 0;

    return run->b->buffers[at->buffer] + (size_t)(token + shift) * at->width;
}

static inline uint32_t native_width_of(const struct native_run *run, reg r)
{
    return run->b->spec->registers[r].width;
}

static inline const float *native_values(const struct native_run *run, uint32_t vector)
{
    return vector != NATIVE_NONE ? run->b->spec->vectors[vector].values : NULL;
}

static inline float *native_scratch(const struct native_run *run, uint32_t worker)
{
    return run->b->thread_scratch + worker * run->b->scratch;
}

/* ---- operations ---- */

/* EMBED, NORM, ROPE, SLICE, GATE, ACT, ADD, SCALE, SOFTCAP, ROUTE: tokens from..to (rows.c). */
typedef void native_rows_fn(const struct native_run *run, uint32_t from, uint32_t to);
native_rows_fn *native_rows_of(enum native_op_kind kind); /* NULL: not a row operation */
void native_route_rows(const struct native_run *run, uint32_t from, uint32_t to); /* route.c */

/* run->op and the LINEAR operations behind it that read the same register; how many. */
uint32_t native_linear_run(const struct native_run *run);
void native_heads_run(const struct native_run *run);
void native_attend_run(const struct native_run *run);
void native_experts_run(const struct native_run *run);
void native_conv_run(const struct native_run *run);
void native_delta_run(const struct native_run *run);
void native_ssm_run(const struct native_run *run);
/* One row for each text of the head's block (pool.c). */
void native_pool_run(const struct native_run *run);
/* The head of a model of vectors (pool.c): lists the texts of the tokens that are left; gives
 * the rows of a block to their steps. */
void native_texts_list(struct native_run *run);
void native_texts_give(const struct native_run *run);

/* Angles of the batch's positions (ropes.c). */
void native_ropes_run(const struct native_run *run);

/* Floats of scratch that a thread needs for the operations of this model. */
size_t native_scratch_floats(const struct native_spec *spec, uint32_t step_tokens);

/* ---- step.c ---- */
lr_code native_forward(struct serving_backend *b, const struct serving_batch *batch,
                       struct lr_error *err);

/* ---- weights.c ---- */
struct native_weights;
/* Reads all weights; *out is the caller's.  CANCELLED: the host wants no more progress. */
LR_MUST_USE lr_code native_weights_open(const struct serving_host *host,
                                        const struct native_model *m, struct engine_pool *pool,
                                        struct native_weights **out, struct lr_error *err);
void native_weights_close(struct native_weights *w); /* NULL is fine */
const struct native_matrix *native_weights_matrices(const struct native_weights *w);

/* ---- plan.c ---- */
lr_code native_plan(const void *model, const struct serving_options *options,
                    struct serving_plan *out, struct lr_error *err);
/* With block NULL only the size is computed. */
size_t native_lay_out(struct serving_backend *b, char *block);

/* ---- memory.c ---- */
bool native_region_open(struct native_region *r, uint32_t pages, uint32_t most,
                        uint64_t page_bytes);
void native_region_close(struct native_region *r);
lr_code native_resize(struct serving_backend *b, uint32_t kind, uint32_t pages,
                      struct lr_error *err);
lr_code native_move(struct serving_backend *b, uint32_t kind, const struct serving_move *moves,
                    uint32_t count, struct lr_error *err);

#endif
