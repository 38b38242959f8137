/* base/os/posix/memory.c - aligned memory, and addresses that get memory later. */
#include "base/os/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

void *lr_aligned_alloc(size_t align, size_t bytes)
{
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

void lr_aligned_free(void *memory)
{
    free(memory);
}

/* ---- regions ---- */

size_t lr_page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void *lr_region_reserve(size_t bytes)
{
    void *region =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return region != MAP_FAILED ? region : NULL;
}

void lr_region_free(void *region, size_t bytes)
{
    if (region != NULL)
        (void)munmap(region, bytes);
}

bool lr_region_commit(void *part, size_t bytes)
{
    return mprotect(part, bytes, PROT_READ | PROT_WRITE) == 0;
}
