/* engines/testing/fault.c - the faults of the `faulty` engine. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/os/process.h"
#include "engines/testing/testing.h"

void testing_sleep_ms(uint64_t ms)
{
    struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    while (ms != 0 && nanosleep(&t, &t) != 0)
        continue;
}

void testing_sleep_until(uint64_t monotonic_ns)
{
    for (uint64_t now; (now = lr_clock_ns(NULL)) < monotonic_ns;) {
        uint64_t left = monotonic_ns - now;
        struct timespec t = {.tv_sec = (time_t)(left / 1000000000),
                             .tv_nsec = (long)(left % 1000000000)};
        (void)nanosleep(&t, NULL);
    }
}

/* With "once" only the first worker fails; later workers find the file and run normally.  A
 * name without a folder lies in the folder that a confined engine may write to. */
static bool is_due(const struct testing_options *options)
{
    if (options->once[0] == '\0')
        return true;
    const char *folder = getenv("TMPDIR"), *name = lr_path_base(options->once);
    bool is_name = name == options->once;
    int fd = is_name ? -1 : lr_open(options->once, LR_OPEN_WRITE | LR_OPEN_NEW, 0600);
    /* A confined engine may write into one folder only: use the same file name there. */
    if (fd < 0 && (is_name || errno == EACCES) && folder != NULL) {
        char path[4096];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
        fd = lr_open(path, LR_OPEN_WRITE | LR_OPEN_NEW, 0600);
    }
    if (fd >= 0)
        (void)close(fd);
    return fd >= 0;
}

lr_code testing_fault(const struct testing_options *options, enum testing_stage stage,
                      struct lr_error *err)
{
    if (options->hang != stage && options->crash != stage && options->fail != stage)
        return LR_OK;
    if (!is_due(options))
        return LR_OK;
    if (options->hang == stage)
        for (;;)
            lr_sleep_ms(1000);
    if (options->crash == stage) {
        /* Not abort(): a sanitizer would print a report and exit. */
        lr_process_kill_self();
        for (;;)
            lr_sleep_ms(1000);
    }
    return lr_fail(err, LR_INTERNAL, "the faulty engine was told to fail here");
}

bool testing_gate_open(const struct testing_options *options, uint32_t index)
{
    struct lr_stat info;
    if (options->gate[0] == '\0')
        return true;
    return lr_stat(options->gate, &info) && info.size > index;
}
