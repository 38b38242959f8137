/* chat/harmony/types.h - tools in the prompt, written as TypeScript. */
#ifndef CHAT_HARMONY_TYPES_H
#define CHAT_HARMONY_TYPES_H

#include "jinja/jinja.h"

/* Appends the namespace `functions`.  INVALID_ARGUMENT names the invalid tool. */
LR_MUST_USE lr_code chat_harmony_add_tools(struct jinja_output *out,
                                           const struct lr_json *tools, struct lr_error *err);

/* Python's truth of a JSON value; false for NULL. */
bool chat_harmony_truthy(const struct lr_json *v);

#endif
