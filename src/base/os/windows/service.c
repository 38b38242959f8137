/* base/os/windows/service.c - this process as a Windows service: the manager hears when it
 * serves, and its "stop" drains as Ctrl-C does.
 *
 *   no service     the dispatcher refuses at once; nothing happens
 *   starting --READY--> running --stop, shutdown, STOPPING--> stopping --exit--> stopped
 *
 * The dispatcher's thread runs as long as the service; the manager's calls come on it.
 */
#include "base/service.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "base/os/windows/internal.h"

enum { STOP_HINT_MS = 120000 }; /* how long requests that run may take until the end */

static struct {
    pthread_mutex_t lock;
    SERVICE_STATUS_HANDLE handle; /* NULL: no service */
    DWORD state;
} service = {.lock = PTHREAD_MUTEX_INITIALIZER, .state = SERVICE_START_PENDING};

/* The one function that changes the state; it goes forward only. */
static void move_to(DWORD state)
{
    static const DWORD order[] = {SERVICE_START_PENDING, SERVICE_RUNNING, SERVICE_STOP_PENDING,
                                  SERVICE_STOPPED};
    size_t from = 0, to = 0;
    (void)pthread_mutex_lock(&service.lock);
    while (order[from] != service.state)
        from++;
    while (order[to] != state)
        to++;
    if (to > from)
        service.state = state;
    if (service.handle != NULL) {
        bool is_pending =
            service.state == SERVICE_START_PENDING || service.state == SERVICE_STOP_PENDING;
        SERVICE_STATUS status = {
            .dwServiceType = SERVICE_WIN32_OWN_PROCESS,
            .dwCurrentState = service.state,
            .dwControlsAccepted = service.state == SERVICE_STOPPED
                                      ? 0
                                      : SERVICE_ACCEPT_STOP | SERVICE_ACCEPT_SHUTDOWN,
            .dwWaitHint = is_pending ? STOP_HINT_MS : 0,
        };
        (void)SetServiceStatus(service.handle, &status);
    }
    (void)pthread_mutex_unlock(&service.lock);
}

static DWORD WINAPI on_control(DWORD control, DWORD type, LPVOID data, LPVOID arg)
{
    (void)type;
    (void)data;
    (void)arg;
    if (control != SERVICE_CONTROL_STOP && control != SERVICE_CONTROL_SHUTDOWN)
        return control == SERVICE_CONTROL_INTERROGATE ? NO_ERROR : ERROR_CALL_NOT_IMPLEMENTED;
    move_to(SERVICE_STOP_PENDING);
    if (!lr_os_ask_to_stop(GetCurrentProcessId()))
        ExitProcess(0); /* it has not come so far as to serve */
    return NO_ERROR;
}

static void tell_end(void)
{
    move_to(SERVICE_STOPPED);
}

static void WINAPI service_main(DWORD count, LPWSTR *args)
{
    static wchar_t name[] = L"";
    (void)count;
    (void)args;
    SERVICE_STATUS_HANDLE handle = RegisterServiceCtrlHandlerExW(name, on_control, NULL);
    (void)pthread_mutex_lock(&service.lock);
    service.handle = handle;
    (void)pthread_mutex_unlock(&service.lock);
    if (handle == NULL)
        return;
    (void)atexit(tell_end);
    move_to(SERVICE_START_PENDING); /* or what the process has reached already */
}

static void *dispatch(void *unused)
{
    static wchar_t name[] = L"";
    const SERVICE_TABLE_ENTRYW table[] = {{name, service_main}, {NULL, NULL}};
    (void)unused;
    (void)StartServiceCtrlDispatcherW(table);
    return NULL;
}

void lr_service_read(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, dispatch, NULL) == 0)
        (void)pthread_detach(thread);
}

/* Lines as a manager of Linux gets them. */
void lr_service_tell(const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (strstr(text, "STOPPING=1") != NULL)
        move_to(SERVICE_STOP_PENDING);
    else if (strstr(text, "READY=1") != NULL)
        move_to(SERVICE_RUNNING);
}

/* ---- what this manager does not have ---- */

size_t lr_service_sockets(int out[LR_SERVICE_SOCKETS_MAX])
{
    (void)out;
    return 0;
}

void lr_service_store(int fd)
{
    (void)fd;
}

int lr_service_take_stored(void)
{
    return -1;
}

uint64_t lr_service_watchdog_ms(void)
{
    return 0;
}

void lr_service_env(char notify[LR_SERVICE_ENV_MAX], char watchdog[LR_SERVICE_ENV_MAX])
{
    notify[0] = watchdog[0] = '\0';
}
