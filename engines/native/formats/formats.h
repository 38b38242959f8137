/* native/formats/formats.h - weight formats: from tensors and a quantization config to packed
 * matrices.
 *
 * What a matrix is follows from the tensors that are there; the config is needed for what they
 * do not say (the blocks of FP8, AWQ or GPTQ) and is checked against them.  One file for each
 * quant_method, one row of the table in table.c.
 */
#ifndef NATIVE_FORMATS_FORMATS_H
#define NATIVE_FORMATS_FORMATS_H

#include "base/json.h"
#include "engines/native/formats/packed.h"
#include "model/weights.h"

/* A matrix that is to be read. */
struct native_stored {
    const struct model_weights *weights; /* borrowed */
    const struct model_tensor *codes;    /* weight, weight_packed or qweight */
    struct lr_str module;                /* name of the codes' tensor without that suffix */
    uint32_t matrices;                   /* that the tensors hold: 1, or experts in a stack */
    uint32_t rows, columns;              /* of one matrix */
    const struct native_quant *quant;
    struct lr_arena *arena; /* of the model */
    bool *used;             /* by tensor: set for those that belong to the matrix */
    struct lr_error *err;
};

struct native_format {
    const char *method; /* quant_method */
    /* Reads what the config says once; may be NULL. */
    lr_code (*open)(struct native_quant *q, struct lr_error *err);
    /* Fills one packed matrix for each of s->matrices.  NULL: the method has no such matrix. */
    lr_code (*read)(const struct native_stored *s, struct native_packed *out);
};

/* The quantization config of a model; all zero: there is none. */
struct native_quant {
    const struct native_format *format;
    const struct lr_json *config;       /* its object, in an arena */
    const char *file;                   /* where that was, for messages */
    uint32_t block_rows, block_columns; /* of FP8 in blocks; 0: no blocks */
    uint32_t bits;
    int32_t zero_offset; /* added to stored zero points */
    /* Modules that the config lists as not quantized (lists.c): sorted names, and those with
     * "*". */
    const struct lr_str *names, *wild;
    uint32_t name_count, wild_count;
};

/* Finds the config in config.json or in a file of its own beside it.  UNSUPPORTED names a
 * quant_method that is not in the table, or a parameter. */
LR_MUST_USE lr_code native_quant_open(const struct lr_json *config, const char *dir,
                                      struct lr_arena *arena, struct native_quant *out,
                                      struct lr_error *err);

/* UNSUPPORTED: without a config.  MODEL_CORRUPT: a part is missing or has another shape. */
LR_MUST_USE lr_code native_format_read(const struct native_stored *s,
                                       struct native_packed *out);

/* Tensors that a quantized model has and that computing with its weights alone does not need:
 * scales of activations and of a KV cache. */
bool native_format_skips(struct lr_str tensor);

extern const struct native_format native_format_fp8, native_format_compressed,
    native_format_modelopt, native_format_awq, native_format_gptq, native_format_mlx,
    native_format_quark, native_format_bitsandbytes;

/* ---- lists.c ---- */
LR_MUST_USE lr_code native_lists_open(struct native_quant *q, struct lr_arena *arena,
                                      struct lr_error *err);
/* MODEL_CORRUPT: the config says that the module is not quantized, and it has codes. */
LR_MUST_USE lr_code native_lists_check(const struct native_stored *s);

/* ---- parts.c: what the formats share ---- */

/* Notes in `used` that the tensor belongs to the model. */
void native_mark_used(const struct model_weights *w, bool *used, const struct model_tensor *t);
/* "<module>.<suffix>", marked as used; NULL: there is none. */
const struct model_tensor *native_part(const struct native_stored *s, const char *suffix);
lr_code native_part_missing(const struct native_stored *s, const char *suffix);
LR_PRINTF(3, 4)
lr_code native_part_wrong(const struct native_stored *s, const struct model_tensor *part,
                          const char *format, ...);
/* UNSUPPORTED for this matrix. */
LR_PRINTF(2, 3)
lr_code native_part_refuse(const struct native_stored *s, const char *format, ...);
/* True: the tensor has this type and the shape [a, b], or [matrices, a, b] in a stack. */
bool native_part_is(const struct native_stored *s, const struct model_tensor *t,
                    enum model_dtype dtype, uint64_t a, uint64_t b);

/* Type and address of scales; MODEL_CORRUPT: not BF16, F16 or F32. */
lr_code native_take_scales(const struct native_stored *s, const struct model_tensor *scales,
                           struct native_packed *out);
/* Columns of a group, from the number of groups. */
lr_code native_take_groups(const struct native_stored *s, const struct model_tensor *scales,
                           uint64_t groups, struct native_packed *out);
/* int32 group of each column, all below `groups`; part NULL or free of meaning: in order. */
lr_code native_take_order(const struct native_stored *s, const struct model_tensor *part,
                          uint64_t groups, struct native_packed *out);

/* FP8 codes with the scale of a tensor, a row or a block. */
lr_code native_read_fp8(const struct native_stored *s, const struct model_tensor *scales,
                        struct native_packed *out);
/* Codes of four bits with E4M3 scales of 16 columns and a factor of the tensor; divides: by it.
 */
lr_code native_read_nvfp4(const struct native_stored *s, const struct model_tensor *scales,
                          const struct model_tensor *global, bool divides,
                          struct native_packed *out);
/* Codes of four (E2M1) or eight (E4M3) bits with a power of two for 32 columns. */
lr_code native_read_mx(const struct native_stored *s, const struct model_tensor *scales,
                       uint32_t bits, struct native_packed *out);

#endif
