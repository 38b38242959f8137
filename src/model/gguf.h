/* model/gguf.h - the header of a GGUF file (versions 2 and 3): metadata and tensor infos.
 *
 * For describing a model, not for running it: weights are never read.  Counts, lengths and
 * offsets are checked against the file before use, and all array elements are checked at open,
 * so later lookups stay inside the file.  Thread: any, once opened.
 */
#ifndef MODEL_GGUF_H
#define MODEL_GGUF_H

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

enum {
    MODEL_GGUF_KV_MAX = 65536,
    MODEL_GGUF_TENSORS_MAX = 200000,
    MODEL_GGUF_NEST_MAX = 4,
    MODEL_GGUF_KEY_MAX = 65535,
};

enum model_gguf_type {
    MODEL_GGUF_U8,
    MODEL_GGUF_I8,
    MODEL_GGUF_U16,
    MODEL_GGUF_I16,
    MODEL_GGUF_U32,
    MODEL_GGUF_I32,
    MODEL_GGUF_F32,
    MODEL_GGUF_BOOL,
    MODEL_GGUF_STRING,
    MODEL_GGUF_ARRAY,
    MODEL_GGUF_U64,
    MODEL_GGUF_I64,
    MODEL_GGUF_F64,
    MODEL_GGUF_TYPE_COUNT,
};

struct model_gguf_value {
    enum model_gguf_type type;
    enum model_gguf_type item_type; /* of an array */
    uint64_t count;                 /* of an array's items */
    struct lr_str raw;              /* bytes of the string, of all items, or of the number */
};

struct model_gguf_kv {
    struct lr_str key;
    struct model_gguf_value value;
};

struct model_gguf_tensor {
    struct lr_str name;
    uint32_t type; /* ggml's number */
    uint32_t rank;
    uint64_t shape[4]; /* innermost first, as GGUF writes it */
    uint64_t offset;   /* from the start of the file */
    uint64_t bytes;    /* 0: a type of unknown size */
};

struct model_gguf {
    uint32_t version;
    uint32_t alignment;
    struct model_gguf_kv *kv;
    size_t kv_count;
    struct model_gguf_tensor *tensors;
    size_t tensor_count;
    uint64_t data_start;
    uint64_t weight_bytes; /* file_size - data_start */
    void *storage;         /* owned by model_gguf_open; NULL after a parse */
};

/* Pure: everything borrows from bytes (of which `available` are given) or the arena.
 * MODEL_CORRUPT names the error and both numbers; UNSUPPORTED for another version or a
 * big-endian file. */
LR_MUST_USE lr_code model_gguf_parse(struct lr_arena *arena, const void *bytes,
                                     size_t available, uint64_t file_size, const char *file,
                                     struct model_gguf *out, struct lr_error *err);

/* The metadata at the front of a file of which only the first bytes are there: the pairs that
 * are whole.  No tensors, no check of names. */
LR_MUST_USE lr_code model_gguf_parse_front(struct lr_arena *arena, const void *bytes,
                                           size_t available, const char *file,
                                           struct model_gguf *out, struct lr_error *err);

/* Whether a .gguf file of this name is a model of its own: no projector of images or sound, no
 * importance matrix, no draft for speculative decoding. */
bool model_gguf_is_main(struct lr_str name);

LR_MUST_USE lr_code model_gguf_open(const char *path, struct model_gguf **out,
                                    struct lr_error *err);
void model_gguf_close(struct model_gguf *g); /* NULL is fine */

const struct model_gguf_value *model_gguf_get(const struct model_gguf *g, const char *key);
/* False when absent, of another type, or (integers) negative or too large. */
bool model_gguf_str(const struct model_gguf *g, const char *key, struct lr_str *out);
bool model_gguf_u32(const struct model_gguf *g, const char *key, uint32_t *out);
bool model_gguf_u64(const struct model_gguf *g, const char *key, uint64_t *out);
/* Item i of an array of strings, in linear time. */
bool model_gguf_str_at(const struct model_gguf_value *array, uint64_t i, struct lr_str *out);

#endif
