/* gptoss/backend/gpu/gpu.h - the backend that Vulkan and Metal share; see
 * devices/gpu/host.h.
 *
 * Weights lie in device memory as the files have them, MXFP4 included; where the host can wrap
 * memory, most of a model.bin is used in its mapping (in_place.c).  A tensor larger than a
 * binding of the device has several parts, and one launch for each.  Activations are float32,
 * K and V float16.
 *
 * Two paths: up to GPU_FEW rows a subgroup computes whole rows of a matrix (few_*), one launch
 * for each matrix; more rows are tiles of products (many_*), with the tokens grouped by expert.
 */
#ifndef GPTOSS_BACKEND_GPU_GPU_H
#define GPTOSS_BACKEND_GPU_GPU_H

#include "base/fail.h"
#include "engines/devices/cpu/pool.h"
#include "engines/devices/gpu/host.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/backend/shaders/push.h"

enum gpu_kernel {
#define KERNEL(name, file, define, bindings, push) GPU_##name,
#include "engines/gptoss/backend/shaders/kernels.def"
    GPU_KERNEL_COUNT
};

/* The kernels, compiled for each host, and the hosts with them. */
extern const struct gpu_programs gptoss_vulkan_programs, gptoss_metal_programs;
const struct gpu_host *gptoss_vulkan_host(void);
const struct gpu_host *gptoss_metal_host(void);

enum {
    GPU_FEW = 8,
    GPU_PARTS_MAX = 64,
    GPU_ALLOCATIONS_MAX = 1024,
    GPU_WINDOWS_MAX = 256,
    GPU_PIPELINES_MAX = 64,
    GPU_LOGIT_ROWS = 64, /* computed at a time; a multiple of what `alignment` needs */
    GPU_SPLITS_MAX = 64,
    GPU_SPLIT_KEYS = 128,
    GPU_SAMPLE_PARTS = 64,
    GPU_HOST_THREADS = 16,
    GPU_KEPT_RECORDINGS = 64,
    GPU_CHOSEN_MAX = 8,    /* experts per token that the kernels support */
    GPU_EXPERTS_MAX = 256, /* experts of a layer */
    GPU_FEW_COLUMNS = 4096,
    GPU_FEW_PAIRS = 128,   /* rows times experts per token of few_up_m */
    GPU_KEPT_ROWS = 64,    /* of a step that is recorded once */
    GPU_ROWS_AT_ONCE = 64, /* more: a submission for each layer at least */
    GPU_PACES = 2,         /* of steps with up to GPU_ROWS_AT_ONCE rows, and with more */
};

/* MODE of few_dense and many_dense. */
enum { GPU_NORM = 1, GPU_ADD = 2, GPU_BIAS = 4, GPU_GATHER = 8, GPU_TWO_PARTS = 16 };

/* MODE of the kernels of experts that are not *_m: the strides of the matrix are used.  MODE of
 * few_qkv and of rope: Q and K are stored as rope.glsl says. */
enum { GPU_STRIDED = 1, GPU_PAIRED_QKV = 2, GPU_PAIRED_ROPE = 1 };

/* Rows, or experts, first .. first + count - 1 of a tensor. */
struct gpu_part {
    struct gpu_span weight, scales;
    uint32_t first, count;
};

struct gpu_matrix {
    uint32_t rows, columns; /* of one expert */
    uint32_t part_count;
    struct gpu_part parts[GPU_PARTS_MAX];
    struct gpu_span bias;
    /* from expert to expert: blocks, bytes of scales, numbers of the bias */
    uint32_t block_stride, scale_stride, bias_stride;
};

/* A buffer over a part of the mapped file. */
struct gpu_window {
    struct gpu_buffer *buffer;
    const char *from;
    uint64_t bytes;
};

struct gpu_layer {
    bool sliding;
    struct gpu_span attn_norm, mlp_norm, sinks;
    struct gpu_matrix qkv, out, router, gate_up, down;
    struct gpu_buffer *kv; /* its pages */
};

/* Offsets in the inputs of a step; `tables` is the last. */
struct gpu_inputs {
    uint64_t rows, rope, out_rows, how, tables;
};

struct gpu_workspace {
    struct gpu_buffer *inputs, *x, *normed, *qkv, *q, *mixed, *partial, *router, *choice,
        *sorted, *tiles, *inner, *expert_out, *logits, *best, *sampled, *usable;
};

/* A decode step that was recorded, for steps of the same shape. */
struct gpu_kept {
    uint32_t rows, splits, table;
    struct gpu_recording *recording;
};

/* Which kernels with cooperative matrices are used. */
struct gpu_matrices {
    bool many;           /* for many rows */
    uint32_t few;        /* most rows of experts; of other matrices eight rows at a time */
    uint32_t dense;      /* least rows of other matrices; 0: never used for them */
    uint32_t dense_most; /* most rows of other matrices */
    uint32_t parts;      /* float16 numbers of an activation of many rows: 1 or 2 */
};

struct gpu_made {
    enum gpu_kernel kernel;
    uint32_t mode;
    struct gpu_pipeline *pipeline;
};

struct gptoss_backend {
    const struct gpu_host *host;
    struct gpu_device *device;
    struct gpu_limits limits;
    const struct model_gptoss *weights; /* borrowed, like usable and config */
    const uint32_t *usable;
    const struct model_config *config;
    struct gptoss_plan plan;
    bool late_kernels; /* each kernel is made when it is needed first */
    uint32_t few;      /* rows of the path for few rows; 0: the shape needs the other path */
    struct gpu_matrices matrices;

    struct gpu_buffer *allocations[GPU_ALLOCATIONS_MAX]; /* of the weights */
    uint64_t allocation_bytes[GPU_ALLOCATIONS_MAX];
    uint32_t allocation_count;
    struct gpu_window windows[GPU_WINDOWS_MAX]; /* of weights that stay in the file */
    uint32_t window_count;
    bool is_paired;          /* Q, K and V stay in the file, in its order of rows */
    uint64_t in_place_bytes; /* of the weights, that were not copied */
    struct gpu_matrix embed, unembed;
    struct gpu_span norm;
    struct gpu_layer *layers; /* owned */
    double *frequency;        /* owned: of the rotation */

    struct gpu_workspace ws;
    struct gpu_buffer *to_device; /* mapped: the inputs */
    struct gpu_buffer *to_host;   /* mapped: sampled ids, then logits */
    uint32_t pages[GPTOSS_KINDS];
    uint32_t logit_stride;

    struct gpu_made made[GPU_PIPELINES_MAX];
    uint32_t made_count;
    struct gpu_kept kept[GPU_KEPT_RECORDINGS];
    uint32_t kept_count;
    double pace[GPU_PACES]; /* nanoseconds of a multiply-add, as the last steps took */

    struct engine_pool *pool; /* owned; its threads sample and copy */
    struct sampler *samplers[GPU_HOST_THREADS];
};

/* ---- plan.c ---- */

/* The plan for a device that is described. */
lr_code gpu_plan_for(const struct model_config *c, const struct gptoss_backend_options *o,
                     const struct gpu_limits *limits, struct gptoss_plan *out,
                     struct lr_error *err);
/* Options of extra_json, for checking results:
 *   "binding_bytes", "allocation_bytes"  lower limits, so that tensors are split
 *   "kernels": "late"                    a kernel is compiled when it is needed first
 *   "matrices": "none" or "many"         no cooperative matrices, or only for many rows
 *   "parts": 1 or 2                      float16 numbers of an activation of many rows */
struct gpu_extra {
    uint64_t binding_bytes, allocation_bytes; /* 0: the device's */
    bool late_kernels, no_matrices, no_few_matrices;
    uint64_t parts;
};
struct gpu_extra gpu_extra_read(const char *json); /* json may be NULL */
void gpu_limits_lower(struct gpu_limits *limits, const struct gpu_extra *extra);
/* Places the weights and returns their bytes; with allocations that are NULL it only counts.
 * UNSUPPORTED: a tensor would need too many parts. */
lr_code gpu_place_weights(struct gptoss_backend *b, uint64_t *bytes, struct lr_error *err);

/* Offsets of the inputs for `rows` rows. */
struct gpu_inputs gpu_inputs_for(const struct gpu_limits *limits, uint32_t rows);

/* A buffer of the workspace: its member in struct gpu_workspace, and its bytes. */
struct gpu_room {
    size_t member;
    uint64_t bytes;
};
enum { GPU_ROOMS = 17 };
void gpu_rooms(const struct model_config *c, const struct gpu_limits *limits,
               const struct gptoss_plan *p, struct gpu_room out[GPU_ROOMS]);
/* Entries of all tables of a step. */
uint32_t gpu_table_entries(const struct gptoss_plan *p);
uint64_t gpu_to_host_bytes(const struct model_config *c);
uint64_t gpu_layer_page_bytes(const struct model_config *c);
uint32_t gpu_few_rows(const struct model_config *c, const struct gpu_limits *limits);

/* ---- in_place.c ---- */

/* Makes the windows if the weights are a mapped file and the host can wrap it. */
lr_code gpu_wrap_file(struct gptoss_backend *b, struct lr_error *err);
/* The place in a window; without a buffer: there is none. */
struct gpu_span gpu_in_place(const struct gptoss_backend *b, const void *from, uint64_t bytes);
/* Sets parts, bias and strides of a matrix whose rows and columns are set.  False: it must be
 * copied. */
bool gpu_experts_in_place(const struct gptoss_backend *b, const struct model_experts *e,
                          struct gpu_matrix *m);
bool gpu_is_in_place(const struct gptoss_backend *b, const struct gpu_buffer *buffer);

/* ---- load.c ---- */
lr_code gpu_load_weights(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                         struct lr_error *err);

/* ---- memory.c ---- */
lr_code gpu_pages_open(struct gptoss_backend *b, struct lr_error *err);
lr_code gpu_resize(struct gptoss_backend *b, enum gptoss_kind kind, uint32_t pages,
                   struct lr_error *err);
lr_code gpu_move(struct gptoss_backend *b, enum gptoss_kind kind,
                 const struct gptoss_move *moves, uint32_t count, struct lr_error *err);

/* ---- launch.c ---- */

/* Commands of a recording. */
struct gpu_list {
    struct gpu_command *commands; /* owned */
    uint32_t count, room;
    lr_code code; /* what failed first, with err */
    struct lr_error err;
};

struct gpu_shape {
    uint32_t rows;
    uint32_t splits; /* of the keys of a full layer */
    uint32_t keys;   /* most positions of a sequence */
    uint64_t limit;  /* multiply-adds of a launch of attention, where rows can be divided */
    struct gpu_inputs at;
    uint64_t table_bytes;
};

void gpu_list_free(struct gpu_list *l);
/* Multiply-adds of all layers and the logits. */
uint64_t gpu_step_work(const struct gptoss_backend *b, const struct gpu_shape *s);
void gpu_list_copy(struct gpu_list *l, struct gpu_span from, struct gpu_span to);
void gpu_list_zero(struct gpu_list *l, struct gpu_span what);
void gpu_add_inputs(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s);
void gpu_add_embed(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s);
void gpu_add_layer(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                   uint32_t layer);
/* Logits of `count` rows: listed in out_rows from `first` on, or (gather false) the first. */
void gpu_add_logits(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                    bool gather, uint32_t first, uint32_t count);
/* Samples those rows as `how` says from `first` on; the ids go to to_host. */
void gpu_add_sampling(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                      uint32_t first, uint32_t count);
void gpu_add_fill(struct gptoss_backend *b, struct gpu_list *l, struct gpu_span span,
                  uint32_t kind, uint32_t seed);
/* All pipelines that launches may need. */
lr_code gpu_make_pipelines(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                           struct lr_error *err);
/* Records the commands, or returns what failed while they were added. */
lr_code gpu_record(struct gptoss_backend *b, struct gpu_list *l, struct gpu_recording **out,
                   struct lr_error *err);
/* Records the commands, runs them, waits, and empties the list. */
lr_code gpu_run(struct gptoss_backend *b, struct gpu_list *l, struct lr_error *err);

/* ---- launch_matrix.c: the same by cooperative matrices ---- */

/* Asks the device how it lays matrices out, and decides what is used. */
lr_code gpu_matrices_open(struct gptoss_backend *b, const struct gpu_extra *extra,
                          struct lr_error *err);

/* ---- forward.c ---- */
lr_code gpu_forward(struct gptoss_backend *b, const struct gptoss_batch *batch,
                    struct lr_error *err);
void gpu_forget_kept(struct gptoss_backend *b);
/* Most multiply-adds of one submission of a step with `rows` rows. */
uint64_t gpu_work_limit(const struct gptoss_backend *b, uint32_t rows);

/* ---- backend.c: the functions of struct gptoss_backend_api, for a host ---- */
lr_code gpu_plan(const struct gpu_host *host, const struct model_config *c,
                 const struct gptoss_backend_options *o, struct gptoss_plan *out,
                 struct lr_error *err);
lr_code gpu_open(const struct gpu_host *gpu, const struct gptoss_backend_host *host,
                 const struct model_gptoss *weights, const uint32_t *usable,
                 const struct gptoss_backend_options *options, const struct gptoss_plan *plan,
                 struct gptoss_backend **out, struct lr_error *err);
void gpu_close(struct gptoss_backend *b);

/* Defines gptoss_backend_<api>() over a host. */
#define GPU_BACKEND(api, gpu)                                                                  \
    static lr_code api##_plan(const struct model_config *config,                               \
                              const struct gptoss_backend_options *options,                    \
                              struct gptoss_plan *out, struct lr_error *err)                   \
    {                                                                                          \
        return gpu_plan((gpu), config, options, out, err);                                     \
    }                                                                                          \
    static lr_code api##_open_model(                                                           \
        const struct gptoss_backend_host *host, const struct model_gptoss *weights,            \
        const uint32_t *usable, const struct gptoss_backend_options *options,                  \
        const struct gptoss_plan *plan, struct gptoss_backend **out, struct lr_error *err)     \
    {                                                                                          \
        return gpu_open((gpu), host, weights, usable, options, plan, out, err);                \
    }                                                                                          \
    const struct gptoss_backend_api *gptoss_backend_##api(void)                                \
    {                                                                                          \
        static const struct gptoss_backend_api table = {.name = #api,                          \
                                                        .plan = api##_plan,                    \
                                                        .open = api##_open_model,              \
                                                        .close = gpu_close,                    \
                                                        .forward = gpu_forward,                \
                                                        .resize = gpu_resize,                  \
                                                        .move = gpu_move};                     \
        return &table;                                                                         \
    }

#endif
