/* model/weights.h - all tensors of a safetensors snapshot, in one or several files.
 *
 * A snapshot is one `*.safetensors` file or `model.safetensors.index.json` with its shards.
 * Only the root folder of the snapshot counts: `original/` and `metal/` hold other encodings.
 * Only the weights and the index are needed, so a folder without config.json or tokenizer.json
 * opens too.  Thread: any, once opened.
 */
#ifndef MODEL_WEIGHTS_H
#define MODEL_WEIGHTS_H

#include "base/arena.h"
#include "base/fail.h"
#include "model/tensor.h"

struct model_weights;

/* Maps every file and checks it (model/safetensors.h), and that index and shards agree.
 *   MODEL_CORRUPT  missing shards (all named), a name that leaves the folder, a tensor
 *                  in another shard than in the index, a tensor in two shards, several
 *                  .safetensors without an index ("ambiguous"), a broken header
 *   OUT_OF_RAM     the memory limit of the tensor list */
LR_MUST_USE lr_code model_weights_open(const char *dir, struct model_weights **out,
                                       struct lr_error *err);
void model_weights_close(
    struct model_weights *w); /* NULL is fine; pointers into it become invalid */

const struct model_tensor *model_weights_find(const struct model_weights *w,
                                              const char *name); /* NULL when absent */

/* The tensor `name`, which must have this dtype and shape and be aligned for it.
 * MODEL_CORRUPT names the tensor, its file, and both values; *out is then NULL. */
LR_MUST_USE lr_code model_weights_expect(const struct model_weights *w, const char *name,
                                         enum model_dtype dtype, uint32_t rank,
                                         const uint64_t *shape, const struct model_tensor **out,
                                         struct lr_error *err);

/* MODEL_SHAPE(32, 5760, 90) is "rank, shape" for the call above. */
#define MODEL_SHAPE(...)                                                                       \
    (uint32_t)(sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[]) \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

size_t model_weights_count(const struct model_weights *w);
/* By name, i below the count. */
const struct model_tensor *model_weights_at(const struct model_weights *w, size_t i);
uint64_t model_weights_bytes(const struct model_weights *w); /* sum over the tensors */

/* Hints to the kernel; they never fail and never change results. */
enum model_advice {
    MODEL_ADVICE_SEQUENTIAL, /* one pass from front to end: read ahead far, drop pages behind */
    MODEL_ADVICE_WILLNEED,   /* start reading now */
    MODEL_ADVICE_RANDOM,     /* used in place from now on */
    MODEL_ADVICE_DONTNEED,   /* copied elsewhere: the pages may be dropped */
};
void model_weights_advise(const struct model_weights *w, enum model_advice advice);
void model_advise(const void *data, uint64_t bytes, enum model_advice advice);

/* ---- the index file, as a pure function (fuzzed) ---- */

enum { MODEL_INDEX_BYTES_MAX = 64 << 20, MODEL_INDEX_TENSORS_MAX = 1000000 };

struct model_index_entry {
    struct lr_str tensor;
    uint32_t shard; /* index into shards */
};

struct model_index {
    struct model_index_entry *entries;
    size_t count;
    struct lr_str *shards; /* plain file names, unique, sorted */
    size_t shard_count;
};

/* Everything lives in the arena or borrows from `text`.  MODEL_CORRUPT names the wrong entry; a
 * shard name must be a plain `*.safetensors` name. */
LR_MUST_USE lr_code model_index_parse(struct lr_arena *arena, struct lr_str text,
                                      struct model_index *out, struct lr_error *err);

#endif
