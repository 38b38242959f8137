/* base/os/darwin/internal.h - steps that files of darwin/ share. */
#ifndef BASE_OS_DARWIN_INTERNAL_H
#define BASE_OS_DARWIN_INTERNAL_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on this process ends (SIGKILL) when its parent ends.  False: it has ended already,
 * or there is no thread to watch it. */
bool lr_os_watch_parent(pid_t parent);

/* Children do not inherit the descriptor; `waits` false: calls on it do not block. */
void lr_os_set_flags(int fd, bool waits);

#endif
