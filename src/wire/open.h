/* wire/open.h - what a node tells a worker before anything is loaded: library, model, limits.
 * JSON in a WIRE_OPEN or WIRE_PROBE frame, because it is sent once and people read it in
 * logs. */
#ifndef WIRE_OPEN_H
#define WIRE_OPEN_H

#include "base/arena.h"
#include "base/json.h"
#include "llm-router/engine.h"
#include "wire/frame.h"

enum { WIRE_DEVICES_MAX = 64 };

struct wire_open {
    const char *library; /* absolute path */
    const char *engine_id;
    const char *engine_version;
    uint32_t abi_version;
    /* "" for an engine that needs no model; NULL in a probe that only asks whether the library
     * is an engine */
    const char *model_dir;
    /* With WIRE_OPEN: the format of the model's files, and the fingerprint that the node has of
     * them (model/fingerprint.h): the worker opens no others.  NULL: not checked. */
    const char *format, *weights;
    /* Which files links in model_dir may name (base/sandbox.h). */
    bool is_downloaded;
    const char *blobs; /* NULL: none */
    bool has_stop;
    uint32_t stop_id; /* ends an answer, beside the tokens that the model's files name */
    struct lr_engine_options options;
    const struct lr_segment
        *segments; /* of a WIRE_COUNT: the prompt whose tokens are counted */
    size_t segment_count;
    bool stays; /* of a WIRE_COUNT: others follow; else the process ends with its answer */
};

/* A process that stays was asked something that it cannot count, and counts on. */
static inline bool wire_is_refusal(lr_code code)
{
    return code == LR_INVALID_ARGUMENT || code == LR_TOO_LARGE;
}

void wire_open_encode(struct lr_buf *buf, enum wire_type type, const struct wire_open *m);
/* [["text", true], ...] as JSON; the texts are borrowed from the JSON. */
LR_MUST_USE lr_code wire_segments_decode(struct lr_arena *arena, const struct lr_json *list,
                                         const struct lr_segment **out, size_t *count,
                                         struct lr_error *err);
/* Everything lies in the arena, except the text of segments, which lies in the body. */
LR_MUST_USE lr_code wire_open_decode(struct lr_arena *arena, struct lr_str body,
                                     struct wire_open *out, struct lr_error *err);

#endif
