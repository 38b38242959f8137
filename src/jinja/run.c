/* jinja/run.c - errors and limits of one rendering. */
#include "jinja/run.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

/* Steps between two reads of the clock: about 50 microseconds of work. */
enum { CHECK_INTERVAL = 4096 };

/* Depth is counted, but the size of a stack frame depends on the build, so the stack itself is
 * checked too.  Sanitizers enlarge frames. */
#if defined(__SANITIZE_ADDRESS__)
enum { MAX_STACK = 5 * 1024 * 1024 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { MAX_STACK = 5 * 1024 * 1024 };
#else
enum { MAX_STACK = 1024 * 1024 };
#endif
#else
enum { MAX_STACK = 1024 * 1024 };
#endif

static void jinja_run_fail(struct run *run, lr_code code, const char *fmt, va_list args)
    LR_PRINTF(3, 0);

static void jinja_run_fail(struct run *run, lr_code code, const char *fmt, va_list args)
{
    if (run->failed)
        return;
    run->failed = true;
    char text[400];
    (void)vsnprintf(text, sizeof(text), fmt, args);
    if (run->line != 0)
        (void)lr_fail(run->err, code, "template line %u: %s", run->line, text);
    else
        (void)lr_fail(run->err, code, "template: %s", text);
}

struct value jinja_error(struct run *run, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    jinja_run_fail(run, LR_INVALID_ARGUMENT, fmt, args);
    va_end(args);
    return V_FAIL;
}

struct value jinja_error_code(struct run *run, lr_code code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    jinja_run_fail(run, code, fmt, args);
    va_end(args);
    return V_FAIL;
}

struct value jinja_error_memory(struct run *run)
{
    return jinja_error_code(run, LR_TOO_LARGE,
                            "it needs more than the %zu bytes of memory a template may use",
                            run->max_memory);
}

struct value jinja_error_undefined(struct run *run, struct value undefined)
{
    const struct undefined *u = undefined.undefined;
    if (u == NULL)
        return jinja_error(run, "a value is undefined");
    if (u->hint != NULL)
        return jinja_error(run, "%s", u->hint);
    struct text *name = jinja_repr(run, u->name);
    if (name == NULL)
        return V_FAIL;
    struct lr_str shown = lr_str_sub(text_str(name), 0, 100);
    if (u->object_type == NULL)
        return jinja_error(run, LR_STR_FMT " is undefined", LR_STR_ARG(shown));
    return jinja_error(run, "%s object has no %s " LR_STR_FMT, u->object_type,
                       u->name.kind == K_TEXT ? "attribute" : "element", LR_STR_ARG(shown));
}

void *jinja_alloc(struct run *run, size_t len)
{
    void *out = NULL;
    if (len <= run->max_memory &&
        run->arena.used + run->sink.bytes.capacity + len <= run->max_memory)
        out = lr_arena_alloc(&run->arena, len);
    if (out == NULL)
        (void)jinja_error_memory(run);
    return out;
}

void *jinja_array(struct run *run, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size) {
        (void)jinja_error_memory(run);
        return NULL;
    }
    return jinja_alloc(run, count * size);
}

bool jinja_check_limits(struct run *run)
{
    run->next_check = run->steps + CHECK_INTERVAL;
    if (run->next_check > run->max_steps)
        run->next_check = run->max_steps + 1;
    if (run->failed)
        return false;
    if (run->steps > run->max_steps) {
        (void)jinja_error_code(run, LR_TOO_LARGE, "it takes more than %llu steps",
                               (unsigned long long)run->max_steps);
        return false;
    }
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    if ((int64_t)now.tv_sec * 1000000000 + now.tv_nsec > run->deadline_ns) {
        (void)jinja_error_code(run, LR_TIMEOUT, "it takes more than %u ms of CPU time",
                               run->cpu_ms);
        return false;
    }
    return true;
}

bool jinja_enter_slow(struct run *run)
{
    ptrdiff_t used = run->stack_base - (const char *)__builtin_frame_address(0);
    if (run->depth >= run->max_depth || used > MAX_STACK || used < -MAX_STACK) {
        (void)jinja_error_code(run, LR_TOO_LARGE, "nested deeper than %u levels",
                               run->max_depth);
        return false;
    }
    run->depth++;
    return jinja_charge(run, 1);
}
