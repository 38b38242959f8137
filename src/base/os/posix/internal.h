/* base/os/posix/internal.h - steps of posix/ that Linux and macOS do differently. */
#ifndef BASE_OS_POSIX_INTERNAL_H
#define BASE_OS_POSIX_INTERNAL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct stat;

/* The time of the last change of a file's content. */
int64_t lr_os_changed_ns(const struct stat *info);

/* In a child between fork and exec: only calls that are safe there.  Marks all descriptors from
 * `first` on as not inherited; asks the kernel to kill this process when its parent ends (true
 * also where no kernel does that: such a child must watch its parent itself). */
void lr_os_close_on_exec_above(int first);
bool lr_os_die_with_parent(void);

/* Waits until a child may have ended, at most timeout_ms (-1: for ever). */
struct lr_os_exit_watch {
    int fd; /* -1: none yet; the caller closes it */
};
void lr_os_await_exit(struct lr_os_exit_watch *watch, pid_t pid, int timeout_ms);

void lr_os_name_thread(pthread_t thread, const char *name);

#endif
