/* chat/openai_error.h - error bodies as OpenAI clients read them.
 *
 *   {"error":{"message":...,"type":...,"param":...,"code":...}}
 *
 * The type comes from the code table of base/fail.h, the HTTP status from
 * lr_code_http(); `code` is OpenAI's own word where there is one, else the
 * lower-case name of the lr_code.
 */
#ifndef CHAT_OPENAI_ERROR_H
#define CHAT_OPENAI_ERROR_H

#include "base/buf.h"
#include "base/fail.h"
#include "chat/request.h"

/* What a codec says about a bad request.  Zeroed by whoever declares it. */
struct chat_error {
    struct lr_error error;
    char param[96];   /* "messages[3].content"; empty: null in the body */
    const char *code; /* static text such as "invalid_type", or NULL */
};

/* Appends the body.  param and code may be NULL or empty; a NULL code is derived
 * from error->code. */
void chat_openai_error_write(struct lr_buf *out, const struct lr_error *error,
                             const char *param, const char *code);

/* The body for a failure behind the codec, in the words of that API. */
void chat_api_error_write(struct lr_buf *out, enum chat_api api, const struct lr_error *error);

/* OpenAI's word for such a failure and the field it belongs to; NULL where it has none. */
const char *chat_api_error_word(enum chat_api api, const struct lr_error *error,
                                const char **param);

static inline void chat_error_write(struct lr_buf *out, const struct chat_error *e)
{
    chat_openai_error_write(out, &e->error, e->param, e->code);
}

#endif
