/* chat/ollama/error.c - errors as Ollama's clients expect them: {"error": "text"}. */
#include "base/errors.h"
#include "chat/ollama/ollama.h"

/* Some clients look for these words of Ollama in the text. */
static const char *words_of(const struct lr_error *error)
{
    static const enum lr_error_id absent[] = {LR_ERROR_no_model,     LR_ERROR_no_model_on_node,
                                              LR_ERROR_absent_model, LR_ERROR_no_model_no_hub,
                                              LR_ERROR_no_model_but, LR_ERROR_no_model_on_hub};
    for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++)
        if (lr_error_is(error, absent[i]))
            return "model not found: ";
    return chat_error_too_long(error, NULL) ? "the input length exceeds the context length: "
                                            : "";
}

void chat_ollama_error(struct lr_buf *out, const struct chat_codec *codec,
                       const struct chat_error *e)
{
    struct lr_error told;
    (void)codec;
    (void)lr_fail(&told, e->error.code, "%s%.460s", words_of(&e->error), e->error.text);
    lr_buf_add_z(out, "{\"error\":");
    lr_json_quote(out, lr_str_z(told.text));
    lr_buf_add_char(out, '}');
}
