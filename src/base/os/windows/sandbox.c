/* base/os/windows/sandbox.c - a worker dies with its node (job objects, see subprocess.c and
 * libuv); engines are not confined here. */
#include "base/sandbox.h"

#include <fcntl.h>
#include <io.h>
#include <windows.h>

#include "base/os/windows/internal.h"

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

/* No dialog that waits for a click, and no dump. */
void lr_no_core_dumps(void)
{
    (void)SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
}
