/* tests/unit/worker/support.h - a child process instead of a worker: its descriptors 0 and 3
 * are pipes, and the test plays its node. */
#ifndef TESTS_UNIT_WORKER_SUPPORT_H
#define TESTS_UNIT_WORKER_SUPPORT_H

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/os/fd.h"
#include "wire/event.h"
#include "wire/reader.h"
#include "worker/worker.h"

struct place {
    pid_t pid;
    int to, from; /* our ends; -1 once closed */
    struct wire_reader in;
    char *chunk; /* the last read; owned */
};

enum { PLACE_READ_BYTES = 65536 };

/* Runs body(arg) as the child; its result is the exit status. */
static inline struct place place_start(int (*body)(void *arg), void *arg)
{
    int in[2], out[2];
    assert_true(lr_pipe(in, 0));
    assert_true(lr_pipe(out, 0));
    struct place p = {.to = in[1], .from = out[0]};
    wire_reader_init(&p.in, WIRE_BODY_MAX);
    p.chunk = malloc(PLACE_READ_BYTES);
    assert_non_null(p.chunk);
    p.pid = fork();
    assert_true(p.pid >= 0);
    if (p.pid == 0) {
        int high = fcntl(out[1], F_DUPFD, 10); /* out[1] may be the number that in[0] needs */
        (void)dup2(in[0], WORKER_IN_FD);
        (void)dup2(high, WORKER_OUT_FD);
        for (int fd = WORKER_OUT_FD + 1; fd < 64; fd++)
            (void)close(fd);
        (void)signal(SIGPIPE, SIG_IGN);
        _exit(body(arg));
    }
    (void)close(in[0]);
    (void)close(out[1]);
    return p;
}

static inline void place_send(const struct place *p, struct lr_str bytes)
{
    while (bytes.len != 0) {
        ssize_t n = write(p->to, bytes.ptr, bytes.len);
        assert_true(n > 0 || errno == EINTR);
        bytes = lr_str_sub(bytes, n > 0 ? (size_t)n : 0, bytes.len);
    }
}

/* The next frame; false at the end of the stream. */
static inline bool place_next(struct place *p, struct wire_frame *out)
{
    for (;;) {
        bool has = false;
        assert_int_equal(wire_reader_next(&p->in, out, &has, NULL), LR_OK);
        if (has)
            return true;
        ssize_t n = read(p->from, p->chunk, PLACE_READ_BYTES);
        if (n <= 0)
            return false;
        wire_reader_give(&p->in, lr_str(p->chunk, (size_t)n));
    }
}

static inline struct wire_frame place_expect(struct place *p, enum wire_type type)
{
    struct wire_frame frame = {0};
    assert_true(place_next(p, &frame));
    assert_int_equal(frame.type, type);
    return frame;
}

/* Closes our ends and waits; the exit status, or minus the signal. */
static inline int place_end(struct place *p)
{
    int status = 0;
    if (p->to >= 0)
        (void)close(p->to);
    (void)close(p->from);
    wire_reader_free(&p->in);
    free(p->chunk);
    assert_int_equal(waitpid(p->pid, &status, 0), p->pid);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

/* The same for a child that still writes: reads to the end first. */
static inline int place_finish(struct place *p)
{
    struct wire_frame frame;
    (void)close(p->to);
    p->to = -1;
    while (place_next(p, &frame))
        continue;
    return place_end(p);
}

#endif
