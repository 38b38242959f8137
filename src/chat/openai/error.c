/* chat/openai/error.c - see chat/openai/openai.h. */
#include "chat/openai/openai.h"

#include "base/json.h"

void chat_openai_error(struct lr_buf *out, const struct chat_codec *codec,
                       const struct chat_error *e)
{
    struct lr_json_writer w;
    const struct lr_error *error = &e->error;
    const char *type = lr_code_type(error->code), *param = e->param, *code = e->code;
    char word[LR_CODE_WORD];
    if (code == NULL || code[0] == '\0')
        code = chat_error_word(codec, error, &param);
    if (code == NULL)
        code = lr_code_word(error->code, word);

    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_member_object(&w, "error");
    lr_json_member_str(&w, "message", lr_str_z(error->text));
    lr_json_member_z(&w, "type", type[0] != '\0' ? type : "server_error");
    lr_json_member_z(&w, "param", param[0] != '\0' ? param : NULL);
    lr_json_member_z(&w, "code", code);
    lr_json_end_object(&w);
    lr_json_end_object(&w);
}
