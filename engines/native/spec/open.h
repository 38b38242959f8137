/* native/spec/open.h - from a model's folder to its list of operations. */
#ifndef NATIVE_SPEC_OPEN_H
#define NATIVE_SPEC_OPEN_H

#include "engines/native/spec/config.h"
#include "engines/native/spec/spec.h"
#include "model/weights.h"

struct native_builder;

/* One family: its names, its fields, how it writes its operations. */
struct native_arch {
    const char *family;
    const char *const *model_types;   /* of config.json; ends with NULL */
    const char *const *architectures; /* the same */
    const struct native_field *fields;
    size_t config_bytes;
    void (*build)(struct native_builder *b, void *config);
    const char *const
        *ignored; /* beginnings of tensor names that text does not need, or NULL */
};

/* The table of all families; ends with NULL. */
extern const struct native_arch *const native_archs[];

struct native_model {
    struct native_spec spec;
    struct model_weights *weights; /* owned: the mapping */
    const struct native_arch *arch;
    uint32_t stops[32]; /* ids that end an answer, as the model's configs say */
    uint32_t stop_count;
};

/* The family for this config.json.  UNSUPPORTED names the architecture. */
LR_MUST_USE lr_code native_arch_find(const struct lr_json *config,
                                     const struct native_arch **out, struct lr_error *err);

/* MODEL_CORRUPT, UNSUPPORTED: with the file and the field or tensor.  Reads no weights beyond
 * small tensors. */
LR_MUST_USE lr_code native_model_open(const char *dir, struct native_model **out,
                                      struct lr_error *err);
void native_model_close(struct native_model *m); /* NULL is fine */

/* The same for a config's text and weights that are open; for tests. */
LR_MUST_USE lr_code native_spec_build(const struct lr_json *config, const char *dir,
                                      const struct model_weights *weights,
                                      const struct native_arch *arch, struct native_spec *out,
                                      struct lr_error *err);
void native_spec_free(struct native_spec *spec);

#endif
