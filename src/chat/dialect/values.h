/* chat/dialect/values.h - values that models write otherwise than as JSON -> JSON.
 *
 * Pure functions over a text that is there as a whole, linear in it and bounded in depth.  They
 * append to `out`; after `false` it has what it had before.
 */
#ifndef CHAT_DIALECT_VALUES_H
#define CHAT_DIALECT_VALUES_H

#include "base/buf.h"
#include "chat/dialect/types.h"

enum { CHAT_VALUE_DEPTH_MAX = 32 };

/* A text between tags, as the schema's types say; types NULL: the property is not declared. */
void chat_value_typed(struct lr_str text, const struct chat_types *types, struct lr_buf *out);
/* A text that is JSON, or else a Python literal, or else a string. */
void chat_value_json(struct lr_str text, struct lr_buf *out);

/* One literal of Python's: 'text', True, None, [1, (2, 3)], {'a': 1}; JSON's words, too. */
bool chat_value_python(struct lr_str text, struct lr_buf *out);

/* "{key:<|"|>text<|"|>,list:[1,true]}" of Gemma 4. */
bool chat_value_gemma(struct lr_str text, struct lr_str quote, struct lr_buf *out);

/* Tags in tags, each after `mark`: "P<key>P<item>1P</item>P</key>"; strings are verbatim. */
bool chat_value_nested(struct lr_str text, struct lr_str mark, const struct chat_types *types,
                       struct lr_buf *out);

#endif
