/* tests/gpu/backend_test.h - the parts of the whole-backend test. */
#ifndef TESTS_GPU_BACKEND_TEST_H
#define TESTS_GPU_BACKEND_TEST_H

#include <stdbool.h>

#include "engines/gptoss/backend/backend.h"

enum {
    SEQUENCES = 4,
    LOGIT_ROWS = 100, /* made at a time: more than few-row kernels support */
    CONTEXT = 512,
    CHUNK = 400,
    PAGES_MAX = CONTEXT / 16
};

/* ---- backend_device.c ---- */

struct device {
    const struct gptoss_backend_api *api;
    struct gptoss_plan plan;
    struct gptoss_backend *backend;
};

/* `extra` (options as JSON) and `trace` may be NULL. */
void device_open(struct device *d, const struct gptoss_backend_api *api, const char *name,
                 const struct model_gptoss *model, const uint32_t *usable, const char *extra,
                 const struct gptoss_trace *trace);

/* One sequence's part of a step: `count` tokens from `from` on, logits to `out`. */
struct part {
    uint32_t slot, from, count;
    const uint32_t *ids; /* the sequence's */
    float *out;
};

void device_forward(struct device *d, const struct part *parts, uint32_t count);

/* One token of each of `count` sequences, every other one sampled with `how`, the rest greedily
 * (NULL: all greedily): the step that is replayed as a graph.  The logits are read from the
 * device, one row a sequence; returns how many rows sampler_sample() samples differently.  CUDA
 * only. */
uint32_t device_sample(struct device *d, const uint32_t *ids, uint32_t from, uint32_t count,
                       const struct sampler_input *how, float *logits, uint32_t vocab);

/* Adds the squares of the differences and of the expected values. */
void test_distance(const float *got, const float *want, uint32_t count, double *off,
                   double *size);
double test_median(double *values, uint32_t count); /* sorts them */

/* ---- backend_choices.c ---- */

/* Compares the experts chosen by the CUDA backend with the CPU backend's; random models, then
 * the golden cases of the repository at `root`. */
void test_choices(const char *root);

/* ---- backend_engine.c ---- */

/* The demo model through the engine's ABI: batches, chunks, cancels, memory limits. */
void test_engine(const char *model_dir);
/* A dozen requests at one time. */
void test_engine_brief(const char *model_dir);

/* ---- backend_brief.c ---- */

/* small: without the published models' width and the kernels that need it. */
void test_brief(const char *demo, bool small);

#endif
