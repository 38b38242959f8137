/* net/body.h - where a message's body ends: a length, chunks, or the end of the connection.
 *
 * Strict: a chunk size is 1 to 16 hex digits and nothing else, and lines end in CR LF. Trailers
 * are refused: no peer of ours needs them, and other servers were attacked with headers hidden
 * in trailers.  Chunk extensions are skipped, 256 bytes a line at most.  Pure.  Thread: any.
 */
#ifndef NET_BODY_H
#define NET_BODY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

enum net_body_kind {
    NET_BODY_NONE,
    NET_BODY_LENGTH,
    NET_BODY_CHUNKED,
    NET_BODY_UNTIL_CLOSE, /* answers only */
};

struct net_body {
    enum net_body_kind kind;
    uint64_t left;  /* bytes left of the length or of the chunk */
    uint64_t total; /* body bytes given out so far */
    int state;      /* of the chunk parser */
    unsigned line;  /* bytes of the current chunk line */
};

void net_body_init(struct net_body *body, enum net_body_kind kind, uint64_t length);

enum net_body_result {
    NET_BODY_MORE, /* *input is used up */
    NET_BODY_DATA, /* *data is a piece, borrowed from the input */
    NET_BODY_END,  /* complete; the rest of *input does not belong to this body */
    NET_BODY_BAD,  /* INVALID_ARGUMENT */
};

/* Consumes bytes from the front of *input. */
enum net_body_result net_body_next(struct net_body *body, struct lr_str *input,
                                   struct lr_str *data, struct lr_error *err);

/* True when the body is complete if the connection ends now. */
bool net_body_ends_here(const struct net_body *body);

#endif
