/* chat/openai_error.c - see chat/openai_error.h. */
#include "chat/openai_error.h"

#include <string.h>

#include "base/json.h"

/* Clients look for these two words: to ask for another model, to shorten a conversation.  In
 * this API what is not found is the model; that a prompt is too long is known by the
 * sentence, since engines have ten codes and none for it. */
const char *chat_api_error_word(enum chat_api api, const struct lr_error *error,
                                const char **param)
{
    static const char *const prompts[] = {[CHAT_API_CHAT] = "messages",
                                          [CHAT_API_COMPLETIONS] = "prompt",
                                          [CHAT_API_RESPONSES] = "input"};
    if (error->code == LR_NOT_FOUND) {
        *param = "model";
        return "model_not_found";
    }
    if (error->code == LR_INVALID_ARGUMENT && strstr(error->text, "; the context holds ")) {
        *param = prompts[api];
        return "context_length_exceeded";
    }
    return NULL;
}

void chat_openai_error_write(struct lr_buf *out, const struct lr_error *error,
                             const char *param, const char *code)
{
    struct lr_json_writer w;
    const char *type = lr_code_type(error->code);
    char word[LR_CODE_WORD];
    if (code == NULL || code[0] == '\0')
        code = chat_api_error_word(CHAT_API_CHAT, error, &param);
    if (code == NULL)
        code = lr_code_word(error->code, word);

    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_key(&w, "error");
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "message", lr_str_z(error->text));
    lr_json_member_z(&w, "type", type[0] != '\0' ? type : "server_error");
    lr_json_member_z(&w, "param", param != NULL && param[0] != '\0' ? param : NULL);
    lr_json_member_z(&w, "code", code);
    lr_json_end_object(&w);
    lr_json_end_object(&w);
}

void chat_api_error_write(struct lr_buf *out, enum chat_api api, const struct lr_error *error)
{
    const char *param = NULL;
    const char *word = chat_api_error_word(api, error, &param);
    chat_openai_error_write(out, error, param, word);
}
