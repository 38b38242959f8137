/* LINK: base jansson */
/* The JSON parser compared with jansson: the same texts are accepted with the same values, and
 * our output parses to the same values.  Documented differences: jansson refuses integers
 * beyond 64 bits, reals beyond a double and keys with NUL, which we accept; jansson overlooks a
 * NUL byte behind a number, where we refuse every NUL byte. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { DEPTH = 2048 }; /* jansson's own limit */

static void demand(bool claim)
{
    if (!claim)
        abort();
}

static void compare(const struct lr_json *ours, const json_t *theirs);

static void compare_number(const struct lr_json *ours, const json_t *theirs)
{
    double real;
    int64_t integer;
    if (json_is_integer(theirs)) {
        demand(lr_json_i64(ours, &integer));
        demand(integer == json_integer_value(theirs));
    } else {
        demand(json_is_real(theirs));
        /* A number of more than 511 characters is kept as text only. */
        if (ours->text.len < 512)
            demand(lr_json_double(ours, &real) && real == json_real_value(theirs));
    }
}

static void compare_object(const struct lr_json *ours, const json_t *theirs)
{
    demand(json_is_object(theirs) && json_object_size(theirs) == ours->count);
    for (uint32_t i = 0; i < ours->count; i++) {
        char *key = strndup(ours->members[i].key.ptr, ours->members[i].key.len);
        demand(key != NULL && strlen(key) == ours->members[i].key.len);
        compare(&ours->members[i].value, json_object_get(theirs, key));
        demand(lr_json_get_str(ours, ours->members[i].key) == &ours->members[i].value);
        free(key);
    }
}

static void compare(const struct lr_json *ours, const json_t *theirs)
{
    demand(theirs != NULL);
    switch (ours->type) {
    case LR_JSON_NULL:
        demand(json_is_null(theirs));
        break;
    case LR_JSON_BOOL:
        demand(ours->boolean ? json_is_true(theirs) : json_is_false(theirs));
        break;
    case LR_JSON_NUMBER:
        compare_number(ours, theirs);
        break;
    case LR_JSON_STRING:
        demand(json_is_string(theirs) && json_string_length(theirs) == ours->text.len);
        demand(ours->text.len == 0 ||
               memcmp(json_string_value(theirs), ours->text.ptr, ours->text.len) == 0);
        break;
    case LR_JSON_ARRAY:
        demand(json_is_array(theirs) && json_array_size(theirs) == ours->count);
        for (uint32_t i = 0; i < ours->count; i++)
            compare(&ours->items[i], json_array_get(theirs, i));
        break;
    case LR_JSON_OBJECT:
        compare_object(ours, theirs);
        break;
    }
}

static bool same(const struct lr_json *a, const struct lr_json *b)
{
    if (a->type != b->type || a->count != b->count)
        return false;
    if (a->type == LR_JSON_BOOL)
        return a->boolean == b->boolean;
    if (a->type == LR_JSON_NUMBER || a->type == LR_JSON_STRING)
        return lr_str_eq(a->text, b->text);
    for (uint32_t i = 0; i < a->count; i++) {
        if (a->type == LR_JSON_ARRAY && !same(&a->items[i], &b->items[i]))
            return false;
        if (a->type == LR_JSON_OBJECT && (!lr_str_eq(a->members[i].key, b->members[i].key) ||
                                          !same(&a->members[i].value, &b->members[i].value)))
            return false;
    }
    return true;
}

static uint32_t depth_of(const struct lr_json *v)
{
    uint32_t deepest = 0;
    for (uint32_t i = 0; i < v->count; i++) {
        uint32_t depth =
            depth_of(v->type == LR_JSON_ARRAY ? &v->items[i] : &v->members[i].value);
        deepest = depth > deepest ? depth : deepest;
    }
    return v->type >= LR_JSON_ARRAY ? deepest + 1 : 0;
}

static void write_and_read_back(const struct lr_json *value, size_t size)
{
    struct lr_arena arena;
    struct lr_buf buf;
    struct lr_json_writer w;
    const struct lr_json *again;
    lr_arena_init(&arena, 64 << 20);
    lr_buf_init(&buf, size * 6 + 64);
    lr_json_writer_init(&w, &buf);
    lr_json_put_value(&w, value);
    demand(buf.failed == (depth_of(value) > LR_JSON_DEPTH));
    if (!buf.failed) {
        demand(lr_json_parse(&arena, lr_buf_str(&buf), NULL, &again, NULL) == LR_OK);
        demand(same(value, again));
    }
    lr_buf_free(&buf);
    lr_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lr_arena arena;
    const struct lr_json *ours;
    struct lr_error err;
    json_error_t their_error;
    const struct lr_json_limits limits = {.max_depth = DEPTH};
    lr_arena_init(&arena, 64 << 20);
    lr_code code =
        lr_json_parse(&arena, lr_str((const char *)data, size), &limits, &ours, &err);
    json_t *theirs =
        json_loadb((const char *)data, size,
                   JSON_REJECT_DUPLICATES | JSON_DECODE_ANY | JSON_ALLOW_NUL, &their_error);
    demand(code == LR_OK || code == LR_INVALID_ARGUMENT);
    demand(code == LR_OK || err.text[0] != '\0');
    bool has_nul = size != 0 && memchr(data, '\0', size) != NULL;
    demand(!has_nul || code != LR_OK);
    if (theirs == NULL && code == LR_OK) {
        enum json_error_code why = json_error_code(&their_error);
        demand(why == json_error_numeric_overflow || why == json_error_null_byte_in_key);
    }
    if (theirs != NULL) {
        demand(code == LR_OK || has_nul);
        if (code == LR_OK)
            compare(ours, theirs);
        json_decref(theirs);
    }
    if (code == LR_OK)
        write_and_read_back(ours, size);
    lr_arena_free(&arena);
    return 0;
}
