/* net/sse.h - incremental parser of a text/event-stream answer.
 *
 * The caller feeds body bytes as they come; the parser calls on_event for each complete event.
 * Lines may end in LF, CR LF or CR. Comments are skipped.  Pure except for the parser's own
 * buffers.
 */
#ifndef NET_SSE_H
#define NET_SSE_H

#include <stdbool.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/str.h"

/* event is "" for an event without a name.  Borrowed for the call. */
typedef void (*net_sse_fn)(void *arg, struct lr_str event, struct lr_str data);

struct net_sse_parser {
    struct lr_buf line;  /* the line being read */
    struct lr_buf data;  /* of the event being read, lines joined by LF */
    struct lr_buf event; /* its name */
    bool has_data;
    bool after_cr; /* a following LF belongs to the previous line end */
    bool is_begun; /* the place for a byte order mark has passed */
    net_sse_fn fn;
    void *arg;
};

void net_sse_parser_init(struct net_sse_parser *parser, size_t max_event_bytes, net_sse_fn fn,
                         void *arg);
void net_sse_parser_deinit(struct net_sse_parser *parser);

/* TOO_LARGE when a line or an event exceeds the limit; the parser cannot be used after that. */
LR_MUST_USE lr_code net_sse_parser_feed(struct net_sse_parser *parser, struct lr_str bytes,
                                        struct lr_error *err);

#endif
