/* base/os/linux/sandbox_calls.c - which system calls a confined process may make (seccomp).
 *
 * A deny list, not an allow list: GPU drivers and their libraries make undocumented calls, and
 * new ones with each release.  A call that names a process is allowed for this process only.
 */
#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/fsverity.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/linux/filter.h"
#include "base/sandbox.h"

/* Numbers of newer kernels, which are the same for every processor, and which the headers of
 * older systems lack. */
enum {
    CALL_PIDFD_SEND_SIGNAL = 424,
    CALL_OPEN_TREE = 428,
    CALL_MOVE_MOUNT = 429,
    CALL_FSOPEN = 430,
    CALL_FSCONFIG = 431,
    CALL_FSMOUNT = 432,
    CALL_FSPICK = 433,
    CALL_CLONE3 = 435,
    CALL_OPENAT2 = 437,
    CALL_PIDFD_GETFD = 438,
    CALL_PROCESS_MADVISE = 440,
    CALL_MOUNT_SETATTR = 442,
    CALL_QUOTACTL_FD = 443,
    CALL_PROCESS_MRELEASE = 448,
    CALL_FCHMODAT2 = 452,
    CALL_SETXATTRAT = 463,
    CALL_REMOVEXATTRAT = 466,
    CALL_OPEN_TREE_ATTR = 467,
    CALL_FILE_SETATTR = 469,
};

static const int forbidden[] = {
    /* new programs and processes; clone has its own rule */
    SYS_execve,
    SYS_execveat,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    /* other processes; those that name one have their own rules */
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    CALL_PROCESS_MADVISE,
    CALL_PROCESS_MRELEASE,
    SYS_kcmp,
    CALL_PIDFD_GETFD,
    CALL_PIDFD_SEND_SIGNAL,
    SYS_tkill, /* names a thread of any process */
    /* memory and queues that processes find by a number or a name */
    SYS_shmget,
    SYS_shmat,
    SYS_semget,
    SYS_msgget,
    SYS_mq_open,
    /* names of files in folders that cannot be listed */
    SYS_inotify_init1,
    SYS_fanotify_init,
#ifdef SYS_inotify_init
    SYS_inotify_init,
#endif
    /* another view of the file system */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
    CALL_OPEN_TREE,
    CALL_OPEN_TREE_ATTR,
    CALL_MOVE_MOUNT,
    CALL_FSOPEN,
    CALL_FSCONFIG,
    CALL_FSMOUNT,
    CALL_FSPICK,
    CALL_MOUNT_SETATTR,
    SYS_quotactl,
    CALL_QUOTACTL_FD,
/* modes, owners, times and attributes: Landlock does not check them, and a file that may be
 * read is enough for those that take a descriptor */
#ifdef SYS_chmod
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
    SYS_utime,
    SYS_utimes,
    SYS_futimesat,
#endif
    SYS_fchmod,
    SYS_fchmodat,
    CALL_FCHMODAT2,
    SYS_fchown,
    SYS_fchownat,
    SYS_utimensat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_fsetxattr,
    CALL_SETXATTRAT,
    SYS_removexattr,
    SYS_lremovexattr,
    SYS_fremovexattr,
    CALL_REMOVEXATTRAT,
    CALL_FILE_SETATTR,
    /* io_uring makes calls that seccomp does not see */
    SYS_io_uring_setup,
    SYS_io_uring_enter,
    SYS_io_uring_register,
    /* the kernel itself */
    SYS_bpf,
    SYS_perf_event_open,
    SYS_userfaultfd,
    SYS_keyctl,
    SYS_add_key,
    SYS_request_key,
    SYS_init_module,
    SYS_finit_module,
    SYS_delete_module,
    SYS_kexec_load,
#ifdef SYS_kexec_file_load
    SYS_kexec_file_load,
#endif
#ifdef SYS_iopl
    SYS_iopl,
    SYS_ioperm,
#endif
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_adjtimex,
    SYS_clock_adjtime,
    SYS_sethostname,
    SYS_setdomainname,
    SYS_vhangup,
    SYS_syslog,
};

/* A pair of sockets is a pipe.  But a datagram socket of a pair can be connected to another
 * one, and a pair of another family reaches the network.  NVIDIA's driver does not start
 * (CUDA_ERROR_OPERATING_SYSTEM) unless it may make a local socket, bind it and listen: such a
 * socket reaches nothing while it cannot connect. */
static void forbid_sockets(struct lr_filter *f, const struct lr_sandbox_facts *facts)
{
    const struct lr_filter_values family = {.value = {AF_UNIX}, .count = 1};
    const struct lr_filter_values pair[] = {
        family,
        {.argument = 1, .mask = 0xf, .value = {SOCK_STREAM, SOCK_SEQPACKET}, .count = 2},
    };
    if (facts->has_mps) {
        lr_filter_only(f, SYS_socket, &family, 1, EACCES);
        lr_filter_only(f, SYS_socketpair, &family, 1, EACCES);
        return;
    }
    if (facts->has_cuda)
        lr_filter_only(f, SYS_socket, pair, 2, EACCES);
    else
        lr_filter_refuse(f, SYS_socket, EACCES);
    lr_filter_refuse(f, SYS_connect, EACCES);
    lr_filter_only(f, SYS_socketpair, pair, 2, EACCES);
}

static void forbid_processes(struct lr_filter *f)
{
    const struct lr_filter_values thread = {
        .mask = CLONE_THREAD, .value = {CLONE_THREAD}, .count = 1};
    lr_filter_only(f, SYS_clone, &thread, 1, EPERM);
    /* The flags of clone3 lie in memory, which seccomp cannot read.  When clone3 fails the C
     * library uses clone. */
    lr_filter_refuse(f, CALL_CLONE3, ENOSYS);
}

static void forbid_signals(struct lr_filter *f, uint32_t self)
{
    static const int calls[] = {SYS_kill, SYS_tgkill, SYS_rt_sigqueueinfo,
                                SYS_rt_tgsigqueueinfo};
    const struct lr_filter_values own = {.value = {self}, .count = 1};
    /* A file can be told to signal a process when it can be read. */
    const struct lr_filter_values owner = {
        .argument = 1, .value = {F_SETOWN, F_SETOWN_EX, F_SETSIG}, .count = 3};
    /* This process would outlive its node. */
    const struct lr_filter_values death = {.value = {PR_SET_PDEATHSIG}, .count = 1};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        lr_filter_only(f, calls[i], &own, 1, EPERM);
    lr_filter_not(f, SYS_fcntl, &owner, 1, EPERM);
    lr_filter_not(f, SYS_prctl, &death, 1, EPERM);
}

static void forbid_limits(struct lr_filter *f, uint32_t self)
{
    static const int calls[] = {
        SYS_prlimit64,     SYS_sched_setaffinity, SYS_sched_setscheduler, SYS_sched_setparam,
        SYS_sched_setattr, SYS_migrate_pages,     SYS_move_pages,
    };
    enum { WHO_PROCESS = 1 }; /* IOPRIO_WHO_PROCESS */
    const struct lr_filter_values own[] = {
        {.value = {PRIO_PROCESS}, .count = 1},
        {.argument = 1, .value = {0, self}, .count = 2},
    };
    const struct lr_filter_values own_io[] = {
        {.value = {WHO_PROCESS}, .count = 1},
        {.argument = 1, .value = {0, self}, .count = 2},
    };
    const struct lr_filter_values first = {.value = {0, self}, .count = 2};
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        lr_filter_only(f, calls[i], &first, 1, EPERM);
    lr_filter_only(f, SYS_setpriority, own, 2, EPERM);
    lr_filter_only(f, SYS_ioprio_set, own_io, 2, EPERM);
}

/* Attributes that a descriptor for reading is enough for, signals, and typing into a terminal.
 * The other requests are those of GPU drivers. */
static void forbid_requests(struct lr_filter *f)
{
    const struct lr_filter_values files = {
        .argument = 1,
        .value = {(uint32_t)FS_IOC_SETFLAGS, (uint32_t)FS_IOC_SETVERSION,
                  (uint32_t)FS_IOC_FSSETXATTR, (uint32_t)FS_IOC_ENABLE_VERITY, FIOSETOWN,
                  SIOCSPGRP, TIOCSTI},
        .count = 7,
    };
    lr_filter_not(f, SYS_ioctl, &files, 1, EPERM);
}

/* Before its version 3 Landlock does not see that a file is emptied.  A file opened for writing
 * it sees; the third way of opening (3) neither reads nor writes, but empties the file. */
static void forbid_truncating(struct lr_filter *f)
{
    const struct lr_filter_values empties[] = {
        {.argument = 2,
         .mask = O_ACCMODE | O_TRUNC,
         .value = {O_RDONLY | O_TRUNC, O_ACCMODE | O_TRUNC},
         .count = 2},
    };
    lr_filter_not(f, SYS_openat, empties, 1, EACCES);
#ifdef SYS_open
    struct lr_filter_values flags = empties[0];
    flags.argument = 1;
    lr_filter_not(f, SYS_open, &flags, 1, EACCES);
#endif
    lr_filter_refuse(f, SYS_truncate, EACCES);
    lr_filter_refuse(f, CALL_OPENAT2, ENOSYS); /* its flags lie in memory */
}

lr_code lr_sandbox_calls(const struct lr_sandbox_facts *facts, struct lr_error *err)
{
    struct lr_filter f;
    uint32_t self = (uint32_t)getpid();
    if (!facts->has_seccomp)
        return LR_OK;
    lr_filter_begin(&f);
    forbid_sockets(&f, facts);
    if (!facts->is_relaxed) {
        forbid_processes(&f);
        forbid_signals(&f, self);
        forbid_limits(&f, self);
        forbid_requests(&f);
        if (facts->landlock < 3)
            forbid_truncating(&f);
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++)
            lr_filter_refuse(&f, forbidden[i], EPERM);
    }
    lr_filter_end(&f);
    if (f.is_full)
        return lr_fail(err, LR_INTERNAL, "seccomp: the list of system calls is too long");
    struct sock_fprog all = {.len = f.count, .filter = f.code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all) != 0)
        return lr_fail_errno(err, LR_INTERNAL, "seccomp: cannot restrict this process");
    return LR_OK;
}
