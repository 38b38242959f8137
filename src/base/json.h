/* base/json.h - strict, bounded JSON: a parser into an arena and a writer.
 *
 * The parser takes RFC 8259 and nothing else: valid UTF-8, no lone surrogates, no leading
 * zeros, nothing after the value, no key twice in one object.  Numbers keep their text, so that
 * no digit is lost; the caller asks for a type.  Object members keep their order; members of a
 * large object are found by hash.  All memory comes from the caller's arena.  Strings without
 * escapes point into the caller's text, which must outlive the tree.
 */
#ifndef BASE_JSON_H
#define BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum lr_json_type {
    LR_JSON_NULL,
    LR_JSON_BOOL,
    LR_JSON_NUMBER,
    LR_JSON_STRING,
    LR_JSON_ARRAY,
    LR_JSON_OBJECT,
};

struct lr_json_member;

struct lr_json {
    enum lr_json_type type : 8;
    unsigned indexed : 1; /* set by the parser: a hash table lies before the members */
    uint32_t count;       /* of items or members */
    union {
        bool boolean;
        struct lr_str text; /* decoded string (may hold NUL), or a number as written */
        const struct lr_json *items;
        const struct lr_json_member *members;
    };
};

struct lr_json_member {
    struct lr_str key;
    struct lr_json value;
};

struct lr_json_limits {
    uint32_t max_depth; /* 0: LR_JSON_DEPTH */
    size_t max_bytes;   /* of text; 0: only the arena's limit */
};

enum { LR_JSON_DEPTH = 64 };

/* Slots of the table in front of the members of an indexed object: at most half are used. */
static inline size_t lr_json_slots(uint32_t count)
{
    size_t slots = 32;
    while (slots < (size_t)count * 2)
        slots *= 2;
    return slots;
}

/* INVALID_ARGUMENT with line, column and what was expected; TOO_LARGE past
 * limits->max_bytes; OUT_OF_RAM past the arena.  limits may be NULL. */
LR_MUST_USE lr_code lr_json_parse(struct lr_arena *arena, struct lr_str text,
                                  const struct lr_json_limits *limits,
                                  const struct lr_json **out, struct lr_error *err);

/* NULL when obj is NULL, not an object, or lacks the key.  Constant time for parsed objects,
 * linear time for objects built by hand. */
const struct lr_json *lr_json_get(const struct lr_json *obj, const char *key);
const struct lr_json *lr_json_get_str(const struct lr_json *obj, struct lr_str key);

static inline bool lr_json_is(const struct lr_json *v, enum lr_json_type type)
{
    return v != NULL && v->type == type;
}

/* False when v is NULL, of another type, or (integers) not whole or out of range. */
bool lr_json_bool(const struct lr_json *v, bool *out);
bool lr_json_i64(const struct lr_json *v, int64_t *out);
bool lr_json_u64(const struct lr_json *v, uint64_t *out);
bool lr_json_double(const struct lr_json *v, double *out); /* finite only */
bool lr_json_str(const struct lr_json *v, struct lr_str *out);

const char *lr_json_type_name(enum lr_json_type type); /* "object", "string"... */

/* The strings of a list as a set.  A value that is no list gives an empty set. */
struct lr_json_set {
    const struct lr_json *list; /* borrowed until lr_json_set_free */
    uint32_t *slots; /* owned; NULL: the list is short and is searched without an index */
};

/* False: no memory, and the set is empty. */
LR_MUST_USE bool lr_json_set_init(struct lr_json_set *set, const struct lr_json *list);
bool lr_json_set_has(const struct lr_json_set *set, struct lr_str text);
void lr_json_set_free(struct lr_json_set *set);

/* ---- writer ---- */

/* Writes one compact JSON value to a buffer, with commas and colons.  Nesting deeper than
 * LR_JSON_DEPTH, a second value and unbalanced calls set buf->failed. */
struct lr_json_writer {
    struct lr_buf *buf; /* borrowed */
    uint64_t has_items; /* one bit for each open level: the next item needs a comma */
    uint32_t depth;
    bool after_key;
    bool has_value; /* something has been written */
};

void lr_json_writer_init(struct lr_json_writer *w, struct lr_buf *buf);

void lr_json_begin_object(struct lr_json_writer *w);
void lr_json_end_object(struct lr_json_writer *w);
void lr_json_begin_array(struct lr_json_writer *w);
void lr_json_end_array(struct lr_json_writer *w);
void lr_json_key(struct lr_json_writer *w, const char *key);
void lr_json_key_str(struct lr_json_writer *w, struct lr_str key);

/* Bytes that are not UTF-8 become U+FFFD, so that the output is always valid. */
void lr_json_put_str(struct lr_json_writer *w, struct lr_str s);
void lr_json_put_z(struct lr_json_writer *w, const char *text); /* NULL writes null */
void lr_json_put_i64(struct lr_json_writer *w, int64_t value);
void lr_json_put_u64(struct lr_json_writer *w, uint64_t value);
/* Writes the fewest of 15 to 17 digits that read back as the same number.  JSON has no NaN and
 * no infinities: both are written as null. */
void lr_json_put_double(struct lr_json_writer *w, double value);
void lr_json_put_bool(struct lr_json_writer *w, bool value);
void lr_json_put_null(struct lr_json_writer *w);
void lr_json_put_raw(struct lr_json_writer *w,
                     struct lr_str json); /* already JSON, copied unchecked */
void lr_json_put_value(struct lr_json_writer *w, const struct lr_json *value);

/* key + value in one call */
void lr_json_member_str(struct lr_json_writer *w, const char *key, struct lr_str s);
void lr_json_member_z(struct lr_json_writer *w, const char *key, const char *text);
void lr_json_member_i64(struct lr_json_writer *w, const char *key, int64_t value);
void lr_json_member_u64(struct lr_json_writer *w, const char *key, uint64_t value);
void lr_json_member_double(struct lr_json_writer *w, const char *key, double value);
/* The shortest number that reads as the same float. */
void lr_json_member_float(struct lr_json_writer *w, const char *key, float value);
void lr_json_member_bool(struct lr_json_writer *w, const char *key, bool value);
void lr_json_member_null(struct lr_json_writer *w, const char *key);
/* key + begin */
void lr_json_member_array(struct lr_json_writer *w, const char *key);
void lr_json_member_object(struct lr_json_writer *w, const char *key);

/* Several members in one call:
 *   LR_JSON_MEMBERS(w, LR_TEXT("id", id), LR_UINT("slots", 4), LR_FLAG("online", true));
 * LR_JSON_ITEM writes an object that has these members and no others. */
struct lr_json_field {
    const char *key;
    enum {
        LR_FIELD_TEXT,
        LR_FIELD_STR,
        LR_FIELD_U64,
        LR_FIELD_I64,
        LR_FIELD_REAL,
        LR_FIELD_BOOL
    } type;
    union {
        const char *text; /* NULL writes null */
        struct lr_str str;
        uint64_t u64;
        int64_t i64;
        double real;
        bool flag;
    };
};
#define LR_TEXT(name, value)                                                                   \
    ((struct lr_json_field){.key = (name), .type = LR_FIELD_TEXT, .text = (value)})
#define LR_STR(name, value)                                                                    \
    ((struct lr_json_field){.key = (name), .type = LR_FIELD_STR, .str = (value)})
#define LR_UINT(name, value)                                                                   \
    ((struct lr_json_field){.key = (name), .type = LR_FIELD_U64, .u64 = (value)})
#define LR_INT(name, value)                                                                    \
    ((struct lr_json_field){.key = (name), .type = LR_FIELD_I64, .i64 = (value)})
#define LR_REAL(name, value)                                                                   \
    ((struct lr_json_field){.key = (name), .type = LR_FIELD_REAL, .real = (value)})
#define LR_FLAG(name, value)                                                                   \
    ((struct lr_json_field){.key = (name), .type = LR_FIELD_BOOL, .flag = (value)})

void lr_json_put_fields(struct lr_json_writer *w, const struct lr_json_field *fields,
                        size_t count);
#define LR_JSON_MEMBERS(w, ...)                                                                \
    lr_json_put_fields(w, (const struct lr_json_field[]){__VA_ARGS__},                         \
                       sizeof((const struct lr_json_field[]){__VA_ARGS__}) /                   \
                           sizeof(struct lr_json_field))
#define LR_JSON_ITEM(w, ...)                                                                   \
    (lr_json_begin_object(w), LR_JSON_MEMBERS(w, __VA_ARGS__), lr_json_end_object(w))

/* Appends s as a JSON string literal, quotes included. */
void lr_json_quote(struct lr_buf *buf, struct lr_str s);

#endif
