/* base/failpoint.h - places where a test can stop or kill this process.
 *
 *     lr_file_rename(...);
 *     LR_FAILPOINT("download.after_rename");
 *     if (LR_FAILPOINT("download.write"))
 *         return lr_fail(err, LR_IO, "failpoint");
 *
 * Compiled in only with LR_FAILPOINTS; in other builds the macro is false and costs nothing.
 * The environment selects failpoints: LR_FAILPOINT="name=action[:n],name=action".  Actions:
 * kill (SIGKILL to this process), stop (SIGSTOP), error (the macro is true).  With :n only the
 * n-th pass acts.  Thread: any.
 */
#ifndef BASE_FAILPOINT_H
#define BASE_FAILPOINT_H

#include <stdbool.h>

bool lr_failpoint_hit(const char *name); /* use the macro */

#if defined(LR_FAILPOINTS)
#define LR_FAILPOINT(name) lr_failpoint_hit(name)
#else
static inline bool lr_failpoint_none(void)
{
    return false;
}
#define LR_FAILPOINT(name) lr_failpoint_none()
#endif

#endif
