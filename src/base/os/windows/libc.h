/* base/os/windows/libc.h - functions of POSIX's C library that Windows' lacks.  The build
 * includes this header into every file for Windows. */
#ifndef BASE_OS_WINDOWS_LIBC_H
#define BASE_OS_WINDOWS_LIBC_H

#ifndef __ASSEMBLER__
#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* An old name for lseek, which is a word of ours. */
#define tell crt_tell
#include <io.h>
#undef tell

/* Numbers that libuv also uses; Windows does not have these signals. */
#ifndef SIGHUP
#define SIGHUP 1
#endif
#ifndef SIGKILL
#define SIGKILL 9
#endif
#ifndef EDQUOT
#define EDQUOT ENOSPC
#endif

void *memmem(const void *text, size_t len, const void *part, size_t part_len);
char *strndup(const char *text, size_t most);
void explicit_bzero(void *bytes, size_t len);
struct tm *gmtime_r(const time_t *seconds, struct tm *out);
struct tm *localtime_r(const time_t *seconds, struct tm *out);
time_t timegm(struct tm *tm);
int setenv(const char *name, const char *value, int replaces);
char *mkdtemp(char *pattern); /* ends in XXXXXX */
long long getline(char **line, size_t *size, FILE *file);
#endif

#endif
