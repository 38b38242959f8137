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

/* Clients shorten a conversation when they read these words. */
static void write_message(struct lr_buf *out, const struct lr_error *error)
{
    struct chat_too_long too_long;
    char text[96];
    if (!chat_error_too_long(error, &too_long) || !too_long.is_prompt || too_long.count == 0) {
        lr_json_quote(out, lr_str_z(error->text));
        return;
    }
    (void)snprintf(text, sizeof(text), "prompt is too long: %llu tokens > %llu maximum",
                   (unsigned long long)too_long.count, (unsigned long long)too_long.limit);
    lr_json_quote(out, lr_str_z(text));
}

void chat_anthropic_error(struct lr_buf *out, const struct chat_codec *codec,
                          const struct chat_error *e)
{
    lr_buf_addf(out, "{\"type\":\"error\",\"error\":{\"type\":\"%s\",\"message\":",
                type_of(e->error.code));
    (void)codec;
    write_message(out, &e->error);
    lr_buf_add_z(out, "}}");
}
