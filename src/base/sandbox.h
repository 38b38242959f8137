/* base/sandbox.h - giving up rights before foreign code runs in this process.
 *
 * Linux has two mechanisms: Landlock for files, TCP and signals, seccomp for system calls.
 * Rights that are given up cannot be regained, and threads started later inherit the limits.
 * Other systems have neither: lr_sandbox_look says so.  Thread: main, before there are others.
 */
#ifndef BASE_SANDBOX_H
#define BASE_SANDBOX_H

#include <stdbool.h>
#include <stddef.h>

#include "base/fail.h"

struct lr_sandbox_facts {
    int landlock; /* version of its interface; 0: not in this kernel, or forbidden here */
    bool has_seccomp;
    bool is_absent;  /* this system has nothing that confines a process */
    bool is_relaxed; /* build with sanitizers, which read files, start processes and trace:
                        fewer limits */
};

struct lr_sandbox_facts lr_sandbox_look(void);

/* For a child with pipes as descriptors 0 and last_fd.  From here on the process dies with
 * `parent` (0: not checked), dumps no core and gains no privileges.  The kernel ends it first
 * when memory runs out.  The process ignores the signals that a terminal or a service manager
 * sends to the whole group, and has no descriptors above last_fd.  UNAVAILABLE when the parent
 * is already gone. */
LR_MUST_USE lr_code lr_sandbox_begin(int parent, int last_fd, struct lr_error *err);

/* Everything that foreign code may use beside the system's libraries and the GPUs. */
struct lr_sandbox_needs {
    const char *scratch; /* a folder that it may write to */
    const char *library; /* its folder can be read */
    const char *folder;  /* can be read, and the files that links in it name; NULL: none */
    const char *file;    /* can be read; NULL: none */
};

/* TMPDIR names needs->scratch from now on, on every system.  Linux: from now on this process
 * reads only these files and the system's libraries, and writes only into needs->scratch.  It
 * may use GPUs, but has no network, no new processes and no core dumps, as far as the system
 * supports that. */
LR_MUST_USE lr_code lr_sandbox_enter(const struct lr_sandbox_needs *needs,
                                     struct lr_error *err);

/* What this kernel or container does not support and what to do about it, as text for people;
 * "": everything is supported. */
enum { LR_SANDBOX_TEXT = 300 };
const char *lr_sandbox_lacks(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT]);

struct lr_sandbox_path {
    const char *path; /* a file, or a folder with everything below; a missing path is skipped */
    bool is_writable;
};

/* Linux alone: the folders that the CUDA driver writes to, if `dev` (the system's "/dev") has a
 * device of NVIDIA's driver or of WSL2.  Returns LR_SANDBOX_CUDA, or 0: no such device. */
enum { LR_SANDBOX_CUDA = 3 };
size_t lr_sandbox_cuda_folders(const char *dev, const char *out[LR_SANDBOX_CUDA]);

/* From now on files can be opened below these paths only.  Nothing can be executed, no TCP
 * connection made or accepted, and no process outside signalled or traced, each as far as the
 * kernel's Landlock version supports it.  Does nothing where facts->landlock is 0. */
LR_MUST_USE lr_code lr_sandbox_files(const struct lr_sandbox_facts *facts,
                                     const struct lr_sandbox_path *paths, size_t count,
                                     struct lr_error *err);

/* From now on these fail: sockets other than local ones, new processes (threads are allowed),
 * exec, tracing, mounting, changing modes and owners by path, and calls that would circumvent
 * these limits.  Does nothing without seccomp. */
LR_MUST_USE lr_code lr_sandbox_calls(const struct lr_sandbox_facts *facts,
                                     struct lr_error *err);

/* If this process is root: from now on it may only read and write files of any mode, lock
 * memory and set its priority.  Root's other capabilities would allow reading the memory of any
 * process in spite of Landlock. */
void lr_sandbox_powers(void);

/* Disables core dumps: memory holds prompts and secrets. */
void lr_no_core_dumps(void);

#endif
