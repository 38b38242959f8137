/* base/passing.h - messages and descriptors between two processes of one user, over a Unix
 * socket in a folder.
 *
 * Messages keep their borders.  A process of another user is never served: its connection is
 * closed unread.  A system that cannot do this fails with UNSUPPORTED.  Thread: one at a time
 * for a descriptor.
 */
#ifndef BASE_PASSING_H
#define BASE_PASSING_H

#include <stddef.h>
#include <sys/types.h>

#include "base/fail.h"
#include "base/str.h"

enum { LR_PASSING_FDS_MAX = 16, LR_PASSING_TEXT_MAX = 8192 };

/* Listens at folder/name, mode 0600, and replaces a file that is there.  *out does not block.
 */
LR_MUST_USE lr_code lr_passing_listen(const char *folder, const char *name, int *out,
                                      struct lr_error *err);

/* The next process that has connected; -1: none.  *pid gets its number. */
int lr_passing_accept(int listener, pid_t *pid);

/* NOT_FOUND: nobody listens there.  Calls on *out end after timeout_ms. */
LR_MUST_USE lr_code lr_passing_connect(const char *folder, const char *name, int timeout_ms,
                                       int *out, pid_t *pid, struct lr_error *err);

LR_MUST_USE lr_code lr_passing_send(int fd, struct lr_str text, const int *fds, size_t count,
                                    struct lr_error *err);

struct lr_passed {
    char text[LR_PASSING_TEXT_MAX]; /* terminated */
    size_t len;
    int fds[LR_PASSING_FDS_MAX]; /* the receiver's */
    size_t count;
};
/* waits false: TIMEOUT where nothing has come yet.  UNAVAILABLE: the other process has ended or
 * closed the connection. */
LR_MUST_USE lr_code lr_passing_receive(int fd, bool waits, struct lr_passed *out,
                                       struct lr_error *err);

/* A file without a name that holds `bytes`, to be passed.  For what is larger than a text. */
LR_MUST_USE lr_code lr_passing_file(struct lr_str bytes, int *out, struct lr_error *err);

#endif
