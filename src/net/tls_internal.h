/* net/tls_internal.h - shared by tls.c (contexts), tls_files.c (their files) and tls_session.c
 * (connections). */
#ifndef NET_TLS_INTERNAL_H
#define NET_TLS_INTERNAL_H

#include <openssl/ssl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "net/tls.h"

enum { NET_TLS_FILES = 2 };

/* Tells whether a file was replaced or changed. */
struct net_tls_stamp {
    uint64_t device, inode, size;
    int64_t time_ns;
};

struct net_tls {
    _Atomic unsigned refs;
    bool is_server;
    char *files[NET_TLS_FILES]; /* owned: certificate and key, or CAs; NULL: the system's CAs */
    pthread_mutex_t lock;       /* guards ctx */
    SSL_CTX *ctx;               /* each session holds one more reference */
    /* ---- tls_files.c, under its lock ---- */
    struct net_tls_stamp stamps[NET_TLS_FILES]; /* as they were read last */
    struct net_tls *next;                       /* in its list */
};

/* Adds a reference, dropped with net_tls_destroy; NULL for NULL. */
struct net_tls *net_tls_ref(struct net_tls *tls);
/* A reference to the context that new connections use. */
SSL_CTX *net_tls_current(struct net_tls *tls);
/* Reads the files. */
lr_code net_tls_load(const struct net_tls *tls, SSL_CTX **out, struct lr_error *err);

/* ---- tls_files.c ---- */
/* Records the state of the files.  Called before the files are read, so that a change in
 * between is seen at the next check.  True: a file has changed. */
bool net_tls_take_stamps(struct net_tls *tls);
/* From now on, and until net_tls_forget, net_tls_look checks this context. */
void net_tls_watch(struct net_tls *tls);
void net_tls_forget(struct net_tls *tls);

const char *net_tls_reason(void);
void net_tls_date(const ASN1_TIME *time, char out[32]); /* "2026-11-15 02:40:01 UTC" */
/* Writes what is wrong with a peer's certificate into its session's error. */
int net_tls_on_verify(int ok, X509_STORE_CTX *store);

#endif
