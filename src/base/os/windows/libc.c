/* base/os/windows/libc.c - see libc.h. */
#include <errno.h>
#include <windows.h>

#include "base/os/file.h"
#include "base/os/windows/internal.h"
#include "base/random.h"

void *memmem(const void *text, size_t len, const void *part, size_t part_len)
{
    const char *at = text, *first = part;
    if (part_len == 0)
        return (void *)(size_t)text;
    for (; len >= part_len; at++, len--) {
        const char *next = memchr(at, *first, len - part_len + 1);
        if (next == NULL)
            return NULL;
        len -= (size_t)(next - at);
        at = next;
        if (memcmp(at, part, part_len) == 0)
            return (void *)(size_t)at;
    }
    return NULL;
}

char *strndup(const char *text, size_t most)
{
    size_t len = strnlen(text, most);
    char *copy = malloc(len + 1);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

void explicit_bzero(void *bytes, size_t len)
{
    (void)SecureZeroMemory(bytes, len);
}

struct tm *gmtime_r(const time_t *seconds, struct tm *out)
{
    return _gmtime64_s(out, seconds) == 0 ? out : NULL;
}

struct tm *localtime_r(const time_t *seconds, struct tm *out)
{
    return _localtime64_s(out, seconds) == 0 ? out : NULL;
}

time_t timegm(struct tm *tm)
{
    return _mkgmtime64(tm);
}

int setenv(const char *name, const char *value, int replaces)
{
    if (!replaces && getenv(name) != NULL)
        return 0;
    return _putenv_s(name, value) == 0 ? 0 : -1;
}

char *mkdtemp(char *pattern)
{
    size_t len = strlen(pattern);
    for (int i = 0; len >= 6 && i < 100; i++) {
        lr_random_hex(pattern + len - 6, 6);
        if (lr_mkdir(pattern))
            return pattern;
    }
    return NULL;
}

long long getline(char **line, size_t *size, FILE *file)
{
    size_t len = 0;
    for (int c; (c = fgetc(file)) != EOF;) {
        if (len + 2 > *size) {
            size_t wanted = *size < 128 ? 256 : *size * 2;
            char *longer = realloc(*line, wanted);
            if (longer == NULL)
                return -1;
            *line = longer;
            *size = wanted;
        }
        (*line)[len++] = (char)c;
        if (c == '\n')
            break;
    }
    if (len == 0)
        return -1;
    (*line)[len] = '\0';
    return (long long)len;
}
