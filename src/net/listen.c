#include "net/listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/os/fd.h"
#include "base/os/socket.h"
#include "base/str.h"
#include "net/guard.h"
#include "net/url.h"

enum {
    BACKLOG = 4096,
    UNIX_MODE = 0660, /* the user and the group of the process */
};

static const char unix_mark[] = "unix:";
enum { UNIX_MARK = sizeof(unix_mark) - 1 };

/* ---- texts ---- */

static bool parse_port(const char *text, uint16_t *out)
{
    uint64_t number;
    if (!lr_str_u64(lr_str_z(text), &number) || number > 65535)
        return false;
    *out = (uint16_t)number;
    return true;
}

static lr_code parse_unix(const char *text, struct net_listener *out, struct lr_error *err)
{
    const char *path = text + UNIX_MARK;
    if (path[0] != '/')
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "listen: \"%s\" needs an absolute path, such as unix:/run/router.sock",
                       text);
    if (strlen(path) >= LR_LOCAL_PATH_MAX)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "listen: \"%s\": the path of a Unix socket has at most %d bytes", text,
                       LR_LOCAL_PATH_MAX - 1);
    (void)snprintf(out->host, sizeof(out->host), "%s", text);
    return LR_OK;
}

lr_code net_listener_parse(const char *text, struct net_listener *out, struct lr_error *err)
{
    *out = (struct net_listener){.fd = -1};
    if (strncmp(text, unix_mark, UNIX_MARK) == 0)
        return parse_unix(text, out, err);
    const char *colon = strrchr(text, ':');
    size_t len = colon != NULL ? (size_t)(colon - text) : 0;
    if (len >= NET_HOST_MAX || !parse_port(colon != NULL ? colon + 1 : text, &out->port))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "listen: \"%s\" is not ADDRESS:PORT, PORT (this machine only), :PORT "
                       "(all interfaces) or unix:/PATH",
                       text);
    if (len >= 2 && text[0] == '[' && text[len - 1] == ']') {
        text++;
        len -= 2;
    }
    if (colon == NULL)
        (void)snprintf(out->host, sizeof(out->host), "127.0.0.1");
    else if (len == 0)
        (void)snprintf(out->host, sizeof(out->host), "::");
    else
        (void)snprintf(out->host, sizeof(out->host), "%.*s", (int)len, text);
    return LR_OK;
}

bool net_listener_is_unix(const struct net_listener *listener)
{
    return strncmp(listener->host, unix_mark, UNIX_MARK) == 0;
}

bool net_listeners_are_local(const struct net_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        if (!net_listener_is_unix(&listeners->all[i]) &&
            !net_is_loopback_bind(listeners->all[i].host))
            return false;
    return true;
}

const struct net_listener *net_listeners_main(const struct net_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        if (!net_listener_is_unix(&listeners->all[i]))
            return &listeners->all[i];
    return &listeners->all[0];
}

void net_listener_url(const struct net_listener *listener, bool is_https, char *out,
                      size_t size)
{
    if (net_listener_is_unix(listener))
        (void)snprintf(out, size, "%s", listener->host);
    else
        net_url_format(out, size, is_https, listener->host, listener->port);
}

/* ---- sockets ---- */

static lr_code fail_bind(const struct net_listener *l, struct lr_error *err)
{
    char at[NET_HOST_MAX + 8];
    if (net_listener_is_unix(l))
        (void)snprintf(at, sizeof(at), "%s", l->host);
    else
        (void)snprintf(at, sizeof(at), "%s:%u", l->host, l->port);
    return errno == EADDRINUSE
               ? lr_fail(err, LR_IO,
                         "cannot listen on %s: the %s is in use; stop the program that has it "
                         "or choose another %s",
                         at, net_listener_is_unix(l) ? "path" : "port",
                         net_listener_is_unix(l) ? "path" : "port")
               : lr_fail_errno(err, LR_IO, "cannot listen on %s", at);
}

/* UNSUPPORTED: this machine has no such addresses. */
static lr_code bind_one(struct net_listener *l, const struct addrinfo *info,
                        struct lr_error *err)
{
    l->fd = lr_socket_listen(info->ai_addr, (socklen_t)info->ai_addrlen, BACKLOG);
    if (l->fd >= 0)
        return LR_OK;
    bool is_absent = errno == EAFNOSUPPORT || errno == EADDRNOTAVAIL;
    (void)fail_bind(l, err);
    return is_absent ? LR_UNSUPPORTED : LR_IO;
}

static lr_code bind_host(struct net_listener *l, struct lr_error *err)
{
    char service[8];
    (void)snprintf(service, sizeof(service), "%u", l->port);
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *list = NULL;
    int rc = getaddrinfo(l->host, service, &hints, &list);
    if (rc != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "cannot listen on \"%s\": %s", l->host,
                       gai_strerror(rc));
    lr_code code = LR_IO;
    for (const struct addrinfo *info = list; info != NULL && code != LR_OK;
         info = info->ai_next)
        code = bind_one(l, info, err);
    freeaddrinfo(list);
    return code;
}

/* What the socket itself says; false where it has no address that a client could use. */
static bool listen_describe(int fd, struct net_listener *out)
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);
    char path[LR_LOCAL_PATH_MAX];
    if (getsockname(fd, (struct sockaddr *)&address, &len) != 0)
        return false;
    if (lr_socket_is_local(&address)) {
        lr_socket_local_path(&address, path);
        (void)snprintf(out->host, sizeof(out->host), "%s%s", unix_mark, path);
        return path[0] == '/';
    }
    bool is_v6 = address.ss_family == AF_INET6;
    const void *bytes = is_v6
                            ? (const void *)&((const struct sockaddr_in6 *)&address)->sin6_addr
                            : (const void *)&((const struct sockaddr_in *)&address)->sin_addr;
    out->port = ntohs(is_v6 ? ((const struct sockaddr_in6 *)&address)->sin6_port
                            : ((const struct sockaddr_in *)&address)->sin_port);
    return (is_v6 || address.ss_family == AF_INET) &&
           inet_ntop(address.ss_family, bytes, out->host, sizeof(out->host)) != NULL;
}

static lr_code bind_unix(struct net_listener *l, struct lr_error *err)
{
    l->fd = lr_socket_listen_local(l->host + UNIX_MARK, UNIX_MODE, BACKLOG);
    return l->fd >= 0 ? LR_OK : fail_bind(l, err);
}

lr_code net_listeners_bind(struct net_listeners *listeners, struct lr_error *err)
{
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < listeners->count; i++) {
        struct net_listener *l = &listeners->all[i];
        struct net_listener bound;
        if (l->fd >= 0)
            continue;
        code = net_listener_is_unix(l) ? bind_unix(l, err) : bind_host(l, err);
        if (code == LR_UNSUPPORTED && strcmp(l->host, "::") == 0) {
            (void)snprintf(l->host, sizeof(l->host), "0.0.0.0"); /* a machine without IPv6 */
            code = bind_host(l, err);
        }
        code = code == LR_UNSUPPORTED ? LR_IO : code;
        if (code == LR_OK && l->port == 0 && listen_describe(l->fd, &bound))
            l->port = bound.port;
    }
    return code;
}

lr_code net_listener_adopt(int fd, struct net_listener *out, struct lr_error *err)
{
    *out = (struct net_listener){.fd = fd, .is_shared = true};
    if (lr_socket_adopt(fd) && listen_describe(fd, out))
        return LR_OK;
    out->fd = -1;
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "descriptor %d is no listening TCP or Unix stream socket "
                   "(ListenStream=, Accept=no)",
                   fd);
}

lr_code net_listeners_copy(const struct net_listeners *from, struct net_listeners *out,
                           struct lr_error *err)
{
    *out = (struct net_listeners){.count = 0};
    for (size_t i = 0; i < from->count; i++) {
        struct net_listener copy = from->all[i];
        copy.fd = lr_fd_copy(copy.fd);
        if (copy.fd < 0) {
            lr_code code = lr_fail_errno(err, LR_IO, "listen: cannot keep %s", copy.host);
            for (; out->count > 0; out->count--)
                lr_socket_close(out->all[out->count - 1].fd);
            return code;
        }
        out->all[out->count++] = copy;
    }
    return LR_OK;
}

void net_listener_close(struct net_listener *listener)
{
    if (listener->fd < 0)
        return;
    lr_socket_close(listener->fd);
    listener->fd = -1;
    if (net_listener_is_unix(listener) && !listener->is_shared)
        (void)lr_unlink(listener->host + UNIX_MARK);
}

void net_listeners_close(struct net_listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++)
        net_listener_close(&listeners->all[i]);
}
