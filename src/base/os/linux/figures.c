/* base/os/linux/figures.c - what Linux counts for this process. */
#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/os/process.h"

/* The fields of /proc/self/stat after the name of the program, which may hold anything. */
static void read_stat(struct lr_process_figures *f)
{
    char text[1024];
    FILE *file = fopen("/proc/self/stat", "re");
    size_t len = file != NULL ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file != NULL)
        (void)fclose(file);
    text[len] = '\0';
    const char *at = strrchr(text, ')');
    unsigned long long start, bytes;
    long long pages;
    /* After ")" come the fields 3 to 24 of proc(5): state, ten numbers, utime, stime, six
     * numbers, starttime, vsize, rss. */
    if (at == NULL || sscanf(at + 1,
                             " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                             "%*d %*d %*d %*d %llu %llu %lld",
                             &start, &bytes, &pages) != 3)
        return;
    double ticks = (double)sysconf(_SC_CLK_TCK);
    struct timespec since_boot;
    f->virtual_bytes = (double)bytes;
    f->resident_bytes = (double)pages * (double)sysconf(_SC_PAGESIZE);
    if (clock_gettime(CLOCK_BOOTTIME, &since_boot) == 0)
        f->start_s = (double)lr_clock_wall_ms(NULL) / 1000 - (double)since_boot.tv_sec -
                     (double)since_boot.tv_nsec / 1e9 + (double)start / ticks;
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static void figures_read_usage(struct lr_process_figures *f)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        f->cpu_s = seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

static void read_fds(struct lr_process_figures *f)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        f->max_fds = (double)limit.rlim_cur;
    DIR *dir = opendir("/proc/self/fd");
    if (dir == NULL)
        return;
    f->open_fds = -3; /* ".", ".." and the folder itself */
    while (readdir(dir) != NULL)
        f->open_fds++;
    (void)closedir(dir);
}

void lr_process_figures(struct lr_process_figures *out)
{
    *out = (struct lr_process_figures){-1, -1, -1, -1, -1, -1};
    read_stat(out);
    figures_read_usage(out);
    read_fds(out);
}
