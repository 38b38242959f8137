/* chat/openai_error.c - see chat/openai_error.h. */
#include "chat/openai_error.h"

#include <ctype.h>

#include "base/json.h"

/* OpenAI's word for a code, where clients look for one. */
static const char *openai_word(lr_code code)
{
    switch (code) {
    case LR_UNAUTHENTICATED:
        return "invalid_api_key";
    case LR_RATE_LIMITED:
        return "rate_limit_exceeded";
    default:
        return NULL;
    }
}

static void write_code(struct lr_json_writer *w, const char *code, lr_code fallback)
{
    if (code == NULL || code[0] == '\0')
        code = openai_word(fallback);
    if (code != NULL) {
        lr_json_member_z(w, "code", code);
        return;
    }
    char name[32];
    const char *upper = lr_code_name(fallback);
    size_t n = 0;
    for (; upper[n] != '\0' && n < sizeof(name); n++)
        name[n] = (char)tolower((unsigned char)upper[n]);
    lr_json_member_str(w, "code", lr_str(name, n));
}

void chat_openai_error_write(struct lr_buf *out, const struct lr_error *error,
                             const char *param, const char *code)
{
    struct lr_json_writer w;
    const char *type = lr_code_type(error->code);

    lr_json_writer_init(&w, out);
    lr_json_begin_object(&w);
    lr_json_key(&w, "error");
    lr_json_begin_object(&w);
    lr_json_member_str(&w, "message", lr_str_z(error->text));
    lr_json_member_z(&w, "type", type[0] != '\0' ? type : "server_error");
    lr_json_member_z(&w, "param", param != NULL && param[0] != '\0' ? param : NULL);
    write_code(&w, code, error->code);
    lr_json_end_object(&w);
    lr_json_end_object(&w);
}
