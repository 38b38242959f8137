/* engines/testing/hostile_kernel.c - calls that change what this process or the machine is.
 * They have arguments with which they do nothing, and say so where they are not refused. */
#include <errno.h>
#include <fcntl.h>
#include <linux/kexec.h>
#include <mqueue.h>
#include <sched.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mount.h>
#include <sys/shm.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "engines/testing/hostile.h"

static const char nowhere[] = "/nowhere/at/all";

enum { UNKNOWN = 0x7fffffff };

static int new_namespace(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(unshare(0));
}

static int other_namespace(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(setns(-1, 0));
}

static int mount_something(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(mount(nowhere, nowhere, "tmpfs", 0, NULL));
}

static int change_root(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(chroot(nowhere));
}

static int open_by_number(const struct hostile_plan *plan)
{
    unsigned handle[4] = {0};
    (void)plan;
    return hostile_code(syscall(SYS_open_by_handle_at, -1, handle, O_RDONLY));
}

static int load_bpf(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_bpf, UNKNOWN, NULL, 0));
}

static int count_events(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_perf_event_open, NULL, 0, -1, -1, 0));
}

static int handle_faults(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_userfaultfd, UNKNOWN));
}

static int make_ring(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_io_uring_setup, 0, NULL));
}

static int read_keys(const struct hostile_plan *plan)
{
    enum { GET_KEYRING_ID = 0, SESSION_KEYRING = -3 };
    (void)plan;
    return hostile_code(syscall(SYS_keyctl, GET_KEYRING_ID, SESSION_KEYRING, 0));
}

static int add_key(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_add_key, NULL, NULL, NULL, 0, 0));
}

static int ask_for_key(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_request_key, NULL, NULL, NULL, 0));
}

static int load_module(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_finit_module, -1, "", 0));
}

static int replace_kernel(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_kexec_load, 0, UNKNOWN, NULL, KEXEC_ARCH_MASK));
}

static int reboot_machine(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_reboot, 0, 0, 0, NULL)); /* the magic numbers are wrong */
}

static int swap_on(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(swapon(nowhere, 0));
}

static int set_clock(const struct hostile_plan *plan)
{
    const struct timespec never = {.tv_nsec = -1};
    (void)plan;
    return hostile_code(syscall(SYS_clock_settime, CLOCK_REALTIME, &never));
}

static int name_machine(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_sethostname, "x", -1));
}

static int read_log(const struct hostile_plan *plan)
{
    enum { SIZE_OF_BUFFER = 10 };
    (void)plan;
    return hostile_code(syscall(SYS_syslog, SIZE_OF_BUFFER, NULL, 0));
}

static int share_memory(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(shmget(0x6c726874, 1, 0)); /* there is none with this key */
}

static int open_queue(const struct hostile_plan *plan)
{
    (void)plan;
    return hostile_code(syscall(SYS_mq_open, "llm-router-hostile", O_RDONLY, 0, NULL));
}

const struct hostile_attempt hostile_kernel[] = {
    {"new_namespace", LR_BARRIER_KERNEL, new_namespace},
    {"other_namespace", LR_BARRIER_KERNEL, other_namespace},
    {"mount", LR_BARRIER_KERNEL, mount_something},
    {"change_root", LR_BARRIER_KERNEL, change_root},
    {"open_by_number", LR_BARRIER_KERNEL, open_by_number},
    {"load_bpf", LR_BARRIER_KERNEL, load_bpf},
    {"count_events", LR_BARRIER_KERNEL, count_events},
    {"handle_faults", LR_BARRIER_KERNEL, handle_faults},
    {"io_uring", LR_BARRIER_KERNEL, make_ring},
    {"read_keys", LR_BARRIER_KERNEL, read_keys},
    {"add_key", LR_BARRIER_KERNEL, add_key},
    {"ask_for_key", LR_BARRIER_KERNEL, ask_for_key},
    {"load_module", LR_BARRIER_KERNEL, load_module},
    {"replace_kernel", LR_BARRIER_KERNEL, replace_kernel},
    {"reboot", LR_BARRIER_KERNEL, reboot_machine},
    {"swap", LR_BARRIER_KERNEL, swap_on},
    {"set_clock", LR_BARRIER_KERNEL, set_clock},
    {"name_machine", LR_BARRIER_KERNEL, name_machine},
    {"read_kernel_log", LR_BARRIER_KERNEL, read_log},
    {"share_memory", LR_BARRIER_KERNEL, share_memory},
    {"message_queue", LR_BARRIER_KERNEL, open_queue},
    {.name = NULL},
};
