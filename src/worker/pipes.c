#include "worker/pipes.h"

#include <errno.h>
#include <stdio.h>

#include "base/os/fd.h"
#include "worker/worker.h"

void worker_pipes_init(struct worker_pipes *pipes)
{
    wire_reader_init(&pipes->in, WIRE_BODY_MAX);
    (void)pthread_mutex_init(&pipes->out_lock, NULL);
}

void worker_pipes_free(struct worker_pipes *pipes)
{
    wire_reader_free(&pipes->in);
    (void)pthread_mutex_destroy(&pipes->out_lock);
}

static void pipes_give(struct worker_pipes *pipes, size_t len)
{
    pipes->is_drained = len < sizeof(pipes->chunk);
    wire_reader_give(&pipes->in, lr_str(pipes->chunk, len));
}

bool worker_pipes_fill(struct worker_pipes *pipes, bool wait)
{
    pipes->is_drained = true;
    for (;;) {
        /* a read waits by itself */
        int n = wait ? 1 : lr_fd_wait(WORKER_IN_FD, LR_FD_READABLE, 0);
        if (n == 0)
            return true;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return false;
        ssize_t got = read(WORKER_IN_FD, pipes->chunk, sizeof(pipes->chunk));
        if (got < 0 && errno == EAGAIN && wait)
            (void)lr_fd_wait(WORKER_IN_FD, LR_FD_READABLE, -1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return false;
        pipes_give(pipes, (size_t)got);
        return true;
    }
}

bool worker_pipes_more(struct worker_pipes *pipes)
{
    bool is_cut = pipes->in.kept.len != 0 && !pipes->in.is_whole;
    if (pipes->is_drained && !is_cut)
        return false;
    if (lr_fd_wait(WORKER_IN_FD, LR_FD_READABLE, is_cut ? 1 : 0) != 1)
        return false;
    ssize_t got = read(WORKER_IN_FD, pipes->chunk, sizeof(pipes->chunk));
    if (got <= 0)
        return false; /* worker_pipes_fill says why */
    pipes_give(pipes, (size_t)got);
    return true;
}

void worker_pipes_await(const struct lr_waker *wake)
{
    (void)lr_waker_wait(wake,
                        WORKER_IN_FD); /* after a signal the caller looks, and comes back */
}

bool worker_pipes_next(struct worker_pipes *pipes, struct wire_frame *out)
{
    struct lr_error err;
    bool has;

    if (wire_reader_next(&pipes->in, out, &has, &err) != LR_OK) {
        (void)fprintf(stderr, "worker: %s\n", err.text);
        _exit(2);
    }
    return has;
}

void worker_pipes_send(struct worker_pipes *pipes, struct lr_buf *buf)
{
    if (buf->failed)
        _exit(2); /* out of memory for a message of ours: better a clear death than a gap */
    (void)pthread_mutex_lock(&pipes->out_lock);
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
    (void)pthread_mutex_unlock(&pipes->out_lock);
    lr_buf_clear(buf);
}
