/* base/os/darwin/figures.c - what macOS counts for this process. */
#include <libproc.h>
#include <mach/mach.h>
#include <sys/proc_info.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/os/process.h"

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

void lr_process_figures(struct lr_process_figures *out)
{
    struct rusage usage;
    struct rlimit limit;
    struct proc_bsdinfo self;
    mach_task_basic_info_data_t memory;
    mach_msg_type_number_t count = MACH_TASK_BASIC_INFO_COUNT;
    *out = (struct lr_process_figures){-1, -1, -1, -1, -1, -1};
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        out->cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
    if (task_info(mach_task_self(), MACH_TASK_BASIC_INFO, (task_info_t)&memory, &count) ==
        KERN_SUCCESS) {
        out->resident_bytes = (double)memory.resident_size;
        out->virtual_bytes = (double)memory.virtual_size;
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        out->max_fds = (double)limit.rlim_cur;
    if (proc_pidinfo(getpid(), PROC_PIDTBSDINFO, 0, &self, sizeof(self)) == (int)sizeof(self)) {
        out->open_fds = (double)self.pbi_nfiles;
        out->start_s = (double)self.pbi_start_tvsec + (double)self.pbi_start_tvusec / 1e6;
    }
}
