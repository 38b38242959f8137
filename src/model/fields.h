/* model/fields.h - reads checked fields of a JSON object.
 *
 * The first error is kept and later fields are skipped, so that a reader is a list of fields
 * with one check at its end.  Messages name the file, the field, the value as written and the
 * limits.
 */
#ifndef MODEL_FIELDS_H
#define MODEL_FIELDS_H

#include "base/json.h"
#include "model/config.h"

struct model_fields {
    const struct lr_json *object; /* borrowed */
    const char *file;             /* "config.json"; with a prefix such as "rope_scaling." */
    lr_code code;                 /* the first error */
    struct lr_error *err;
};

/* Parses text, which must be an object.  The tree lives in the arena. */
LR_MUST_USE lr_code model_fields_parse(struct lr_arena *arena, struct lr_str text,
                                       const char *file, struct model_fields *out,
                                       struct lr_error *err);

/* NULL when absent or null. */
const struct lr_json *model_field(const struct model_fields *f, const char *key);

/* A whole number in [min, max]; required. */
void model_field_u32(struct model_fields *f, const char *key, uint32_t min, uint32_t max,
                     uint32_t *out);
/* A number in [min, max]; *out is unchanged when the field is absent and not required. */
void model_field_number(struct model_fields *f, const char *key, double min, double max,
                        bool required, double *out);
/* *out is unchanged when the field is absent. */
void model_field_bool(struct model_fields *f, const char *key, bool *out);
/* bos_token_id, pad_token_id, eos_token_id (a number or a list), each below vocab. */
void model_field_tokens(struct model_fields *f, uint32_t vocab, struct model_token_ids *out);

#endif
