/* net/sse.h - incremental parser of a text/event-stream answer.
 *
 * Feed it body bytes as they come; it calls on_event for each finished event.  Lines
 * may end in LF, CR LF or CR.  Comments are skipped.  Pure but for the buffer it owns.
 */
#ifndef NET_SSE_H
#define NET_SSE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

/* event is "" when the stream did not name it.  Borrowed for the call. */
typedef void (*net_sse_fn)(void *arg, struct lr_str event, struct lr_str data);

struct net_sse_parser {
    struct lr_buf line;  /* the line being read */
    struct lr_buf data;  /* of the event being read, lines joined by LF */
    struct lr_buf event; /* its name */
    bool has_data;
    bool after_cr; /* an LF that follows belongs to the line before */
    bool is_begun; /* a leading byte order mark is behind us */
    net_sse_fn fn;
    void *arg;
};

void net_sse_parser_init(struct net_sse_parser *parser, size_t max_event_bytes, net_sse_fn fn,
                         void *arg);
void net_sse_parser_deinit(struct net_sse_parser *parser);

/* TOO_LARGE when a line or an event passes the limit; the parser is then finished. */
LR_MUST_USE lr_code net_sse_parser_feed(struct net_sse_parser *parser, struct lr_str bytes,
                                        struct lr_error *err);

#endif
