/* wire/frame.h - the envelope of every message between our processes.
 *
 *   u32 length of the body   u8 version   u8 type   u16 zero   body
 *
 * Little-endian.  The same frames travel through the pipes of a worker and over the link
 * between a router and a node (wire/link.h), so a node hands a prompt and a token on without
 * looking into them.  Type numbers are append only; 70, 72 and 73 were used once.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

enum {
    WIRE_VERSION = 2,
    WIRE_HEADER_LEN = 8,
    WIRE_TYPE_AT = 5,         /* of the header */
    WIRE_BODY_MAX = 64 << 20, /* a prompt of the largest context fits several times */
};

/* Content type of POST /v0/generate's answer in this form. */
#define WIRE_EVENTS_TYPE "application/vnd.llm-router.frames"

enum wire_type {
    /* node to worker; SUBMIT and CANCEL also router to node */
    WIRE_OPEN = 1,   /* wire/open.h, JSON */
    WIRE_PROBE = 2,  /* wire/open.h, JSON */
    WIRE_SUBMIT = 3, /* wire/generate.h */
    WIRE_CANCEL = 4, /* u64 request: its last event, with the usage, still comes */
    WIRE_CLOSE = 5,  /* empty: close the model and leave */
    WIRE_SWAP = 6,   /* router to node: a SUBMIT that names the generation that leaves for it */
    WIRE_COUNT = 7,  /* node to worker: wire/open.h with the segments of a prompt, JSON */
    WIRE_LIMIT_KV = 8, /* node to worker: u64 bytes, as limit_kv of the engine */

    /* worker to node */
    WIRE_HELLO = 32,   /* u32 pid, u32 engine ABI */
    WIRE_LOG = 33,     /* wire_log */
    WIRE_OPENED = 35,  /* wire_need: the model is loaded */
    WIRE_PROBED = 36,  /* wire_need: the answer to WIRE_PROBE */
    WIRE_FAILED = 37,  /* wire_error: the model is dead, the worker leaves */
    WIRE_COUNTED = 39, /* u64 tokens: the answer to WIRE_COUNT */
    WIRE_LIMITED = 40, /* u64 bytes: WIRE_LIMIT_KV was obeyed; the TICK before says how far */
    WIRE_ENTER = 38,   /* requests that take part in a step for the first time (wire/lost.h) */

    /* events of one generation; worker to node and node to router (wire/event.h) */
    WIRE_LOADING = 64,  /* wire_loading */
    WIRE_PREFILL = 65,  /* wire_prefill */
    WIRE_TOKEN = 66,    /* wire_token */
    WIRE_DONE = 67,     /* wire_done */
    WIRE_TICK = 68,     /* wire_tick; to a router: without numbers, "still here" */
    WIRE_ACCEPTED = 69, /* wire_accepted; node to router only, as all that follow */
    WIRE_ERROR = 71,    /* wire_error: it ran, or waited, and failed */
    WIRE_LOST = 74,     /* wire_lost: its worker died; the owner may submit it again */
    WIRE_REFUSED = 75,  /* wire_error: the node did not take it */

    WIRE_PING = 76,    /* empty: the link is alive; each second, node to router */
    WIRE_VECTOR = 77,  /* wire_vector: an event, the result of EMBED and RERANK; never sent to a
                          router that has asked for no such thing */
    WIRE_WEIGHTS = 78, /* wire_weights: an event, which weights make what follows; to a router
                          since WIRE_SINCE_WEIGHTS */
};

struct wire_frame {
    enum wire_type type;
    struct lr_str body;  /* borrowed from the bytes it was read from */
    struct lr_str bytes; /* header and body: what a relay passes on */
};

/* begin returns where the frame starts; end writes its length. */
size_t wire_frame_begin(struct lr_buf *buf, enum wire_type type);
void wire_frame_end(struct lr_buf *buf, size_t start);

/* Takes the next frame off the front of *bytes.  OK with *has false: more bytes are
 * needed.  INVALID_ARGUMENT: another version or a body over the limit; the stream
 * cannot be read on. */
LR_MUST_USE lr_code wire_frame_next(struct lr_str *bytes, struct wire_frame *out, bool *has,
                                    struct lr_error *err);

/* lr_fail for a body that is not what its type promises. */
lr_code wire_malformed(struct lr_error *err, const char *what);

#endif
