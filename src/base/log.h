/* base/log.h - one line per event, on stderr or in a file.
 *
 * An event is written as it reads in the log: its name first, then key=value words.
 *
 *     lr_log_info(ctx, "node.join id=%s addr=%s:%u", id, host, port);
 *     lr_log_warn(NULL, "download.retry file=" LR_STR_FMT " wait_ms=%d", LR_STR_ARG(f), ms);
 *
 * The compiler checks the arguments as it does for printf.  Values are quoted and
 * escaped by the log, so a value never ends a line or forges a key.  The format is
 * a literal: "area.verb" and then words of the form key=text, where text may hold
 * %s %.*s %c %d %u %x %f %g %e %p with the usual flags and lengths.  A NULL string is
 * written as null.  In the JSON form a value that is one number stays a number.
 *
 * A line is one write(2) of at most LR_LOG_LINE_MAX bytes; longer ones are cut and say
 * so.  No prompt text and no secret goes into a log call.  Thread: any.
 */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/str.h"
#include "llm-router/status.h"

enum { LR_LOG_LINE_MAX = 8192 };

enum lr_log_level { LR_LOG_ERROR, LR_LOG_WARN, LR_LOG_INFO, LR_LOG_DEBUG };
enum lr_log_format { LR_LOG_TEXT, LR_LOG_JSON };

/* What all log lines of one request share; NULL for lines that belong to no request. */
struct lr_log_ctx {
    const char *request_id;       /* borrowed; NULL or "": no request id is written */
    const struct lr_error *error; /* borrowed; its id is the line's last word; NULL: none */
};
/* Of a line about an error that belongs to no request. */
#define LR_LOG_OF(err) (&(struct lr_log_ctx){.error = (err)})

/* Set once, before threads start.  fd is borrowed (2 unless set). */
void lr_log_set(enum lr_log_level level, enum lr_log_format format);
void lr_log_set_fd(int fd);
/* Appends lines to this file from now on; NULL: changes nothing.  Before threads start. */
LR_MUST_USE lr_code lr_log_open(const char *path, struct lr_error *err);
/* Opens the log file again, because log rotation may have renamed it.  If that fails, the log
 * goes on in the old file and says why.  Thread: one at a time. */
void lr_log_reopen(void);
void lr_log_set_clock(const struct lr_clock *clock); /* borrowed; NULL: the system's */

/* Called with every line after it was written, on the thread that wrote it; must not log
 * itself. text is the line from the event's name on (in JSON form the whole object), without
 * the newline, borrowed for the call.  NULL: no callback. */
typedef void (*lr_log_tap_fn)(enum lr_log_level level, int64_t wall_ms, struct lr_str text);
void lr_log_set_tap(lr_log_tap_fn tap);

bool lr_log_level_parse(struct lr_str text, enum lr_log_level *out); /* "error" ... "debug" */
const char *lr_log_level_name(enum lr_log_level level);

extern _Atomic int lr_log_threshold; /* read by the macros below only */

static inline bool lr_log_on(enum lr_log_level level)
{
    return (int)level <= atomic_load_explicit(&lr_log_threshold, memory_order_relaxed);
}

void lr_log_write(enum lr_log_level level, const struct lr_log_ctx *ctx, const char *fmt, ...)
    LR_PRINTF(3, 4);

/* Arguments are not evaluated when the level is off. */
#define lr_log(level, ...)                                                                     \
    do {                                                                                       \
        if (lr_log_on(level))                                                                  \
            lr_log_write(level, __VA_ARGS__);                                                  \
    } while (0)

#define lr_log_error(...) lr_log(LR_LOG_ERROR, __VA_ARGS__)
#define lr_log_warn(...)  lr_log(LR_LOG_WARN, __VA_ARGS__)
#define lr_log_info(...)  lr_log(LR_LOG_INFO, __VA_ARGS__)
#define lr_log_debug(...) lr_log(LR_LOG_DEBUG, __VA_ARGS__)

#endif
