/* base/file.h - safe file access.
 *
 * Names that come from outside (a manifest, a request) become paths only through lr_path_safe.
 * Data that must survive a crash is written with lr_file_write_atomic.  Errors name the path
 * and, where the operator can act, what to do.  Codes: NOT_FOUND, PERMISSION_DENIED, TOO_LARGE,
 * CONFLICT, IO, INVALID_ARGUMENT.  Thread: any.
 */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/fail.h"
#include "base/os/file.h" /* LR_PATH_MAX, and the calls below these functions */
#include "base/str.h"

/* A relative name that stays below its root: not empty, not absolute, no ".." or "."
 * or empty component, no backslash, NUL, colon-drive or control character. */
bool lr_path_safe(struct lr_str name);

/* root + "/" + name into out, after lr_path_safe(name).  Does not resolve symbolic links. */
LR_MUST_USE lr_code lr_path_join(char out[LR_PATH_MAX], const char *root, struct lr_str name,
                                 struct lr_error *err);

/* The whole file, at most limit bytes (TOO_LARGE otherwise), into an arena or a buffer.
 * out->ptr is terminated by a NUL that out->len does not count. */
LR_MUST_USE lr_code lr_file_read(struct lr_arena *arena, const char *path, size_t limit,
                                 struct lr_str *out, struct lr_error *err);
LR_MUST_USE lr_code lr_file_read_buf(const char *path, struct lr_buf *out,
                                     struct lr_error *err); /* limit: the buffer's */

/* After OK the file holds exactly `bytes`, on disk, even if the machine crashes next.  After a
 * failure or a crash the file is unchanged. mode as in open(2): 0600, 0644. */
LR_MUST_USE lr_code lr_file_write_atomic(const char *path, struct lr_str bytes, unsigned mode,
                                         struct lr_error *err);

/* rename(2), and syncs the folder.  Replaces `to`. */
LR_MUST_USE lr_code lr_file_rename(const char *from, const char *to, struct lr_error *err);
LR_MUST_USE lr_code lr_file_sync_dir(const char *path, struct lr_error *err);

/* Creates the folder and its missing parents with mode 0700; OK when the folder exists. */
LR_MUST_USE lr_code lr_dir_create(const char *path, struct lr_error *err);
/* Removes a folder with its content; never follows links. */
LR_MUST_USE lr_code lr_dir_remove(const char *path, struct lr_error *err);

bool lr_file_exists(const char *path);
bool lr_dir_exists(const char *path);
/* The folder holds a visible file or folder whose name ends so; "": any. */
bool lr_dir_has(const char *path, const char *suffix);
LR_MUST_USE lr_code lr_file_size(const char *path, uint64_t *out, struct lr_error *err);

/* Bytes an unprivileged process may still write below path. */
LR_MUST_USE lr_code lr_disk_free(const char *path, uint64_t *out, struct lr_error *err);

/* A lock that gives one process a data folder.  CONFLICT names the process that holds the lock.
 * The kernel drops the lock when the process ends; children do not inherit it. */
struct lr_file_lock {
    int fd; /* -1: not held */
};
LR_MUST_USE lr_code lr_file_lock(const char *path, struct lr_file_lock *out,
                                 struct lr_error *err);
void lr_file_unlock(struct lr_file_lock *lock);
/* The lock came from another process: the file names this process from now on. */
void lr_file_lock_sign(const struct lr_file_lock *lock);
/* Whether the descriptor of another process's lock is a lock on this file. */
bool lr_file_lock_is_of(const struct lr_file_lock *lock, const char *path);

/* A whole file, mapped read-only.  len 0 has data "" and maps nothing. */
struct lr_file_map {
    const unsigned char *data;
    size_t len;
};
LR_MUST_USE lr_code lr_file_map(const char *path, struct lr_file_map *out,
                                struct lr_error *err);
LR_MUST_USE lr_code lr_file_map_fd(int fd, const char *name, struct lr_file_map *out,
                                   struct lr_error *err); /* fd stays with the caller */
void lr_file_unmap(struct lr_file_map *map);

/* A new file of `bytes` zero bytes, mode 0600, as memory.  What is written there is in the file
 * also after the process was killed; it may be lost with the machine's power.  UNSUPPORTED: not
 * on this system. */
LR_MUST_USE lr_code lr_file_share(const char *path, size_t bytes, void **out,
                                  struct lr_error *err);
void lr_file_unshare(void *memory, size_t bytes); /* NULL is fine */

/* Last component of a path; "" when it ends in '/'. */
const char *lr_path_base(const char *path);

/* A user who may write this file may run code as this process, if the file is a library.  OK
 * when only this user and root may.  is_parent: a folder above the file, where a sticky folder
 * like /tmp is allowed, because users cannot move each other's files there.  Windows: not
 * checked. */
LR_MUST_USE lr_code lr_file_check_owner(const char *path, bool is_parent, struct lr_error *err);

/* $HOME, else the password entry; %LOCALAPPDATA% on Windows.  NULL when there is neither. */
const char *lr_home_dir(void);
/* The folder of the user's own files, where other programs keep caches: %USERPROFILE% on
 * Windows, elsewhere the same. */
const char *lr_user_dir(void);

#endif
