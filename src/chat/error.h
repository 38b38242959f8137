/* chat/error.h - an error of a request, independent of the API. */
#ifndef CHAT_ERROR_H
#define CHAT_ERROR_H

#include "base/buf.h"
#include "base/fail.h"

struct chat_codec;

/* Zeroed by the caller. */
struct chat_error {
    struct lr_error error;
    char param[96];   /* "messages[3].content"; empty: the error is about no field */
    const char *code; /* static text such as "invalid_type"; NULL: derived from error.code */
};

/* The code that clients check for, to use another model or to shorten a conversation, with the
 * field that the error is about; NULL for any other error. */
const char *chat_error_word(const struct chat_codec *codec, const struct lr_error *error,
                            const char **param);

/* Appends the error's body in the API's form. lr_code_http gives the HTTP status. */
void chat_error_write(struct lr_buf *out, const struct chat_codec *codec,
                      const struct chat_error *e);

#endif
