/* base/os/windows/memory.c - figures of the system. */
#include "base/os/memory.h"

#include <malloc.h>
#include <stdlib.h>
#include <windows.h>

#include <psapi.h>

bool lr_memory_read(const struct lr_memory_roots *roots, uint64_t *total, uint64_t *used)
{
    MEMORYSTATUSEX facts = {.dwLength = sizeof(facts)};
    (void)roots;
    if (!GlobalMemoryStatusEx(&facts))
        return false;
    *total = facts.ullTotalPhys;
    *used = facts.ullTotalPhys - facts.ullAvailPhys;
    return true;
}

uint64_t lr_memory_of_process(const struct lr_memory_roots *roots, int pid)
{
    PROCESS_MEMORY_COUNTERS_EX facts = {.cb = sizeof(facts)};
    HANDLE process = OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, FALSE, (DWORD)pid);
    (void)roots;
    bool ok = process != NULL &&
              GetProcessMemoryInfo(process, (PROCESS_MEMORY_COUNTERS *)&facts, sizeof(facts));
    if (process != NULL)
        (void)CloseHandle(process);
    return ok ? facts.PrivateUsage : 0;
}

void *lr_aligned_alloc(size_t align, size_t bytes)
{
    return _aligned_malloc(bytes, align);
}

void lr_aligned_free(void *memory)
{
    _aligned_free(memory);
}

void *lr_table_alloc(size_t bytes)
{
    return calloc(1, bytes);
}

size_t lr_page_bytes(void)
{
    SYSTEM_INFO info;
    GetSystemInfo(&info);
    return info.dwPageSize;
}

void *lr_region_reserve(size_t bytes)
{
    return VirtualAlloc(NULL, bytes, MEM_RESERVE, PAGE_NOACCESS);
}

void lr_region_free(void *region, size_t bytes)
{
    (void)bytes;
    if (region != NULL)
        (void)VirtualFree(region, 0, MEM_RELEASE);
}

bool lr_region_commit(void *part, size_t bytes)
{
    return VirtualAlloc(part, bytes, MEM_COMMIT, PAGE_READWRITE) != NULL;
}

void lr_region_decommit(void *part, size_t bytes)
{
    (void)VirtualFree(part, bytes, MEM_DECOMMIT);
}
