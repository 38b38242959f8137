/* wire/generate.h - one generation as a router asks a node for it, and a node a worker.
 *
 * The same struct has two forms: JSON is the body of POST /v0/generate, binary is a WIRE_SUBMIT
 * frame.  Decoded arrays lie in the caller's arena, and texts point into the bytes that were
 * read; both must outlive the struct.
 *
 * The same WIRE_SUBMIT frame goes from a router to a node and on to a worker.  A node reads
 * only its beginning (struct wire_submit), writes its own request number into it and passes it
 * on.  WIRE_SWAP has the same body; it names another generation of the same model, which leaves
 * in the step in which this generation enters.
 */
#ifndef WIRE_GENERATE_H
#define WIRE_GENERATE_H

#include "base/arena.h"
#include "llm-router/engine.h"
#include "wire/lost.h"

enum {
    WIRE_GENERATE_PROTOCOL = 1,
    WIRE_SEGMENTS_MAX = 1 << 16,
    WIRE_IDS_MAX = 8 << 20, /* tokens of a prompt or a continuation */
    WIRE_STOP_IDS_MAX = 256,
    WIRE_BIAS_MAX = 4096,
    WIRE_CONSTRAINT_MAX = 512 << 10,
    WIRE_REQUEST_ID_MAX = 128,
    WIRE_MODEL_ID_MAX = 512,
    WIRE_TRACE_MAX = 64,
};

struct wire_generate {
    uint64_t id;              /* the sender's number for the generation; binary form only */
    struct lr_str request_id; /* written on every log line */
    struct lr_str model;
    struct lr_str trace;   /* traceparent; empty: none; binary form only */
    struct lr_str leaves;  /* request_id of the generation that this one replaces; empty: none;
                              binary form only */
    struct lr_str weights; /* fingerprint of the weights that made generated[]; empty: not
                              known; binary form only, since WIRE_SINCE_WEIGHTS */
    uint64_t deadline_ms;  /* from now: begin by then or fail; 0: no deadline */
    struct lr_str cache_scope;         /* empty: no sharing */
    const struct lr_segment *segments; /* the prompt, or else prompt_ids */
    size_t segment_count;
    const uint32_t *prompt_ids;
    size_t prompt_id_count;
    const uint32_t *generated; /* tokens that the client already has */
    size_t generated_count;
    struct lr_sampling sampling; /* seed always set */
    uint32_t max_tokens;         /* generated[] included; 0: to the context's end */
    const uint32_t *stop_ids;
    size_t stop_id_count;
    struct lr_str constraint; /* on the output (grammar/constraint.h); empty: none */
    uint32_t kind; /* LR_REQUEST_...; only GENERATE has a JSON form, as the two that follow: */
    uint32_t dimensions;               /* EMBED: of the result; 0: all */
    const struct lr_segment *document; /* RERANK: the text to be scored */
    size_t document_count;
    int32_t priority;
    bool ignore_stop;
    bool no_queue;         /* the caller has its own queue; without a free slot the node answers
                              RATE_LIMITED */
    enum wire_entry entry; /* how the generation enters a worker, and in which cohort */
    uint32_t cohort;
};

/* The beginning of a WIRE_SUBMIT or WIRE_SWAP: the only part that a node reads. */
struct wire_submit {
    uint64_t request;
    struct lr_str request_id, model, trace, leaves, weights; /* borrowed from the body */
    uint64_t deadline_ms;
    uint32_t generated_count;
    enum wire_entry entry;
    uint32_t cohort;
    bool no_queue;
};

/* temperature 1, top_p 1, penalties off, everything else zero. */
void wire_generate_defaults(struct wire_generate *g);

/* JSON: {"protocol":1,"request_id":"...","model":"...","segments":[{"text":"...",
 * "control":true}],"seed":7,...}.  Unknown members are refused, because a node that does not
 * know a member cannot honour it.  INVALID_ARGUMENT names the member. */
LR_MUST_USE lr_code wire_generate_parse_json(struct lr_arena *arena, struct lr_str text,
                                             struct wire_generate *out, struct lr_error *err);

/* Writes a whole WIRE_SUBMIT frame, or WIRE_SWAP if g->leaves is set. */
void wire_submit_encode(struct lr_buf *buf, const struct wire_generate *g);
LR_MUST_USE lr_code wire_submit_head_decode(struct lr_str body, struct wire_submit *out,
                                            struct lr_error *err);
/* Turns a frame that wire_submit_head_decode has read into a SUBMIT for the next process. */
void wire_submit_address(char *frame, uint64_t request);
/* Appends a copy of the frame as SUBMIT with other generated tokens. */
void wire_submit_continue(struct lr_buf *buf, struct lr_str frame, uint32_t generated_count,
                          const uint32_t *generated, size_t count);
LR_MUST_USE lr_code wire_submit_decode(struct lr_arena *arena, struct lr_str body,
                                       struct wire_generate *out, struct lr_error *err);

#endif
