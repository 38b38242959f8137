/* chat/anthropic/error.c - errors as Anthropic's clients expect them. */
#include "chat/anthropic/anthropic.h"

#include <stdio.h>

static const char *type_of(lr_code code)
{
    static const struct {
        int http;
        const char *type;
    } types[] = {
        {401, "authentication_error"}, {403, "permission_error"},  {404, "not_found_error"},
        {408, "timeout_error"},        {413, "request_too_large"}, {429, "rate_limit_error"},
        {503, "overloaded_error"},     {504, "timeout_error"},
    };
    int http = lr_code_http(code);
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].http == http)
            return types[i].type;
    return http < 500 ? "invalid_request_error" : "api_error";
}

/* The number behind `before`; 0: none. */
static unsigned long long number_after(const char *text, const char *before)
{
    const char *at = strstr(text, before);
    unsigned long long n = 0;
    return at != NULL && sscanf(at + strlen(before), "%llu", &n) == 1 ? n : 0;
}

/* Clients shorten a conversation when they read these words. */
static void write_message(struct lr_buf *out, const struct chat_codec *codec,
                          const struct lr_error *error)
{
    const char *param;
    const char *word = chat_error_word(codec, error, &param);
    unsigned long long has = number_after(error->text, "the prompt has ");
    unsigned long long holds = number_after(error->text, "the context holds ");
    char text[96];
    if (word == NULL || strcmp(word, "context_length_exceeded") != 0 || has == 0) {
        lr_json_quote(out, lr_str_z(error->text));
        return;
    }
    (void)snprintf(text, sizeof(text), "prompt is too long: %llu tokens > %llu maximum", has,
                   holds);
    lr_json_quote(out, lr_str_z(text));
}

void chat_anthropic_error(struct lr_buf *out, const struct chat_codec *codec,
                          const struct chat_error *e)
{
    lr_buf_addf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                type_of(e->error.code));
    write_message(out, codec, &e->error);
    lr_buf_add_z(out, "}}");
}
