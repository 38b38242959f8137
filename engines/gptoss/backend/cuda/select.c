/* gptoss/backend/cuda/select.c - the choice of kernels: see select.h. */
#include "engines/gptoss/backend/cuda/select.h"

#include "engines/gptoss/backend/cuda/token.h"

enum {
    PASS_THREADS = 256, /* rows_1_32.cu */
    DOWN_THREADS = 512, /* rows_1_32_down_1 */
    EXPERT_TILES = 3,   /* tiles for each group of warps of an expert kernel */
    TILED_THREADS = 2 * CUDA_TILE_ROWS,
    TILED_SHARED = 4 * 2 * CUDA_TILE_TOKENS * 64,
    MANY_ROWS = 96,       /* least rows with which attention uses fewer warps a row */
    MANY_THREADS = 128,   /* of attention_decode_8_many */
    CUDA_LITTLE_ROWS = 8, /* most rows with which no expert has more than a column tile */
    SPARE_SHARED = 4096,  /* of a block's shared memory, for the static arrays of products */
};

/* The kernels of a dense product whose columns may be split among warps or blocks. */
struct product_kernels {
    enum cuda_kernel passes[3]; /* of 8, 16 and 32 rows */
    enum cuda_kernel slices[6]; /* for up to 8, 16, 32, 64, 72 and 80 rows */
    enum cuda_kernel tiled, prompt, split;
    uint32_t least; /* rows from which slices are faster than passes */
};

static const struct product_kernels qkv_kernels = {
    {CUDA_rows_1_32_qkv_8, CUDA_rows_1_32_qkv_16, CUDA_rows_1_32_qkv_32},
    {CUDA_rows_2_64_qkv_8, CUDA_rows_2_64_qkv_16, CUDA_rows_2_64_qkv_32, CUDA_rows_2_64_qkv_64,
     CUDA_rows_2_64_qkv_72, CUDA_rows_2_64_qkv_80},
    CUDA_rows_tiled_qkv,
    CUDA_prompt_qkv,
    CUDA_prompt_qkv_split,
    2};

static const struct product_kernels out_kernels = {
    {CUDA_rows_1_32_out_8, CUDA_rows_1_32_out_16, CUDA_rows_1_32_out_32},
    {CUDA_rows_2_64_out_8, CUDA_rows_2_64_out_16, CUDA_rows_2_64_out_32, CUDA_rows_2_64_out_64,
     CUDA_rows_2_64_out_72, CUDA_rows_2_64_out_80},
    CUDA_rows_tiled_out,
    CUDA_prompt_out,
    CUDA_prompt_out_split,
    CUDA_SLOT_MODE_TOKENS + 1};

static const enum cuda_kernel logits_passes[3] = {
    CUDA_rows_1_32_logits_8, CUDA_rows_1_32_logits_16, CUDA_rows_1_32_logits_32};

static uint32_t divide_up(uint32_t a, uint32_t b)
{
    return (a + b - 1) / b;
}

/* activation_stride of device.cuh: bytes of a row of activations in shared memory. */
static uint32_t stride_of(uint32_t blocks)
{
    return blocks * 64 + (blocks % 2 == 0 ? 64 : 0);
}

/* 8, 16, 32, 64, 72 or 80 rows: the index of the kernel in a list of these six. */
static uint32_t row_step(uint32_t rows)
{
    return rows <= 8    ? 0
           : rows <= 16 ? 1
           : rows <= 32 ? 2
           : rows <= 64 ? 3
           : rows <= 72 ? 4
                        : 5;
}

/* The tiles of 8 rows of such a kernel. */
static uint32_t column_tiles(uint32_t step)
{
    return step < 4 ? 1u << step : step + 5;
}

static void select_add(struct cuda_choices *all, struct cuda_choice choice)
{
    choice.y = choice.y != 0 ? choice.y : 1;
    choice.z = choice.z != 0 ? choice.z : 1;
    all->at[all->count++] = choice;
}

/* ---- properties of the device ---- */

bool cuda_target_can_run(const struct cuda_target *t, enum cuda_kernel kernel, uint32_t shared)
{
    return t->has[kernel] && t->static_shared[kernel] + shared <= t->shared_per_block;
}

bool cuda_target_has_prompts(const struct cuda_target *t)
{
    return cuda_target_can_run(t, CUDA_prompt_qkv, CUDA_DENSE_SHARED) &&
           cuda_target_can_run(t, CUDA_prompt_out, CUDA_DENSE_SHARED) &&
           cuda_target_can_run(t, CUDA_prompt_gate_up, CUDA_PROMPT_SHARED) &&
           cuda_target_can_run(t, CUDA_prompt_down, CUDA_PROMPT_SHARED) &&
           cuda_target_can_run(t, CUDA_prompt_attention, CUDA_QUERY_SHARED);
}

bool cuda_target_is_prompt(const struct cuda_target *t, uint32_t rows)
{
    return rows > CUDA_STREAMED_ROWS && cuda_target_has_prompts(t);
}

uint32_t cuda_target_query_tokens(const struct cuda_target *t, const struct model_config *c)
{
    uint32_t group = c->heads / c->kv_heads;
    return cuda_target_has_prompts(t) ? CUDA_QUERY_GROUPS * (64 / group) : 16 / group;
}

bool cuda_fits_token(const struct model_config *c)
{
    return c->hidden == TOKEN_HIDDEN && c->intermediate == TOKEN_INNER &&
           c->heads == TOKEN_HEADS && c->kv_heads == TOKEN_KV_HEADS &&
           c->experts_per_token == TOKEN_TOPK && c->swiglu_limit <= TOKEN_LIMIT_MAX &&
           (c->experts == 32 || c->experts == 64 || c->experts == 128) &&
           c->experts <= TOKEN_EXPERTS_MAX && c->layers <= TOKEN_LAYERS_MAX;
}

uint32_t cuda_target_token_rows(const struct cuda_target *t, const struct model_config *c)
{
    if (!cuda_fits_token(c) || !cuda_target_can_run(t, CUDA_token_layers, TOKEN_DYNAMIC) ||
        t->multiprocessors < TOKEN_SMS_MIN || t->multiprocessors > TOKEN_SMS_MAX)
        return 0;
    return cuda_target_can_run(t, CUDA_token_layers_2, TOKEN_DYNAMIC_2) ? 2 : 1;
}

uint32_t cuda_target_attend_rows(const struct cuda_target *t, const struct model_config *c)
{
    return cuda_target_token_rows(t, c) != 0 &&
                   cuda_target_can_run(t, CUDA_attend_layer_4, ATTEND_DYNAMIC_4) &&
                   cuda_target_can_run(t, CUDA_attend_layer_8, ATTEND_DYNAMIC_8)
               ? ATTEND_ROWS_MAX
               : 0;
}

/* ---- dense products ---- */

/* Most blocks of 32 columns of a slice, and shared memory, of rows_2_64.cu's kernels. */
static uint32_t slice_blocks(uint32_t rows)
{
    return row_step(rows) == 4 ? CUDA_ROWS_2_64_SLICE_72 : CUDA_ROWS_2_64_SLICE;
}

static uint32_t slice_shared(uint32_t rows)
{
    uint32_t step = row_step(rows);
    return (uint32_t)(step < 5 ? CUDA_ROWS_2_64_RING : CUDA_ROWS_2_64_RING_80) +
           slice_blocks(rows) * 512 * column_tiles(step);
}

/* Slices of the columns for rows_2_64.cu; 0: the product is not suited.  The whole grid must be
 * resident, because its blocks wait for each other. */
static uint32_t slices_of(const struct cuda_target *t, const struct cuda_matrix *m,
                          const struct product_kernels *k, uint32_t rows)
{
    uint32_t groups = divide_up(m->tiles, CUDA_ROWS_2_64_TILES);
    uint32_t splits = t->multiprocessors / groups;
    splits = splits > 8 ? 8 : splits;
    if (rows < k->least || rows > CUDA_SLICED_ROWS || m->blocks < 64 ||
        groups > CUDA_ROWS_2_64_GROUPS || groups * splits > CUDA_ROWS_2_64_GRID ||
        m->blocks > splits * slice_blocks(rows) ||
        !cuda_target_can_run(t, k->slices[row_step(rows)], slice_shared(rows)))
        return 0;
    return splits;
}

static struct cuda_choice in_slices(const struct cuda_matrix *m,
                                    const enum cuda_kernel *kernels, uint32_t rows,
                                    uint32_t splits)
{
    return (struct cuda_choice){.kernel = kernels[row_step(rows)],
                                .operand = CUDA_ON_PRODUCT,
                                .x = divide_up(m->tiles, CUDA_ROWS_2_64_TILES) * splits,
                                .threads = CUDA_ROWS_2_64_THREADS,
                                .shared = slice_shared(rows),
                                .splits = splits};
}

/* Tiles of prompt_dense.cu: the number of tokens of a tile, and the number of blocks that share
 * one, with which all multiprocessors finish soonest.  A step of 64 columns costs as much as
 * 130 tokens and those of the tile; sharing costs as much as 1,500 and 22 times those of the
 * tile (measured on an H200). */
static struct cuda_choice in_prompt_tiles(const struct cuda_target *t,
                                          const struct cuda_matrix *m, enum cuda_kernel whole,
                                          enum cuda_kernel split, uint32_t rows)
{
    uint32_t row_blocks = divide_up(m->tiles * 16, CUDA_DENSE_ROWS),
             steps = divide_up(m->blocks, 2), sms = t->multiprocessors,
             most = sms < CUDA_DENSE_GRID ? sms : CUDA_DENSE_GRID, best = UINT32_MAX;
    bool shares =
        split != CUDA_KERNEL_COUNT && cuda_target_can_run(t, split, CUDA_DENSE_SHARED);
    struct cuda_choice choice = {
        .operand = CUDA_ON_PRODUCT, .threads = CUDA_DENSE_THREADS, .shared = CUDA_DENSE_SHARED};
    for (uint32_t n = 32; n <= CUDA_DENSE_TOKENS; n += 32) {
        uint32_t tiles = divide_up(rows, n) * row_blocks,
                 cost = divide_up(tiles, sms) * steps * (n + 130), splits = most / tiles;
        if (cost <= best) {
            best = cost;
            choice.kernel = whole;
            choice.x = sms;
            choice.splits = 0;
            choice.tile_tokens = n;
        }
        splits = splits > CUDA_DENSE_SPLITS ? CUDA_DENSE_SPLITS : splits;
        splits = splits > steps ? steps : splits;
        if (!shares || splits < 2 || tiles > CUDA_ROWS_2_64_GROUPS)
            continue;
        cost = divide_up(steps, splits) * (n + 130) + 1500 + 22 * n;
        if (cost <= best) {
            best = cost;
            choice.kernel = split;
            choice.x = tiles * splits;
            choice.splits = splits;
            choice.tile_tokens = n;
        }
    }
    return choice;
}

static struct cuda_choice in_tiles(const struct cuda_matrix *m, enum cuda_kernel kernel,
                                   uint32_t rows)
{
    return (struct cuda_choice){.kernel = kernel,
                                .operand = CUDA_ON_PRODUCT,
                                .x = divide_up(rows, CUDA_TILE_TOKENS),
                                .y = divide_up(m->tiles, CUDA_TILE_ROWS / 16),
                                .threads = TILED_THREADS,
                                .shared = TILED_SHARED};
}

/* Passes over the weights, each with as many rows as fit.  `split`: eight warps share a tile
 * and split its columns. */
static struct cuda_choice in_passes(const struct cuda_target *t, const struct cuda_matrix *m,
                                    const enum cuda_kernel *kernels, uint32_t rows, bool split)
{
    uint32_t room = t->shared_per_block - SPARE_SHARED, step = row_step(rows), shared, columns;
    for (step = step > 2 ? 2 : step;; step--) {
        columns = 1u << step; /* of 8 rows */
        shared =
            (rows == 1 ? 1 : columns * 8) * stride_of(m->blocks) + (split ? 8192 * columns : 0);
        if (shared <= room || step == 0)
            break;
    }
    uint32_t sms = t->multiprocessors, groups = split ? 1 : 8;
    /* Loading many rows costs more than one tile of weights: then a block keeps them for
     * several tiles.  Products that are not split always loop, with two blocks a
     * multiprocessor. */
    uint32_t blocks = !split         ? sms * 2
                      : columns == 1 ? m->tiles
                                     : sms * (shared < 100000 ? 2 : 1);
    uint32_t tiles = divide_up(m->tiles, blocks * groups);
    return (struct cuda_choice){.kernel = kernels[step],
                                .operand = CUDA_ON_PRODUCT,
                                .x = divide_up(m->tiles, tiles * groups),
                                .y = divide_up(rows, columns * 8),
                                .threads = PASS_THREADS,
                                .shared = shared,
                                .tiles_per_group = tiles};
}

static struct cuda_choice select_product(const struct cuda_target *t,
                                         const struct cuda_matrix *m,
                                         const struct product_kernels *k, uint32_t rows)
{
    uint32_t splits = slices_of(t, m, k, rows);
    if (splits != 0)
        return in_slices(m, k->slices, rows, splits);
    if (cuda_target_is_prompt(t, rows))
        return in_prompt_tiles(t, m, k->prompt, k->split, rows);
    if (rows > CUDA_STREAMED_ROWS)
        return in_tiles(m, k->tiled, rows);
    return in_passes(t, m, k->passes, rows, true);
}

struct cuda_choices cuda_select_qkv(const struct cuda_target *t, const struct cuda_matrix *m,
                                    uint32_t rows)
{
    struct cuda_choice product = select_product(t, m, &qkv_kernels, rows);
    struct cuda_choices all = {0};
    /* rows_1_32 normalizes a few rows itself. */
    if (rows > CUDA_FUSED_NORM_TOKENS || product.splits != 0)
        select_add(&all, (struct cuda_choice){.kernel = CUDA_norm_only,
                                              .operand = CUDA_ON_NORM,
                                              .x = rows,
                                              .threads = 256});
    select_add(&all, product);
    return all;
}

struct cuda_choices cuda_select_out(const struct cuda_target *t, const struct cuda_matrix *m,
                                    uint32_t rows)
{
    struct cuda_choices all = {0};
    select_add(&all, select_product(t, m, &out_kernels, rows));
    return all;
}

struct cuda_choices cuda_select_logits(const struct cuda_target *t, const struct cuda_matrix *m,
                                       uint32_t rows)
{
    static const enum cuda_kernel at_once[4] = {
        CUDA_KERNEL_COUNT, /* rows_1_32 handles so few */
        CUDA_logits_rows_16, CUDA_logits_rows_32, CUDA_logits_rows_64};
    uint32_t step = row_step(rows),
             shared = CUDA_LOGITS_RING + CUDA_LOGITS_COLUMN_TILE * column_tiles(step);
    struct cuda_choices all = {0};
    if (rows > CUDA_FUSED_NORM_TOKENS && rows <= CUDA_STREAMED_ROWS &&
        shared + SPARE_SHARED <= t->shared_per_block)
        select_add(&all, (struct cuda_choice){.kernel = at_once[step],
                                              .operand = CUDA_ON_PRODUCT,
                                              .x = t->multiprocessors,
                                              .threads = CUDA_LOGITS_THREADS,
                                              .shared = shared});
    else if (cuda_target_is_prompt(t, rows) &&
             cuda_target_can_run(t, CUDA_prompt_logits, CUDA_DENSE_SHARED))
        select_add(&all, in_prompt_tiles(t, m, CUDA_prompt_logits, CUDA_KERNEL_COUNT, rows));
    else if (rows > CUDA_PASS_ROWS)
        /* The vocabulary has enough tiles for all multiprocessors; two passes over its weights
         * would be slower. */
        select_add(&all, in_tiles(m, CUDA_rows_tiled_logits, rows));
    else
        select_add(&all, in_passes(t, m, logits_passes, rows, false));
    return all;
}

/* ---- norm, router, attention ---- */

struct cuda_choices cuda_select_norm(const struct cuda_target *t, const struct model_config *c,
                                     bool route, uint32_t rows)
{
    uint32_t parts = divide_up(c->experts, CUDA_ROUTER_EXPERTS);
    struct cuda_choices all = {0};
    if (!route)
        select_add(&all,
                   (struct cuda_choice){.kernel = CUDA_norm_only, .x = rows, .threads = 256});
    else if (rows * parts <= t->multiprocessors)
        select_add(&all, (struct cuda_choice){.kernel = CUDA_norm_route,
                                              .x = rows,
                                              .y = parts,
                                              .threads = CUDA_ROUTER_EXPERTS * 32,
                                              .shared = c->hidden * 4});
    /* As long as few rows share a multiprocessor this is faster than mma. */
    else if (rows <= t->multiprocessors / parts * CUDA_ROUTER_ROWS &&
             cuda_target_can_run(t, CUDA_norm_route_rows, c->hidden * 4 * CUDA_ROUTER_ROWS))
        select_add(&all, (struct cuda_choice){.kernel = CUDA_norm_route_rows,
                                              .x = t->multiprocessors / parts,
                                              .y = parts,
                                              .threads = CUDA_ROUTER_EXPERTS * 32,
                                              .shared = c->hidden * 4 * CUDA_ROUTER_ROWS});
    else
        select_add(&all,
                   (struct cuda_choice){.kernel = c->experts <= 32 ? CUDA_norm_route_many_2
                                                                   : CUDA_norm_route_many_8,
                                        .x = divide_up(rows, 8),
                                        .threads = 256});
    all.at[0].operand = CUDA_ON_NORM;
    return all;
}

struct cuda_choices cuda_select_attention(const struct cuda_target *t,
                                          const struct model_config *c, bool sliding,
                                          uint32_t decode_rows, uint32_t parts,
                                          uint32_t query_tiles)
{
    struct cuda_choices all = {0};
    uint32_t splits = decode_rows == 0 ? 1 : CUDA_SPLIT_ROWS / decode_rows;
    splits = splits < 1 ? 1 : splits > 16 ? 16 : splits;
    /* A window has few chunks of keys: one block processes all. */
    if (sliding && c->window <= 512)
        splits = 1;
    /* Groups of up to 8 heads; the kernel for larger ones is also faster for one and two rows.
     */
    bool fold = c->heads / c->kv_heads <= 8 && decode_rows > 2,
         many = fold && decode_rows >= MANY_ROWS;
    if (decode_rows != 0)
        select_add(&all, (struct cuda_choice){.kernel = many   ? CUDA_attention_decode_8_many
                                                        : fold ? CUDA_attention_decode_8
                                                               : CUDA_attention_decode_16,
                                              .operand = CUDA_ON_ATTENTION,
                                              .x = splits,
                                              .y = c->kv_heads,
                                              .z = decode_rows + (sliding ? 0 : parts),
                                              .threads = many ? MANY_THREADS : 256,
                                              .splits = splits});
    if (query_tiles != 0 && cuda_target_has_prompts(t))
        select_add(&all, (struct cuda_choice){.kernel = CUDA_prompt_attention,
                                              .operand = CUDA_ON_ATTENTION,
                                              .x = query_tiles,
                                              .y = c->kv_heads,
                                              .threads = CUDA_QUERY_THREADS,
                                              .shared = CUDA_QUERY_SHARED,
                                              .splits = splits});
    else if (query_tiles != 0)
        select_add(&all, (struct cuda_choice){.kernel = CUDA_attention_prefill,
                                              .operand = CUDA_ON_ATTENTION,
                                              .x = divide_up(query_tiles, 4),
                                              .y = c->kv_heads,
                                              .threads = 128,
                                              .splits = splits});
    return all;
}

uint32_t cuda_split_contexts(struct cuda_seq *seqs, uint32_t rows, uint32_t *parts)
{
    uint32_t share = CUDA_PART_CHUNKS / 2, total, used = 0, listed = 0;
    if (rows <= CUDA_SPLIT_ROWS)
        return 0;
    do {
        total = 0;
        share *= 2;
        for (uint32_t row = 0; row < rows; row++) {
            uint32_t chunks = seqs[row].position / 16 + 1;
            total += chunks > share ? divide_up(chunks, share) : 0;
        }
    } while (total > CUDA_PARTS);
    for (uint32_t row = 0; row < rows; row++) {
        uint32_t count = divide_up(seqs[row].position / 16 + 1, share);
        if (count == 1)
            continue;
        seqs[row].share = share;
        seqs[row].first_part = used;
        used += count;
        for (uint32_t part = 1; part < count; part++)
            parts[listed++] = row | part << 16;
    }
    return listed;
}

/* ---- experts ---- */

/* True when a kernel of expert_stream.cu supports a matrix. */
static bool can_stream(const struct cuda_target *t, enum cuda_kernel kernel,
                       const struct cuda_matrix *m)
{
    return cuda_target_can_run(t, kernel, CUDA_STREAM_SHARED) &&
           m->blocks == CUDA_STREAM_BLOCKS && m->tiles % 2 == 0;
}

/* More rows than other streamed products support: as long as most experts have at most 16, so
 * that their weights are read once, this is faster than tiles. */
static bool streams_more(const struct model_config *c, uint32_t rows)
{
    enum { AVERAGE = 11 }; /* rows that choose an expert */
    uint32_t pairs = rows * c->experts_per_token;
    return pairs <= CUDA_TOPK_MAX * CUDA_STREAM_TOKENS && pairs <= AVERAGE * c->experts;
}

/* Shared memory of an expert's kernel that processes 16 rows at a time. */
static uint32_t expert_shared(const struct cuda_matrix *m)
{
    return 16 * stride_of(m->blocks) + 16384;
}

/* Each (row, choice) separately: few rows share few experts. */
static void by_assignment(struct cuda_choices *all, const struct model_config *c,
                          const struct cuda_matrix *up, const struct cuda_matrix *down,
                          uint32_t rows)
{
    select_add(all, (struct cuda_choice){.kernel = CUDA_rows_1_32_gate_up_1,
                                         .operand = CUDA_ON_UP,
                                         .x = divide_up(up->tiles, 4),
                                         .y = rows * c->experts_per_token,
                                         .threads = PASS_THREADS,
                                         .shared = stride_of(up->blocks) + 8192,
                                         .tiles_per_group = 1});
    select_add(all,
               (struct cuda_choice){.kernel = CUDA_rows_1_32_down_1,
                                    .operand = CUDA_ON_DOWN,
                                    .x = down->tiles,
                                    .y = rows,
                                    .threads = DOWN_THREADS,
                                    .shared = c->experts_per_token * stride_of(down->blocks)});
}

/* Each expert with all rows that chose it: by streaming weights, or by a grid over experts. */
static struct cuda_choice by_expert(const struct cuda_target *t, const struct model_config *c,
                                    const struct cuda_matrix *m, bool streams,
                                    enum cuda_operand operand, uint32_t rows)
{
    bool up = operand == CUDA_ON_UP;
    bool little = rows <= CUDA_LITTLE_ROWS;
    enum cuda_kernel kernel = little ? (up ? CUDA_stream_gate_up_8 : CUDA_stream_down_8)
                                     : (up ? CUDA_stream_gate_up : CUDA_stream_down);
    if (streams)
        return (struct cuda_choice){.kernel = kernel,
                                    .operand = operand,
                                    .x = t->multiprocessors,
                                    .threads =
                                        little ? CUDA_STREAM_THREADS_8 : CUDA_STREAM_THREADS,
                                    .shared = CUDA_STREAM_SHARED,
                                    .tiles_per_group = EXPERT_TILES};
    return (struct cuda_choice){.kernel =
                                    up ? CUDA_rows_1_32_gate_up_16 : CUDA_rows_1_32_down_16,
                                .operand = operand,
                                .x = divide_up(m->tiles, 4 * EXPERT_TILES),
                                .y = c->experts,
                                .threads = PASS_THREADS,
                                .shared = expert_shared(m),
                                .tiles_per_group = EXPERT_TILES};
}

/* Kernels for tiles of rows that chose the same expert. */
struct tile_kernels {
    enum cuda_kernel up, down;
    uint32_t tokens;  /* most of a tile */
    uint32_t blocks;  /* on a multiprocessor */
    uint32_t shared;  /* bytes of a block */
    uint32_t average; /* most rows of an expert on average with which they are fastest */
};

/* Hopper's, the fewest rows of an expert first. */
static const struct tile_kernels prompt_tiles[] = {
    {CUDA_few_gate_up, CUDA_few_down, CUDA_FEW_TOKENS, 2, CUDA_FEW_SHARED, 36},
    {CUDA_some_gate_up, CUDA_some_down, CUDA_SOME_TOKENS, 1, CUDA_SOME_SHARED, 80},
    {CUDA_prompt_gate_up, CUDA_prompt_down, CUDA_PROMPT_TOKENS, 1, CUDA_PROMPT_SHARED,
     UINT32_MAX}};

/* True when the kernels of expert_few.cu support a matrix. */
static bool can_run_few(const struct cuda_target *t, enum cuda_kernel kernel,
                        const struct tile_kernels *k, const struct cuda_matrix *m)
{
    return cuda_target_can_run(t, kernel, k->shared) && m->blocks == CUDA_STREAM_BLOCKS &&
           m->tiles % (CUDA_PROMPT_ROWS / 16) == 0;
}

static const struct tile_kernels *pick_tiles(const struct cuda_target *t,
                                             const struct cuda_matrix *up,
                                             const struct cuda_matrix *down, uint32_t average)
{
    const struct tile_kernels *k = prompt_tiles;
    while (k->average != UINT32_MAX && (average > k->average || !can_run_few(t, k->up, k, up) ||
                                        !can_run_few(t, k->down, k, down)))
        k++;
    return k;
}

static struct cuda_choice in_expert_tiles(const struct cuda_target *t,
                                          const struct tile_kernels *k,
                                          enum cuda_operand operand)
{
    return (struct cuda_choice){.kernel = operand == CUDA_ON_UP ? k->up : k->down,
                                .operand = operand,
                                .x = t->multiprocessors * k->blocks,
                                .threads = CUDA_PROMPT_THREADS,
                                .shared = k->shared};
}

/* The same on other GPUs: at most `tiles` tiles. */
static struct cuda_choice by_tile(const struct cuda_matrix *m, uint32_t tiles,
                                  enum cuda_operand operand)
{
    bool up = operand == CUDA_ON_UP;
    return (struct cuda_choice){.kernel = up ? CUDA_rows_tiled_gate_up : CUDA_rows_tiled_down,
                                .operand = operand,
                                .x = divide_up(m->tiles, CUDA_TILE_ROWS / 16),
                                .y = tiles,
                                .threads = TILED_THREADS,
                                .shared = TILED_SHARED};
}

struct cuda_choices cuda_select_experts(const struct cuda_target *t,
                                        const struct model_config *c,
                                        const struct cuda_matrix *up,
                                        const struct cuda_matrix *down, uint32_t rows)
{
    bool up_streams = can_stream(t, CUDA_stream_gate_up, up),
         streams = up_streams && can_stream(t, CUDA_stream_down, down);
    struct cuda_choices all = {0};
    /* Streaming is faster from two rows on. */
    if (rows <= (streams ? 1 : CUDA_SLOT_MODE_TOKENS)) {
        by_assignment(&all, c, up, down, rows);
        return all;
    }
    /* Cards for desktops have 99 KB of shared memory for a block: too little for the rows of an
     * expert in full size.  Tiles need less. */
    bool fits = (up_streams || cuda_target_can_run(t, CUDA_rows_1_32_gate_up_16,
                                                   expert_shared(up) + SPARE_SHARED)) &&
                (streams || cuda_target_can_run(t, CUDA_rows_1_32_down_16,
                                                expert_shared(down) + SPARE_SHARED));
    if ((rows <= CUDA_STREAMED_ROWS && fits) ||
        (streams && cuda_target_is_prompt(t, rows) && streams_more(c, rows))) {
        select_add(&all, by_expert(t, c, up, up_streams, CUDA_ON_UP, rows));
        select_add(&all, by_expert(t, c, down, streams, CUDA_ON_DOWN, rows));
    } else {
        uint32_t pairs = rows * c->experts_per_token;
        const struct tile_kernels *k =
            cuda_target_is_prompt(t, rows) ? pick_tiles(t, up, down, pairs / c->experts) : NULL;
        uint32_t room = k != NULL ? k->tokens : CUDA_TILE_TOKENS,
                 tiles = pairs / room + c->experts;
        select_add(&all, (struct cuda_choice){.kernel = CUDA_sort_assignments,
                                              .operand = CUDA_ON_SORT,
                                              .x = 1,
                                              .threads = 1024,
                                              .tile_tokens = room});
        select_add(&all, k != NULL ? in_expert_tiles(t, k, CUDA_ON_UP)
                                   : by_tile(up, tiles, CUDA_ON_UP));
        select_add(&all, k != NULL ? in_expert_tiles(t, k, CUDA_ON_DOWN)
                                   : by_tile(down, tiles, CUDA_ON_DOWN));
    }
    select_add(&all, (struct cuda_choice){.kernel = CUDA_add_experts,
                                          .operand = CUDA_ON_SUM,
                                          .x = rows,
                                          .threads = 256});
    return all;
}

bool cuda_experts_permute(const struct cuda_target *t, const struct model_config *c,
                          const struct cuda_matrix *up, const struct cuda_matrix *down,
                          uint32_t rows)
{
    return cuda_target_is_prompt(t, rows) &&
           cuda_select_experts(t, c, up, down, rows).at[0].operand == CUDA_ON_SORT;
}
