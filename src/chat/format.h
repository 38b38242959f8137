/* chat/format.h - the output format that a request asks for: as a constraint for the worker,
 * and as text in the prompt. */
#ifndef CHAT_FORMAT_H
#define CHAT_FORMAT_H

#include "base/arena.h"
#include "base/fail.h"
#include "chat/request.h"

struct chat_dialect;

/* is_opened: the prompt ended inside reasoning.  What is constrained begins after it.
 * The constraint of a request's choices (grammar/constraint.h), in the arena; empty: none.
 *   UNSUPPORTED       a call is required, but the model's call format is unknown
 *   INVALID_ARGUMENT  the tools' schemas together are too large */
LR_MUST_USE lr_code chat_format_constraint(struct lr_arena *arena,
                                           const struct chat_request *req,
                                           const struct chat_dialect *dialect, bool is_opened,
                                           struct lr_str *out, struct lr_error *err);

/* Appends the schema, if there is one, to the developer message, where Harmony expects response
 * formats.  False: no memory. */
bool chat_format_show(struct lr_arena *arena, const struct chat_request *req,
                      struct lr_json *messages);

#endif
