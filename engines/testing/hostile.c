#include "engines/testing/hostile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

int hostile_code(long result)
{
    return result < 0 ? errno : 0;
}

/* EXDEV: Landlock's word for a link from one set of rights into another. */
bool hostile_is_refusal(int code)
{
    return code == EACCES || code == EPERM || code == ENOSYS || code == EXDEV;
}

void hostile_try(const struct hostile_plan *plan, char report[HOSTILE_REPORT],
                 void (*done)(void *arg, const struct hostile_attempt *attempt, int code),
                 void *arg)
{
    const struct hostile_attempt *const lists[] = {
        hostile_sockets, hostile_processes, hostile_memory, hostile_files, hostile_kernel};
    size_t len = 0;
    report[0] = '\0';
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (const struct hostile_attempt *a = lists[i]; a->name != NULL; a++) {
            int code = a->run(plan);
            int n = snprintf(report + len, HOSTILE_REPORT - len, "%s=%s\n", a->name,
                             code == 0 ? "ok" : strerrorname_np(code));
            if (n > 0 && (size_t)n < HOSTILE_REPORT - len)
                len += (size_t)n;
            if (done != NULL)
                done(arg, a, code);
        }
}
