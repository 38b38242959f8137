/* model/fields.c - see fields.h. */
#include "model/fields.h"

#include "model/map.h"

enum { CONFIG_DEPTH = 32 };

lr_code model_fields_parse(struct lr_arena *arena, struct lr_str text, const char *file,
                           struct model_fields *out, struct lr_error *err)
{
    struct lr_json_limits limits = {.max_depth = CONFIG_DEPTH,
                                    .max_bytes = MODEL_CONFIG_BYTES_MAX};
    *out = (struct model_fields){.file = file, .err = err};
    lr_code code = lr_json_parse(arena, text, &limits, &out->object, err);
    if (code != LR_OK) {
        (void)lr_fail_prefix(err, "%s", file);
        code = code == LR_OUT_OF_RAM ? LR_OUT_OF_RAM : LR_MODEL_CORRUPT;
        if (err != NULL)
            err->code = code;
        return code;
    }
    if (out->object->type != LR_JSON_OBJECT)
        return lr_fail(err, LR_MODEL_CORRUPT, "%s is no JSON object", file);
    return LR_OK;
}

const struct lr_json *model_field(const struct model_fields *f, const char *key)
{
    const struct lr_json *value = lr_json_get(f->object, key);
    return value == NULL || value->type == LR_JSON_NULL ? NULL : value;
}

static struct lr_str as_written(const struct lr_json *value)
{
    if (value->type == LR_JSON_NUMBER || value->type == LR_JSON_STRING)
        return value->text;
    return lr_str_z(lr_json_type_name(value->type));
}

static void fail_missing(struct model_fields *f, const char *key)
{
    f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is missing", f->file, key);
}

void model_field_u32(struct model_fields *f, const char *key, uint32_t min, uint32_t max,
                     uint32_t *out)
{
    if (f->code != LR_OK)
        return;
    const struct lr_json *value = model_field(f, key);
    uint64_t number;
    if (value == NULL) {
        fail_missing(f, key);
    } else if (!lr_json_u64(value, &number) || number < min || number > max) {
        struct lr_str got = as_written(value);
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"%s\" is %.*s, expected a whole number from %u to %u", f->file,
                          key, MODEL_QUOTE(got), min, max);
    } else {
        *out = (uint32_t)number;
    }
}

void model_field_number(struct model_fields *f, const char *key, double min, double max,
                        bool required, double *out)
{
    if (f->code != LR_OK)
        return;
    const struct lr_json *value = model_field(f, key);
    double number;
    if (value == NULL) {
        if (required)
            fail_missing(f, key);
    } else if (!lr_json_double(value, &number) || !(number >= min && number <= max)) {
        struct lr_str got = as_written(value);
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"%s\" is %.*s, expected a number from %g to %g", f->file, key,
                          MODEL_QUOTE(got), min, max);
    } else {
        *out = number;
    }
}

void model_field_bool(struct model_fields *f, const char *key, bool *out)
{
    if (f->code != LR_OK)
        return;
    const struct lr_json *value = model_field(f, key);
    if (value != NULL && !lr_json_bool(value, out))
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" is %s, expected true or false",
                          f->file, key, lr_json_type_name(value->type));
}

static bool token_id(struct model_fields *f, const char *key, const struct lr_json *value,
                     uint32_t vocab, uint32_t *out)
{
    uint64_t number;
    if (lr_json_u64(value, &number) && number < vocab) {
        *out = (uint32_t)number;
        return true;
    }
    struct lr_str got = as_written(value);
    f->code =
        lr_fail(f->err, LR_MODEL_CORRUPT, "%s: \"%s\" holds %.*s, expected a token id below %u",
                f->file, key, MODEL_QUOTE(got), vocab);
    return false;
}

static void model_fields_read_one(struct model_fields *f, const char *key, uint32_t vocab,
                                  int64_t *out)
{
    const struct lr_json *value = model_field(f, key);
    uint32_t id;
    *out = -1;
    if (f->code == LR_OK && value != NULL && token_id(f, key, value, vocab, &id))
        *out = id;
}

void model_field_tokens(struct model_fields *f, uint32_t vocab, struct model_token_ids *out)
{
    *out = (struct model_token_ids){.bos = -1, .pad = -1};
    model_fields_read_one(f, "bos_token_id", vocab, &out->bos);
    model_fields_read_one(f, "pad_token_id", vocab, &out->pad);
    const struct lr_json *eos = model_field(f, "eos_token_id");
    if (f->code != LR_OK || eos == NULL)
        return;
    if (eos->type != LR_JSON_ARRAY) {
        if (token_id(f, "eos_token_id", eos, vocab, &out->eos[0]))
            out->eos_count = 1;
        return;
    }
    if (eos->count > MODEL_EOS_MAX) {
        f->code = lr_fail(f->err, LR_MODEL_CORRUPT,
                          "%s: \"eos_token_id\" lists %u tokens, the limit is %d", f->file,
                          eos->count, MODEL_EOS_MAX);
        return;
    }
    for (uint32_t i = 0; i < eos->count; i++) {
        if (!token_id(f, "eos_token_id", &eos->items[i], vocab, &out->eos[i]))
            return;
        out->eos_count = i + 1;
    }
}
