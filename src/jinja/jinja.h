/* jinja/jinja.h - renders (template, JSON) to prompt segments.
 *
 * The Jinja dialect of Hugging Face chat templates, with the semantics of Jinja2 3.1 in its
 * immutable sandbox (trim_blocks, lstrip_blocks, loop controls, {% generation %},
 * raise_exception, strftime_now, tojson without HTML escaping).  No I/O and no access to the
 * host: a template sees only its JSON input.  Steps, depth, CPU time, memory and output are
 * limited.
 *
 * Every byte of text carries its origin.  Control tokens are recognised only in trusted text:
 * the template's own text, the strings given as `trusted`, strftime_now, and the role of a
 * message if it is one of the five known roles.  All other text from the JSON is untrusted,
 * whatever filters it went through (docs/promises.md: trusted-text).
 *
 * Thread: a compiled template is immutable and may be rendered by any number of threads; an
 * output belongs to one thread at a time.
 */
#ifndef JINJA_JINJA_H
#define JINJA_JINJA_H

#include <time.h>

#include "base/arena.h"
#include "base/json.h"

struct jinja_template; /* opaque, owns its source and tree */

/* Zero means the default.  The default CPU time grows by 1 ms for every 4 KiB of strings in the
 * input: templates iterate over long conversations more than once, and a small input needs
 * little time. */
struct jinja_limits {
    uint64_t max_steps;  /* evaluated nodes, plus a share for long strings */
    uint32_t max_depth;  /* of calls and nested expressions while rendering */
    uint32_t max_cpu_ms; /* of this thread's CPU time */
    size_t max_memory;   /* bytes of values, output included */
    size_t max_output;   /* bytes of rendered text */
};

enum {
    JINJA_MAX_SOURCE = 128 * 1024,
    JINJA_MAX_DEPTH = 1000,
    JINJA_MAX_STEPS = 20 * 1000 * 1000,
    JINJA_MAX_CPU_MS = 35,
    JINJA_MAX_MEMORY = 40 * 1024 * 1024,
    JINJA_MAX_OUTPUT = 16 * 1024 * 1024,
};

/* INVALID_ARGUMENT with the line for a template that Jinja2 would not compile,
 * TOO_LARGE past JINJA_MAX_SOURCE.  The source is copied. */
LR_MUST_USE lr_code jinja_compile(struct lr_str source, struct jinja_template **out,
                                  struct lr_error *err);
void jinja_template_destroy(struct jinja_template *tmpl); /* NULL is fine */

/* A variable whose text may contain control tokens, such as bos_token. */
struct jinja_var {
    struct lr_str name;
    struct lr_str text;
};

struct jinja_input {
    const struct lr_json *context;   /* an object; its members are the variables */
    const struct jinja_var *trusted; /* replace members of the same name */
    size_t trusted_count;
    const struct tm *now; /* for strftime_now; NULL: the local time */
    struct jinja_limits limits;
};

/* A run of text of one kind.  Neighbours differ in `control`; no segment is empty. */
struct jinja_segment {
    struct lr_str text; /* borrowed from the output */
    bool control;       /* control tokens are recognised in it */
};

/* `text` is the whole text; the segments divide it without gaps. */
struct jinja_output {
    struct lr_str text;
    const struct jinja_segment *segments;
    size_t count;
    /* private */
    struct lr_buf bytes;
    size_t capacity;
    struct jinja_segment *own; /* lengths while growing, slices once finished */
};

/* Always initialises *out; the caller frees it.  INVALID_ARGUMENT with the template's line when
 * the template fails (raise_exception, a type error...), TOO_LARGE over max_steps, max_depth,
 * max_memory or max_output, TIMEOUT over max_cpu_ms. */
LR_MUST_USE lr_code jinja_render(const struct jinja_template *tmpl,
                                 const struct jinja_input *input, struct jinja_output *out,
                                 struct lr_error *err);

/* Writes an output without a template: init, add..., finish. add drops text over the limit, and
 * finish then returns TOO_LARGE. */
void jinja_output_init(struct jinja_output *out, size_t limit);
void jinja_output_add(struct jinja_output *out, struct lr_str text, bool control);
LR_MUST_USE lr_code jinja_output_finish(struct jinja_output *out, struct lr_error *err);
void jinja_output_free(struct jinja_output *out);

/* json.dumps(value, ensure_ascii=False): ", " and ": " as separators, text unescaped, floats as
 * Python prints them. */
void jinja_dumps(struct lr_buf *out, const struct lr_json *value);

/* "2026-11-15T09:30:05" (or a date alone) to a broken-down time. */
LR_MUST_USE lr_code jinja_parse_time(struct lr_str iso, struct tm *out, struct lr_error *err);

#endif
