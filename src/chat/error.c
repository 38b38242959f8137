/* chat/error.c - see chat/error.h. */
#include "chat/error.h"

#include <string.h>

#include "chat/codec.h"

/* In a chat API NOT_FOUND means that the model was not found.  A too long prompt and a spent
 * budget are recognised by the error's text, because the engines' ten codes have none for
 * them. */
const char *chat_error_word(const struct chat_codec *codec, const struct lr_error *error,
                            const char **param)
{
    if (error->code == LR_NOT_FOUND) {
        *param = "model";
        return "model_not_found";
    }
    if (error->code == LR_INVALID_ARGUMENT && strstr(error->text, "; the context holds ")) {
        *param = codec->prompt_field;
        return "context_length_exceeded";
    }
    if (error->code == LR_RATE_LIMITED && strstr(error->text, " tokens per month"))
        return "insufficient_quota";
    return NULL;
}

void chat_error_write(struct lr_buf *out, const struct chat_codec *codec,
                      const struct chat_error *e)
{
    codec->error(out, codec, e);
}
