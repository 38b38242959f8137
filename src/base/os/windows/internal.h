/* base/os/windows/internal.h - texts and errors between Windows and the layer. */
#ifndef BASE_OS_WINDOWS_INTERNAL_H
#define BASE_OS_WINDOWS_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <wchar.h>

/* Windows' longest path, in the form that begins with \\?\ */
enum { LR_WIDE_PATH = 32768 };

/* A path of ours as Windows takes it: absolute where it is long, with backslashes.  NULL:
 * errno. The caller frees it. */
wchar_t *lr_os_wide_path(const char *path);
/* Any text.  NULL without memory; the caller frees it. */
wchar_t *lr_os_wide(const char *text);
/* UTF-8; false when it does not fit.  is_path: slashes become '/', and \\?\ goes away. */
bool lr_os_narrow(const wchar_t *text, char *out, size_t size, bool is_path);

/* The exit status of a process that was killed, and the event that asks a process to stop (by
 * its id). */
#define LR_WINDOWS_KILLED     0xE0000009u
#define LR_WINDOWS_STOP_EVENT L"Local\\llm-router-stop-%lu"

/* Sets the event of a process; false: it does not wait for it. */
bool lr_os_ask_to_stop(unsigned long process);

/* errno from GetLastError or WSAGetLastError. */
int lr_os_errno(unsigned long error);
void lr_os_set_errno(void);

#endif
