/* chat/response.h - token events -> the bytes of an answer, with the writer of the request's
 * codec.
 *
 * One struct chat_response per client request, with a parser, a stop matcher and counters per
 * choice.  No I/O: every call appends bytes to `out`, and the caller sends them at once
 * (docs/promises.md: token-at-once).
 *
 * - streaming: complete events or lines, the last of them the API's end of a stream; -
 * otherwise: nothing until the last choice is done, then one JSON body.
 *
 * Router and node use the same object.  It copies what it needs from the request.  A streaming
 * response takes less than 2 KB plus 2 KB per choice (more with log probabilities).  A response
 * that is collected, or whose writer repeats the whole answer at the end, grows with the answer
 * up to max_bytes.  Thread: one at a time.
 */
#ifndef CHAT_RESPONSE_H
#define CHAT_RESPONSE_H

#include "base/buf.h"
#include "base/fail.h"
#include "chat/events.h"
#include "chat/request.h"

struct chat_dialect;
struct chat_response;

/* The codec's prefix and 24 random letters. */
enum { CHAT_ANSWER_ID_MAX = 40 };
void chat_answer_id(const struct chat_codec *codec, char out[CHAT_ANSWER_ID_MAX]);

struct chat_response_options {
    const struct chat_request *request; /* borrowed for the call */
    const struct lr_sampling *sampling; /* that counts; NULL: the request's */
    struct lr_str id;                   /* of chat_answer_id */
    struct lr_str model;                /* name in the answer; empty: the request's */
    struct lr_str system_fingerprint;   /* empty: null */
    int64_t created;                    /* seconds since 1970 */
    const struct chat_dialect *dialect; /* borrowed for the call; NULL: text only */
    bool is_opened;                     /* the prompt ended inside reasoning */
    size_t max_bytes;                   /* of a collected answer; 0: 64 MB */
    /* A tool call begins, with the name that the model gave.  NULL: nobody asks. */
    void (*on_call)(void *owner, struct lr_str name);
    /* Text of the answer, and a tool call's name, as the client gets it.  NULL: nobody asks. */
    void (*on_text)(void *owner, uint32_t choice, const struct chat_delta *delta);
    void *owner; /* of on_call and on_text */
};

LR_MUST_USE lr_code chat_response_create(const struct chat_response_options *options,
                                         struct chat_response **out, struct lr_error *err);
void chat_response_destroy(struct chat_response *r); /* NULL is fine */

/* The prompt's size, if it is known before the first token; on_done replaces it. */
void chat_response_on_prompt(struct chat_response *r, uint32_t choice, uint32_t tokens);

/* True: go on.  False: a stop string matched; the client has the whole choice, and the caller
 * cancels its generation. on_done still follows, with the usage.  Tokens that arrive after that
 * are counted and dropped. */
bool chat_response_on_token(struct chat_response *r, uint32_t choice,
                            const struct wire_token *token, struct lr_buf *out);

/* The choice is a vector. on_done follows; a second vector of the same choice replaces the
 * first. */
void chat_response_on_vector(struct chat_response *r, uint32_t choice,
                             const struct wire_vector *v, struct lr_buf *out);

/* The end of one choice; the last choice completes the answer.  Exactly once a choice. */
void chat_response_on_done(struct chat_response *r, uint32_t choice, enum lr_finish reason,
                           const struct chat_usage *usage, struct lr_buf *out);

/* The whole request failed.  Streaming: writes an error event and the end of the stream; a
 * caller that has not sent its headers answers with chat_error_write and a status instead.
 * Otherwise: writes the error body, for lr_code_http(error->code).  Later calls write
 * nothing. */
void chat_response_on_error(struct chat_response *r, const struct lr_error *error,
                            struct lr_buf *out);

/* ---- an answer that is stored (chat_request.keeps): on_done of its last choice writes no end
 * of the answer.  The caller stores the record, then calls chat_response_complete. ---- */

/* What is stored of an answer and its request. */
struct chat_record {
    struct lr_buf input;  /* the request's own items: a JSON array */
    struct lr_buf output; /* the items of the answer, with commas between them */
    struct lr_buf answer; /* the answer without its items; they belong at output_at */
    size_t output_at;
};
void chat_record_free(struct chat_record *record);

/* All choices are done, and chat_response_complete is due. */
bool chat_response_is_due(const struct chat_response *r);
/* status: NULL where the answer is due, else the status of one that is not; error: why it has
 * failed, or NULL.  False: the answer cannot be stored (no memory, or it is larger than `limit`
 * bytes). */
bool chat_response_record(const struct chat_response *r, const struct chat_request *req,
                          const char *status, const struct lr_error *error, size_t limit,
                          struct chat_record *out);
/* is_kept: the record was stored. */
void chat_response_complete(struct chat_response *r, bool is_kept, struct lr_buf *out);

/* True when the end of the stream, the body or the error was written. */
bool chat_response_is_complete(const struct chat_response *r);

/* LR_OK, or why the answer could not be collected (max_bytes, memory); then the body is an
 * error. */
lr_code chat_response_status(const struct chat_response *r);

/* Sums over the choices so far; reasoning_tokens is counted here, the rest by the engine. */
struct chat_response_totals {
    uint64_t prompt_tokens;
    uint64_t completion_tokens;
    uint64_t cached_tokens;
    uint64_t reasoning_tokens;
};
struct chat_response_totals chat_response_totals(const struct chat_response *r);

/* What the readers put right in all choices, by enum chat_repair_kind; r may be NULL. */
void chat_response_repairs(const struct chat_response *r, uint32_t *out);

#endif
