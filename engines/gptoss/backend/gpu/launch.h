/* gptoss/backend/gpu/launch.h - what launch.c and launch_matrix.c share. */
#ifndef GPTOSS_BACKEND_GPU_LAUNCH_H
#define GPTOSS_BACKEND_GPU_LAUNCH_H

#include "engines/gptoss/backend/gpu/gpu.h"

struct gpu_grid {
    uint32_t x, y, z;
};

/* A matrix times rows. */
struct gpu_product {
    const struct gpu_matrix *m;
    struct gpu_buffer *x, *y;
    struct gpu_span norm;     /* of few rows, with GPU_NORM */
    struct gpu_span out_rows; /* with GPU_GATHER */
    uint32_t tokens, y_stride, mode;
    bool exact; /* both parts of packed numbers are used */
};

#define SPANS(...)                                                                             \
    (const struct gpu_span[]){__VA_ARGS__},                                                    \
        sizeof((const struct gpu_span[]){__VA_ARGS__}) / sizeof(struct gpu_span)
#define PUSH(p) &(p), sizeof(p)

static inline uint32_t gpu_over(uint64_t n, uint32_t by)
{
    return (uint32_t)((n + by - 1) / by);
}

static inline struct gpu_span gpu_whole(struct gpu_buffer *buffer)
{
    return (struct gpu_span){buffer, 0, 0};
}

static inline struct gpu_span gpu_input(const struct gptoss_backend *b, uint64_t at)
{
    return (struct gpu_span){b->ws.inputs, at, 0};
}

/* ---- launch.c ---- */
void gpu_launch(struct gptoss_backend *b, struct gpu_list *l, enum gpu_kernel kernel,
                uint32_t mode, struct gpu_grid grid, const void *push, size_t push_bytes,
                const struct gpu_span *spans, size_t span_count);
/* The last command of the list writes other places than its predecessor. */
void gpu_beside_previous(struct gpu_list *l, bool beside);
/* Adds multiply-adds to the last command of the list. */
void gpu_charge(struct gpu_list *l, uint64_t rows, uint64_t columns, uint64_t tokens);
/* The same for a part of the experts. */
void gpu_charge_experts(const struct gptoss_backend *b, struct gpu_list *l,
                        const struct gpu_matrix *m, const struct gpu_part *part,
                        uint32_t tokens);
struct push_experts gpu_experts_push(const struct gptoss_backend *b, const struct gpu_matrix *m,
                                     const struct gpu_part *part, uint32_t tokens);
struct push_qkv gpu_qkv_push(const struct gptoss_backend *b, const struct gpu_shape *s,
                             const struct gpu_layer *layer);

/* ---- launch_matrix.c ---- */

/* Packs rows for the kernels *_m; `norm` NULL: as they are. */
void gpu_add_pack(struct gptoss_backend *b, struct gpu_list *l, struct gpu_buffer *from,
                  struct gpu_buffer *to, uint32_t columns, uint32_t rows,
                  const struct gpu_span *norm, const struct gpu_span *out_rows);
void gpu_add_few_qkv_m(struct gptoss_backend *b, struct gpu_list *l, const struct gpu_shape *s,
                       const struct gpu_layer *layer);
/* x of the product is packed. */
void gpu_add_few_dense_m(struct gptoss_backend *b, struct gpu_list *l,
                         const struct gpu_product *d);
void gpu_add_many_dense_m(struct gptoss_backend *b, struct gpu_list *l,
                          const struct gpu_product *d);
void gpu_add_few_experts_m(struct gptoss_backend *b, struct gpu_list *l,
                           const struct gpu_shape *s, const struct gpu_layer *layer);
/* True: rows that are few are computed by matrices, too. */
bool gpu_few_dense_by_matrices(const struct gptoss_backend *b, uint32_t rows);

#endif
