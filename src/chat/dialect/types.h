/* chat/dialect/types.h - what a tool's parameters may be, as far as a reader has to know.
 *
 * Forms that write values as text between tags do not say whether 42 is a number or a text; the
 * schema does.  A request may be freed before its answer begins, so that the types of its tools
 * are copied here.  Bounded: a schema that is deeper or larger is known only in part, and what
 * is not known is read as JSON where it is JSON.
 */
#ifndef CHAT_DIALECT_TYPES_H
#define CHAT_DIALECT_TYPES_H

#include "base/arena.h"
#include "base/json.h"

/* A set of bits; 0: nothing is known. */
enum {
    CHAT_TYPE_STRING = 1,
    CHAT_TYPE_NULL = 2,
    CHAT_TYPE_OBJECT = 4,
    CHAT_TYPE_ARRAY = 8,
    CHAT_TYPE_OTHER = 16, /* numbers and booleans */
};

struct chat_property;

struct chat_types {
    uint32_t bits;
    uint32_t count;                      /* of properties */
    const struct chat_property *members; /* in the arena */
    const struct chat_types *items;      /* of an array, in the arena; NULL: not known */
};

struct chat_property {
    struct lr_str name; /* in the arena */
    struct chat_types types;
};

/* A declared tool. */
struct chat_declared {
    struct lr_str name;
    struct chat_types types; /* of its arguments: an object */
};

/* Copies the types of a schema.  False: no memory. */
bool chat_types_of(struct lr_arena *arena, const struct lr_json *schema,
                   struct chat_types *out);

/* NULL: not declared. */
const struct chat_types *chat_types_member(const struct chat_types *types, struct lr_str name);

#endif
