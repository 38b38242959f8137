/* model/safetensors.h - one safetensors file, mapped and checked.
 *
 * After a successful open every tensor lies inside the file, its size is the product of its
 * shape and its type, no two tensors overlap, no byte of the data part is left over, and no
 * name occurs twice.  The bytes of the tensors are not read.
 */
#ifndef MODEL_SAFETENSORS_H
#define MODEL_SAFETENSORS_H

#include "base/arena.h"
#include "base/fail.h"
#include "model/tensor.h"

/* Real headers take 100 bytes a tensor; the largest published ones stay below 10 MB. */
enum {
    MODEL_SAFETENSORS_HEADER_MAX = 64 << 20,
    MODEL_SAFETENSORS_TENSORS_MAX = 1000000,
};

struct model_safetensors_header {
    struct model_tensor *tensors; /* in the arena, sorted by offset; data is NULL */
    size_t count;
    uint64_t data_start; /* 8 + length of the JSON */
    uint64_t data_bytes;
};

/* Parses the front of a file of which bytes[0..available) are given; that must include the
 * whole header.  Pure.  `file` is for messages and is kept in the tensors.  Names point into
 * `bytes` or the arena.
 *   MODEL_CORRUPT  any rule of the format broken; the text names file and tensor
 *   OUT_OF_RAM     the arena's limit */
LR_MUST_USE lr_code model_safetensors_parse(struct lr_arena *arena, const void *bytes,
                                            size_t available, uint64_t file_size,
                                            const char *file,
                                            struct model_safetensors_header *out,
                                            struct lr_error *err);

struct model_safetensors; /* owns the mapping and the tensor list */

/* MODEL_CORRUPT as above, also for a missing file (the text names it). */
LR_MUST_USE lr_code model_safetensors_open(const char *path, struct model_safetensors **out,
                                           struct lr_error *err);
void model_safetensors_close(struct model_safetensors *st); /* NULL is fine */

size_t model_safetensors_count(const struct model_safetensors *st);
const struct model_tensor *model_safetensors_at(const struct model_safetensors *st, size_t i);
uint64_t model_safetensors_file_size(const struct model_safetensors *st);

#endif
