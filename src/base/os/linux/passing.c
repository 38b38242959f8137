/* base/os/linux/passing.c - Unix sockets that keep the borders of messages. */
#include "base/passing.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* The path of a socket is short, that of a folder may not be: the folder is opened, and the
 * path leads through its descriptor. */
static lr_code open_folder(const char *folder, const char *name, struct sockaddr_un *out,
                           int *fd, struct lr_error *err)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    *fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return lr_fail_errno(err, LR_IO, "cannot open the folder %.300s", folder);
    (void)snprintf(out->sun_path, sizeof(out->sun_path), "/proc/self/fd/%d/%.60s", *fd, name);
    return LR_OK;
}

static bool is_own_user(int fd, pid_t *pid)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0 || peer.uid != geteuid())
        return false;
    *pid = peer.pid;
    return true;
}

lr_code lr_passing_listen(const char *folder, const char *name, int *out, struct lr_error *err)
{
    struct sockaddr_un address;
    int at;
    *out = -1;
    lr_code code = open_folder(folder, name, &address, &at, err);
    if (code != LR_OK)
        return code;
    (void)unlink(address.sun_path);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, sizeof(address)) != 0 ||
        chmod(address.sun_path, 0600) != 0 || listen(fd, 4) != 0) {
        code = lr_fail_errno(err, LR_IO, "cannot listen on %.300s/%s", folder, name);
        if (fd >= 0)
            (void)close(fd);
        fd = -1;
    }
    (void)close(at);
    *out = fd;
    return code;
}

int lr_passing_accept(int listener, pid_t *pid)
{
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0 && !is_own_user(fd, pid)) {
        (void)close(fd);
        return -1;
    }
    return fd;
}

lr_code lr_passing_connect(const char *folder, const char *name, int timeout_ms, int *out,
                           pid_t *pid, struct lr_error *err)
{
    struct sockaddr_un address;
    struct timeval limit = {.tv_sec = timeout_ms / 1000, .tv_usec = timeout_ms % 1000 * 1000};
    int at;
    *out = -1;
    lr_code code = open_folder(folder, name, &address, &at, err);
    if (code != LR_OK)
        return code;
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        code = lr_fail_errno(err, LR_IO, "cannot make a socket");
    } else if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        bool is_absent = errno == ENOENT || errno == ECONNREFUSED;
        code = lr_fail_errno(err, is_absent ? LR_NOT_FOUND : LR_IO,
                             "cannot connect to %.300s/%s", folder, name);
    } else if (!is_own_user(fd, pid)) {
        code = lr_fail(err, LR_PERMISSION_DENIED,
                       "%.300s/%s belongs to a process of another user", folder, name);
    }
    (void)close(at);
    if (code != LR_OK && fd >= 0)
        (void)close(fd);
    if (code != LR_OK)
        return code;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    *out = fd;
    return LR_OK;
}

union control {
    struct cmsghdr head;
    char bytes[CMSG_SPACE(LR_PASSING_FDS_MAX * sizeof(int))];
};

lr_code lr_passing_send(int fd, struct lr_str text, const int *fds, size_t count,
                        struct lr_error *err)
{
    union control control = {0};
    char copy[LR_PASSING_TEXT_MAX];
    struct iovec part = {.iov_base = copy, .iov_len = text.len};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (text.len == 0 || text.len >= sizeof(copy) || count > LR_PASSING_FDS_MAX)
        return lr_fail(err, LR_TOO_LARGE,
                       "a message of %zu bytes and %zu descriptors is not passed", text.len,
                       count);
    memcpy(copy, text.ptr, text.len);
    if (count != 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(head), fds, count * sizeof(int));
    }
    return sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)text.len
               ? LR_OK
               : lr_fail_errno(err, LR_UNAVAILABLE, "cannot send to the other process");
}

static void take_fds(struct msghdr *message, struct lr_passed *out)
{
    for (struct cmsghdr *head = CMSG_FIRSTHDR(message); head != NULL;
         head = CMSG_NXTHDR(message, head)) {
        if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
            continue;
        size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count && out->count < LR_PASSING_FDS_MAX; i++)
            memcpy(&out->fds[out->count++], CMSG_DATA(head) + i * sizeof(int), sizeof(int));
    }
}

lr_code lr_passing_receive(int fd, bool waits, struct lr_passed *out, struct lr_error *err)
{
    union control control;
    struct iovec part = {.iov_base = out->text, .iov_len = sizeof(out->text) - 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof(control.bytes)};
    out->len = out->count = 0;
    ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC | (waits ? 0 : MSG_DONTWAIT));
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
        return lr_fail(err, LR_TIMEOUT, "the other process does not answer");
    if (got <= 0)
        return lr_fail(err, LR_UNAVAILABLE, "the other process has closed the connection");
    out->len = (size_t)got;
    out->text[got] = '\0';
    take_fds(&message, out);
    return LR_OK;
}

lr_code lr_passing_file(struct lr_str bytes, int *out, struct lr_error *err)
{
    int fd = memfd_create("llm-router", MFD_CLOEXEC);
    size_t at = 0;
    while (fd >= 0 && at < bytes.len) {
        ssize_t n = write(fd, bytes.ptr + at, bytes.len - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    *out = fd;
    if (fd >= 0 && at == bytes.len)
        return LR_OK;
    lr_code code = lr_fail_errno(err, LR_IO, "cannot write %zu bytes of memory", bytes.len);
    if (fd >= 0)
        (void)close(fd);
    *out = -1;
    return code;
}
