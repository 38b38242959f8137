/* jinja/run.h - one rendering: its memory, its limits, its error.
 *
 * Thread: the caller of jinja_render.
 */
#ifndef JINJA_RUN_H
#define JINJA_RUN_H

#include "jinja/jinja.h"
#include "jinja/text.h"
#include "jinja/value.h"

/* The variables of one activation: of the template, a macro, or a recursive loop. */
struct activation {
    struct activation *parent; /* of the place of definition */
    struct value *slots;
};

struct run {
    const struct jinja_template *tmpl; /* NULL while compiling */
    const struct jinja_input *input;
    struct lr_arena arena;
    struct sink sink;
    struct activation *root;
    struct dict *context;
    size_t
        text_bytes; /* bytes of all strings in the context; an estimate of the output's size */

    size_t max_memory, max_output;
    uint64_t steps, max_steps, next_check;
    int64_t started_ns, deadline_ns; /* of this thread's CPU clock */
    uint32_t depth, max_depth;
    uint32_t cpu_ms;
    const char *stack_base;

    uint32_t line;
    bool failed;
    struct lr_error *err;
};

/* Fails the run; the first message is kept.  Returns V_FAIL. */
struct value jinja_error(struct run *run, const char *fmt, ...) LR_PRINTF(2, 3);
struct value jinja_error_code(struct run *run, lr_code code, const char *fmt, ...)
    LR_PRINTF(3, 4);
struct value jinja_error_memory(struct run *run);
struct value jinja_error_undefined(struct run *run, struct value undefined);

void *jinja_alloc(struct run *run, size_t len); /* NULL: the run failed */
void *jinja_array(struct run *run, size_t count, size_t size);

/* Charges work; false once a limit is exceeded. */
bool jinja_check_limits(struct run *run);

static inline bool jinja_charge(struct run *run, uint64_t steps)
{
    run->steps += steps;
    return run->steps < run->next_check || jinja_check_limits(run);
}

static inline bool jinja_charge_bytes(struct run *run, size_t bytes)
{
    return jinja_charge(run, bytes / 128);
}

/* Used around everything that recurses over data or code.  The stack itself is checked every
 * few levels only, because frames are small compared with its limit. */
bool jinja_enter_slow(struct run *run);

static inline bool jinja_enter(struct run *run)
{
    if (run->depth >= run->max_depth || (run->depth & 15) == 15 ||
        ++run->steps >= run->next_check)
        return jinja_enter_slow(run);
    run->depth++;
    return true;
}

static inline void jinja_leave(struct run *run)
{
    run->depth--;
}

#endif
