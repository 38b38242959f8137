/* gptoss/backend/cpu/cpu.h - the CPU device: its state and the operations of a step.
 *
 * The weights are used in their mapping, without a copy.  Everything that grows with the batch
 * lies in the workspace, sized once for step_tokens tokens.  Thread: the engine's caller;
 * operations share their rows over the pool.
 */
#ifndef GPTOSS_BACKEND_CPU_CPU_H
#define GPTOSS_BACKEND_CPU_CPU_H

#include "engines/devices/cpu/pool.h"
#include "engines/devices/cpu/region.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/backend/cpu/kernels.h"

/* One token of the batch and its position. */
struct cpu_token {
    const struct gptoss_step *step;
    uint32_t position;
    uint32_t id;
};

/* One expert and the tokens routed to it. */
struct cpu_expert {
    uint32_t first; /* into pairs */
    uint32_t count;
};

/* A token-expert pair; its number is its index in `hidden` and in the order of experts. */
struct cpu_pair {
    uint32_t token;
    uint32_t rank; /* 0 .. experts_per_token - 1, most likely first */
};

struct cpu_sizes {
    size_t q;         /* heads * head_dim */
    size_t kv;        /* kv_heads * head_dim */
    size_t qkv;       /* q + 2 kv */
    size_t packed;    /* floats of the widest packed dense vector */
    size_t mx_hidden; /* bytes of a packed MX vector of hidden columns */
    size_t mx_inner;  /* ... of intermediate columns */
    size_t group;     /* heads / kv_heads */
};

struct gptoss_backend {
    const struct model_gptoss *weights; /* borrowed */
    const struct model_config *config;  /* in weights */
    const uint32_t *usable;             /* borrowed */
    const struct cpu_kernels *kernels;
    bool rounds; /* rounds activations to bf16 where the CUDA device does */
    const struct gptoss_trace *trace; /* borrowed; NULL: none */
    struct gptoss_plan plan;
    struct cpu_sizes size;
    struct engine_pool *pool;
    struct sampler **samplers; /* one per thread */

    /* Key/value cache: [page][layer of the kind][K then V][kv head][head_dim * page] */
    float *full_cache;
    float *window_cache;
    struct engine_region regions[GPTOSS_KINDS]; /* owned: memory of the two caches */
    uint32_t *kind_index; /* by layer: its index among the layers of its kind */

    /* Workspace, for step_tokens tokens. */
    void *block;
    struct cpu_token *tokens;
    double *rope_frequency; /* head_dim / 2 */
    float *rope;            /* [token][cos half | sin half] */
    float *x;               /* [token][hidden], the residual stream */
    float *normed;          /* [thread][max(hidden, q)], unpacked scratch */
    float *packed;          /* [token][packed] */
    float *qkv;             /* [token][qkv] */
    float *mixed;           /* [token][q]: attention's output */
    float *router;          /* [token][experts] */
    uint32_t *choice;       /* [token][experts_per_token] */
    float *chance;          /* the same: weight of each chosen expert */
    uint32_t *pair_of;      /* the same: number of the pair */
    struct cpu_expert *experts;
    struct cpu_pair *pairs;
    const uint8_t **pair_input; /* packed MX input of each pair */
    const uint8_t **pair_inner; /* packed MX inner vector of each pair */
    uint8_t *mx_input;          /* [token][mx_hidden] */
    uint8_t *mx_inner;          /* [pair][mx_inner] */
    float *thread_rows;         /* [thread][pairs * rows of a task] */
    float *attend_scratch;      /* [thread][cpu_attend_scratch] */
    float *logits;              /* [max_sequences][vocab_rows] */
    uint32_t *sample_steps;     /* [max_sequences] */
    const float **sample_rows;  /* [max_sequences] */
};

struct cpu_step {
    struct gptoss_backend *b;
    const struct gptoss_batch *batch;
    uint32_t tokens; /* after the attention of the last layer: only tokens with logits */
    uint32_t layer;
};

static inline bool cpu_token_has_logits(const struct cpu_token *t)
{
    const struct gptoss_step *s = t->step;

    return s->logits != NULL ||
           (s->sample != NULL && t->position + 1 == s->position + s->count);
}

/* The operations, in the order of a layer.  x is the residual stream. */
void cpu_embed(struct cpu_step *s);
void cpu_attention(struct cpu_step *s); /* x += attention(norm(x)) */
void cpu_experts(struct cpu_step *s);   /* x += experts(norm(x)) */
void cpu_logits(struct cpu_step *s);    /* logits and sampled tokens the batch asks for */

/* y = weight . x + bias for all tokens, rows shared over the pool.  With `add` the result is
 * added to y. */
struct cpu_linear {
    const uint16_t *weight;
    const uint16_t *bias; /* NULL: none */
    size_t columns;
    uint32_t rows;
    float *y;
    size_t y_stride;
    uint32_t add;
};
void cpu_linear_run(struct gptoss_backend *b, const struct cpu_linear *parts, uint32_t count,
                    const float *x, size_t x_stride, uint32_t tokens);

/* Rounds activations if the backend has that option. */
static inline void cpu_round(const struct gptoss_backend *b, float *x, size_t count)
{
    for (size_t i = 0; b->rounds && i < count; i++)
        x[i] = cpu_round_bf16(x[i]);
}

/* Reads the mapped weights into memory and reports progress in bytes (read.c).  CANCELLED when
 * the host asks to stop. */
LR_MUST_USE lr_code cpu_read_weights(const struct gptoss_backend_host *host,
                                     const struct model_gptoss *weights, struct lr_error *err);

/* ---- memory.c ---- */

LR_MUST_USE lr_code cpu_resize(struct gptoss_backend *b, enum gptoss_kind kind, uint32_t pages,
                               struct lr_error *err);
LR_MUST_USE lr_code cpu_move(struct gptoss_backend *b, enum gptoss_kind kind,
                             const struct gptoss_move *moves, uint32_t count,
                             struct lr_error *err);

/* Exposed for tests. */
void cpu_route(const float *logits, uint32_t experts, uint32_t chosen, uint32_t *choice,
               float *chance);

enum { CPU_LINEAR_ROWS = 64, CPU_UP_ROWS = 128, CPU_DOWN_ROWS = 32, CPU_TOKEN_BLOCK = 24 };

#endif
