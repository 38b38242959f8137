#include "base/fail.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/errors.h"

static void fail_put_text(struct lr_error *err, lr_code code, const char *fmt, va_list args)
    LR_PRINTF(3, 0);

static void fail_put_text(struct lr_error *err, lr_code code, const char *fmt, va_list args)
{
    err->code = code;
    (void)vsnprintf(err->text, sizeof(err->text), fmt, args);
    lr_fail_forget(err->text, sizeof(err->text));
}

lr_code lr_fail(struct lr_error *err, lr_code code, const char *fmt, ...)
{
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        fail_put_text(err, code, fmt, args);
        va_end(args);
    }
    return code;
}

lr_code lr_fail_errno(struct lr_error *err, lr_code code, const char *fmt, ...)
{
    int saved = errno;
    if (err != NULL) {
        va_list args;
        va_start(args, fmt);
        fail_put_text(err, code, fmt, args);
        va_end(args);
        size_t used = strlen(err->text);
        (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", strerror(saved));
        lr_fail_forget(err->text, sizeof(err->text));
    }
    return code;
}

lr_code lr_fail_prefix(struct lr_error *err, const char *fmt, ...)
{
    if (err == NULL)
        return LR_INTERNAL;
    struct lr_error old = *err;
    va_list args;
    va_start(args, fmt);
    fail_put_text(err, old.code, fmt, args);
    va_end(args);
    size_t used = strlen(err->text);
    (void)snprintf(err->text + used, sizeof(err->text) - used, ": %s", old.text);
    lr_fail_moved(err, &old, used + 2);
    return err->code;
}

struct code_row {
    lr_code code;
    int http;
    const char *name;
    const char *type;
};

static const struct code_row *find_row(lr_code code)
{
    static const struct code_row rows[] = {
#define X(name, number, http, type, meaning) {number, http, #name, type},
        LR_CODE_MAP(X)
#undef X
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

const char *lr_code_name(lr_code code)
{
    const struct code_row *row = find_row(code);
    return row != NULL ? row->name : "UNKNOWN";
}

const char *lr_code_word(lr_code code, char out[LR_CODE_WORD])
{
    size_t n = 0;
    if (code == LR_UNAUTHENTICATED)
        return "invalid_api_key";
    if (code == LR_RATE_LIMITED)
        return "rate_limit_exceeded";
    for (const char *c = lr_code_name(code); *c != '\0' && n + 1 < LR_CODE_WORD; c++)
        out[n++] = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    out[n] = '\0';
    return out;
}

int lr_code_http(lr_code code)
{
    const struct code_row *row = find_row(code);
    return row != NULL ? row->http : 500;
}

const char *lr_code_type(lr_code code)
{
    const struct code_row *row = find_row(code);
    return row != NULL ? row->type : "server_error";
}
