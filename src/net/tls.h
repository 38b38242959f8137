/* net/tls.h - TLS contexts: certificates and trusted CAs, loaded once, used by any loop.
 *
 * A context may be shared between threads.  Connections hold a reference, so a context may be
 * destroyed while connections are open.  Certificate files may be replaced at any time: after
 * the next net_tls_look, new connections use the new content.  TLS 1.2 and later.
 */
#ifndef NET_TLS_H
#define NET_TLS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"

struct net_tls;

/* A server's context.  Both files are PEM; the certificate file may hold its chain.
 * INVALID_ARGUMENT names the file and what is wrong: missing, not PEM, the key belongs to
 * another certificate, the certificate has expired. */
LR_MUST_USE lr_code net_tls_server_create(const char *cert_file, const char *key_file,
                                          struct net_tls **out, struct lr_error *err);

/* A client's context.  Trusts the certificates of ca_file (PEM), or the system's when ca_file
 * is NULL. Names and dates are always checked. */
LR_MUST_USE lr_code net_tls_client_create(const char *ca_file, struct net_tls **out,
                                          struct lr_error *err);

void net_tls_destroy(struct net_tls *tls); /* NULL is fine */

/* Checks the files of every context of this process and reads those that have changed, or all
 * with `all`.  If files cannot be used (only one of a pair was replaced so far, for example)
 * their context stays unchanged; the log reports it once for each change.  Thread: any. */
void net_tls_look(bool all);

/* Whether a server's certificate names this host or address, so that clients that connect to it
 * accept the certificate.  False for a client's context, and NULL. */
bool net_tls_names(struct net_tls *tls, const char *host);

/* Validity of a server's certificate and of the chain it sends. */
struct net_tls_validity {
    char file[256];
    int64_t until_s; /* since 1970 */
};
/* False: a client's context, or NULL. Thread: any. */
bool net_tls_get_validity(struct net_tls *tls, struct net_tls_validity *out);

#endif
