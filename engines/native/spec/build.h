/* native/spec/build.h - inside the builder: what builder.c, rope.c and open.c share. */
#ifndef NATIVE_SPEC_BUILD_H
#define NATIVE_SPEC_BUILD_H

#include "engines/native/formats/formats.h"
#include "engines/native/spec/builder.h"
#include "engines/native/spec/open.h"

/* What follows the layers of a model of vectors (vectors.c). */
struct native_dense {
    uint32_t rows, columns;
    bool bias;
};

struct native_vectors {
    enum native_pool pool; /* NO_POOL: no modules.json */
    struct native_dense dense[NATIVE_DENSE_MAX];
    uint32_t dense_count;
    bool asks; /* ranks by the answer: the ids of its two words */
    uint32_t yes, no;
};
/* Whether the files say that the model ranks by the answer yes or no, and the ids of both. */
lr_code native_asks_read(const char *dir, const struct lr_json *config,
                         struct native_vectors *out, struct lr_error *err);

/* modules.json of the folder and what it names; opens spec->dense. */
lr_code native_vectors_read(const char *dir, struct native_spec *spec,
                            struct native_vectors *out, struct lr_error *err);

struct native_builder {
    struct native_spec *spec; /* borrowed */
    const struct model_weights *weights;
    bool *used; /* by tensor, in the order of model_weights_at */
    struct native_quant quant;
    struct native_vectors vectors;
    bool classifies;
    lr_code code;
    struct lr_error *err;
    char prefix[96];
    uint16_t layer;
    const char *ignored[64]; /* beginnings of names, in the arena */
    uint32_t ignored_count;
    uint32_t op_room, matrix_room, vector_room, register_room, cache_room;
};

bool native_build_failed(const struct native_builder *b);
struct native_spec *native_build_spec(struct native_builder *b);
/* NULL: no memory, and the build has failed. */
void *native_build_alloc(struct native_builder *b, size_t count, size_t size);
/* The next operation, without weights; a place of no use where the build has failed. */
struct native_op *native_build_op(struct native_builder *b, enum native_op_kind kind, reg out,
                                  reg in);
/* A width that the model's own sizes ask for. */
void native_build_width(struct native_builder *b, reg r, uint64_t width, const char *what);
const char *native_build_bias(struct native_builder *b, const char *name);
/* Room for one more item; false: no memory. */
bool native_build_room(struct native_builder *b, void **items, uint32_t count, uint32_t *room,
                       size_t size);
/* Gives the registers their buffers and counts bytes. */
void native_build_finish(struct native_builder *b);
/* Every tensor is used, ignored, or an error. */
void native_build_check_tensors(struct native_builder *b, const struct native_arch *arch);

/* ---- tensors (tensors.c) ---- */

/* `count` matrices of rows x columns; the index of the first. */
uint32_t native_build_matrices(struct native_builder *b, const char *name, uint32_t count,
                               uint32_t rows, uint32_t columns, bool transposed);
/* NATIVE_NONE with name NULL.  count values in all dimensions together. */
uint32_t native_build_vector(struct native_builder *b, const char *name, uint64_t count);

/* theta^(-2i / dims). */
void native_rope_plain(double theta, uint32_t dims, double *inverse);

#endif
