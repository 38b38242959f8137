/* cli/gguf.h - the tensors of the random GGUF models that `debug write-gguf` writes.
 * Pure functions of a shape.  Thread: any.
 */
#ifndef CLI_GGUF_H
#define CLI_GGUF_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

enum cli_gguf_family {
    CLI_GGUF_LLAMA,
    CLI_GGUF_GPT_OSS,
    CLI_GGUF_BERT,
    CLI_GGUF_RERANKER,
};

/* ggml's numbers; all have blocks of one value or of CLI_GGUF_BLOCK values along a row. */
enum cli_gguf_type { CLI_GGUF_F32 = 0, CLI_GGUF_Q8_0 = 8, CLI_GGUF_MXFP4 = 39 };
enum { CLI_GGUF_BLOCK = 32 };

struct cli_gguf_shape {
    enum cli_gguf_family family;
    uint32_t vocab, layers, width, heads, kv_heads, head_size, feed_forward, context;
    uint32_t experts, experts_used, window; /* of gpt-oss */
    bool quantized;                         /* matrices are Q8_0 */
    uint64_t seed;
    struct lr_str chat_template;
};

struct cli_gguf_tensor {
    char name[64];
    uint64_t columns, rows, depth; /* rows 0: a vector; depth 0: a matrix */
    float range;                   /* weights lie in -range..range; 0: all are 1 */
    enum cli_gguf_type type;
};

uint32_t cli_gguf_tensor_count(const struct cli_gguf_shape *shape);
struct cli_gguf_tensor cli_gguf_tensor_at(const struct cli_gguf_shape *shape, uint32_t index);

uint64_t cli_gguf_row_bytes(const struct cli_gguf_tensor *tensor);
uint64_t cli_gguf_row_count(const struct cli_gguf_tensor *tensor);
/* Random weights of one row, cli_gguf_row_bytes of them; *state is the generator's. */
void cli_gguf_row(const struct cli_gguf_tensor *tensor, uint64_t *state, unsigned char *out);

#endif
