/* chat/error.c - see chat/error.h. */
#include "chat/error.h"

#include "base/errors.h"
#include "chat/codec.h"

/* In a chat API NOT_FOUND means that the model was not found. */
const char *chat_error_word(const struct chat_codec *codec, const struct lr_error *error,
                            const char **param)
{
    if (error->code == LR_NOT_FOUND) {
        *param = "model";
        return "model_not_found";
    }
    if (chat_error_too_long(error, NULL)) {
        *param = codec->prompt_field;
        return "context_length_exceeded";
    }
    return lr_error_is(error, LR_ERROR_key_month) ? "insufficient_quota" : NULL;
}

bool chat_error_too_long(const struct lr_error *error, struct chat_too_long *out)
{
    struct lr_str count = {0}, limit = {0}, unit;
    bool leaves_answer = lr_error_is(error, LR_ERROR_prompt_too_long);
    bool is_prompt = leaves_answer || lr_error_is(error, LR_ERROR_prompt_beyond_context);
    if (!is_prompt && !lr_error_is(error, LR_ERROR_text_too_long))
        return false;
    if (out == NULL)
        return true;
    *out = (struct chat_too_long){.is_prompt = is_prompt, .leaves_answer = leaves_answer};
    (void)lr_error_hole(error, "count", &count);
    (void)lr_error_hole(error, "limit", &limit);
    (void)lr_str_u64(count, &out->count);
    (void)lr_str_u64(limit, &out->limit);
    if (lr_error_hole(error, "unit", &unit))
        out->said = lr_str(error->text, (size_t)(unit.ptr + unit.len - error->text));
    return true;
}

void chat_error_write(struct lr_buf *out, const struct chat_codec *codec,
                      const struct chat_error *e)
{
    codec->error(out, codec, e);
}
