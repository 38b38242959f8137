/* gptoss/backend/cuda/cuda.h - the CUDA device: its state and its parts.
 *
 *   driver.c  the driver API         plan.c  shapes and sizes, before anything is loaded
 *   load.c    weights to the device  launch.c  the kernels of one step
 *   memory.c  KV pages whose number changes, the embedding table in host memory
 *   kernels.def  every kernel, and its module
 *   select.c  which kernels an operation launches, as a function without a device
 *   products.c  dense products       experts.c  experts
 *   token.c   one kernel for all layers of one token or of two, where it can run
 *   random.c  random weights, and the measured memory bandwidth
 *   cuda.c    open and close         forward.c  one step: inputs to the device, results back
 *   filter.c  sampling with penalties, masks and filters on the device
 *   host_sampling.c  sampling on the host, where the device has no code for it
 *   trace.c   the routers' choices, for tests
 *
 * Device memory is weights, the two page pools and the workspace.  All work goes to one
 * stream.  A decode step (one token a sequence) of few sequences is captured once as a graph
 * for each number of sequences and replayed; values that change between steps lie in device
 * memory, not in kernel arguments.  Thread: the engine's caller.
 */
#ifndef GPTOSS_CUDA_CUDA_H
#define GPTOSS_CUDA_CUDA_H

#include <stdbool.h>

#include "engines/devices/cpu/pool.h"
#include "engines/devices/cuda/driver.h"
#include "engines/gptoss/backend/backend.h"
#include "engines/gptoss/backend/cuda/args.h"
#include "engines/gptoss/backend/cuda/select.h"
#include "engines/gptoss/backend/cuda/token.h"

enum {
    CUDA_HOST_THREADS = 8,  /* most threads; they sample what the device cannot */
    CUDA_SAMPLE_PARTS = 64, /* blocks that share a row of logits */
    CUDA_EDITS = 1 << 19,   /* ids that penalties and bias change, over all rows of a step */
    CUDA_STAGING_SLOTS = 4,
    CUDA_STAGING_BYTES = 32 << 20,
};

/* The pages of a kind (memory.c). */
struct cuda_pages {
    CUdeviceptr base;                      /* constant; 0: none */
    uint64_t reserved;                     /* bytes of addresses, or of the only allocation */
    uint64_t piece;                        /* bytes that are mapped at a time */
    uint32_t mapped, most;                 /* pieces; most 0: one allocation */
    CUmemGenericAllocationHandle *handles; /* owned, `most` */
    uint64_t page_bytes;
};

/* Device addresses of one layer's weights. */
struct cuda_layer {
    struct cuda_matrix qkv, out, gate_up, down;
    const uint16_t *attn_norm, *mlp_norm, *sinks, *router, *router_bias;
    uint32_t kind_index; /* among the layers of its kind */
    bool sliding;
};

/* Device addresses of the workspace, and the offsets of the step's inputs in it. */
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
    float *slice_parts;
    uint32_t *slice_tickets;
    float *best_value;
    uint32_t *best_id;
    uint32_t *sample_tickets;
    uint32_t *filter_input;
    uint32_t *usable;
};

/* Offsets into `inputs`, the same on host and device. */
struct cuda_inputs {
    uint64_t tokens, turn, row_pos, row_full, row_window, out_rows, how, tile_seq, tile_first,
        seqs, parts, embedding, tables, end;
};

/* Results of a step's sampling: written by its kernels, complete when the step is. */
#define CUDA_NO_ID_YET (UINT32_MAX - 1) /* the device has not sampled this row yet */

struct cuda_sampled {
    uint32_t ids[CUDA_TURNS][CUDA_LOGIT_ROWS]; /* of plain sampling, by row */
    struct cuda_filtered filtered[CUDA_LOGIT_ROWS];
};

/* A step that was begun and is not finished. */
struct cuda_begun {
    uint32_t turn;
    uint32_t count;
    struct gptoss_step *steps[CUDA_LOGIT_ROWS]; /* borrowed, by row */
};

/* The rows of a step for sample_filtered.cu. */
struct cuda_filters {
    bool has;          /* the kernel supports this GPU and this vocabulary */
    uint32_t count;    /* rows so far */
    uint32_t words;    /* of the copy so far */
    uint32_t edits;    /* of all rows so far */
    uint32_t *input;   /* pinned: what the copy brings */
    uint32_t *edit_of; /* owned; [vocabulary]: 1 + index of the id's edit; zero between rows */
};

struct gptoss_backend {
    const struct cuda_driver *cu;
    struct cuda_device device;
    CUcontext context;
    CUstream stream;
    CUmodule modules[CUDA_MODULE_COUNT];
    CUfunction kernels[CUDA_KERNEL_COUNT];   /* NULL: not in the code that was loaded */
    struct cuda_target target;               /* properties of device and code, for select.c */
    bool overlaps[CUDA_KERNEL_COUNT];        /* its code waits for the previous kernel itself */
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

    CUdeviceptr weight_memory, workspace_memory;
    struct cuda_pages pages[GPTOSS_KINDS];
    CUdeviceptr full_memory, window_memory; /* their addresses */
    uint16_t *host_embed;                   /* pinned; NULL: the table is in device memory */
    struct cuda_layer *layers;              /* owned */
    const uint16_t *embed, *norm;
    struct cuda_matrix unembed;
    const float *rope;
    struct cuda_workspace ws;
    struct cuda_inputs at;
    /* Steps of up to token_rows tokens are one kernel each; for 1, 2, 4 and 8 tokens, each with
     * memory of its own for what blocks exchange. */
    struct token_args token[TOKEN_SETS];
    uint32_t token_rows;
    /* Most tokens of a step whose layers begin with attend_layer.cu's kernel. */
    uint32_t attend_rows;

    uint8_t *turn_inputs[CUDA_TURNS];    /* pinned: a step's copy may still wait for its turn */
    uint8_t *host_inputs;                /* those of the last step: turn_inputs[turn] */
    uint32_t turn;                       /* of the last step */
    struct cuda_begun begun[CUDA_TURNS]; /* the first one is the oldest */
    uint32_t begun_count;
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

/* The same for a device that is described: tested without a GPU. */
lr_code cuda_plan_for(const struct model_config *config,
                      const struct gptoss_backend_options *options,
                      const struct cuda_device *device, struct gptoss_plan *out,
                      struct lr_error *err);

/* Rows of logits that a plan has memory for: those of all sequences, within limits. */
uint32_t cuda_logit_rows(const struct gptoss_plan *p);

/* Computes the layout of the weights (base 0: only the size) and returns their bytes. */
uint64_t cuda_place_weights(struct gptoss_backend *b, const struct model_config *c,
                            uint64_t base);
uint64_t cuda_place_workspace(struct gptoss_backend *b, const struct model_config *c,
                              const struct gptoss_plan *p, uint64_t base);

/* ---- memory.c ---- */

lr_code cuda_pages_open(struct gptoss_backend *b, enum gptoss_kind kind, struct lr_error *err);
void cuda_pages_close(struct gptoss_backend *b, enum gptoss_kind kind);
lr_code cuda_resize(struct gptoss_backend *b, enum gptoss_kind kind, uint32_t pages,
                    struct lr_error *err);
lr_code cuda_move(struct gptoss_backend *b, enum gptoss_kind kind,
                  const struct gptoss_move *moves, uint32_t count, struct lr_error *err);
/* After the weights are placed: memory for the embedding table if it is not among them. */
lr_code cuda_embed_open(struct gptoss_backend *b, struct lr_error *err);

/* ---- load.c ---- */

/* Uploads and repacks all weights; reports progress in bytes of the files. */
lr_code cuda_load_weights(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                          struct lr_error *err);

/* ---- random.c ---- */

/* Fills weights with random values, for benchmarks without a file. */
lr_code cuda_fill_weights(struct gptoss_backend *b, struct lr_error *err);

/* Reads the weights a few times and logs "cuda.memory" with the best rate; logs nothing if they
 * are too few to tell memory from cache. */
lr_code cuda_measure_memory(struct gptoss_backend *b, const struct gptoss_backend_host *host,
                            struct lr_error *err);

/* ---- forward.c ---- */

lr_code cuda_forward(struct gptoss_backend *b, const struct gptoss_batch *batch,
                     struct lr_error *err);

/* forward() in two parts, for steps of single tokens that are sampled plainly. */
lr_code cuda_begin(struct gptoss_backend *b, const struct gptoss_batch *batch,
                   struct lr_error *err);
lr_code cuda_finish(struct gptoss_backend *b, struct lr_error *err);

/* ---- host_sampling.c ---- */

/* A step that the host samples, and its row of logits on the device. */
struct cuda_host_row {
    struct gptoss_step *step;
    uint32_t row;
};

lr_code cuda_host_sampling_open(struct gptoss_backend *b, struct lr_error *err);
void cuda_host_sampling_close(struct gptoss_backend *b); /* also after a part of opening */
/* Fills the results of the steps. */
lr_code cuda_host_sampling(struct gptoss_backend *b, const struct cuda_host_row *rows,
                           uint32_t count, struct lr_error *err);

/* ---- filter.c ---- */

uint64_t cuda_filter_bytes(uint32_t vocab, uint32_t rows); /* of the copy, at most */
lr_code cuda_filter_open(struct gptoss_backend *b, struct lr_error *err);
void cuda_filter_close(struct gptoss_backend *b); /* also after a part of opening */

void cuda_filter_begin(struct gptoss_backend *b);
/* Adds a row of logits to sample; false: the host must sample it. */
bool cuda_filter_add(struct gptoss_backend *b, const struct sampler_input *how, uint32_t row);
/* Copies the added rows to the device and samples.  The input may be written again after the
 * stream has been waited for. */
lr_code cuda_filter_copy(struct gptoss_backend *b, struct lr_error *err);
lr_code cuda_filter_launch(struct gptoss_backend *b, struct lr_error *err);
/* The result of the i-th added row; false: the host must sample the row. */
bool cuda_filter_read(const struct gptoss_backend *b, uint32_t i, struct sampler_result *out);

/* ---- trace.c ---- */

/* Waits for the layer's router and reports its input and choice to b->trace. */
lr_code cuda_trace_routed(struct gptoss_backend *b, uint32_t layer, uint32_t rows,
                          struct lr_error *err);
/* ---- launch.c, products.c, experts.c ---- */

/* The shape of one step. */
struct cuda_shape {
    uint32_t rows;        /* tokens */
    uint32_t decode_rows; /* leading rows that are sequences with a single token */
    uint32_t parts;       /* of their long contexts, but the first one of each */
    uint32_t query_tiles; /* of the others */
    uint32_t out_rows;    /* rows whose logits are needed now */
    bool gather;          /* out_rows are listed; else they are rows 0 .. out_rows - 1 */
    bool sample;
};

lr_code cuda_launch_layers(struct gptoss_backend *b, const struct cuda_shape *s,
                           struct lr_error *err);

/* The operations of a layer, each from workspace to workspace; tests run them alone.
 *   qkv        residual -> q, pages           attention  q, pages -> mixed
 *   out        mixed -> added to residual     norm       residual -> out, choice, weight
 *   experts    normed, choice, weight -> added to residual
 * norm gathers the listed rows if `rows` is given, and routes if `router` is given.  experts,
 * if a kernel of its own adds them up, also normalizes the rows with `next_norm` (NULL: not);
 * then qkv of the next layer is called with `normed`. */
lr_code cuda_launch_qkv(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        bool normed, struct lr_error *err);
lr_code cuda_launch_attention(struct gptoss_backend *b, const struct cuda_layer *l,
                              const struct cuda_shape *s, struct lr_error *err);
lr_code cuda_launch_out(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                        struct lr_error *err);
lr_code cuda_launch_norm(struct gptoss_backend *b, const uint16_t *weights,
                         const struct cuda_layer *router, uint16_t *out, const uint32_t *rows,
                         uint32_t count, struct lr_error *err);
lr_code cuda_launch_experts(struct gptoss_backend *b, const struct cuda_layer *l, uint32_t rows,
                            const uint16_t *next_norm, struct lr_error *err);
/* Final norm and logits of rows listed from `first` on, then the plain sampling. */
lr_code cuda_launch_logits(struct gptoss_backend *b, const struct cuda_shape *s, uint32_t first,
                           uint32_t count, struct lr_error *err);
/* Only the plain sampling, from `count` rows of logits. */
lr_code cuda_launch_sampling(struct gptoss_backend *b, uint32_t count, struct lr_error *err);

/* The arguments of cuda_launch_norm(). */
struct cuda_norm cuda_norm_of(const struct gptoss_backend *b, const uint16_t *weights,
                              const struct cuda_layer *router, uint16_t *out,
                              const uint32_t *rows, uint32_t count);

/* The pages of a layer's kind, and the layer's offset in them. */
struct cuda_kv cuda_kv_of(const struct gptoss_backend *b, const struct cuda_layer *l);

/* Reads properties of the loaded kernels that launches need, and raises their shared-memory
 * limits; once, after the modules are loaded. */
lr_code cuda_prepare_kernels(struct gptoss_backend *b, struct lr_error *err);

const char *cuda_kernel_name(enum cuda_kernel kernel);
enum cuda_module cuda_kernel_module(enum cuda_kernel kernel);

/* INTERNAL for a kernel without code. */
lr_code cuda_launch_with(struct gptoss_backend *b, enum cuda_kernel kernel,
                         const CUlaunchConfig *config, void **arguments, struct lr_error *err);
/* The same; may start before its predecessor ends if the kernel's code waits for that. */
lr_code cuda_launch(struct gptoss_backend *b, enum cuda_kernel kernel, uint32_t x, uint32_t y,
                    uint32_t z, uint32_t threads, uint32_t shared, void **arguments,
                    struct lr_error *err);

/* Launches every entry of a list, with the arguments of its operand.  Parameters of the choice
 * that concern a product (how it is split) are written into the product's arguments first. */
lr_code cuda_launch_chosen(struct gptoss_backend *b, const struct cuda_choices *chosen,
                           void **const arguments[CUDA_OPERAND_COUNT], struct lr_error *err);

/* ---- token.c ---- */

/* In `inputs`, where the embedding table lies in host memory: the row of the step's only token,
 * which every block of the kernel reads, and behind it a zero, its number. */
enum { TOKEN_ROW_BYTES = TOKEN_HIDDEN * 2 };

/* Computes the layout of the memory that the kernels of token.cu write (base 0: only the size)
 * and returns its bytes; 0 for a model of another shape. */
uint64_t cuda_token_place(struct token_args all[TOKEN_SETS], const struct model_config *c,
                          uint64_t base);
/* After weights and workspace are placed: checks which of the kernels this device can run. */
lr_code cuda_token_open(struct gptoss_backend *b, struct lr_error *err);
/* All layers of a step of up to token_rows single tokens: inputs -> pages, residual. */
lr_code cuda_token_launch(struct gptoss_backend *b, uint32_t rows, struct lr_error *err);
/* All of a layer but its experts, for up to attend_rows single tokens: ws.normed (the layer's
 * input) and the residual -> pages, residual, ws.normed (the experts' input), choice, weight.
 */
lr_code cuda_attend_launch(struct gptoss_backend *b, uint32_t layer, uint32_t rows,
                           struct lr_error *err);

#endif
