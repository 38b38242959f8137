/* chat/ollama/error.c - errors as Ollama's clients expect them: {"error": "text"}. */
#include "chat/ollama/ollama.h"

/* Some clients look for these words of Ollama in the text. */
static const char *words_of(const struct chat_codec *codec, const struct lr_error *error)
{
    const char *param, *word = chat_error_word(codec, error, &param);
    if (error->code == LR_NOT_FOUND)
        return lr_str_starts(lr_str_z(error->text), "there is no model") ? "model not found: "
                                                                         : "";
    return word != NULL && strcmp(word, "context_length_exceeded") == 0
               ? "the input length exceeds the context length: "
               : "";
}

void chat_ollama_error(struct lr_buf *out, const struct chat_codec *codec,
                       const struct chat_error *e)
{
    struct lr_error told;
    (void)lr_fail(&told, e->error.code, "%s%.460s", words_of(codec, &e->error), e->error.text);
    lr_buf_add_z(out, "{\"error\":");
    lr_json_quote(out, lr_str_z(told.text));
    lr_buf_add_char(out, '}');
}
