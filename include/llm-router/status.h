/* llm-router/status.h - the status codes shared by daemons, libraries and plugins.
 *
 * The ten codes below are ABI and wire format (docs/promises.md: error-codes): append, never
 * renumber, never reuse.  The daemon's own codes start at 100 and are in src/base/fail.h; an
 * engine never returns those.
 *
 * Compiles as C17, as C++17 and under nvcc.
 */
#ifndef LLM_ROUTER_STATUS_H
#define LLM_ROUTER_STATUS_H

#include <stdint.h>

/* clang-format off */
/*    name              number  http  "type" in an OpenAI-style error body   what it means */
#define LR_ABI_CODE_MAP(X)                                                                                  \
    X(OK,                   0,  200,  "",                       "no error")                                 \
    X(INVALID_ARGUMENT,     1,  400,  "invalid_request_error",  "the caller asked for something malformed") \
    X(UNSUPPORTED,          2,  400,  "invalid_request_error",  "well formed, but not supported here")      \
    X(MODEL_CORRUPT,        3,  500,  "server_error",           "a model file contradicts itself")          \
    X(OUT_OF_VRAM,          4,  503,  "server_error",           "too little device memory")                 \
    X(OUT_OF_RAM,           5,  503,  "server_error",           "too little host memory")                   \
    X(TIMEOUT,              6,  504,  "server_error",           "no progress within the limit")             \
    X(CANCELLED,            7,  499,  "cancelled",              "the caller went away (logs only)")         \
    X(ABI_MISMATCH,         8,  500,  "server_error",           "plugin and host were built for different ABIs") \
    X(INTERNAL,             9,  500,  "server_error",           "a defect, or a device that failed")
/* clang-format on */

typedef int32_t lr_code; /* not an enum: its width is part of the ABI */

enum {
#define X(name, number, http, type, meaning) LR_##name = number,
    LR_ABI_CODE_MAP(X)
#undef X
};

/* Caller-owned. text is always terminated.  It is written for the person who reads the log or
 * the HTTP body: it says what to change. */
struct lr_error {
    lr_code code;
    char text[508];
};

#if defined(__GNUC__)
#define LR_MUST_USE          __attribute__((warn_unused_result))
#define LR_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define LR_MUST_USE
#define LR_PRINTF(fmt, args)
#endif

#endif
