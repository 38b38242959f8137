/* base/os/darwin/memory.c - figures of Mach; memory of GPU and processor is the same. */
#include "base/os/memory.h"

#include <libproc.h>
#include <mach/mach.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysctl.h>

/* Files that are only cached, and memory that programs have offered back, count as free. */
bool lr_memory_read(const struct lr_memory_roots *roots, uint64_t *total, uint64_t *used)
{
    vm_statistics64_data_t pages;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    size_t len = sizeof(*total);
    mach_port_t host = mach_host_self();
    (void)roots;
    kern_return_t rc = host_statistics64(host, HOST_VM_INFO64, (host_info64_t)&pages, &count);
    (void)mach_port_deallocate(mach_task_self(), host);
    if (rc != KERN_SUCCESS || sysctlbyname("hw.memsize", total, &len, NULL, 0) != 0)
        return false;
    uint64_t held =
        (uint64_t)pages.internal_page_count + pages.wire_count + pages.compressor_page_count;
    uint64_t offered = pages.purgeable_count;
    *used = (held > offered ? held - offered : 0) * lr_page_bytes();
    if (*used > *total)
        *used = *total;
    return true;
}

uint64_t lr_memory_of_process(const struct lr_memory_roots *roots, int pid)
{
    struct rusage_info_v2 info;
    (void)roots;
    return proc_pid_rusage(pid, RUSAGE_INFO_V2, (rusage_info_t *)&info) == 0
               ? info.ri_phys_footprint
               : 0;
}

void *lr_table_alloc(size_t bytes)
{
    return calloc(1, bytes);
}

/* New pages in the place of the old: advice alone would give nothing back at once. */
void lr_region_decommit(void *part, size_t bytes)
{
    (void)mmap(part, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANON | MAP_FIXED | MAP_NORESERVE, -1,
               0);
}
