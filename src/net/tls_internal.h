/* net/tls_internal.h - between tls.c (contexts) and tls_session.c (connections). */
#ifndef NET_TLS_INTERNAL_H
#define NET_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <stdbool.h>

struct net_tls {
    SSL_CTX *ctx; /* shared (ref): each session holds one more */
    bool is_server;
};

/* The same context once more, to be destroyed on its own; NULL for NULL. */
struct net_tls *net_tls_ref(const struct net_tls *tls);

const char *net_tls_reason(void);
void net_tls_date(const ASN1_TIME *time, char out[32]); /* "2026-11-15 02:40:01 UTC" */
/* Writes what is wrong with a peer's certificate into its session's error. */
int net_tls_on_verify(int ok, X509_STORE_CTX *store);

#endif
