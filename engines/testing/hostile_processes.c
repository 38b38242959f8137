/* engines/testing/hostile_processes.c - other processes: signals, limits, memory, and new ones.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engines/testing/hostile.h"

enum { CALL_PIDFD_SEND_SIGNAL = 424, CALL_PIDFD_OPEN = 434 };

/* ---- signals: number 0 is a question, not a signal ---- */

static int signal_node(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(kill(getppid(), 0));
}

static int signal_sibling(const struct hostile_plan *plan)
{
    return hostile_code(kill((pid_t)plan->sibling, 0));
}

static int signal_all(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(kill(-1, 0));
}

static int signal_group(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(kill(0, 0));
}

static int signal_thread(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_tkill, getppid(), 0));
}

static int signal_thread_of(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_tgkill, getppid(), getppid(), 0));
}

static int signal_queue(const struct hostile_plan *plan)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    (void)plan;
    return hostile_code(syscall(SYS_rt_sigqueueinfo, getppid(), 0, &info));
}

static int signal_queue_thread(const struct hostile_plan *plan)
{
    siginfo_t info = {.si_code = SI_QUEUE};
    (void)plan;
    return hostile_code(syscall(SYS_rt_tgsigqueueinfo, getppid(), getppid(), 0, &info));
}

static int signal_descriptor(const struct hostile_plan *plan)
{
    int fd = (int)syscall(CALL_PIDFD_OPEN, getppid(), 0);
    (void)plan;
    if (fd < 0)
        return errno;
    int code = hostile_code(syscall(CALL_PIDFD_SEND_SIGNAL, fd, 0, NULL, 0));
    (void)close(fd);
    return code;
}

/* A pipe tells the process that owns it, by a signal of our choice. */
static int signal_by_pipe(const struct hostile_plan *plan)
{
    int fds[2];
    (void)plan;
    if (pipe(fds) != 0)
        return errno;
    int code = hostile_code(fcntl(fds[0], F_SETOWN, getppid()));
    (void)close(fds[0]);
    (void)close(fds[1]);
    return code;
}

static int outlive_node(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(prctl(PR_SET_PDEATHSIG, SIGKILL)); /* 0 would be the attack */
}

/* ---- limits and priorities: each is set to what it is ---- */

static int limit_of(pid_t pid)
{
    struct rlimit limit;
    return hostile_code(syscall(SYS_prlimit64, pid, RLIMIT_NOFILE, NULL, &limit));
}

static int limit_node(const struct hostile_plan *plan)
{
    (void)plan;
    return limit_of(getppid());
}

static int limit_sibling(const struct hostile_plan *plan)
{
    return limit_of((pid_t)plan->sibling);
}

static int place_node(const struct hostile_plan *plan)
{
    cpu_set_t set;
    (void)plan;
    if (sched_getaffinity(getppid(), sizeof(set), &set) != 0)
        return errno;
    return hostile_code(sched_setaffinity(getppid(), sizeof(set), &set));
}

static int schedule_node(const struct hostile_plan *plan)
{
    const struct sched_param none = {0};
    (void)plan;
    return hostile_code(sched_setscheduler(getppid(), SCHED_OTHER, &none));
}

static int schedule_node_by_attributes(const struct hostile_plan *plan)
{
    unsigned attributes[12] = {0}; /* struct sched_attr, version 0 */
    (void)plan;
    if (syscall(SYS_sched_getattr, getppid(), attributes, sizeof(attributes), 0) != 0)
        return errno;
    return hostile_code(syscall(SYS_sched_setattr, getppid(), attributes, 0));
}

static int slow_node(const struct hostile_plan *plan)
{
    (void)plan;
    int now = getpriority(PRIO_PROCESS, (id_t)getppid());
    return hostile_code(setpriority(PRIO_PROCESS, (id_t)getppid(), now));
}

static int slow_group(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(setpriority(PRIO_PGRP, 0, getpriority(PRIO_PGRP, 0)));
}

static int slow_disk_of_node(const struct hostile_plan *plan)
{
    enum { WHO_PROCESS = 1, BEST_EFFORT_4 = 2 << 13 | 4 };
    (void)plan;
    return hostile_code(syscall(SYS_ioprio_set, WHO_PROCESS, getppid(), BEST_EFFORT_4));
}

static int move_pages_of_node(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_move_pages, getppid(), 0, NULL, NULL, NULL, 0));
}

static int give_node_to_oom(const struct hostile_plan *plan)
{
    char path[64];
    (void)plan;
    (void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)getppid());
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    int code = hostile_code(fd);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

const struct hostile_attempt hostile_processes[] = {
    {"signal_node", LR_BARRIER_SIGNALS, signal_node},
    {"signal_sibling", LR_BARRIER_SIGNALS, signal_sibling},
    {"signal_thread", LR_BARRIER_SIGNALS, signal_thread},
    {"signal_thread_of", LR_BARRIER_SIGNALS, signal_thread_of},
    {"signal_queue", LR_BARRIER_SIGNALS, signal_queue},
    {"signal_queue_thread", LR_BARRIER_SIGNALS, signal_queue_thread},
    {"signal_descriptor", LR_BARRIER_SIGNALS, signal_descriptor},
    /* Landlock reports success here and signals none of the others. */
    {"signal_all", LR_BARRIER_LIMITS, signal_all},
    {"signal_group", LR_BARRIER_LIMITS, signal_group},
    {"signal_by_pipe", LR_BARRIER_LIMITS, signal_by_pipe},
    {"outlive_node", LR_BARRIER_PROCESSES, outlive_node},
    {"limit_node", LR_BARRIER_LIMITS, limit_node},
    {"limit_sibling", LR_BARRIER_LIMITS, limit_sibling},
    {"place_node", LR_BARRIER_LIMITS, place_node},
    {"schedule_node", LR_BARRIER_LIMITS, schedule_node},
    {"schedule_node_by_attributes", LR_BARRIER_LIMITS, schedule_node_by_attributes},
    {"slow_node", LR_BARRIER_LIMITS, slow_node},
    {"slow_group", LR_BARRIER_LIMITS, slow_group},
    {"slow_disk_of_node", LR_BARRIER_LIMITS, slow_disk_of_node},
    {"move_pages_of_node", LR_BARRIER_FILES, move_pages_of_node},
    {"give_node_to_oom", LR_BARRIER_FILES, give_node_to_oom},
    {.name = NULL},
};
