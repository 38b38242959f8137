/* wire/fit.h - POST /v0/models/fit: a router asks a node whether models would run there, before
 * any file of them is downloaded.
 *
 * A node of an older release answers 404.  Decoded texts point into the parsed text or into the
 * arena.
 */
#ifndef WIRE_FIT_H
#define WIRE_FIT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum { WIRE_FIT_MAX = 256, WIRE_FIT_EVICTS_MAX = 16 };

struct wire_fit_ask {
    struct lr_str runtime, architecture, format;
    uint64_t bytes; /* that the model would take, with everything */
};

struct wire_fit_question {
    struct wire_fit_ask models[WIRE_FIT_MAX];
    size_t count;
};

struct wire_fit_verdict {
    struct lr_str engine; /* that would run it; empty: none */
    struct lr_str reason; /* why none */
    struct lr_str plan;   /* "fits", "reclaim", "evict", "wait", "never"; empty with a reason */
    struct lr_str pool;   /* for people: "RAM", "NVIDIA H200" */
    uint64_t total;       /* of the pool */
    uint64_t available;   /* there for it, once the models in `evicts` are gone */
    struct lr_str evicts[WIRE_FIT_EVICTS_MAX];
    size_t evict_count;
    bool on_device;
};

struct wire_fit_answer {
    uint64_t disk_free; /* of the folder for models; 0: not known */
    uint64_t bandwidth; /* bytes a second that the processor reads from memory, about */
    struct wire_fit_verdict models[WIRE_FIT_MAX]; /* in the order of the question */
    size_t count;
};

void wire_fit_question_write(struct lr_buf *out, const struct wire_fit_question *m);
/* INVALID_ARGUMENT: no JSON object, or more models than WIRE_FIT_MAX. */
LR_MUST_USE lr_code wire_fit_question_parse(struct lr_arena *arena, struct lr_str text,
                                            struct wire_fit_question *out,
                                            struct lr_error *err);
void wire_fit_answer_write(struct lr_buf *out, const struct wire_fit_answer *m);
LR_MUST_USE lr_code wire_fit_answer_parse(struct lr_arena *arena, struct lr_str text,
                                          struct wire_fit_answer *out, struct lr_error *err);

#endif
