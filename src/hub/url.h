/* hub/url.h - addresses of the hub, and the hosts that may be contacted.
 *
 * A hub's answers are not trusted: a redirect may point anywhere, and a name may resolve to
 * services of this machine.  So a URL is fetched only if its host is the endpoint's,
 * *.huggingface.co, *.hf.co or named by the operator.  A socket is opened only to a public
 * address, unless the operator named the host.  Ports count: a named host is trusted on the
 * named port (without one: on the scheme's default port).  Pure.  Thread: any.
 */
#ifndef HUB_URL_H
#define HUB_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/fail.h"
#include "base/os/socket.h"
#include "base/str.h"

enum {
    HUB_HOST_MAX = 256,
    HUB_HOSTS_MAX = 16,
    HUB_REPO_MAX = 200, /* "org/name": 96 + 1 + 96 on the hub */
    HUB_URL_MAX = 8192, /* signed addresses are long */
};

struct hub_host {
    char name[HUB_HOST_MAX]; /* lower case, no brackets, no dot at the end */
    uint16_t port;           /* 0: the scheme's default */
};

struct hub_policy {
    char endpoint[512]; /* "https://huggingface.co": no '/' at the end, path allowed */
    struct hub_host named[HUB_HOSTS_MAX]; /* by HF_ENDPOINT or --hub-host */
    size_t named_count;
    struct hub_host endpoint_host;
    bool endpoint_is_https;
};

/* An http or https URL, parsed and normalised. */
struct hub_url {
    bool is_https;
    struct hub_host host; /* port is always set */
};

/* endpoint: NULL is https://huggingface.co; any other counts as named by the operator. hosts:
 * "name", "name:port", "10.0.0.7:8080", "[fd00::1]:443".  INVALID_ARGUMENT names the wrong
 * host. */
LR_MUST_USE lr_code hub_policy_init(struct hub_policy *policy, const char *endpoint,
                                    const char *const *hosts, size_t host_count,
                                    struct lr_error *err);

/* No user name, no fragment, no control character, a valid port. */
LR_MUST_USE lr_code hub_url_parse(struct lr_str text, struct hub_url *out,
                                  struct lr_error *err);

/* Checks whether this URL may be fetched.  PERMISSION_DENIED names the host and says that
 * --hub-host would allow it.  *is_named: private addresses of the host are allowed. */
LR_MUST_USE lr_code hub_policy_check(const struct hub_policy *policy, struct lr_str url,
                                     bool *is_named, struct lr_error *err);

/* True for the scheme, host and port of the endpoint: only then is the token sent. */
bool hub_policy_is_endpoint(const struct hub_policy *policy, struct lr_str url);

/* True for an address of the public Internet: not private, loopback, link-local (cloud metadata
 * services), shared, multicast, reserved, nor one of these inside an IPv6 form (mapped,
 * compatible, 6to4, Teredo, NAT64). */
bool hub_address_is_public(const struct sockaddr *address);

/* True when the host of a URL is an IPv4 address in any form that resolvers accept: 127.1,
 * 0x7f.0.0.1, 017700000001, 2130706433. */
bool hub_host_ipv4(struct lr_str host, uint32_t *address);

/* Appends text with every byte other than letters, digits and "-_.~" (and '/' with keep_slash)
 * as %XX. */
void hub_url_escape(struct lr_buf *out, struct lr_str text, bool keep_slash);

/* {endpoint}/{repo}/resolve/{commit}/{name} */
void hub_url_resolve(struct lr_buf *out, const struct hub_policy *policy, struct lr_str repo,
                     struct lr_str commit, struct lr_str name);

#endif
