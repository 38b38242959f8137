/* net/tls_session.h - one TLS connection as a transformation of bytes.
 *
 * OpenSSL works on memory buffers: the caller puts in bytes from the socket and takes out bytes
 * for the socket.  This module never touches a socket.  Thread: loop.
 */
#ifndef NET_TLS_SESSION_H
#define NET_TLS_SESSION_H

#include <stdbool.h>

#include "base/fail.h"
#include "base/str.h"
#include "net/tls.h"

struct net_tls_session;

/* name: the host the peer must prove to be (a client), NULL for a server. */
LR_MUST_USE lr_code net_tls_session_create(struct net_tls *tls, const char *name,
                                           struct net_tls_session **out, struct lr_error *err);
void net_tls_session_destroy(struct net_tls_session *session); /* NULL is fine */

/* Bytes that came from the socket. */
LR_MUST_USE lr_code net_tls_session_put(struct net_tls_session *session, struct lr_str bytes,
                                        struct lr_error *err);

enum net_tls_result {
    NET_TLS_AGAIN,  /* more bytes from the socket are needed */
    NET_TLS_READY,  /* handshake: it is done; read: *got bytes of plain text */
    NET_TLS_CLOSED, /* the peer said that nothing follows */
    NET_TLS_FAILED, /* *err says why; an alert may wait to be sent */
};
enum net_tls_result net_tls_session_handshake(struct net_tls_session *session,
                                              struct lr_error *err);
enum net_tls_result net_tls_session_read(struct net_tls_session *session, char *buffer,
                                         size_t size, size_t *got, struct lr_error *err);
LR_MUST_USE lr_code net_tls_session_write(struct net_tls_session *session, struct lr_str bytes,
                                          struct lr_error *err);
void net_tls_session_close_notify(struct net_tls_session *session);
bool net_tls_session_is_up(const struct net_tls_session *session);

/* Bytes for the socket; valid until net_tls_session_taken, which drops them. */
struct lr_str net_tls_session_pending(struct net_tls_session *session);
void net_tls_session_taken(struct net_tls_session *session);

#endif
