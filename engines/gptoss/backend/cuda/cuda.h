/* gptoss/backend/cuda/cuda.h - the CUDA device: its state and how its parts share it.
 *
 *   driver.c  the driver API         plan.c  shapes and sizes, before anything is loaded
 *   load.c    weights to the device  launch.c  the kernels of one step
 *   products.c  dense products       experts.c  experts
 *   prompt.c  prompts on Hopper
 *   token.c   the one kernel that runs all layers of a single token, where it can
 *   random.c  weights without a file, and how fast the device's memory reads
 *   cuda.c    open and close         forward.c  one step: what it needs there, and back
 *   filter.c  sampling with penalties, masks and filters on the device
 *   host_sampling.c  sampling on the host, where the device has no code for it
 *   trace.c   what the routers chose, for tests
 *
 * Device memory is four allocations: weights, the two page pools, workspace.  All work goes
 * to one stream.  A decode step (one token a sequence) of n sequences is captured once as
 * a graph and replayed; what changes between steps lies in device memory, not in
 * kernel arguments.  Thread: the engine's caller.
 */
#ifndef GPTOSS_CUDA_CUDA_H
#define GPTOSS_CUDA_CUDA_H

#include <stdbool.h>

#include "engines/common/pool.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/backend/cuda/args.h"
#include "engines/gptoss/backend/cuda/driver.h"
#include "engines/gptoss/backend/cuda/token.h"

enum {
    CUDA_GRAPH_ROWS = 64,   /* decode steps of up to so many sequences are graphs */
    CUDA_SKINNY_ROWS = 64,  /* tokens up to which weights are streamed, not tiled */
    CUDA_LOGIT_ROWS = 64,   /* rows of logits made at a time */
    CUDA_HOST_THREADS = 8,  /* at most; they sample what the device does not */
    CUDA_SAMPLE_PARTS = 64, /* blocks that share a row of logits */
    CUDA_EDITS = 1 << 19,   /* ids that penalties and bias change, over all rows of a step */
    CUDA_STAGING_SLOTS = 4,
    CUDA_STAGING_BYTES = 32 << 20,
};

/* Kernels by module: those in the code of every architecture, and those in the code of some
 * (Hopper's; part of them in later ones').  Where one of the latter has no code the whole
 * kernel is left out, never its body alone, so that what the driver loaded tells: the driver
 * may have compiled PTX of an older architecture than the GPU's.  cuda_can_run() is to be asked
 * before one is chosen; to launch one that is not there is an error. */
/* clang-format off */
#define CUDA_COMMON_KERNELS(X)                                                                 \
    X(skinny, skinny_qkv_1) X(skinny, skinny_qkv_2) X(skinny, skinny_qkv_4)                    \
    X(skinny, skinny_out_1) X(skinny, skinny_out_2) X(skinny, skinny_out_4)                    \
    X(skinny, skinny_logits_1) X(skinny, skinny_logits_2) X(skinny, skinny_logits_4)           \
    X(skinny, skinny_gate_up_slot) X(skinny, skinny_down_slot)                                 \
    X(skinny, skinny_gate_up_expert) X(skinny, skinny_down_expert)                             \
    X(wide, wide_qkv_1) X(wide, wide_qkv_2) X(wide, wide_qkv_4) X(wide, wide_qkv_8)            \
    X(wide, wide_out_1) X(wide, wide_out_2) X(wide, wide_out_4) X(wide, wide_out_8)            \
    X(wide, tall_logits_2) X(wide, tall_logits_4) X(wide, tall_logits_8)                       \
    X(tile, tile_qkv) X(tile, tile_out) X(tile, tile_logits)                                   \
    X(tile, tile_gate_up) X(tile, tile_down)                                                   \
    X(attention, attention_decode_8) X(attention, attention_decode_16)                         \
    X(attention, attention_prefill)                                                            \
    X(elementwise, embed) X(elementwise, norm_only)                                            \
    X(route, norm_route) X(route, norm_route_many_2) X(route, norm_route_many_8)               \
    X(elementwise, add_experts)                                                                \
    X(elementwise, sort_assignments) X(sample, sample_plain)                                   \
    X(repack, repack_bf16) X(repack, repack_bias) X(repack, repack_mxfp4)                      \
    X(repack, repack_scales) X(repack, fill_random) X(repack, read_memory)
#define CUDA_HOPPER_KERNELS(X)                                                                 \
    X(expert_stream, stream_gate_up) X(expert_stream, stream_down)                             \
    X(prompt_dense, prompt_qkv) X(prompt_dense, prompt_out)                                    \
    X(prompt, prompt_gate_up) X(prompt, prompt_down)                                           \
    X(prompt_attention, prompt_attention) X(sample_filtered, sample_filtered)                  \
    X(token, token_layers)
#define CUDA_KERNELS(X) CUDA_COMMON_KERNELS(X) CUDA_HOPPER_KERNELS(X)
#define CUDA_MODULES(X)                                                                        \
    X(skinny) X(expert_stream) X(wide) X(tile) X(prompt) X(prompt_dense) X(attention)          \
    X(prompt_attention) X(elementwise) X(route) X(sample) X(sample_filtered)         \
    X(repack) X(token)
/* clang-format on */

enum cuda_kernel {
#define X(module, name) CUDA_##name,
    CUDA_KERNELS(X)
#undef X
        CUDA_KERNEL_COUNT
};

enum cuda_module {
#define X(name) CUDA_MODULE_##name,
    CUDA_MODULES(X)
#undef X
        CUDA_MODULE_COUNT
};

/* Device addresses of one layer's weights. */
struct cuda_layer {
    struct cuda_matrix qkv, out, gate_up, down;
    const uint16_t *attn_norm, *mlp_norm, *sinks, *router, *router_bias;
    uint32_t kind_index; /* among the layers of its kind */
    bool sliding;
};

/* Device addresses of the workspace, and where the step's inputs lie in it. */
struct cuda_workspace {
    uint8_t *inputs; /* one copy a step: rows, sequences, tables */
    float *residual;
    uint16_t *normed;
    uint16_t *q;
    uint16_t *mixed; /* attention's output */
    uint32_t *choice;
    float *weight;
    float *router_logits;
    uint32_t *router_tickets;
    uint16_t *inner; /* [assignment][intermediate] */
    float *expert_out;
    uint32_t *sorted;
    uint32_t *expert_tile;
    uint32_t *tile_count;
    uint16_t *final;
    float *logits;
    float *partial;
    uint32_t *attention_tickets;
    float *wide_parts;
    uint32_t *wide_tickets;
    float *best_value;
    uint32_t *best_id;
    uint32_t *sample_tickets;
    uint32_t *filter_input;
    uint32_t *usable;
};

/* Offsets into `inputs`, the same on host and device. */
struct cuda_inputs {
    uint64_t tokens, row_pos, row_full, row_window, out_rows, how, tile_seq, tile_first, seqs,
        tables, end;
};

/* What the sampling of a step gave: written by its kernels, complete when the step is. */
struct cuda_sampled {
    uint32_t ids[CUDA_LOGIT_ROWS]; /* of plain sampling, by row */
    struct cuda_filtered filtered[CUDA_LOGIT_ROWS];
};

/* The rows of a step that sample_filtered.cu samples. */
struct cuda_filters {
    bool has;          /* it has code for this GPU and this vocabulary */
    uint32_t count;    /* rows so far */
    uint32_t words;    /* of the copy so far */
    uint32_t edits;    /* of all rows so far */
    uint32_t *input;   /* pinned: what the copy brings */
    uint32_t *edit_of; /* owned; [vocabulary]: 1 and the id's edit; zero between rows */
};

struct gptoss_backend {
    const struct cuda_driver *cu;
    struct cuda_device device;
    CUcontext context;
    CUstream stream;
    CUmodule modules[CUDA_MODULE_COUNT];
    CUfunction kernels[CUDA_KERNEL_COUNT];   /* NULL: not in the code that was loaded */
    int static_shared[CUDA_KERNEL_COUNT];    /* bytes of a kernel's static arrays */
    bool overlaps[CUDA_KERNEL_COUNT];        /* waits itself for the kernel before it */
    bool launched[CUDA_KERNEL_COUNT];        /* at least once, for tests */
    CUgraphExec graphs[CUDA_GRAPH_ROWS + 1]; /* by number of sequences; NULL: not made yet */

    const struct model_gptoss *weights; /* borrowed */
    const uint32_t *usable;             /* borrowed */
    const struct model_config *config;  /* in weights */
    const struct gptoss_trace *trace;   /* borrowed; NULL: none */
    struct gptoss_plan plan;
    uint32_t q_width; /* heads * 64 */
    uint32_t vocab_rows;
    uint32_t logit_stride;

    CUdeviceptr weight_memory, full_memory, window_memory, workspace_memory;
    struct cuda_layer *layers; /* owned */
    const uint16_t *embed, *norm;
    struct cuda_matrix unembed;
    const float *rope;
    struct cuda_workspace ws;
    struct cuda_inputs at;
    struct token_args token; /* complete where has_token */
    bool has_token;

    uint8_t *host_inputs;         /* pinned */
    struct cuda_sampled *sampled; /* pinned: kernels write it, the host reads it */
    struct cuda_filters filters;
    float *host_logits;                          /* pinned: rows that the host samples */
    struct engine_pool *pool;                    /* owned; its threads sample them */
    struct sampler *samplers[CUDA_HOST_THREADS]; /* owned; one per thread */
};

/* ---- plan.c ---- */

lr_code cuda_plan(const struct model_config *config,
                  const struct gptoss_backend_options *options, struct gptoss_plan *out,
                  struct lr_error *err);

/* Places weights (base 0: only counts) and returns their bytes. */
uint64_t cuda_place_weights(struct gptoss_backend *b, const struct model_config *c,
                            uint64_t base);
uint64_t cuda_place_workspace(struct gptoss_backend *b, const struct model_config *c,
                              const struct gptoss_plan *p, uint64_t base);

/* ---- load.c ---- */

/* Uploads and repacks everything; reports bytes of the files. */
lr_code cuda_load_weights(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                          struct lr_error *err);

/* ---- random.c ---- */

/* Puts random values in the place of weights that no file holds (benchmarks). */
lr_code cuda_fill_weights(struct gptoss_backend *b, struct lr_error *err);

/* Reads the weights a few times and logs "cuda.memory" with the best rate; says nothing where
 * they are too few to tell memory from cache. */
lr_code cuda_measure_memory(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                            struct lr_error *err);

/* ---- forward.c ---- */

lr_code cuda_forward(struct gptoss_backend *b, const struct gptoss_batch *batch,
                     struct lr_error *err);

/* ---- host_sampling.c ---- */

/* A step that the host samples, and its row of logits on the device. */
struct cuda_host_row {
    struct gptoss_step *step;
    uint32_t row;
};

lr_code cuda_host_sampling_open(struct gptoss_backend *b, struct lr_error *err);
void cuda_host_sampling_close(struct gptoss_backend *b); /* also after a part of opening */
/* Fills what the steps sampled. */
lr_code cuda_host_sampling(struct gptoss_backend *b, const struct cuda_host_row *rows,
                           uint32_t count, struct lr_error *err);

/* ---- filter.c ---- */

uint64_t cuda_filter_bytes(uint32_t vocab); /* of the copy, at most */
lr_code cuda_filter_open(struct gptoss_backend *b, struct lr_error *err);
void cuda_filter_close(struct gptoss_backend *b); /* also after a part of opening */

void cuda_filter_begin(struct gptoss_backend *b);
/* Adds a row of logits to be sampled; false: the host has to sample it. */
bool cuda_filter_add(struct gptoss_backend *b, const struct sampler_input *how, uint32_t row);
/* Copies what was added, and samples.  After that the input may be written again when the
 * stream was waited for. */
lr_code cuda_filter_copy(struct gptoss_backend *b, struct lr_error *err);
lr_code cuda_filter_launch(struct gptoss_backend *b, struct lr_error *err);
/* What the i-th row that was added gave; false: the host has to sample it. */
bool cuda_filter_read(const struct gptoss_backend *b, uint32_t i, struct sampler_result *out);

/* ---- trace.c ---- */

/* Waits for the layer's router and tells b->trace what it read and chose. */
lr_code cuda_trace_routed(struct gptoss_backend *b, uint32_t layer, uint32_t rows,
                          struct lr_error *err);
/* ---- prompt.c ---- */

/* True where prompts are run by the Hopper kernels: products and attention. */
bool cuda_has_prompts(const struct gptoss_backend *b);

/* A dense product of many tokens; only where cuda_is_prompt(). */
lr_code cuda_launch_prompt_dense(struct gptoss_backend *b, struct cuda_gemm *a,
                                 enum cuda_kernel kernel, struct lr_error *err);

/* True where the products of so many rows want the columns of their activations in the order of
 * device.cuh's prompt_column. */
bool cuda_is_prompt(const struct gptoss_backend *b, uint32_t rows);

/* Tokens of a prompt that one query tile has. */
uint32_t cuda_query_tokens(const struct gptoss_backend *b);

/* ---- launch.c, products.c, experts.c ---- */

enum {
    CUDA_SKINNY_THREADS = 256,
    CUDA_TILE_THREADS = 256,
    CUDA_TILE_SHARED = 4 * 2 * CUDA_TILE_TOKENS * 64,
};

/* activation_stride of device.cuh. */
static inline uint32_t cuda_stride_of(uint32_t blocks)
{
    return blocks * 64 + (blocks % 2 == 0 ? 64 : 0);
}

/* What one step launches. */
struct cuda_shape {
    uint32_t rows;        /* tokens */
    uint32_t decode_rows; /* of them, the leading ones that are single tokens */
    uint32_t query_tiles; /* of the others */
    uint32_t out_rows;    /* rows whose logits are wanted now */
    bool gather;          /* out_rows are listed; else they are rows 0 .. out_rows - 1 */
    bool sample;
};

lr_code cuda_launch_layers(struct gptoss_backend *b, const struct cuda_shape *s,
                           struct lr_error *err);

/* The operations of a layer, each from workspace to workspace; tests run them alone.
 *   qkv        residual -> q, pages           attention  q, pages -> mixed
 *   out        mixed -> added to residual     norm       residual -> out, choice, weight
 *   experts    normed, choice, weight -> added to residual
 * norm gathers the listed rows where `rows` is given, and routes where `router` is. */
lr_code cuda_launch_qkv(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        struct lr_error *err);
lr_code cuda_launch_attention(struct gptoss_backend *b, const struct cuda_layer *l,
                              const struct cuda_shape *s, struct lr_error *err);
lr_code cuda_launch_out(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        struct lr_error *err);
lr_code cuda_launch_norm(struct gptoss_backend *b, const uint16_t *weights,
                         const struct cuda_layer *router, uint16_t *out, const uint32_t *rows,
                         uint32_t count, struct lr_error *err);
lr_code cuda_launch_experts(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                            struct lr_error *err);
/* Final norm and logits of rows listed from `first` on, then the plain sampling. */
lr_code cuda_launch_logits(struct gptoss_backend *b, const struct cuda_shape *s, uint32_t first,
                           uint32_t count, struct lr_error *err);
/* The plain sampling alone, from `count` rows of logits. */
lr_code cuda_launch_sampling(struct gptoss_backend *b, uint32_t count, struct lr_error *err);

/* The pages of a layer's kind, and where it lies in them. */
struct cuda_kv cuda_kv_of(const struct gptoss_backend *b, const struct cuda_layer *l);

/* Finds out about the loaded kernels what the launches must know, and raises the shared-memory
 * limits they need; once, after the modules are loaded. */
lr_code cuda_prepare_kernels(struct gptoss_backend *b, struct lr_error *err);

const char *cuda_kernel_name(enum cuda_kernel kernel);

/* True where the code that was loaded for this GPU has the kernel. */
static inline bool cuda_has(const struct gptoss_backend *b, enum cuda_kernel kernel)
{
    return b->kernels[kernel] != NULL;
}

/* The same, and a block with so many bytes of dynamic shared memory fits. */
static inline bool cuda_can_run(const struct gptoss_backend *b, enum cuda_kernel kernel,
                                uint32_t shared)
{
    return cuda_has(b, kernel) &&
           (uint32_t)b->static_shared[kernel] + shared <= (uint32_t)b->device.shared_per_block;
}

/* INTERNAL for a kernel that is not there. */
lr_code cuda_launch_with(struct gptoss_backend *b, enum cuda_kernel kernel,
                         const CUlaunchConfig *config, void **arguments, struct lr_error *err);
/* The same, allowed to start before its predecessor ends where its code waits for that. */
lr_code cuda_launch(struct gptoss_backend *b, enum cuda_kernel kernel, uint32_t x, uint32_t y,
                    uint32_t z, uint32_t threads, uint32_t shared, void **arguments,
                    struct lr_error *err);

/* ---- token.c ---- */

/* Places what the kernel for one token writes (base 0: only counts) and returns its bytes; 0
 * where the model has another shape than it is made for. */
uint64_t cuda_token_place(struct token_args *a, const struct model_config *c, uint64_t base);
/* After weights and workspace are placed: finds out whether the kernel can run here. */
lr_code cuda_token_open(struct gptoss_backend *b, struct lr_error *err);
/* All layers of the step's only token: inputs -> pages, residual. */
lr_code cuda_token_launch(struct gptoss_backend *b, struct lr_error *err);

#endif
