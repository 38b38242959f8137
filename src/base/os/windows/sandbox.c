/* base/os/windows/sandbox.c - a worker dies with its node (job objects, see subprocess.c and
 * libuv); engines are not confined here. */
#include "base/sandbox.h"

#include <fcntl.h>
#include <io.h>
#include <stdio.h>
#include <windows.h>

#include "base/os/windows/internal.h"

struct lr_sandbox_facts lr_sandbox_look(void)
{
    return (struct lr_sandbox_facts){0};
}

const char *lr_sandbox_lacks(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    (void)facts;
    (void)snprintf(out, LR_SANDBOX_TEXT,
                   "workers are not confined on Windows: they see all files of this user");
    return out;
}

lr_code lr_sandbox_begin(int parent, int last_fd, struct lr_error *err)
{
    (void)_setmode(0, _O_BINARY);
    (void)_setmode(last_fd, _O_BINARY);
    /* Ctrl-C reaches every process of the console.  The node drains first and then ends this
     * process itself. */
    (void)SetConsoleCtrlHandler(NULL, TRUE);
    lr_no_core_dumps();
    if (parent == 0)
        return LR_OK;
    HANDLE node = OpenProcess(SYNCHRONIZE, FALSE, (DWORD)parent);
    bool is_alive = node != NULL && WaitForSingleObject(node, 0) == WAIT_TIMEOUT;
    if (node != NULL)
        (void)CloseHandle(node);
    return is_alive ? LR_OK
                    : lr_fail(err, LR_UNAVAILABLE, "the node (process %d) has gone", parent);
}

lr_code lr_sandbox_enter(const struct lr_sandbox_needs *needs, struct lr_error *err)
{
    (void)needs;
    (void)err;
    return LR_OK;
}

/* No dialog that waits for a click, and no dump. */
void lr_no_core_dumps(void)
{
    (void)SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
}
