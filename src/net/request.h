/* net/request.h - one HTTP request as its handler sees it, and the answer to it.
 *
 * A request belongs to the handler from the moment the handler gets it until the handler ends
 * it with exactly one of net_respond, net_respond_error, net_stream_end or net_stream_abort.
 * That also holds after on_gone: the client has left, and writing is harmless but pointless,
 * but the handler must still end the request.  So a handler that answers later never holds a
 * dangling pointer.  A request is freed at the end of the turn in which it was ended.
 *
 * Thread: the request's loop.  Another thread answers through net_loop_post to
 * net_request_loop.
 */
#ifndef NET_REQUEST_H
#define NET_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"
#include "net/http.h"

struct net_loop;
struct net_request;

/* ---- the request ---- Slices live as long as the request. */
struct lr_str net_request_method(const struct net_request *req);
struct lr_str net_request_raw_path(const struct net_request *req); /* for net_path_split */
/* The target's path with escapes decoded, except %2F, so that it never becomes a separator;
 * net_path_split (net/path.h) gives segments.  An absolute target ("http://host/path") gives
 * its path.  "*" for OPTIONS *. */
struct lr_str net_request_path(const struct net_request *req);
struct lr_str net_request_query(const struct net_request *req); /* raw, without '?' */
/* The decoded value of a query parameter; false when it is absent or badly escaped. */
bool net_request_query_get(struct net_request *req, const char *name, struct lr_str *out);
struct net_headers net_request_headers(const struct net_request *req);
bool net_request_header(const struct net_request *req, const char *name, struct lr_str *out);
struct lr_str
net_request_host(const struct net_request *req); /* from Host, or from the target */
const char *net_request_remote(const struct net_request *req); /* "127.0.0.1", no port */
bool net_request_is_tls(const struct net_request *req);
bool net_request_is_http_1_0(const struct net_request *req);
struct lr_str net_request_body(const struct net_request *req); /* collected, in on_request */
/* The Content-Length; UINT64_MAX for chunked, 0 without a body. */
uint64_t net_request_body_length(const struct net_request *req);

/* Memory that lives as long as the request, limited by net_server_config.max_request_bytes. */
struct lr_arena *net_request_arena(struct net_request *req);
struct net_loop *net_request_loop(const struct net_request *req);
void net_request_set_user(struct net_request *req, void *user);
void *net_request_user(const struct net_request *req);

/* "Prefer: handling=strict": the client wants an error for what the server would ignore. */
bool net_request_is_strict(const struct net_request *req);

/* ---- while it runs ---- */

/* Calls fn(arg) once, within 50 ms, when the client disconnects before the request was ended: a
 * reset, a FIN (a half-closed client counts as gone), a failed write, or a write that stalled
 * past the limit.  Never after the request was ended, never inside this call.  If the client
 * has already gone, fn runs in the next turn. */
void net_request_on_gone(struct net_request *req, void (*fn)(void *arg), void *arg);

/* ---- the body as a stream (only inside on_head, see net/server.h) ---- on_data gets the bytes
 * as they arrive; on_end follows the last one.  A body that breaks (client gone, limit,
 * timeout) ends with on_gone instead.  The request must still be answered.  An answer before
 * the end of the body closes the connection.  No callback comes after the request was ended. */
struct net_body_sink {
    void *arg;
    void (*on_data)(void *arg, struct lr_str bytes);
    void (*on_end)(void *arg);
};
void net_request_stream_body(struct net_request *req, const struct net_body_sink *sink);
/* Back-pressure: a paused socket is not read. */
void net_request_pause(struct net_request *req);
void net_request_resume(struct net_request *req);
/* Sets a limit of its own for this request's body (only inside on_head). */
void net_request_limit_body(struct net_request *req, uint64_t max_bytes);

/* ---- the answer ---- */

/* Adds a header to the answer, before the answer begins.  Both strings are copied.
 * Content-Length, Transfer-Encoding, Connection, Date and Content-Type are set elsewhere and
 * ignored here.  A control byte in a value becomes '?', so that no value can split the head. */
void net_response_header(struct net_request *req, const char *name, struct lr_str value);
/* X-LLM-Router-Ignored: names of fields of the body that were ignored; empty: no header. */
void net_response_ignored(struct net_request *req, const char *names);
/* Retry-After; 0: none. */
void net_response_retry_after(struct net_request *req, uint32_t seconds);

/* Sends the whole answer and ends the request. content_type may be NULL. The body is copied or
 * sent before this returns.  A HEAD request gets the head only. */
void net_respond(struct net_request *req, int status, const char *content_type,
                 struct lr_str body);

/* Answers {"error":{"message","type","param":null,"code"}} with the status of err->code.  Adds
 * Retry-After: 1 to 429 and 503 unless the handler has set it.  Ends the request. */
/* The id of an error (base/errors.h), in every answer that is one. */
#define NET_ERROR_HEADER "X-LLM-Router-Error"
void net_respond_error(struct net_request *req, const struct lr_error *err);
void net_refuse(struct net_request *req, lr_code code, const char *fmt, ...) LR_PRINTF(3, 4);
/* The same with a JSON body from the handler. */
void net_respond_error_body(struct net_request *req, const struct lr_error *err,
                            struct lr_str body);

/* Begins an answer of unknown length: chunked for HTTP/1.1, ended by closing the connection for
 * 1.0.  The head is sent together with the first write, or by net_stream_flush. */
void net_stream_begin(struct net_request *req, int status, const char *content_type);
void net_stream_flush(struct net_request *req);

/* Sends bytes now; bytes that the socket does not take are queued.  Empty writes send nothing.
 * A single write larger than the limit is always refused.
 *   OK         sent or queued; net_stream_queued says how much waits
 *   TOO_LARGE  the queue would exceed net_server_config.max_stream_bytes: nothing was
 *              taken.  The caller waits for on_drain, or cancels its work and ends the
 *              request with net_stream_abort, because bytes are missing
 *   CANCELLED  the client has gone */
LR_MUST_USE lr_code net_stream_write(struct net_request *req, struct lr_str bytes);
/* The same for a piece that is made already and would be lost: however large it is, it is taken
 * unless the queue has reached the limit before. */
LR_MUST_USE lr_code net_stream_write_made(struct net_request *req, struct lr_str bytes);
/* Once the client has gone: what it did not get. */
size_t net_stream_queued(const struct net_request *req);
/* Calls fn(arg) each time the queue becomes empty. */
void net_stream_on_drain(struct net_request *req, void (*fn)(void *arg), void *arg);

void net_stream_end(struct net_request *req);
/* The last write and the end, in one segment.  Always ends the request.  The queue takes it
 * beyond its limit: nothing follows, and a client that reads late gets the end of its answer.
 */
lr_code net_stream_finish(struct net_request *req, struct lr_str bytes);
/* Closes the connection, so that the client sees that the answer is incomplete. */
void net_stream_abort(struct net_request *req);

/* True once the answer has begun: from then on an error can only be an event in the stream. */
bool net_response_begun(const struct net_request *req);

/* ---- another protocol on the same connection (HTTP/1.1 Upgrade) ---- */

/* The first protocol of the Upgrade header; false when the client asks for none. */
bool net_request_wants_upgrade(const struct net_request *req, struct lr_str *protocol);
/* Answers 101.  From here on the connection is a stream of bytes in both directions, and the
 * request stands for it until it is ended: sink->on_data receives, net_request_pause and
 * _resume apply back-pressure, net_stream_write, _queued and _on_drain send, net_stream_end and
 * _abort end it. on_gone reports the client's end.  After on_head, before any answer. */
void net_request_upgrade(struct net_request *req, const char *protocol,
                         const struct net_body_sink *sink);

/* ---- server-sent events ---- */

/* net_stream_begin for a stream whose pieces must arrive at once: no cache and no proxy holds
 * them back. */
void net_live_begin(struct net_request *req, const char *content_type);
/* The same with text/event-stream.  If no event follows at once, net_stream_flush tells the
 * client that it is connected. */
void net_sse_begin(struct net_request *req);
/* Sends one event; every line of data gets its "data: ".  Returns the codes of
 * net_stream_write. */
LR_MUST_USE lr_code net_sse_event(struct net_request *req, struct lr_str data);
/* The same with an "event: name" line; name has no line break. */
LR_MUST_USE lr_code net_sse_named_event(struct net_request *req, const char *name,
                                        struct lr_str data);
/* Sends ": text", which clients ignore, to keep a silent stream alive. */
LR_MUST_USE lr_code net_sse_comment(struct net_request *req, const char *text);

/* ---- for the access log, inside net_server_config.on_end ---- */
int net_request_status(const struct net_request *req);          /* 0: nothing was answered */
uint64_t net_request_bytes_sent(const struct net_request *req); /* of body */
uint64_t net_request_elapsed_ms(const struct net_request *req);

#endif
