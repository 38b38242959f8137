/* base/json_value.c - access to parsed values. */
#include <math.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/strmap.h"

static const struct lr_json *get_indexed(const struct lr_json *obj, struct lr_str key)
{
    size_t size = lr_json_slots(obj->count), slot = lr_hash(key) & (size - 1);
    const uint32_t *slots = (const uint32_t *)(const void *)obj->members - size;
    for (; slots[slot] != UINT32_MAX; slot = (slot + 1) & (size - 1))
        if (lr_str_eq(obj->members[slots[slot]].key, key))
            return &obj->members[slots[slot]].value;
    return NULL;
}

const struct lr_json *lr_json_get_str(const struct lr_json *obj, struct lr_str key)
{
    if (!lr_json_is(obj, LR_JSON_OBJECT))
        return NULL;
    if (obj->indexed)
        return get_indexed(obj, key);
    for (uint32_t i = 0; i < obj->count; i++)
        if (lr_str_eq(obj->members[i].key, key))
            return &obj->members[i].value;
    return NULL;
}

const struct lr_json *lr_json_get(const struct lr_json *obj, const char *key)
{
    return lr_json_get_str(obj, lr_str_z(key));
}

bool lr_json_bool(const struct lr_json *v, bool *out)
{
    if (!lr_json_is(v, LR_JSON_BOOL))
        return false;
    *out = v->boolean;
    return true;
}

bool lr_json_double(const struct lr_json *v, double *out)
{
    char copy[512];
    if (!lr_json_is(v, LR_JSON_NUMBER) || v->text.len >= sizeof(copy))
        return false;
    memcpy(copy, v->text.ptr, v->text.len);
    copy[v->text.len] = '\0';
    double value = strtod(copy, NULL);
    if (!isfinite(value))
        return false;
    *out = value;
    return true;
}

/* JavaScript clients write whole numbers also as "2.0" or "1e3". */
static bool whole(const struct lr_json *v, double *out)
{
    return lr_json_double(v, out) && *out == floor(*out) && fabs(*out) <= 9007199254740992.0;
}

bool lr_json_i64(const struct lr_json *v, int64_t *out)
{
    double value;
    if (!lr_json_is(v, LR_JSON_NUMBER))
        return false;
    if (lr_str_i64(v->text, out))
        return true;
    if (!whole(v, &value))
        return false;
    *out = (int64_t)value;
    return true;
}

bool lr_json_u64(const struct lr_json *v, uint64_t *out)
{
    double value;
    if (!lr_json_is(v, LR_JSON_NUMBER))
        return false;
    if (lr_str_u64(v->text, out))
        return true;
    if (!whole(v, &value) || value < 0)
        return false;
    *out = (uint64_t)value;
    return true;
}

bool lr_json_str(const struct lr_json *v, struct lr_str *out)
{
    if (!lr_json_is(v, LR_JSON_STRING))
        return false;
    *out = v->text;
    return true;
}

const char *lr_json_type_name(enum lr_json_type type)
{
    static const char *const names[] = {"null",   "boolean", "number",
                                        "string", "array",   "object"};
    return names[type];
}
