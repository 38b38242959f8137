/* chat/openai_request.h - the OpenAI codec for requests: JSON body -> chat_request.
 *
 * Every field is honoured, accepted without effect, or refused by name (docs/promises.md:
 * every-field); a field nobody knows is refused too.  One table (chat/openai_fields.c, for the
 * Responses API chat/responses_fields.c) says which, and docs/api-fields.md and
 * docs/responses.md are checked against it.
 */
#ifndef CHAT_OPENAI_REQUEST_H
#define CHAT_OPENAI_REQUEST_H

#include "base/arena.h"
#include "base/buf.h"
#include "chat/openai_error.h"
#include "chat/request.h"

/* Parses and validates.  *out lies in `arena` and borrows from `body`, so both
 * outlive it; NULL on failure.  An arena limit of sixteen times the body plus 64 KB
 * is always enough.
 *
 *   INVALID_ARGUMENT, UNSUPPORTED   a 400: e->param names the field
 *   TOO_LARGE, OUT_OF_RAM           a limit of the JSON parser or the arena
 *
 * e is filled on failure and may not be NULL. */
LR_MUST_USE lr_code chat_openai_parse(struct lr_arena *arena, enum chat_api api,
                                      struct lr_str body, const struct chat_request **out,
                                      struct chat_error *e);

/* The same in two parts, so that a caller can look at the model's name before the work that
 * fields cause: first the JSON, then what it says.  The name is empty where there is none. */
LR_MUST_USE lr_code chat_openai_read(struct lr_arena *arena, struct lr_str body,
                                     const struct lr_json **out, struct lr_str *model,
                                     struct chat_error *e);
LR_MUST_USE lr_code chat_openai_check(struct lr_arena *arena, enum chat_api api,
                                      const struct lr_json *root,
                                      const struct chat_request **out, struct chat_error *e);

enum chat_field_list { CHAT_FIELD_HONOURED, CHAT_FIELD_NO_EFFECT, CHAT_FIELD_REFUSED };

/* One row of the table, as documentation shows it. */
struct chat_field_row {
    const char *name;
    enum chat_field_list list;
    bool in_chat;
    bool in_completions;
    const char *note; /* accepted values and meaning; why it is refused */
};

size_t chat_openai_field_count(void);
struct chat_field_row chat_openai_field(size_t index);

/* The three lists as docs/api-fields.md holds them. */
void chat_openai_fields_markdown(struct lr_buf *out);
/* Those of the Responses API, within docs/responses.md. */
void chat_responses_fields_markdown(struct lr_buf *out);

#endif
