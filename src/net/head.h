/* net/head.h - the head of a message: a strict guard, then llhttp, then our own rules.
 *
 * llhttp as Debian ships it accepts a header behind a bare CR and folded lengths
 * (CVE-2023-30589, CVE-2024-27982).  So llhttp only sees a complete block that has passed the
 * guard: every line ends in CR LF, no line begins with a blank, and there are no control bytes.
 * Then the headers that decide where the message ends are read again by our rules, and both
 * readings must agree.  Pure.  Thread: any.
 */
#ifndef NET_HEAD_H
#define NET_HEAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/fail.h"
#include "net/body.h"
#include "net/http.h"

/* The guard's position in a head that arrives in pieces.  Zero it for a new head. */
struct net_head_scan {
    size_t at;         /* bytes checked */
    size_t line_start; /* start of the current line */
    size_t line_count; /* complete lines, the first line included */
};

enum net_head_result { NET_HEAD_MORE, NET_HEAD_COMPLETE, NET_HEAD_BAD };

/* Checks the new part of `bytes` (the head from its beginning).  COMPLETE: scan->at is the
 * length of the block with the empty line. */
enum net_head_result net_head_scan(struct net_head_scan *scan, struct lr_str bytes,
                                   struct lr_error *err);

enum { NET_HEAD_MAX_HEADERS = 200 };

struct net_head {
    struct lr_str method;    /* request */
    struct lr_str target;    /* request */
    struct lr_str authority; /* request: of an absolute target, else of Host */
    struct lr_str path;      /* request: raw, of either form of target */
    struct lr_str query;     /* request: raw, without '?' */
    int status;              /* answer */
    int minor;               /* HTTP/1.minor */
    struct net_headers headers;
    enum net_body_kind body;
    uint64_t length; /* of a NET_BODY_LENGTH */
    bool keep_alive;
    bool expects_continue; /* request */
};

/* Parses a block that net_head_scan found complete.  Copies the block into the arena, where all
 * slices point.  On failure *status is the status to answer: 400, 417, 431, 501, 505. */
LR_MUST_USE lr_code net_head_parse_request(struct lr_arena *arena, struct lr_str block,
                                           size_t line_count, struct net_head *out, int *status,
                                           struct lr_error *err);

/* Parses the head of an answer to `method`; UPSTREAM on failure. */
LR_MUST_USE lr_code net_head_parse_response(struct lr_arena *arena, struct lr_str block,
                                            size_t line_count, const char *method,
                                            struct net_head *out, struct lr_error *err);

#endif
