/* hub/fields.c - see hub/fields.h. */
#include "hub/fields.h"

#include <ctype.h>

#include "base/sha256.h"
#include "hub/manifest.h"

static const char *const no_names[] = {NULL};

static const struct lr_json *hub_fields_get(const struct hub_fields *f, const char *key)
{
    const struct lr_json *value = lr_json_get(f->object, key);
    return lr_json_is(value, LR_JSON_NULL) ? NULL : value;
}

lr_code hub_field_fail(const struct hub_fields *f, const char *key, const char *expected)
{
    return lr_fail(f->err, LR_INVALID_ARGUMENT, "%s%s: %s is expected", f->where, key,
                   expected);
}

static lr_code hub_fields_out_of_memory(const struct hub_fields *f, const char *key)
{
    return lr_fail(f->err, LR_OUT_OF_RAM, "no memory for %s%s", f->where, key);
}

lr_code hub_field_text(const struct hub_fields *f, const char *key, bool needed, size_t max,
                       const char **out)
{
    const struct lr_json *value = hub_fields_get(f, key);
    struct lr_str text;
    if (value == NULL && !needed)
        return LR_OK;
    if (!lr_json_str(value, &text) || text.len == 0 || text.len > max)
        return hub_field_fail(f, key, "a string that is not empty and not too long");
    for (size_t i = 0; i < text.len; i++) {
        if ((unsigned char)text.ptr[i] < ' ' || text.ptr[i] == 0x7F)
            return hub_field_fail(f, key, "a string without control characters");
    }
    char *copy = lr_arena_copy(f->arena, text);
    if (copy == NULL)
        return hub_fields_out_of_memory(f, key);
    *out = copy;
    return LR_OK;
}

lr_code hub_field_u64(const struct hub_fields *f, const char *key, bool needed, uint64_t max,
                      uint64_t *out)
{
    const struct lr_json *value = hub_fields_get(f, key);
    uint64_t number;
    if (value == NULL && !needed)
        return LR_OK;
    if (!lr_json_u64(value, &number) || number > max)
        return hub_field_fail(f, key, "a whole number in range");
    *out = number;
    return LR_OK;
}

lr_code hub_field_int(const struct hub_fields *f, const char *key, int32_t min, int32_t max,
                      int32_t *out)
{
    const struct lr_json *value = hub_fields_get(f, key);
    int64_t number;
    if (value == NULL)
        return LR_OK;
    if (!lr_json_i64(value, &number) || number < min || number > max)
        return hub_field_fail(f, key, "a whole number in range");
    *out = (int32_t)number;
    return LR_OK;
}

lr_code hub_field_bool(const struct hub_fields *f, const char *key, bool *out)
{
    const struct lr_json *value = hub_fields_get(f, key);
    if (value != NULL && !lr_json_bool(value, out))
        return hub_field_fail(f, key, "true or false");
    return LR_OK;
}

static bool plain_name(struct lr_str name)
{
    if (name.len == 0 || name.len >= HUB_NAME_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        if (!isalnum(c) && c != '-' && c != '_' && c != '.')
            return false;
    }
    return true;
}

lr_code hub_field_names(const struct hub_fields *f, const char *key, const char *const **out)
{
    const struct lr_json *value = hub_fields_get(f, key);
    *out = no_names;
    if (value == NULL)
        return LR_OK;
    if (value->type != LR_JSON_ARRAY || value->count > HUB_LIST_MAX)
        return hub_field_fail(f, key, "a short list of names");
    const char **names = lr_arena_array(f->arena, value->count + 1, sizeof(*names));
    if (names == NULL)
        return hub_fields_out_of_memory(f, key);
    for (size_t i = 0; i < value->count; i++) {
        struct lr_str name;
        if (!lr_json_str(&value->items[i], &name) || !plain_name(name))
            return hub_field_fail(f, key, "a short list of names");
        names[i] = lr_arena_copy(f->arena, name);
        if (names[i] == NULL)
            return hub_fields_out_of_memory(f, key);
    }
    names[value->count] = NULL;
    *out = names;
    return LR_OK;
}

lr_code hub_field_sha256(const struct hub_fields *f, const char *key, const char **out)
{
    const struct lr_json *value = hub_fields_get(f, key);
    unsigned char digest[LR_SHA256_LEN];
    struct lr_str text;
    if (value == NULL)
        return LR_OK;
    if (!lr_json_str(value, &text) || !lr_sha256_parse(text, digest))
        return hub_field_fail(f, key, "64 hexadecimal digits");
    char *hex = lr_arena_alloc(f->arena, LR_SHA256_HEX_LEN + 1);
    if (hex == NULL)
        return hub_fields_out_of_memory(f, key);
    lr_sha256_hex(digest, hex);
    *out = hex;
    return LR_OK;
}
