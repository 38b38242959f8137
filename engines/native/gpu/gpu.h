/* native/gpu/gpu.h - the device that Vulkan and Metal share; see devices/gpu/host.h.
 *
 * The list of operations becomes a list of commands for each step (launch.c).  A register is a
 * part of a buffer.  Activations and sums are float32, keys and values float16,
 * latent keys float32.  Matrices keep
 * their codes and scales; weights.c brings every weight format into one order.
 *
 * Thread: the engine's caller.
 */
#ifndef NATIVE_GPU_GPU_H
#define NATIVE_GPU_GPU_H

#include "base/fail.h"
#include "engines/devices/cpu/pool.h"
#include "engines/devices/gpu/host.h"
#include "engines/native/model.h"
#include "engines/native/shaders/push.h"
#include "engines/native/spec/open.h"
#include "engines/serving/backend.h"

enum native_gpu_kernel {
#define KERNEL(name, file, define, bindings, push) NATIVE_GPU_##name,
#include "engines/native/shaders/kernels.def"
    NATIVE_GPU_KERNELS
};

/* The kernels, compiled for each host. */
extern const struct gpu_programs native_vulkan_programs, native_metal_programs;

enum {
    NATIVE_GPU_ALLOCATIONS = 4096,
    NATIVE_GPU_PIPELINES = 256,
    NATIVE_GPU_THREADS = 16,  /* of the host */
    NATIVE_GPU_FEW = 8,       /* rows up to which `few` computes a matrix */
    NATIVE_GPU_AT_ONCE = 64,  /* more rows: their pace is learnt separately */
    NATIVE_GPU_CHOSEN = 64,   /* experts of a token */
    NATIVE_GPU_SAMPLES = 32,  /* rows of the head, at most */
    NATIVE_GPU_BUFFERS = 256, /* of registers */
};

#define NATIVE_GPU_SLOT_BYTES (32ull << 20) /* of staging memory; no row is larger */

/* ---- weights ---- */

/* Matrices of one shape that lie one after another: one, those of all experts, or of all heads.
 * Their rows are pieces of 16 bytes.  Scales, shifts, groups and tables are `side`. */
struct native_gpu_weight {
    const struct native_op *heads; /* HEADS: the operation; else NULL */
    uint32_t first, count;         /* in spec->matrices; of HEADS: heads */
    uint32_t rows, columns, units;
    uint32_t mode; /* NATIVE_MODE_... of push.h */
    bool expand;   /* to float32, on loading */
    uint32_t columns_each, rows_each, row_shift, groups, scale_rows, scale_bytes;
    float zero;
    uint32_t shifts_at, groups_at, table_at, factors_at; /* words of side; or ABSENT */
    uint64_t side_bytes;                                 /* 0: none */
    struct gpu_span side;
    uint32_t part_count, part_unit; /* rows, or matrices, of a part */
    struct gpu_span *parts;         /* owned */
};

/* All weights, and the allocations in which they lie.  Owns its arrays. */
struct native_gpu_weights {
    struct native_gpu_weight *all;
    uint32_t count;
    uint32_t *of_op;          /* by operation and role, three each: index into all, or NONE */
    struct gpu_span *vectors; /* by vector */
    uint64_t allocation_bytes[NATIVE_GPU_ALLOCATIONS];
    struct gpu_buffer *allocations[NATIVE_GPU_ALLOCATIONS]; /* NULL while a plan is made */
    uint32_t allocation_count;
    uint64_t total;
    uint64_t too_large; /* bytes of a tensor that cannot be bound; 0: none */
};

/* Decides how each matrix is kept, and where.  Without allocations it only counts.
 * UNSUPPORTED: a tensor that cannot be bound. */
lr_code native_gpu_place(struct native_gpu_weights *w, const struct native_spec *spec,
                         const struct gpu_limits *limits, struct lr_error *err);
void native_gpu_place_free(struct native_gpu_weights *w);
/* Matrix `matrix` of the group, as the processor would read it. */
struct native_matrix native_gpu_matrix(const struct native_spec *spec,
                                       const struct native_gpu_weight *w, uint32_t matrix);
/* Writes `units` pieces of a row. */
void native_gpu_row(const struct native_spec *spec, const struct native_gpu_weight *w,
                    uint32_t matrix, uint32_t row, void *out);
/* Writes `side_bytes`. */
void native_gpu_side(const struct native_spec *spec, const struct native_gpu_weight *w,
                     void *out);

/* ---- a step ---- */

struct native_gpu_made {
    enum native_gpu_kernel kernel;
    uint32_t mode;
    struct gpu_pipeline *pipeline;
};

/* Commands of a recording. */
struct native_gpu_list {
    struct gpu_command *commands; /* owned */
    uint32_t count, room;
    lr_code code; /* what failed first, with err */
    struct lr_error err;
};

/* Words in the inputs of a step: of all its tokens, and of those that are kept behind
 * spec->stateful_ops. */
struct native_gpu_inputs {
    uint32_t tokens, kept, steps, texts, tables, words;
    uint32_t ropes[NATIVE_ROPES_MAX], kept_ropes[NATIVE_ROPES_MAX];
};

/* A token with logits, or one that the pooling reads. */
struct native_gpu_kept {
    uint32_t row, step, position;
};

/* A step on its way through the operations. */
struct native_gpu_run {
    struct serving_backend *b;
    struct native_gpu_list *list;
    const struct native_op *op;
    uint32_t op_index, tokens, steps;
    uint32_t longest;      /* most positions of a sequence */
    uint32_t token_at;     /* words of the tokens' records */
    uint32_t text_at;      /* of the texts' */
    const uint32_t *ropes; /* words of the angles, by table */
    bool in_head;
    uint32_t head_from; /* the first row of the head's block */
    uint64_t limit;     /* multiply-adds of a launch of attention */
    struct native_gpu_inputs at;
    const struct serving_batch *batch;
    struct native_gpu_kept *kept; /* owned */
    uint32_t kept_count, text_count;
};

struct serving_backend {
    const struct gpu_host *host;
    struct gpu_device *device;
    struct gpu_limits limits;
    const struct native_spec *spec; /* borrowed, like usable */
    const uint32_t *usable;
    struct serving_plan plan;
    struct native_gpu_weights weights;
    uint32_t head_rows; /* rows of the registers behind spec->head_ops */
    bool wide;          /* keys and values are float32 */

    struct gpu_buffer *buffers[NATIVE_GPU_BUFFERS];    /* of the registers */
    struct gpu_buffer *inner, *hidden, *down, *sorted; /* of experts; or NULL */
    struct gpu_buffer *inputs, *state, *snapshots, *nothing;
    struct gpu_buffer *to_device; /* mapped: the inputs */
    struct gpu_buffer *to_host;   /* mapped: results */
    struct gpu_buffer **caches;   /* owned: by cache, its pages */
    uint32_t pages[SERVING_POOLS];

    struct native_gpu_made made[NATIVE_GPU_PIPELINES];
    uint32_t made_count;
    double pace[2]; /* nanoseconds of a multiply-add, as the last steps took */

    struct engine_pool *pool; /* owned; its threads sample and copy */
    struct sampler *samplers[NATIVE_GPU_THREADS];
};

/* ---- plan.c ---- */

/* The buffers of a step that are not registers. */
enum native_gpu_room {
    NATIVE_ROOM_INNER,  /* of each pair: gate and up */
    NATIVE_ROOM_HIDDEN, /* the product of both */
    NATIVE_ROOM_DOWN,   /* the expert's output */
    NATIVE_ROOM_SORTED,
    NATIVE_ROOM_INPUTS,
    NATIVE_ROOM_STATE,
    NATIVE_ROOM_NOTHING,
    NATIVE_ROOM_RESULTS,
    NATIVE_ROOMS
};
uint64_t native_gpu_room_bytes(const struct native_spec *s, const struct serving_plan *p,
                               enum native_gpu_room room);
uint32_t native_gpu_head_rows(const struct serving_plan *p);
/* Bytes of a buffer of registers. */
uint64_t native_gpu_buffer_bytes(const struct native_spec *s, const struct serving_plan *p,
                                 uint32_t buffer);
/* Latent keys stay float32: they are few, and what is made of them has a larger error. */
static inline bool native_gpu_is_wide(const struct native_cache *c, bool wide)
{
    return wide || c->value_size == 0;
}
uint64_t native_gpu_page_bytes(const struct native_cache *c, bool wide);
/* Options of extra_json, for checking results:
 *   "binding_bytes", "allocation_bytes"  lower limits, so that tensors are split
 *   "kv": "f32"                          keys and values are float32 */
struct native_gpu_extra {
    uint64_t binding_bytes, allocation_bytes; /* 0: the device's */
    bool wide;
};
struct native_gpu_extra native_gpu_extra_read(const char *json); /* json may be NULL */
void native_gpu_lower(struct gpu_limits *limits, const struct native_gpu_extra *extra);
/* The most bytes that are bound at a time. */
uint64_t native_gpu_part_bytes(const struct gpu_limits *limits);
lr_code native_gpu_plan(const struct gpu_host *host, const void *model,
                        const struct serving_options *o, struct serving_plan *out,
                        struct lr_error *err);
/* UNSUPPORTED: an operation or a size that the kernels have no code for. */
lr_code native_gpu_check(const struct native_spec *spec, const struct gpu_limits *limits,
                         struct lr_error *err);

/* ---- load.c ---- */
lr_code native_gpu_load(struct serving_backend *b, const struct serving_host *host,
                        struct lr_error *err);

/* ---- memory.c ---- */
lr_code native_gpu_resize(struct serving_backend *b, uint32_t kind, uint32_t pages,
                          struct lr_error *err);
lr_code native_gpu_move(struct serving_backend *b, uint32_t kind,
                        const struct serving_move *moves, uint32_t count, struct lr_error *err);

/* ---- launch.c ---- */
void native_gpu_list_free(struct native_gpu_list *l);
void native_gpu_copy(struct native_gpu_list *l, struct gpu_span from, struct gpu_span to);
void native_gpu_zero(struct native_gpu_list *l, struct gpu_span what);
/* The commands of run->op; how many operations of the list they are. */
void native_gpu_add(struct native_gpu_run *run);
/* Records the commands, runs them, waits, and empties the list. */
lr_code native_gpu_flush(struct serving_backend *b, struct native_gpu_list *l,
                         struct lr_error *err);
static inline struct gpu_span native_gpu_whole(struct gpu_buffer *buffer)
{
    return (struct gpu_span){buffer, 0, 0};
}

/* The place of a register's first row, in floats. */
static inline uint32_t native_gpu_at(const struct native_gpu_run *run, reg r)
{
    const struct native_register *at = &run->b->spec->registers[r];

    return run->in_head && at->first < run->b->spec->head_ops ? run->head_from * at->width : 0;
}

/* ---- inputs.c ---- */

/* Writes the batch into b->to_device, and fills run->at, kept and the counts. */
lr_code native_gpu_inputs_write(struct native_gpu_run *run, struct lr_error *err);

/* ---- forward.c ---- */
lr_code native_gpu_forward(struct serving_backend *b, const struct serving_batch *batch,
                           struct lr_error *err);

/* ---- backend.c: the functions of struct serving_backend_api, for a host ---- */
lr_code native_gpu_open(const struct gpu_host *gpu, const struct serving_host *host,
                        const void *model, const uint32_t *usable,
                        const struct serving_options *options, const struct serving_plan *plan,
                        struct serving_backend **out, struct lr_error *err);
void native_gpu_close(struct serving_backend *b);

/* Defines native_backend_<api>() over a host. */
#define NATIVE_GPU_BACKEND(api, gpu)                                                           \
    static lr_code api##_plan(const void *model, const struct serving_options *options,        \
                              struct serving_plan *out, struct lr_error *err)                  \
    {                                                                                          \
        return native_gpu_plan((gpu), model, options, out, err);                               \
    }                                                                                          \
    static lr_code api##_open_model(                                                           \
        const struct serving_host *host, const void *model, const uint32_t *usable,            \
        const struct serving_options *options, const struct serving_plan *plan,                \
        struct serving_backend **out, struct lr_error *err)                                    \
    {                                                                                          \
        return native_gpu_open((gpu), host, model, usable, options, plan, out, err);           \
    }                                                                                          \
    const struct serving_backend_api *native_backend_##api(void)                               \
    {                                                                                          \
        static const struct serving_backend_api table = {.name = #api,                         \
                                                         .plan = api##_plan,                   \
                                                         .open = api##_open_model,             \
                                                         .close = native_gpu_close,            \
                                                         .forward = native_gpu_forward,        \
                                                         .resize = native_gpu_resize,          \
                                                         .move = native_gpu_move};             \
        return &table;                                                                         \
    }

#endif
