/* base/os/windows/process.c - texts of the start, the end, and the event that asks for a stop.
 */
#include "base/os/process.h"

#include <fcntl.h>
#include <io.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>
#include <winsock2.h>

#include <bcrypt.h>
#include <shellapi.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/os/windows/internal.h"
#include "base/subprocess.h"

void lr_process_kill_self(void)
{
    (void)TerminateProcess(GetCurrentProcess(), LR_WINDOWS_KILLED);
}

void lr_process_lower(void)
{
    (void)SetPriorityClass(GetCurrentProcess(), BELOW_NORMAL_PRIORITY_CLASS);
}

/* Windows has no call that stops a process: all threads of this process stop at this one. */
void lr_process_stop_self(void)
{
    Sleep(INFINITE);
}

void lr_ignore_broken_pipes(void)
{
    /* There is no such signal here. */
}

static char *narrow_copy(const wchar_t *text)
{
    int len = WideCharToMultiByte(CP_UTF8, 0, text, -1, NULL, 0, NULL, NULL);
    char *out = len > 0 ? malloc((size_t)len) : NULL;
    if (out != NULL)
        (void)WideCharToMultiByte(CP_UTF8, 0, text, -1, out, len, NULL, NULL);
    return out;
}

/* The C library keeps the environment in the letters of the user's region.  Variables with
 * other letters are replaced by their UTF-8 form, which getenv then returns. */
static void fix_environment(void)
{
    wchar_t *block = GetEnvironmentStringsW();
    for (const wchar_t *p = block; p != NULL && *p != 0; p += wcslen(p) + 1) {
        char *text = narrow_copy(p);
        size_t name = text != NULL ? strcspn(text + 1, "=") + 2 : 0;
        bool is_plain = true;
        for (const char *c = text; c != NULL && *c != '\0'; c++)
            is_plain = is_plain && (unsigned char)*c < 0x80;
        for (char **e = _environ; text != NULL && !is_plain && *e != NULL; e++)
            if (strncmp(*e, text, name) == 0)
                *e = text; /* kept until the process ends */
        if (is_plain)
            free(text);
    }
    if (block != NULL)
        (void)FreeEnvironmentStringsW(block);
}

void lr_process_begin(int *argc, char ***argv)
{
    WSADATA facts;
    int count = 0;
    wchar_t **wide = CommandLineToArgvW(GetCommandLineW(), &count);
    char **list = wide != NULL ? calloc((size_t)count + 1, sizeof(*list)) : NULL;
    for (int i = 0; list != NULL && i < count; i++)
        list[i] = narrow_copy(wide[i]);
    if (list != NULL) {
        *argc = count;
        *argv = list;
    }
    (void)LocalFree(wide);
    fix_environment();
    for (int fd = 0; fd < 3; fd++)
        (void)_setmode(fd, _O_BINARY);
    (void)SetConsoleOutputCP(CP_UTF8);
    (void)WSAStartup(MAKEWORD(2, 2), &facts);
}

void lr_os_random(unsigned char *out, size_t len)
{
    if (BCryptGenRandom(NULL, out, (ULONG)len, BCRYPT_USE_SYSTEM_PREFERRED_RNG) != 0)
        abort();
}

void lr_os_after_fork(void (*fn)(void))
{
    (void)fn;
}

void lr_process_close_to_others(void)
{
}

lr_code lr_self_path(char *out, size_t len, struct lr_error *err)
{
    wchar_t *wide = malloc(LR_WIDE_PATH * sizeof(*wide));
    bool has = wide != NULL && GetModuleFileNameW(NULL, wide, LR_WIDE_PATH) != 0;
    bool fits = has && lr_os_narrow(wide, out, len, true);
    free(wide);
    if (!has)
        return lr_fail(err, LR_IO, "cannot read the path of this program");
    if (!fits)
        return lr_fail(err, LR_INVALID_ARGUMENT, "the path of this program is too long");
    return LR_OK;
}

/* ---- being asked to stop ---- */

struct stop_watch {
    pthread_mutex_t lock;
    void (*fn)(void *);
    void *arg;
    HANDLE event;
};

static void *await_stop(void *arg)
{
    struct stop_watch *w = arg;
    while (WaitForSingleObject(w->event, INFINITE) == WAIT_OBJECT_0) {
        (void)pthread_mutex_lock(&w->lock);
        if (w->fn != NULL)
            w->fn(w->arg);
        (void)pthread_mutex_unlock(&w->lock);
    }
    return NULL;
}

bool lr_os_ask_to_stop(unsigned long process)
{
    wchar_t name[64];
    (void)swprintf(name, 64, LR_WINDOWS_STOP_EVENT, process);
    HANDLE event = OpenEventW(EVENT_MODIFY_STATE, FALSE, name);
    bool is_set = event != NULL && SetEvent(event);
    if (event != NULL)
        (void)CloseHandle(event);
    return is_set;
}

void lr_process_on_stop(void (*fn)(void *arg), void *arg)
{
    static struct stop_watch watch = {.lock =
                                          PTHREAD_MUTEX_INITIALIZER}; /* one for a process */
    wchar_t name[64];
    pthread_t thread;
    (void)pthread_mutex_lock(&watch.lock);
    watch.fn = fn;
    watch.arg = arg;
    (void)pthread_mutex_unlock(&watch.lock);
    if (watch.event != NULL || fn == NULL)
        return;
    (void)swprintf(name, 64, LR_WINDOWS_STOP_EVENT, GetCurrentProcessId());
    watch.event = CreateEventW(NULL, FALSE, FALSE, name);
    if (watch.event != NULL && pthread_create(&thread, NULL, await_stop, &watch) == 0)
        (void)pthread_detach(thread);
}
