#include "worker/link.h"

#include <errno.h>
#include <stdio.h>

#include "base/os/fd.h"
#include "worker/worker.h"

void worker_link_init(struct worker_link *link)
{
    wire_reader_init(&link->in, WIRE_BODY_MAX);
    (void)pthread_mutex_init(&link->out_lock, NULL);
}

void worker_link_free(struct worker_link *link)
{
    wire_reader_free(&link->in);
    (void)pthread_mutex_destroy(&link->out_lock);
}

static void pipes_give(struct worker_link *link, size_t len)
{
    link->is_drained = len < sizeof(link->chunk);
    wire_reader_give(&link->in, lr_str(link->chunk, len));
}

bool worker_link_fill(struct worker_link *link, bool wait)
{
    link->is_drained = true;
    for (;;) {
        /* a read waits by itself */
        int n = wait ? 1 : lr_fd_wait(WORKER_IN_FD, LR_FD_READABLE, 0);
        if (n == 0)
            return true;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        ssize_t got = read(WORKER_IN_FD, link->chunk, sizeof(link->chunk));
        if (got < 0 && errno == EAGAIN && wait)
            (void)lr_fd_wait(WORKER_IN_FD, LR_FD_READABLE, -1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return false;
        pipes_give(link, (size_t)got);
        return true;
    }
}

bool worker_link_more(struct worker_link *link)
{
    bool is_cut = link->in.kept.len != 0 && !link->in.is_whole;
    if (link->is_drained && !is_cut)
        return false;
    if (lr_fd_wait(WORKER_IN_FD, LR_FD_READABLE, is_cut ? 1 : 0) != 1)
        return false;
    ssize_t got = read(WORKER_IN_FD, link->chunk, sizeof(link->chunk));
    if (got <= 0)
        return false; /* worker_link_fill says why */
    pipes_give(link, (size_t)got);
    return true;
}

void worker_link_await(const struct lr_waker *wake)
{
    (void)lr_waker_wait(wake,
                        WORKER_IN_FD); /* after a signal the caller looks, and comes back */
}

bool worker_link_next(struct worker_link *link, struct wire_frame *out)
{
    struct lr_error err;
    bool has;

    if (wire_reader_next(&link->in, out, &has, &err) != LR_OK) {
        (void)fprintf(stderr, "worker: %s\n", err.text);
        _exit(2);
    }
    return has;
}

void worker_link_send(struct worker_link *link, struct lr_buf *buf)
{
    if (buf->failed)
        _exit(2); /* out of memory for a message of ours: better a clear death than a gap */
    (void)pthread_mutex_lock(&link->out_lock);
    for (size_t sent = 0; sent < buf->len;) {
        ssize_t n = write(WORKER_OUT_FD, buf->data + sent, buf->len - sent);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN) {
            (void)lr_fd_wait(WORKER_OUT_FD, LR_FD_WRITABLE, -1);
            continue;
        }
        if (n < 0)
            _exit(1);
        sent += (size_t)n;
    }
    (void)pthread_mutex_unlock(&link->out_lock);
    lr_buf_clear(buf);
}
