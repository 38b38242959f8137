/* base/sandbox.h - giving up rights before foreign code runs in this process (Linux).
 *
 * Two parts of the kernel: Landlock for files, TCP and signals, seccomp for system calls.
 * What is given up never comes back, and threads started later inherit it.
 * Thread: main, before there are others.
 */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"

struct lr_sandbox_facts {
    int landlock; /* version of its interface; 0: not in this kernel, or forbidden here */
    bool has_seccomp;
    bool is_relaxed; /* a build with sanitizers, which read files, start processes and trace */
};

struct lr_sandbox_facts lr_sandbox_look(void);
/* What cannot be done here and what to do about it, for people; "": nothing. */
enum { LR_SANDBOX_TEXT = 300 };
const char *lr_sandbox_lacks(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT]);

struct lr_sandbox_path {
    const char
        *path; /* a file, or a folder with all below; one that is not there is left out */
    bool is_writable;
};

/* From now on files can be opened below these paths only, nothing can be executed, no TCP
 * connection be made or accepted, and no process outside be signalled or traced, each as far
 * as the kernel's Landlock goes.  Does nothing where facts->landlock is 0. */
LR_MUST_USE lr_code lr_sandbox_files(const struct lr_sandbox_facts *facts,
                                     const struct lr_sandbox_path *paths, size_t count,
                                     struct lr_error *err);

/* From now on these fail: sockets but local ones, new processes (threads go on), exec, tracing,
 * mounting, changing modes and owners by path, and calls that would lead around the others.
 * Does nothing without seccomp. */
LR_MUST_USE lr_code lr_sandbox_calls(const struct lr_sandbox_facts *facts,
                                     struct lr_error *err);

/* Where this is root: from now on it may only read and write files whatever their mode, lock
 * memory and choose its priority.  A kernel lets root with its other powers look into the
 * memory of any process, whatever Landlock says. */
void lr_sandbox_powers(void);

/* A crash writes no memory to disk, where prompts and secrets are. */
void lr_no_core_dumps(void);

#endif
