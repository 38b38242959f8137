/* native/spec/spec.h - a model as a list of operations.
 *
 * An architecture (arch/) reads config.json and writes this list through the builder
 * (builder.h).  A device reads it: the executor of the processor (cpu/), the memory plan, and
 * `llm-router debug ops`.  The list is plain data.  No device and no function is in it.
 *
 * A register is an activation: one row of `width` floats for each token of a step.  Register
 * NATIVE_X is the residual stream.  An operation reads registers and writes one; where its
 * output is also its input it works in place.
 *
 * Thread: any, once built.
 */
#ifndef NATIVE_SPEC_SPEC_H
#define NATIVE_SPEC_SPEC_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fail.h"

typedef uint16_t reg;

enum {
    NATIVE_X = 0,
    NATIVE_NO_REG = 0xFFFF,
    NATIVE_NO_LAYER = 0xFFFF,
    NATIVE_INPUTS = 4,
    NATIVE_WEIGHTS = 4
};
#define NATIVE_NONE UINT32_MAX /* no matrix, no vector */

/* ---- weights ---- */

enum native_type {
    NATIVE_BF16,
    NATIVE_F16,
    NATIVE_F32,
    NATIVE_MXFP4,  /* experts of gpt-oss */
    NATIVE_PACKED, /* a weight format of formats/ */
};

struct native_packed;

/* A matrix in its mapping.  rows are outputs and columns inputs, also where it is stored the
 * other way round. */
struct native_matrix {
    const char *name; /* of its tensor */
    enum native_type type;
    bool transposed; /* stored as [columns][row_stride] */
    uint32_t rows, columns;
    uint64_t row_stride;                /* elements from one stored row to the next */
    const void *data;                   /* borrowed from the mapping */
    const uint8_t *scales;              /* MXFP4: one of 32 columns; else NULL */
    const struct native_packed *packed; /* PACKED: in the arena; else NULL */
    uint32_t packed_first;              /* PACKED: its row that is row 0 here */
};

/* A small tensor, converted to float32. */
struct native_vector {
    const char *name;
    const float *values;
    uint32_t count;
};

/* ---- operations ---- */

/* clang-format off */
#define NATIVE_OP_MAP(X)                                                                       \
    X(EMBED,    "embed")      /* out = scale * row of a table */                               \
    X(NORM,     "norm")       /* in groups of a row; RMS or Layer */                           \
    X(LINEAR,   "linear")     /* out = matrix . in + bias */                                   \
    X(HEADS,    "heads")      /* one matrix for each head (latent attention) */                \
    X(ROPE,     "rope")       /* in place */                                                   \
    X(ATTEND,   "attend")     /* keys and values into the cache, then attention */             \
    X(SLICE,    "slice")      /* parts of rows */                                              \
    X(GATE,     "gate")       /* out = in0 * act(in1) */                                       \
    X(ACT,      "act")        /* out = act(in) */                                              \
    X(ADD,      "add")        /* out += scale * in */                                          \
    X(SCALE,    "scale")      /* out *= constant, or a vector */                               \
    X(SOFTCAP,  "softcap")    /* out = cap * tanh(out / cap) */                                \
    X(ROUTE,    "route")      /* scores to the chosen experts and their weights */             \
    X(EXPERTS,  "experts")    /* out = sum of the chosen experts' MLPs */                      \
    X(CONV,     "conv")       /* short convolution over positions, with state */               \
    X(DELTA,    "delta")      /* gated delta rule, with state */                               \
    X(SSM,      "ssm")        /* state space (Mamba2), with state */                           \
    X(POOL,     "pool")       /* the rows of a text to one row */
/* clang-format on */

enum native_op_kind {
#define X(name, word) NATIVE_OP_##name,
    NATIVE_OP_MAP(X)
#undef X
        NATIVE_OP_COUNT
};

enum native_act {
    NATIVE_LINEAR,
    NATIVE_SILU,
    NATIVE_GELU,      /* by erf */
    NATIVE_GELU_TANH, /* by tanh */
    NATIVE_RELU2,
    NATIVE_SIGMOID,
    NATIVE_CLIPPED, /* of gpt-oss: a gate that multiplies (up + 1), both clipped */
    NATIVE_TANH,
};

/* BY_PART: the first row, and for the second text of a pair the second. */
enum native_row { NATIVE_BY_ID, NATIVE_BY_POSITION, NATIVE_FIRST_ROW, NATIVE_BY_PART };

struct native_embed {
    uint8_t row; /* enum native_row */
    bool add;    /* to what is there */
    uint32_t first;
    float scale;
};

struct native_norm {
    uint32_t group; /* values that are normalized together; the width: the whole row */
    float eps;
    bool layer;      /* subtracts the mean */
    bool plus_one;   /* multiplies by 1 + weight */
    bool wide;       /* each value of a row has its own weight; else each of a group */
    bool gate_first; /* in[1] is a gate: silu(gate) before the norm, else behind it */
};

struct native_heads {
    uint32_t heads, rows, columns; /* of one head's matrix */
    uint32_t head_rows;            /* rows of the tensor that belong to one head */
    uint32_t first_row;            /* of them */
    uint32_t in_stride, out_stride;
    bool transposed;
};

struct native_rotate {
    uint32_t table; /* index into ropes */
    uint32_t heads, head_size;
    uint32_t offset; /* of the rotated part in a head */
    bool interleaved;
};

struct native_attention {
    uint32_t heads, kv_heads;
    uint32_t head_size, value_size; /* value_size 0: head_size */
    uint32_t window;                /* 0: all positions */
    double scale;                   /* 0: 1 / sqrt(head_size) */
    double softcap;                 /* 0: none */
    double query_beta;              /* queries * (1 + beta * log(1 + position / query_floor)) */
    uint32_t query_floor;
    bool both_ways;       /* a query sees later positions of its step too */
    bool values_are_keys; /* the leading value_size of a key are its value (latent attention) */
    uint32_t source;      /* cache to read, written by another layer; NATIVE_NONE: an own one */
    const char *sinks;    /* tensor of one number per head; NULL: none */
};

struct native_slice {
    uint32_t groups, group_in, offset, length;
    uint32_t out_stride, out_offset;
};

struct native_gate {
    uint8_t act;
    uint32_t group; /* values that one value of in[1] multiplies */
    float limit;    /* CLIPPED */
};

enum native_score { NATIVE_SOFTMAX, NATIVE_SIGMOID_SCORE, NATIVE_SPARSEMIXER };

struct native_route {
    uint32_t experts, chosen;
    uint8_t score;
    bool normalize;               /* weights of the chosen add up to 1 */
    uint32_t groups, group_count; /* experts come from so many of `groups`; 0: no groups */
    bool by_best;                 /* a group counts by its best expert, not by its best two */
    float epsilon;                /* added to the sum, or its least value if negative */
    float scale;
    float jitter; /* SPARSEMIXER */
};

struct native_experts {
    uint32_t experts, chosen, inner;
    uint8_t act;
    bool gated;       /* act(gate) * up; else act(up) */
    bool interleaved; /* rows of gate and up alternate in one matrix */
    float limit;      /* CLIPPED */
};

struct native_conv {
    uint32_t channels, kernel;
    uint8_t act;
    uint32_t state; /* offset in a slot's state, in floats */
};

struct native_delta {
    uint32_t key_heads, value_heads, key_size, value_size;
    uint32_t state;
};

struct native_ssm {
    uint32_t heads, head_size, groups, state_size;
    float dt_min, dt_max;
    uint32_t state;
};

struct native_op {
    uint8_t kind;   /* enum native_op_kind */
    uint16_t layer; /* NATIVE_NO_LAYER: before or behind them */
    reg out;
    reg in[NATIVE_INPUTS];
    uint32_t matrix[3];              /* first index into matrices */
    uint32_t vector[NATIVE_WEIGHTS]; /* index into vectors */
    float scale;                     /* ADD, SCALE, SOFTCAP */
    uint32_t cache;                  /* ATTEND: index into caches */
    bool writes;                     /* ATTEND: the cache is this operation's own */
    union {
        struct native_embed embed;
        struct native_norm norm;
        struct native_heads heads;
        struct native_rotate rope;
        struct native_attention attend;
        struct native_slice slice;
        struct native_gate gate;
        struct native_route route;
        struct native_experts experts;
        struct native_conv conv;
        struct native_delta delta;
        struct native_ssm ssm;
    };
};

/* ---- memory ---- */

enum {
    NATIVE_DENSE_MAX = 4,
    NATIVE_PLACEHOLDERS_MAX = 4,
    NATIVE_KINDS_MAX = 4,
    NATIVE_ROPES_MAX = 8
};

/* Keys and values of one layer, in the pages of its kind. */
struct native_cache {
    uint32_t kind;
    uint32_t heads, key_size, value_size; /* value_size 0: values are part of the keys */
    uint32_t offset;                      /* floats of a token in the kind before this cache */
};

/* Layers with the same window share pages. */
struct native_kind {
    uint32_t window;       /* 0: all positions */
    uint32_t token_floats; /* of all its caches */
};

/* Angles of one kind of rotation.  Some depend on the length of the sequence: `longer` then
 * holds from `limit` positions on, or `base` grows with the length (dynamic). */
struct native_rope_table {
    uint32_t dims;
    const double *inverse; /* dims / 2 */
    const double *longer;  /* NULL: does not depend on the length */
    uint32_t limit;        /* positions that `inverse` serves */
    double attention;      /* factor of sine and cosine */
    double attention_longer;
    double dynamic; /* factor of dynamic scaling; 0: none */
    double theta;
};

struct native_register {
    uint32_t width;
    uint32_t buffer;      /* registers that do not live at the same time share one */
    uint32_t first, last; /* operations between which it lives */
};

/* How a model of vectors makes one row of the rows of a text. */
enum native_pool { NATIVE_NO_POOL, NATIVE_POOL_FIRST, NATIVE_POOL_MEAN, NATIVE_POOL_LAST };

struct model_weights;

struct native_spec {
    struct lr_arena arena;                         /* owns everything below but `dense` */
    struct model_weights *dense[NATIVE_DENSE_MAX]; /* owned: of layers behind the pooling */
    const char *family;                            /* name of the architecture's file */
    struct native_op *ops;
    uint32_t op_count;
    uint32_t stateful_ops; /* operations from here on need only the tokens with logits */
    uint32_t head_ops;     /* operations from here on compute logits, or begin with POOL */
    struct native_matrix *matrices;
    uint32_t matrix_count;
    struct native_vector *vectors;
    uint32_t vector_count;
    struct native_register *registers;
    uint32_t register_count;
    uint32_t *buffers; /* width of each */
    uint32_t buffer_count;
    struct native_cache *caches;
    uint32_t cache_count;
    struct native_kind kinds[NATIVE_KINDS_MAX];
    uint32_t kind_count;
    struct native_rope_table ropes[NATIVE_ROPES_MAX];
    uint32_t rope_count;
    uint32_t state_floats; /* recurrent state of one sequence */
    reg result;            /* logits, or the vector of a text */
    uint32_t hidden, layers, vocab, context;
    uint32_t placeholders[NATIVE_PLACEHOLDERS_MAX]; /* ids that are embedded as `padding` */
    uint32_t placeholder_count, padding;
    enum native_pool pool;
    bool ranks;              /* the vector is one number: how well two texts belong together */
    bool asks;               /* the two texts are part of a question, answered by yes or no */
    bool both_ways;          /* attention looks ahead: a sequence is one step */
    uint64_t weight_bytes;   /* that a step of one token may read, all experts included */
    uint64_t step_bytes;     /* that a step of one token reads, without the cache */
    const char *format;      /* quant_method of the weights; NULL: they are not quantized */
    uint32_t scales_skipped; /* of activations and of a KV cache: not needed */
    uint32_t skipped;        /* tensors that text does not need */
    const char *skipped_of;  /* name of the first of them */
};

const char *native_op_name(enum native_op_kind kind);
const char *native_act_name(enum native_act act);
/* Bytes of a matrix as it is stored. */
uint64_t native_matrix_bytes(const struct native_matrix *m);

/* ---- text (print.c) ---- */

struct lr_buf;
/* One line per operation, as a person would write the model on a board; repeated layers once.
 */
void native_spec_print(const struct native_spec *spec, struct lr_buf *out);

#endif
