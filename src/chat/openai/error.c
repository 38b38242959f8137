/* chat/openai/error.c - see chat/openai/openai.h. */
#include "chat/openai/openai.h"

#include <stdio.h>

#include "base/json.h"

struct lr_error chat_openai_error_told(const struct lr_error *error)
{
    struct lr_error told = *error;
    struct chat_too_long too_long;
    if (error->code == LR_RATE_LIMITED)
        (void)lr_fail(&told, error->code, "Rate limit reached: %.460s", error->text);
    else if (chat_error_too_long(error, &too_long))
        (void)lr_fail(&told, error->code,
                      "This model's maximum context length is %llu tokens. However, %.*s%s",
                      (unsigned long long)too_long.limit,
                      too_long.said.len < 300 ? (int)too_long.said.len : 300, error->text,
                      too_long.leaves_answer
                          ? ", and at least one token must be left for the answer: shorten "
                            "the conversation."
                          : ": send a shorter text.");
    return told;
}

void chat_openai_error(struct lr_buf *out, const struct chat_codec *codec,
                       const struct chat_error *e)
{
    struct lr_json_writer w;
    const struct lr_error *error = &e->error;
    struct lr_error told = chat_openai_error_told(error);
    const char *type = lr_code_type(error->code), *param = e->param, *code = e->code;
    char word[LR_CODE_WORD];
    if (code == NULL || code[0] == '\0')
        code = chat_error_word(codec, error, &param);
    if (code == NULL)
        code = lr_code_word(error->code, word);

    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_object(&w, "error");
    lr_json_member_str(&w, "message", lr_str_z(told.text));
    lr_json_member_z(&w, "type", type[0] != '\0' ? type : "server_error");
    lr_json_member_z(&w, "param", param[0] != '\0' ? param : NULL);
    lr_json_member_z(&w, "code", code);
    lr_json_end_object(&w);
    lr_json_end_object(&w);
}
