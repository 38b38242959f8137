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
    bool has_mps;  /* CUDA's multi-process service is configured, whose clients need local
                      sockets: they stay open */
    bool has_cuda; /* NVIDIA's driver is here: it starts only if it may make a local socket that
                      listens; no socket can be connected */
    bool is_absent;  /* this system has nothing that confines a process */
    bool is_relaxed; /* build with sanitizers, which read files, start processes and trace:
                        fewer limits */
};

struct lr_sandbox_facts lr_sandbox_look(void);

/* What is kept from a confined process.  Landlock and seccomp each keep some of it, and some is
 * kept by both. */
enum lr_barrier {
    LR_BARRIER_FILES,    /* other files, and the memory of other processes */
    LR_BARRIER_PROGRAMS, /* executing files */
    LR_BARRIER_TRUNCATE, /* emptying a file that it may read */
    LR_BARRIER_TCP,      /* connections of TCP */
    LR_BARRIER_SIGNALS,  /* signals to other processes */
    LR_BARRIER_SOCKETS,  /* other sockets beyond this machine, and the kernel's */
    LR_BARRIER_LOCAL,    /* local sockets: of the router, of the user's and system's services */
    LR_BARRIER_PROCESSES,  /* new processes */
    LR_BARRIER_LIMITS,     /* limits and priorities of other processes */
    LR_BARRIER_ATTRIBUTES, /* modes, owners, times and attributes of files that it may read */
    LR_BARRIER_KERNEL,     /* namespaces, keys, tracing, io_uring and the like */
    LR_BARRIERS,
};
bool lr_sandbox_keeps(const struct lr_sandbox_facts *facts, enum lr_barrier barrier);

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
    const char *folder;  /* can be read, and the files that links in it may name; NULL: none */
    const char *file;    /* can be read; NULL: none */
    /* A link in `folder` never opens a folder.  The operator's own folder: a link opens a
     * regular file, wherever it lies.  A folder that was downloaded: only a file below itself,
     * or below `blobs`. */
    bool is_downloaded;
    const char *blobs; /* NULL: none */
};

/* TMPDIR names needs->scratch from now on, on every system.  Linux: from now on this process
 * reads only these files and the system's libraries, and writes only into needs->scratch.  It
 * may use GPUs, but has no network, no local sockets, no new processes and no core dumps, as
 * far as the system supports that.  facts: those of lr_sandbox_look(), or fewer. */
LR_MUST_USE lr_code lr_sandbox_enter(const struct lr_sandbox_facts *facts,
                                     const struct lr_sandbox_needs *needs,
                                     struct lr_error *err);

/* Texts for people; "": nothing to say. */
enum { LR_SANDBOX_TEXT = 900 };
/* What is open to a confined process here, and what to do about it. */
const char *lr_sandbox_lacks(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT]);
/* What the operator opened, and how to close it. */
const char *lr_sandbox_opened(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT]);
/* What one mechanism keeps here, where a newer kernel has two. */
const char *lr_sandbox_thin(const struct lr_sandbox_facts *facts, char out[LR_SANDBOX_TEXT]);
/* What kernels older than the newest one that this program knows leave open, or to seccomp. */
const char *lr_sandbox_older(char out[LR_SANDBOX_TEXT]);

struct lr_sandbox_path {
    const char *path; /* a file, or a folder with everything below; a missing path is skipped */
    bool is_writable;
};

/* Linux alone: the folders that the CUDA driver writes to, if `dev` (the system's "/dev") has a
 * device of NVIDIA's driver or of WSL2.  Returns how many; 0: no such device. */
enum { LR_SANDBOX_CUDA = 3 };
size_t lr_sandbox_cuda_folders(const char *dev, const char *out[LR_SANDBOX_CUDA]);
/* Linux alone: the folder of CUDA's multi-process service, if there is such a device and the
 * operator configured the service; NULL otherwise.  The service is configured if
 * CUDA_MPS_PIPE_DIRECTORY names its folder, or if its control pipe is in the default one. */
const char *lr_sandbox_mps_folder(const char *dev);

/* From now on files can be opened below these paths only.  Nothing can be executed, no TCP
 * connection made or accepted, and no process outside signalled or traced, each as far as the
 * kernel's Landlock version supports it.  Does nothing where facts->landlock is 0. */
LR_MUST_USE lr_code lr_sandbox_files(const struct lr_sandbox_facts *facts,
                                     const struct lr_sandbox_path *paths, size_t count,
                                     struct lr_error *err);

/* From now on these fail: sockets (but pairs of them, and with facts->has_cuda local ones that
 * cannot connect to anything), new processes (threads are allowed),
 * exec, tracing, signals and limits of other processes, mounting, changing modes, owners, times
 * and attributes of files, and calls that would circumvent these limits.  With facts->has_mps
 * local sockets are allowed.  Does nothing without seccomp. */
LR_MUST_USE lr_code lr_sandbox_calls(const struct lr_sandbox_facts *facts,
                                     struct lr_error *err);

/* If this process is root: from now on it may only read and write files of any mode, lock
 * memory and set its priority.  Root's other capabilities would allow reading the memory of any
 * process in spite of Landlock. */
void lr_sandbox_powers(void);

/* Disables core dumps: memory holds prompts and secrets. */
void lr_no_core_dumps(void);

#endif
