/* hub/http.h - one GET to the hub, with its redirects (internal to this folder).
 *
 * Redirects are followed here and not in libcurl, so that the host and the resolved address of
 * every hop are checked and the token is sent only to the endpoint's own origin.  Thread: one
 * per struct hub_http.
 */
#ifndef HUB_HTTP_H
#define HUB_HTTP_H

#include <stdatomic.h>

#include "hub/client.h"
#include "hub/curl.h"

struct hub_reply {
    int status;
    bool from_endpoint; /* the last hop was the endpoint itself */
    char etag[256];     /* as sent, quotes included; "" */
    bool has_length, has_range;
    uint64_t length;                   /* Content-Length */
    uint64_t range_start, range_total; /* Content-Range */
    uint32_t retry_after_s;            /* 0: not given */
    char error_code[64];               /* X-Error-Code: "RepoNotFound", "GatedRepo", ... */
    char next[HUB_URL_MAX];            /* Link rel="next" */
};

struct hub_call {
    const char *url;
    uint64_t offset;           /* Range: bytes=offset- where it is not 0 */
    const char *if_range;      /* NULL: none */
    uint32_t total_ms;         /* 0: only the stall timeout */
    const atomic_bool *cancel; /* may be NULL */
    /* Once, before the first byte of a 2xx answer. */
    lr_code (*on_head)(void *ctx, const struct hub_reply *reply, struct lr_error *err);
    lr_code (*on_body)(void *ctx, const void *bytes, size_t len, struct lr_error *err);
    void *ctx;
};

struct hub_http {
    const struct hub_client *client;
    const struct hub_curl *curl;
    CURL *easy; /* owned; keeps its connections between calls */
};

LR_MUST_USE lr_code hub_http_open(struct hub_http *http, const struct hub_client *client,
                                  struct lr_error *err);
void hub_http_close(struct hub_http *http);

/* OK: the server answered, with any status; bodies of answers other than 2xx are dropped.
 * CANCELLED; UPSTREAM: unreachable, stalled or truncated; PERMISSION_DENIED: a refused host; or
 * the code that a callback returned. */
LR_MUST_USE lr_code hub_http_get(struct hub_http *http, const struct hub_call *call,
                                 struct hub_reply *reply, struct lr_error *err);

/* The error for a status that is not 2xx; what: "openai/gpt-oss-20b". */
lr_code hub_http_fail(const struct hub_client *client, const struct hub_reply *reply,
                      const char *what, struct lr_error *err);

/* The proxy that the environment names for this address, or NULL. */
const char *hub_proxy_for(const struct hub_url *url);

#endif
