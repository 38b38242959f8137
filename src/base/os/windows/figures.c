/* base/os/windows/figures.c - what Windows counts for this process. */
#include <windows.h>

#include <psapi.h>

#include "base/os/process.h"

static double ticks(FILETIME time)
{
    return (double)((unsigned long long)time.dwHighDateTime << 32 | time.dwLowDateTime) / 1e7;
}

void lr_process_figures(struct lr_process_figures *out)
{
    FILETIME start, end, kernel, user;
    PROCESS_MEMORY_COUNTERS memory = {.cb = sizeof(memory)};
    DWORD handles = 0;
    *out = (struct lr_process_figures){-1, -1, -1, -1, -1, -1};
    if (GetProcessTimes(GetCurrentProcess(), &start, &end, &kernel, &user)) {
        out->cpu_s = ticks(kernel) + ticks(user);
        out->start_s = ticks(start) - 11644473600.0; /* Windows counts from 1601 */
    }
    if (GetProcessMemoryInfo(GetCurrentProcess(), &memory, sizeof(memory))) {
        out->resident_bytes = (double)memory.WorkingSetSize;
        out->virtual_bytes = (double)memory.PagefileUsage;
    }
    if (GetProcessHandleCount(GetCurrentProcess(), &handles))
        out->open_fds = handles;
}
