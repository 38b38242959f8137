/* net/tls.h - TLS contexts: certificates and trust, made once, used by any loop.
 *
 * A context may be shared between threads; connections keep a reference, so it may be
 * destroyed while some are open.  Its files may be replaced while it is used: connections
 * made after the next look at them use what they hold then.  TLS 1.2 and later.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"

struct net_tls;

/* A server's side.  Both files are PEM; the certificate file may hold its chain.
 * INVALID_ARGUMENT names the file and what is wrong with it: missing, not PEM, the
 * key is of another certificate, the certificate has expired. */
LR_MUST_USE lr_code net_tls_server_create(const char *cert_file, const char *key_file,
                                          struct net_tls **out, struct lr_error *err);

/* A client's side.  It trusts the certificates of ca_file (PEM), or those of the
 * system when that is NULL.  Names and dates are always checked. */
LR_MUST_USE lr_code net_tls_client_create(const char *ca_file, struct net_tls **out,
                                          struct lr_error *err);

void net_tls_destroy(struct net_tls *tls); /* NULL is fine */

/* Looks at the files of every context of this process and reads those that have changed, or,
 * with `all`, all of them.  Files that cannot be used (one of a pair is written and the other
 * is not yet, say) leave their context as it is; the log says so, once for each change.
 * Thread: any. */
void net_tls_look(bool all);

/* Until when a server's certificate is good, with those that it sends along. */
struct net_tls_validity {
    char file[256];
    int64_t until_s; /* since 1970 */
};
/* False: the context is a client's, or NULL.  Thread: any. */
bool net_tls_get_validity(struct net_tls *tls, struct net_tls_validity *out);

#endif
