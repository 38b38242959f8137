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

/* Nothing more is to be said than that. */
static const char *nothing(char out[LR_SANDBOX_TEXT])
{
    out[0] = '\0';
    return out;
}

const char *lr_sandbox_opened(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    (void)facts;
    return nothing(out);
}

const char *lr_sandbox_thin(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT])
{
    (void)facts;
    return nothing(out);
}

const char *lr_sandbox_older(char out[LR_SANDBOX_TEXT])
{
    return nothing(out);
}

bool lr_sandbox_keeps(const struct lr_sandbox_facts *facts, enum lr_barrier barrier)
{
    (void)facts;
    (void)barrier;
    return false;
}

lr_code lr_sandbox_enter(const struct lr_sandbox_facts *facts,
                         const struct lr_sandbox_needs *needs, struct lr_error *err)
{
    (void)facts;
    if (setenv("TMPDIR", needs->scratch, 1) == 0)
        return LR_OK;
    return lr_fail_errno(err, LR_OUT_OF_RAM, "cannot set TMPDIR to %.300s", needs->scratch);
}
