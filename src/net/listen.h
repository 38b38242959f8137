/* net/listen.h - the sockets on which a server accepts clients.
 *
 *   11680                  this machine only: 127.0.0.1:11680
 *   :11680                 all interfaces
 *   10.0.0.5:80, [::1]:0   one address; port 0 is any free port
 *   unix:/run/router.sock  a Unix socket, for the user and the group of the process
 *
 * A socket may also come from another process: from a service manager or from the server that
 * this process replaces.  Thread: one at a time.
 */
#ifndef NET_LISTEN_H
#define NET_LISTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

enum { NET_HOST_MAX = 256, NET_LISTENERS_MAX = 8 };

struct net_listener {
    char host[NET_HOST_MAX]; /* "127.0.0.1", "unix:/run/router.sock" */
    uint16_t port;           /* of a Unix socket: 0 */
    int fd;                  /* -1: not bound yet */
    bool is_shared; /* another process has the socket, too: a Unix socket's file stays */
};

struct net_listeners {
    struct net_listener all[NET_LISTENERS_MAX];
    size_t count;
};

/* One of the forms above.  INVALID_ARGUMENT names the text. */
LR_MUST_USE lr_code net_listener_parse(const char *text, struct net_listener *out,
                                       struct lr_error *err);

/* A listening stream socket of another process, whose descriptor now belongs to the listener.
 * INVALID_ARGUMENT: the descriptor is no such socket. */
LR_MUST_USE lr_code net_listener_adopt(int fd, struct net_listener *out, struct lr_error *err);

/* Binds the listeners that have no socket yet and sets their ports.  INVALID_ARGUMENT or IO
 * name the address and the reason; the sockets bound until then stay the caller's. */
LR_MUST_USE lr_code net_listeners_bind(struct net_listeners *listeners, struct lr_error *err);

/* The same sockets once more.  IO: there is no descriptor left; nothing is copied. */
LR_MUST_USE lr_code net_listeners_copy(const struct net_listeners *from,
                                       struct net_listeners *out, struct lr_error *err);

/* Closes the socket and removes the file of a Unix socket that is not shared. */
void net_listener_close(struct net_listener *listener);
void net_listeners_close(struct net_listeners *listeners);

bool net_listener_is_unix(const struct net_listener *listener);
/* Only programs on this machine reach the sockets. */
bool net_listeners_are_local(const struct net_listeners *listeners);
/* The listener whose address is told to others: the first that is not a Unix socket. */
const struct net_listener *net_listeners_main(const struct net_listeners *listeners);

/* "https://host:port", or "unix:/run/router.sock". */
void net_listener_url(const struct net_listener *listener, bool is_https, char *out,
                      size_t size);

#endif
