/* base/os/absent/sandbox.c - Windows and macOS: engines are not confined.  They are told the
 * folder for their files all the same, because they keep compiled kernels there. */
#include "base/sandbox.h"

#include <stdio.h>
#include <stdlib.h>

struct lr_sandbox_facts lr_sandbox_look(void)
{
    return (struct lr_sandbox_facts){.is_absent = true};
}

const char *lr_sandbox_lacks(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    (void)facts;
    (void)snprintf(out, LR_SANDBOX_TEXT,
                   "workers are not confined on this system: they see all files of this user");
    return out;
}

lr_code lr_sandbox_enter(const struct lr_sandbox_needs *needs, struct lr_error *err)
{
    if (setenv("TMPDIR", needs->scratch, 1) == 0)
        return LR_OK;
    return lr_fail_errno(err, LR_OUT_OF_RAM, "cannot set TMPDIR to %.300s", needs->scratch);
}
