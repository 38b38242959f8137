/* tests/gpu/random_model.h - gpt-oss models of any shape in memory, with seeded random weights.
 *
 * Values keep activations near 1: matrices have about unit gain, biases and sinks are small,
 * some gate_up biases are large enough to reach SwiGLU's clamps.
 */
#ifndef TESTS_GPU_RANDOM_MODEL_H
#define TESTS_GPU_RANDOM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "model/gptoss.h"

/* ---- numbers ---- */

struct test_random {
    uint64_t state;
};

uint64_t test_random_bits(struct test_random *r);
uint32_t test_random_below(struct test_random *r, uint32_t limit);
double test_random_normal(struct test_random *r); /* approximately: a sum of uniform values */

double test_from_bf16(uint16_t v);
uint16_t test_to_bf16(double v); /* nearest, ties to even */

/* count values of standard deviation `size`. */
void test_fill_bf16(struct test_random *r, uint16_t *out, size_t count, double size);
void test_fill_float(struct test_random *r, float *out, size_t count, double size);

/* ---- models ---- */

enum { TEST_LAYERS_MAX = 4 };

struct test_shape {
    const char *name;
    uint32_t layers; /* layer 0 slides, then they alternate; the last is full */
    uint32_t hidden, intermediate, heads, kv_heads, experts, topk, vocab, window;
    bool router_ties;   /* expert 2i + 1 has the router row of expert 2i */
    bool router_steady; /* biases decide more than tokens: few near ties */
};

struct test_model {
    struct model_gptoss m; /* like the loader's; storage is NULL */
    struct model_gptoss_layer layers[TEST_LAYERS_MAX];
    uint32_t *usable; /* all ids */
    void *memory[20 * TEST_LAYERS_MAX + 4];
    uint32_t memory_count;
};

struct test_model *test_model_create(const struct test_shape *shape, uint64_t seed);
void test_model_destroy(struct test_model *model);

#endif
