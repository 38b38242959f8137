/* tests/gpu/reference.h - the expected results of the kernels, in double precision, from the
 * model's weights and from inputs rounded like the device's. */
#ifndef TESTS_GPU_REFERENCE_H
#define TESTS_GPU_REFERENCE_H

#include "tests/gpu/random_model.h"

/* y[count][rows] = x[count][columns] times a bf16 matrix [rows][columns]; bias may be NULL. */
void reference_dense(const uint16_t *weights, const uint16_t *bias, uint32_t rows,
                     uint32_t columns, const double *x, uint32_t count, double *y);
/* The same with one expert's MXFP4 matrix and its bias. */
void reference_expert(const struct model_experts *e, uint32_t expert, const double *x,
                      uint32_t count, double *y);

/* One row: RMS norm in double, not rounded. */
void reference_norm(const struct model_config *c, const float *in, const uint16_t *norm,
                    double *out);

/* RoPE of one head in place. */
void reference_rope(const struct model_config *c, uint32_t position, double head[64]);

/* Router of one normalized row: the topk largest, ties to the lowest index, softmax over them.
 * Returns the smallest distance between a chosen logit and a later, different one: a device may
 * decide a smaller distance differently. */
double reference_route(const struct model_config *c, const struct model_gptoss_layer *l,
                       const double *normalized, uint32_t *choice, double *weight);

double reference_swiglu(const struct model_config *c, double gate, double up);

/* bf16 to double. */
void reference_widen(const uint16_t *in, double *out, size_t count);

#endif
