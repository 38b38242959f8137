/* base/os/file.h - files by their paths, on every system.
 *
 * A path is UTF-8 text with '/' between its parts; on Windows the implementation turns a path
 * into the system's form, so that any letters and any length work.  The functions fail as the
 * POSIX functions of the same name do: false, -1 or NULL, with the reason in errno. base/file.h
 * has the functions with messages for people.  Descriptors and streams are not inherited by
 * child processes.  Thread: any.
 */
#ifndef BASE_OS_FILE_H
#define BASE_OS_FILE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/os/fd.h"

enum {
    LR_OPEN_READ = 0,
    LR_OPEN_WRITE = 1,
    LR_OPEN_READ_WRITE = 2,
    LR_OPEN_CREATE = 4,   /* creates the file when it is missing */
    LR_OPEN_NEW = 8,      /* creates the file; EEXIST when there is one */
    LR_OPEN_APPEND = 16,  /* every write goes to the end */
    LR_OPEN_NO_LINK = 32, /* ELOOP when the last part of the path is a symbolic link */
    LR_OPEN_NO_WAIT = 64, /* does not wait for the other end of a named pipe */
};

/* `mode` are the permissions of a file that is created, as in open(2). */
int lr_open(const char *path, unsigned flags, unsigned mode);
FILE *lr_fopen(const char *path, const char *mode);

enum lr_file_kind { LR_KIND_FILE, LR_KIND_FOLDER, LR_KIND_LINK, LR_KIND_OTHER };

struct lr_stat {
    enum lr_file_kind kind;
    uint64_t size;
    uint64_t device, inode;      /* both together identify a file */
    int64_t changed_ns;          /* time of the last change of the content, since 1970 */
    uint32_t owner, group, mode; /* POSIX permissions; 0 on Windows */
};

bool lr_stat(const char *path, struct lr_stat *out);  /* follows links */
bool lr_lstat(const char *path, struct lr_stat *out); /* does not */
bool lr_fstat(int fd, struct lr_stat *out);

/* A file that is mapped or open can be unlinked and replaced; on Windows it keeps its name
 * until it is closed. */
bool lr_unlink(const char *path);
bool lr_rename(const char *from, const char *to); /* replaces `to` */
bool lr_link(const char *from, const char *to);   /* a second name of the same file */
bool lr_mkdir(const char *path);                  /* permissions 0700 */
/* The file gets the owner and group of `like`; true where it has them already, and on Windows.
 */
bool lr_own_like(const char *path, const char *like);
bool lr_rmdir(const char *path); /* an empty folder */
bool lr_can_read(const char *path);
bool lr_can_write(const char *path);

/* The path without links, "." and ".."; NULL when there is no such file, or when the path is
 * longer than LR_PATH_MAX. */
enum { LR_PATH_MAX = 4096 };
char *lr_realpath(const char *path, char out[LR_PATH_MAX]);
bool lr_path_is_absolute(const char *path);

/* The names in a folder, in no order, without "." and "..". */
struct lr_dir;
struct lr_dir *lr_dir_open(const char *path);
const char *lr_dir_next(struct lr_dir *dir); /* borrowed until the next call; NULL at the end */
void lr_dir_close(struct lr_dir *dir);       /* NULL is allowed */

/* How a mapped file will be read. */
enum lr_advice {
    LR_ADVICE_SEQUENTIAL,
    LR_ADVICE_WILLNEED,
    LR_ADVICE_RANDOM,
    LR_ADVICE_DONTNEED,
};
void lr_map_advise(const void *data, uint64_t bytes, enum lr_advice advice);

#endif
