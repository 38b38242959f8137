/* wire/event.h - what comes back: the events of a generation and of a worker's life.
 *
 * Every event begins with the same head: whose it is, which of its events it is, and whether
 * the same batch has another one for the same generation.  A relay reads and writes the head
 * and copies the rest.
 *
 * encode appends a whole frame; decode reads a frame's body and borrows its texts.
 * Both are pure.  decode gives INVALID_ARGUMENT unless the body is exactly one message.
 */
#ifndef WIRE_EVENT_H
#define WIRE_EVENT_H

#include "llm-router/engine.h"
#include "wire/frame.h"

enum {
    WIRE_TOP_MAX = 20,
    WIRE_TOKEN_BYTES_MAX = 64 << 10,
    WIRE_VECTOR_MAX = 1 << 16,
    WIRE_WEIGHTS_MAX = 64, /* bytes of a fingerprint */
};

enum { WIRE_EVENT_HEAD_LEN = 16 };

struct wire_event_head {
    uint64_t request; /* the number that the receiver gave it */
    uint32_t index;   /* on a link: 0 for the first event of an attempt, then one more each */
    bool has_more;    /* on a link: another event of it follows in the same batch */
};

/* An alternative to a token.  Engines report ids; the worker adds the bytes, since only it
 * holds the vocabulary. */
struct wire_alternative {
    uint32_t id;
    float logprob;
    struct lr_str bytes;
};

struct wire_token {
    uint64_t request;
    uint32_t id;
    bool special;        /* a control token: bytes is its name, "<|end|>" */
    bool has_logprob;    /* logprob and top are meaningful */
    float logprob;       /* natural logarithm */
    struct lr_str bytes; /* raw; may begin or end inside a UTF-8 sequence */
    uint32_t top_count;
    struct wire_alternative top[WIRE_TOP_MAX]; /* most likely first */
};

/* The numbers lie in the body, as little-endian float32 and at any address: wire_vector_value
 * reads them. */
struct wire_vector {
    uint64_t request;
    uint32_t count; /* 1 to WIRE_VECTOR_MAX */
    const unsigned char *values;
};

struct wire_done {
    uint64_t request;
    enum lr_finish reason;
    uint32_t prompt_tokens;
    uint32_t completion_tokens;
    uint32_t cached_tokens;
    struct lr_error error; /* code LR_OK unless reason is LR_FINISH_ERROR */
};

struct wire_prefill {
    uint64_t request;
    uint32_t done;
    uint32_t total;
};

struct wire_loading {
    uint64_t done;
    uint64_t total;
    struct lr_str phase;
};

struct wire_accepted {
    struct lr_str request_id;
    struct lr_str engine; /* "gptoss 0.1.0"; empty while none is loaded */
    bool has_swapped;     /* the generation that a SWAP named leaves for it */
};

struct wire_error {
    struct lr_error error;
    bool retryable; /* another node may succeed */
};

struct wire_weights {
    struct lr_str fingerprint; /* at most WIRE_WEIGHTS_MAX bytes */
};

struct wire_log {
    int32_t level; /* as in lr_engine_host.log */
    struct lr_str event;
    struct lr_str text;
};

struct wire_hello {
    uint32_t pid;
    uint32_t abi;
};

void wire_token_encode(struct lr_buf *buf, const struct wire_token *m);
/* count is at most WIRE_VECTOR_MAX. */
void wire_vector_encode(struct lr_buf *buf, uint64_t request, const float *values,
                        uint32_t count);
void wire_done_encode(struct lr_buf *buf, const struct wire_done *m);
void wire_prefill_encode(struct lr_buf *buf, const struct wire_prefill *m);
void wire_loading_encode(struct lr_buf *buf, const struct wire_loading *m);
void wire_accepted_encode(struct lr_buf *buf, const struct wire_accepted *m);
void wire_weights_encode(struct lr_buf *buf, const struct wire_weights *m);
void wire_error_encode(struct lr_buf *buf, enum wire_type type, const struct wire_error *m);
/* The first event of a request that the node does not take. */
void wire_refused_encode(struct lr_buf *buf, uint64_t request, const struct lr_error *why);
void wire_log_encode(struct lr_buf *buf, const struct wire_log *m);
void wire_hello_encode(struct lr_buf *buf, const struct wire_hello *m);
void wire_tick_encode(struct lr_buf *buf, const struct lr_engine_stats *m); /* NULL: empty */
void wire_need_encode(struct lr_buf *buf, enum wire_type type, const struct lr_engine_need *m);
void wire_u64_encode(struct lr_buf *buf, enum wire_type type, uint64_t value); /* CANCEL */
void wire_empty_encode(struct lr_buf *buf, enum wire_type type);               /* CLOSE, PING */

LR_MUST_USE lr_code wire_token_decode(struct lr_str body, struct wire_token *out,
                                      struct lr_error *err);
LR_MUST_USE lr_code wire_vector_decode(struct lr_str body, struct wire_vector *out,
                                       struct lr_error *err);
float wire_vector_value(const struct wire_vector *m, uint32_t index);
LR_MUST_USE lr_code wire_done_decode(struct lr_str body, struct wire_done *out,
                                     struct lr_error *err);
LR_MUST_USE lr_code wire_prefill_decode(struct lr_str body, struct wire_prefill *out,
                                        struct lr_error *err);
LR_MUST_USE lr_code wire_loading_decode(struct lr_str body, struct wire_loading *out,
                                        struct lr_error *err);
LR_MUST_USE lr_code wire_accepted_decode(struct lr_str body, struct wire_accepted *out,
                                         struct lr_error *err);
LR_MUST_USE lr_code wire_weights_decode(struct lr_str body, struct wire_weights *out,
                                        struct lr_error *err);
LR_MUST_USE lr_code wire_error_decode(struct lr_str body, struct wire_error *out,
                                      struct lr_error *err);
LR_MUST_USE lr_code wire_log_decode(struct lr_str body, struct wire_log *out,
                                    struct lr_error *err);
LR_MUST_USE lr_code wire_hello_decode(struct lr_str body, struct wire_hello *out,
                                      struct lr_error *err);
LR_MUST_USE lr_code wire_tick_decode(struct lr_str body, struct lr_engine_stats *out,
                                     struct lr_error *err);
LR_MUST_USE lr_code wire_need_decode(struct lr_str body, struct lr_engine_need *out,
                                     struct lr_error *err);
LR_MUST_USE lr_code wire_u64_decode(struct lr_str body, uint64_t *out, struct lr_error *err);

/* True for an event behind which no other of the same generation comes. */
static inline bool wire_event_is_last(enum wire_type type)
{
    return type == WIRE_DONE || type == WIRE_ERROR || type == WIRE_LOST || type == WIRE_REFUSED;
}

static inline bool wire_is_event(enum wire_type type)
{
    return (type >= WIRE_LOADING && type <= WIRE_REFUSED) || type == WIRE_VECTOR ||
           type == WIRE_WEIGHTS;
}

/* ---- the head of an event, without the rest ---- */

/* A frame of this type with an empty head; wire_frame_end ends it. */
size_t wire_event_begin(struct lr_buf *buf, enum wire_type type, uint64_t request);
/* False for a body that is too short. */
bool wire_event_head_decode(struct lr_str body, struct wire_event_head *out);
/* The request an event belongs to; 0 for a body that is too short. */
uint64_t wire_event_request(struct lr_str body);
/* The token's id of a TOKEN; false for a body that is too short. */
bool wire_token_id(struct lr_str body, uint32_t *out);
/* Appends an event as it is, under another head.  Returns where it begins. */
size_t wire_event_relay(struct lr_buf *buf, const struct wire_frame *event, uint64_t request,
                        uint32_t index);
/* Another event of the same generation follows the one at `start` in the same batch. */
void wire_event_has_more(struct lr_buf *buf, size_t start);

/* The same event as one line of JSON ("{...}\n"), for curl and other people.  False for
 * a frame that is no event or is malformed. */
bool wire_event_json(struct lr_buf *out, const struct wire_frame *frame);

#endif
