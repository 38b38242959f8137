/* gptoss/backend/cuda/select.h - which kernels run an operation, and with which grid.
 *
 * Pure functions of (model shape, rows, device): no driver, no device, no memory.  The
 * launching code (launch.c, products.c, experts.c) calls these and only fills in addresses, so
 * that a test without a GPU sees every choice for every GPU.
 *
 *   rows        any shape and GPU                          added by Hopper's code
 *   1, 2        as the following                           token_layers, token_layers_2: all
 *                                                          layers, one kernel
 *   1           rows_1_32
 *   3 .. 8      as the following                           attend_layer_4, attend_layer_8: all
 *                                                          of a layer but its experts
 *   2 .. 64     rows_2_64 if the matrix is wide enough,    expert_stream for the experts
 *               else rows_1_32 in passes; experts that
 *               need more shared memory than the GPU has:
 *               rows_tiled
 *   65 ..       rows_tiled                                 prompt_dense; experts by the mean
 *                                                          number of rows that chose one:
 *                                                          expert_stream, expert_few, prompt
 *   logits      up to 8 rows_1_32, up to 64 logits_rows,   prompt_dense from 65 rows on
 *               else rows_tiled
 */
#ifndef GPTOSS_CUDA_SELECT_H
#define GPTOSS_CUDA_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "engines/gptoss/backend/cuda/args.h"
#include "model/config.h"

enum cuda_kernel {
#define KERNEL(module, name, code) CUDA_##name,
#include "engines/gptoss/backend/cuda/kernels.def"
    CUDA_KERNEL_COUNT
};

enum cuda_module {
#define MODULE(name) CUDA_MODULE_##name,
#include "engines/gptoss/backend/cuda/kernels.def"
    CUDA_MODULE_COUNT
};

enum {
    CUDA_GRAPH_ROWS = 128,   /* most sequences of a decode step that is captured as a graph */
    CUDA_SPLIT_ROWS = 64,    /* most rows with which every context can be split over blocks */
    CUDA_STREAMED_ROWS = 64, /* most rows with which weights are streamed, not tiled */
    CUDA_SLICED_ROWS = 80,   /* the same for dense products, where shared memory has room */
};

/* The properties of a device that a choice depends on. */
struct cuda_target {
    uint32_t multiprocessors;
    uint32_t shared_per_block;                 /* bytes a block may opt in to */
    bool has[CUDA_KERNEL_COUNT];               /* the loaded code has the kernel */
    uint32_t static_shared[CUDA_KERNEL_COUNT]; /* bytes of its static arrays */
};

/* The operand of a launch decides which arguments it gets. */
enum cuda_operand {
    CUDA_ON_NORM,      /* struct cuda_norm */
    CUDA_ON_PRODUCT,   /* struct cuda_gemm of a dense product */
    CUDA_ON_UP,        /* struct cuda_gemm of the experts' first matrix */
    CUDA_ON_DOWN,      /* struct cuda_gemm of the second one */
    CUDA_ON_SORT,      /* assignments, to be sorted by expert */
    CUDA_ON_SUM,       /* outputs of the experts, to be added to the residual */
    CUDA_ON_ATTENTION, /* struct cuda_attention */
    CUDA_OPERAND_COUNT
};

struct cuda_choice {
    enum cuda_kernel kernel;
    enum cuda_operand operand;
    uint32_t x, y, z; /* blocks */
    uint32_t threads; /* of a block */
    uint32_t shared;  /* bytes of dynamic shared memory of a block */
    /* arguments that follow from the choice; 0: not used */
    uint32_t tiles_per_group; /* rows_1_32: tiles for each group of warps */
    uint32_t splits;          /* products: slices of the columns; attention: of the keys */
    uint32_t tile_tokens;     /* prompt_dense: tokens of a tile; sort: room of a tile */
};

enum { CUDA_CHOICES_MAX = 4 };

/* The launches of one operation, in order. */
struct cuda_choices {
    uint32_t count;
    struct cuda_choice at[CUDA_CHOICES_MAX];
};

/* True when the loaded code has the kernel and a block with this dynamic shared memory fits. */
bool cuda_target_can_run(const struct cuda_target *t, enum cuda_kernel kernel, uint32_t shared);

/* True when Hopper's kernels run prompts: products and attention. */
bool cuda_target_has_prompts(const struct cuda_target *t);

/* True when products of `rows` rows use Hopper's kernels for prompts. */
bool cuda_target_is_prompt(const struct cuda_target *t, uint32_t rows);

/* Tokens of a prompt in one query tile. */
uint32_t cuda_target_query_tokens(const struct cuda_target *t, const struct model_config *c);

/* True when the kernels of token.cu support this shape. */
bool cuda_fits_token(const struct model_config *c);
/* Most tokens of a step that is one kernel; 0: no step is. */
uint32_t cuda_target_token_rows(const struct cuda_target *t, const struct model_config *c);
/* Most tokens of a step whose layers begin with attend_layer.cu's kernel; 0: no step's do. */
uint32_t cuda_target_attend_rows(const struct cuda_target *t, const struct model_config *c);

/* The choices.  Of a matrix only `tiles` and `blocks` are read.
 *   qkv        norm (unless the product does it itself), product
 *   out        product
 *   logits     product
 *   norm       the norm alone, or with the router of a layer
 *   attention  of the leading single tokens (parts: further parts of long contexts), then of
 * the query tiles of prompts experts    [sort], up, down, [sum]; without a sum, down adds to
 * the residual itself */
struct cuda_choices cuda_select_qkv(const struct cuda_target *t, const struct cuda_matrix *m,
                                    uint32_t rows);
struct cuda_choices cuda_select_out(const struct cuda_target *t, const struct cuda_matrix *m,
                                    uint32_t rows);
struct cuda_choices cuda_select_logits(const struct cuda_target *t, const struct cuda_matrix *m,
                                       uint32_t rows);
struct cuda_choices cuda_select_norm(const struct cuda_target *t, const struct model_config *c,
                                     bool route, uint32_t rows);
struct cuda_choices cuda_select_attention(const struct cuda_target *t,
                                          const struct model_config *c, bool sliding,
                                          uint32_t decode_rows, uint32_t parts,
                                          uint32_t query_tiles);
/* Splits long contexts of more than CUDA_SPLIT_ROWS single tokens into parts of the same size,
 * CUDA_PARTS at most: sets `share` and `first_part` of their sequences, and lists the parts but
 * the first one of each row.  Returns the number of listed parts. */
uint32_t cuda_split_contexts(struct cuda_seq *seqs, uint32_t rows, uint32_t *parts);
struct cuda_choices cuda_select_experts(const struct cuda_target *t,
                                        const struct model_config *c,
                                        const struct cuda_matrix *up,
                                        const struct cuda_matrix *down, uint32_t rows);

/* True when the experts of `rows` rows need their activations in the column order of
 * device.cuh's prompt_column. */
bool cuda_experts_permute(const struct cuda_target *t, const struct model_config *c,
                          const struct cuda_matrix *up, const struct cuda_matrix *down,
                          uint32_t rows);

#endif
