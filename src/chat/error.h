/* chat/error.h - an error of a request, independent of the API. */
#ifndef CHAT_ERROR_H
#define CHAT_ERROR_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

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

/* What a text that is longer than the context has. */
struct chat_too_long {
    bool is_prompt;
    bool leaves_answer;    /* a token must be left for it */
    uint64_t count, limit; /* of tokens; a very long prompt is counted in bytes */
    struct lr_str said;    /* "input[1]: the text has 402 tokens", borrowed from the error */
};
/* Whether the error is that; out may be NULL. */
bool chat_error_too_long(const struct lr_error *error, struct chat_too_long *out);

/* Appends the error's body in the API's form. lr_code_http gives the HTTP status. */
void chat_error_write(struct lr_buf *out, const struct chat_codec *codec,
                      const struct chat_error *e);

#endif
