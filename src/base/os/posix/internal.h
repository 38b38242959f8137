/* base/os/posix/internal.h - steps of posix/ that Linux and macOS do differently. */
#ifndef BASE_OS_POSIX_INTERNAL_H
#define BASE_OS_POSIX_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/file.h"
#include "base/subprocess.h"

struct stat;

/* The time of the last change of a file's content. */
int64_t lr_os_changed_ns(const struct stat *info);

/* Everything that a child needs, prepared before it is started. */
enum { LR_OS_MOST_PASSED = 16, LR_OS_MOST_FDS = LR_OS_MOST_PASSED + 3 };
struct lr_os_plan {
    const struct lr_spawn *spawn;
    char path[LR_PATH_MAX];
    const char **env;         /* owned */
    int from[LR_OS_MOST_FDS]; /* our descriptor ... */
    int to[LR_OS_MOST_FDS];   /* ... becomes this one */
    int count;
    int report;  /* write end of the pipe on which the child reports a failed step */
    int highest; /* of to[] */
    int pipes[3][2];
};
lr_code lr_os_spawn(struct lr_os_plan *plan, pid_t *pid, struct lr_error *err);
/* The message for a program that could not be started: `error` is an errno. */
lr_code lr_os_spawn_failed(const struct lr_os_plan *plan, int error, struct lr_error *err);

/* Waits until a child may have ended, at most timeout_ms (-1: for ever). */
struct lr_os_exit_watch {
    int fd; /* -1: none yet; the caller closes it */
};
void lr_os_await_exit(struct lr_os_exit_watch *watch, pid_t pid, int timeout_ms);

/* A standard stream that the starter of this process closed becomes /dev/null: otherwise the
 * next file or socket gets its number, and is closed or written to as a standard stream. */
void lr_os_open_streams(void);

void lr_os_name_thread(pthread_t thread, const char *name);

#endif
