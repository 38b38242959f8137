/* hub/outbound.h - one request to a server that an operator named: an OpenID provider, a
 * collector of traces.
 *
 * By libcurl, with the proxies of the environment and the authorities of SSL_CERT_FILE.
 * Redirects are not followed.  The call waits for the answer, so no loop may make it.  Thread:
 * one per struct hub_outbound.
 */
#ifndef HUB_OUTBOUND_H
#define HUB_OUTBOUND_H

#include <stdatomic.h>

#include "base/buf.h"
#include "hub/curl.h"

struct hub_outbound {
    const struct hub_curl *curl;
    CURL *easy; /* owned; keeps its connections between calls */
};

/* Slices and texts are borrowed for the call. */
struct hub_outbound_call {
    const char *url;
    const char *const *headers; /* "Name: value" */
    size_t header_count;
    struct lr_str body;          /* ptr NULL: GET, else POST */
    const char *user, *password; /* HTTP Basic; NULL: none */
    uint32_t timeout_ms;         /* of the whole call */
    size_t max_bytes;            /* of the answer */
    const atomic_bool *cancel;   /* may be NULL */
};

struct hub_outbound_reply {
    int status;
    uint32_t retry_after_s; /* 0: not given */
    struct lr_buf body;     /* owned: hub_outbound_reply_free */
};

LR_MUST_USE lr_code hub_outbound_open(struct hub_outbound *out, struct lr_error *err);
void hub_outbound_close(struct hub_outbound *out);

/* OK: the server answered, with any status.  CANCELLED; UPSTREAM: unreachable, or no whole
 * answer within the time; TOO_LARGE. */
LR_MUST_USE lr_code hub_outbound_send(struct hub_outbound *out,
                                      const struct hub_outbound_call *call,
                                      struct hub_outbound_reply *reply, struct lr_error *err);
void hub_outbound_reply_free(struct hub_outbound_reply *reply);

#endif
