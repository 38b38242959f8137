/* base/fail.h - how every function of this program fails.
 *
 * A function that can fail returns an lr_code and takes a struct lr_error *,
 * which may be NULL.  The table below is the only place that knows a code's
 * name, HTTP status and OpenAI error type.
 */
#ifndef BASE_FAIL_H
#define BASE_FAIL_H

#include "llm-router/status.h"

/* clang-format off */
/* The daemon's own codes.  Numbers travel between router and node: append only. */
#define LR_DAEMON_CODE_MAP(X)                                                                                   \
    X(UNAUTHENTICATED,    100,  401,  "authentication_error",   "no key, or one nobody issued")                 \
    X(PERMISSION_DENIED,  101,  403,  "permission_error",       "this key may not do that")                     \
    X(NOT_FOUND,          102,  404,  "invalid_request_error",  "there is no such thing")                       \
    X(METHOD_NOT_ALLOWED, 103,  405,  "invalid_request_error",  "the route exists for other methods")           \
    X(REQUEST_TIMEOUT,    104,  408,  "invalid_request_error",  "the client sends or reads too slowly")         \
    X(CONFLICT,           105,  409,  "invalid_request_error",  "it exists already")                            \
    X(TOO_LARGE,          106,  413,  "invalid_request_error",  "larger than the limit")                        \
    X(UNSUPPORTED_MEDIA,  107,  415,  "invalid_request_error",  "another content type is wanted")               \
    X(RATE_LIMITED,       108,  429,  "rate_limit_error",       "too much at once; try again later")            \
    X(HEADERS_TOO_LARGE,  109,  431,  "invalid_request_error",  "the header block is larger than the limit")    \
    X(UPSTREAM,           110,  502,  "server_error",           "another server failed us")                     \
    X(UNAVAILABLE,        111,  503,  "server_error",           "cannot be served at the moment")               \
    X(IO,                 112,  500,  "server_error",           "a file or a socket failed")                    \
    X(MISDIRECTED,        113,  421,  "invalid_request_error",  "the request was meant for another host")
/* clang-format on */

#define LR_CODE_MAP(X) LR_ABI_CODE_MAP(X) LR_DAEMON_CODE_MAP(X)

enum {
#define X(name, number, http, type, meaning) LR_##name = number,
    LR_DAEMON_CODE_MAP(X)
#undef X
};

/* Fills *err (which may be NULL) and returns code, so that failing is one
 * statement: return lr_fail(err, LR_NOT_FOUND, "..."). */
lr_code lr_fail(struct lr_error *err, lr_code code, const char *fmt, ...) LR_PRINTF(3, 4);

/* Like lr_fail, with the text of errno (": No such file or directory") appended. */
lr_code lr_fail_errno(struct lr_error *err, lr_code code, const char *fmt, ...) LR_PRINTF(3, 4);

/* Puts "prefix: " before the text of an error on its way up; returns err->code. */
lr_code lr_fail_prefix(struct lr_error *err, const char *fmt, ...) LR_PRINTF(2, 3);

const char *lr_code_name(lr_code code); /* "OUT_OF_VRAM"; "UNKNOWN" for a foreign number */
int lr_code_http(lr_code code);         /* 500 for a foreign number */
const char *lr_code_type(lr_code code); /* "type" of an OpenAI error body */
/* "code" of an OpenAI error body: OpenAI's own word where there is one, else the name in lower
 * case. */
enum { LR_CODE_WORD = 32 };
const char *lr_code_word(lr_code code, char out[LR_CODE_WORD]);

#endif
