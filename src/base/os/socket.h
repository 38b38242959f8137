/* base/os/socket.h - sockets: the system's headers, and the calls that differ.
 *
 * Addresses and their functions (struct sockaddr, inet_pton, getaddrinfo, htons) have the same
 * names everywhere.  A socket is an int; Windows' handles of sockets fit into one.  Functions
 * that fail return -1 and set errno.  Thread: any.
 */
#ifndef BASE_OS_SOCKET_H
#define BASE_OS_SOCKET_H

#ifdef _WIN32
#include "base/os/windows/socket.h"
#else
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A socket that child processes do not inherit. */
int lr_socket(int family, int type, int protocol);
/* A listening TCP socket that does not block; another socket on the same port is refused. */
int lr_socket_listen(const struct sockaddr *address, socklen_t len, int backlog);
/* A TCP connection that is made within timeout_ms; it does not block. */
int lr_socket_connect(const struct sockaddr *address, socklen_t len, int timeout_ms);
/* The next connection, which does not block either. */
int lr_socket_accept(int listener, struct sockaddr_storage *address);
void lr_socket_close(int fd);

/* A listening Unix socket that does not block; its file gets the permissions `mode`.  A file
 * that nobody listens on any more is replaced. */
enum { LR_LOCAL_PATH_MAX = 108 }; /* with the terminating byte; macOS: 104 */
int lr_socket_listen_local(const char *path, unsigned mode, int backlog);
bool lr_socket_is_local(const struct sockaddr_storage *address);
/* The path of a Unix socket's address; "": it has none. */
void lr_socket_local_path(const struct sockaddr_storage *address, char out[LR_LOCAL_PATH_MAX]);
/* True: the descriptor, which came from another process, is a listening stream socket.  It does
 * not block from now on, and child processes do not inherit it. */
bool lr_socket_adopt(int fd);

/* Sends without blocking: the number of bytes taken, or a negative errno. */
ssize_t lr_socket_send(int fd, const void *bytes, size_t len);
/* Says that nothing more is sent (FIN). */
void lr_socket_end(int fd);
/* True when the peer has closed the connection or the connection is lost.  A system that cannot
 * tell without reading says false. */
bool lr_socket_is_over(int fd);

/* Raises the number of descriptors of this process up to `most`, as far as the system allows;
 * the number that holds then.  UINT64_MAX: the system has no limit that matters. */
uint64_t lr_descriptors_raise(uint64_t most);

/* The name of this machine. */
bool lr_host_name(char *out, size_t size);

#endif
