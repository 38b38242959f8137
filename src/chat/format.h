/* chat/format.h - what a request demands of its output: as a constraint for the engine's host,
 * and as words for the model.
 */
#ifndef CHAT_FORMAT_H
#define CHAT_FORMAT_H

#include "base/arena.h"
#include "base/fail.h"
#include "chat/request.h"

/* The constraint of a request's choices (grammar/constraint.h), in the arena; empty: none.
 *   UNSUPPORTED       a call is demanded of a model whose calls nobody understands
 *   INVALID_ARGUMENT  the tools' schemas together are too large */
LR_MUST_USE lr_code chat_format_constraint(struct lr_arena *arena,
                                           const struct chat_request *req, bool is_harmony,
                                           struct lr_str *out, struct lr_error *err);

/* Harmony has a place for response formats: the end of the developer message.  Puts the schema
 * there, if there is one.  False without memory. */
bool chat_format_show(struct lr_arena *arena, const struct chat_request *req,
                      struct lr_json *messages);

#endif
