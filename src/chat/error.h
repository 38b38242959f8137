/* chat/error.h - what went wrong with a request, before an API words it. */
#ifndef CHAT_ERROR_H
#define CHAT_ERROR_H

#include "base/buf.h"
#include "base/fail.h"

struct chat_codec;

/* Zeroed by its declarer. */
struct chat_error {
    struct lr_error error;
    char param[96];   /* "messages[3].content"; empty: no field is at fault */
    const char *code; /* static text such as "invalid_type"; NULL: derived from error.code */
};

/* The words clients look for, to ask for another model or to shorten a conversation, and the
 * field that such a failure belongs to; NULL for any other failure. */
const char *chat_error_word(const struct chat_codec *codec, const struct lr_error *error,
                            const char **param);

/* Appends the error's body in the API's form.  The HTTP status is lr_code_http's. */
void chat_error_write(struct lr_buf *out, const struct chat_codec *codec,
                      const struct chat_error *e);

#endif
