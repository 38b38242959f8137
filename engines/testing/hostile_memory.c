/* engines/testing/hostile_memory.c - the memory and files of other processes, and new
 * processes. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engines/testing/hostile.h"

enum { CALL_PIDFD_OPEN = 434, CALL_PIDFD_GETFD = 438, CALL_PROCESS_MADVISE = 440 };

/* ---- memory and descriptors ---- */

/* Where nobody refuses, the address may still be none of that process. */
static int copy_memory(pid_t pid)
{
    char byte;
    struct iovec here = {&byte, 1}, there = {&byte, 1};
    return hostile_code(process_vm_readv(pid, &here, 1, &there, 1, 0));
}

static int read_node(const struct hostile_plan *plan)
{
    (void)plan;
    return copy_memory(getppid());
}

static int read_sibling(const struct hostile_plan *plan)
{
    return copy_memory((pid_t)plan->sibling);
}

static int trace_sibling(const struct hostile_plan *plan)
{
    pid_t pid = (pid_t)plan->sibling;
    int status;
    if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0)
        return errno;
    (void)ptrace(PTRACE_INTERRUPT, pid, NULL, NULL);
    (void)waitpid(pid, &status, __WALL);
    (void)ptrace(PTRACE_DETACH, pid, NULL, NULL);
    return 0;
}

static int open_of_node(const char *name, int flags)
{
    char path[64], byte;
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)getppid(), name);
    int fd = open(path, flags | O_CLOEXEC);
    if (fd < 0)
        return errno;
    /* What can be written is not read: the beginning of memory is never mapped. */
    int code = flags != O_RDONLY ? 0 : hostile_code(read(fd, &byte, 1));
    (void)close(fd);
    return code;
}

static int memory_of_node(const struct hostile_plan *plan)
{
    (void)plan;
    return open_of_node("mem", O_RDWR);
}

static int environment_of_node(const struct hostile_plan *plan)
{
    (void)plan;
    return open_of_node("environ", O_RDONLY);
}

static int root_of_node(const struct hostile_plan *plan)
{
    (void)plan;
    return open_of_node("root/etc/hostname", O_RDONLY);
}

/* The log's pipe, or the terminal. */
static int file_of_node(const struct hostile_plan *plan)
{
    (void)plan;
    return open_of_node("fd/2", O_WRONLY);
}

static int take_descriptor(const struct hostile_plan *plan)
{
    int fd = (int)syscall(CALL_PIDFD_OPEN, getppid(), 0);
    (void)plan;
    if (fd < 0)
        return errno;
    int taken = (int)syscall(CALL_PIDFD_GETFD, fd, 0, 0), code = hostile_code(taken);
    if (taken >= 0)
        (void)close(taken);
    (void)close(fd);
    return code;
}

static int compare_with_node(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_kcmp, getpid(), getppid(), KCMP_VM, 0, 0));
}

static int advise_node(const struct hostile_plan *plan)
{
    struct iovec nothing = {NULL, 0};
    int fd = (int)syscall(CALL_PIDFD_OPEN, getppid(), 0);
    (void)plan;
    if (fd < 0)
        return errno;
    int code = hostile_code(syscall(CALL_PROCESS_MADVISE, fd, &nothing, 1, MADV_COLD, 0));
    (void)close(fd);
    return code;
}

/* ---- new processes and programs ---- */

static int await_child(pid_t child)
{
    int status = 0;
    if (child < 0)
        return errno;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

static int fork_process(const struct hostile_plan *plan)
{
    (void)plan;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    return await_child(child);
}

static int fork_in_namespace(const struct hostile_plan *plan)
{
    (void)plan;
    pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, 0);
    if (child == 0)
        _exit(0);
    return await_child(child);
}

static int run_program(const struct hostile_plan *plan)
{
    char path[] = "/bin/true";
    char *const argv[] = {path, NULL};
    (void)plan;
    pid_t child = fork();
    if (child == 0) {
        (void)execv(path, argv);
        _exit(errno);
    }
    return await_child(child);
}

/* A file in memory has no path that Landlock could look at. */
static int run_from_memory(const struct hostile_plan *plan)
{
    char name[] = "", text[] = "neither a program nor a script";
    char *const argv[] = {name, NULL};
    int fd = memfd_create("hostile", MFD_CLOEXEC);
    (void)plan;
    if (fd < 0)
        return errno;
    int code = write(fd, text, sizeof(text)) > 0 ? 0 : errno;
    if (code == 0)
        code = hostile_code(syscall(SYS_execveat, fd, "", argv, argv + 1, AT_EMPTY_PATH));
    (void)close(fd);
    return code;
}

const struct hostile_attempt hostile_memory[] = {
    {"read_node", LR_BARRIER_FILES, read_node},
    {"read_sibling", LR_BARRIER_FILES, read_sibling},
    {"trace_sibling", LR_BARRIER_FILES, trace_sibling},
    {"memory_of_node", LR_BARRIER_FILES, memory_of_node},
    {"environment_of_node", LR_BARRIER_FILES, environment_of_node},
    {"root_of_node", LR_BARRIER_FILES, root_of_node},
    {"file_of_node", LR_BARRIER_FILES, file_of_node},
    {"take_descriptor", LR_BARRIER_FILES, take_descriptor},
    {"compare_with_node", LR_BARRIER_FILES, compare_with_node},
    {"advise_node", LR_BARRIER_FILES, advise_node},
    {"fork", LR_BARRIER_PROCESSES, fork_process},
    {"fork_in_namespace", LR_BARRIER_PROCESSES, fork_in_namespace},
    {"run_program", LR_BARRIER_PROGRAMS, run_program},
    {"run_from_memory", LR_BARRIER_PROCESSES, run_from_memory},
    {.name = NULL},
};
