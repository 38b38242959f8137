/* base/os/linux/sandbox_calls.c - which system calls a confined process may make (seccomp).
 *
 * A deny list, not an allow list: GPU drivers and their libraries make undocumented calls, and
 * new ones with each release.
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/sandbox.h"

#if defined(__x86_64__)
#define OUR_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define OUR_ARCH AUDIT_ARCH_AARCH64
#endif

enum { PROGRAM_MAX = 256, X32_BIT = 0x40000000 };

static const int forbidden[] = {
    /* new programs and processes; clone has its own rule */
    SYS_execve,
    SYS_execveat,
#ifdef SYS_fork
    SYS_fork,
    SYS_vfork,
#endif
    /* other processes */
    SYS_ptrace,
    SYS_process_vm_readv,
    SYS_process_vm_writev,
    SYS_kcmp,
#ifdef SYS_pidfd_getfd
    SYS_pidfd_getfd,
#endif
    /* another view of the file system */
    SYS_mount,
    SYS_umount2,
    SYS_pivot_root,
    SYS_chroot,
    SYS_unshare,
    SYS_setns,
    SYS_open_by_handle_at,
#ifdef SYS_open_tree
    SYS_open_tree,
    SYS_move_mount,
    SYS_fsopen,
    SYS_fsconfig,
    SYS_fsmount,
    SYS_fspick,
#endif
#ifdef SYS_mount_setattr
    SYS_mount_setattr,
#endif
/* modes, owners and attributes by path: Landlock does not check them */
#ifdef SYS_chmod
    SYS_chmod,
    SYS_chown,
    SYS_lchown,
#endif
    SYS_fchmodat,
#ifdef SYS_fchmodat2
    SYS_fchmodat2,
#endif
    SYS_fchownat,
    SYS_setxattr,
    SYS_lsetxattr,
    SYS_removexattr,
    SYS_lremovexattr,
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
    SYS_reboot,
    SYS_swapon,
    SYS_swapoff,
    SYS_acct,
    SYS_settimeofday,
    SYS_clock_settime,
    SYS_sethostname,
    SYS_syslog,
};

struct program {
    struct sock_filter code[PROGRAM_MAX];
    unsigned short count;
};

static void add(struct program *p, struct sock_filter instruction)
{
    if (p->count < PROGRAM_MAX)
        p->code[p->count++] = instruction;
}

static void load(struct program *p, size_t offset)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void give(struct program *p, uint32_t what)
{
    add(p, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, what));
}

/* The next `count` instructions are for this call only. */
static void only_for(struct program *p, int call, uint8_t count)
{
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, count));
}

static uint32_t error(int number)
{
    return SECCOMP_RET_ERRNO | (uint32_t)number;
}

static void forbid_sockets(struct program *p)
{
    only_for(p, SYS_socket, 4);
    load(p, offsetof(struct seccomp_data, args[0]));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_UNIX, 0, 1));
    give(p, SECCOMP_RET_ALLOW);
    give(p, error(EACCES));
}

static void forbid_processes(struct program *p)
{
    only_for(p, SYS_clone, 4);
    load(p, offsetof(struct seccomp_data, args[0]));
    add(p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_THREAD, 0, 1));
    give(p, SECCOMP_RET_ALLOW);
    give(p, error(EPERM));
#ifdef SYS_clone3
    /* The flags of clone3 lie in memory, which seccomp cannot read.  When clone3 fails the C
     * library uses clone. */
    only_for(p, SYS_clone3, 1);
    give(p, error(ENOSYS));
#endif
}

lr_code lr_sandbox_calls(const struct lr_sandbox_facts *facts, struct lr_error *err)
{
#ifdef OUR_ARCH
    struct program p = {.count = 0};
    if (!facts->has_seccomp)
        return LR_OK;
    load(&p, offsetof(struct seccomp_data, arch));
    only_for(&p, (int)OUR_ARCH, 1);
    add(&p, (struct sock_filter)BPF_STMT(BPF_JMP | BPF_JA, 1));
    give(&p, SECCOMP_RET_KILL_PROCESS);
    load(&p, offsetof(struct seccomp_data, nr));
#if defined(__x86_64__)
    add(&p, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, X32_BIT, 0, 1));
    give(&p, error(ENOSYS));
#endif
    forbid_sockets(&p);
    if (!facts->is_relaxed) {
        forbid_processes(&p);
        for (size_t i = 0; i < sizeof(forbidden) / sizeof(forbidden[0]); i++) {
            only_for(&p, forbidden[i], 1);
            give(&p, error(EPERM));
        }
    }
    give(&p, SECCOMP_RET_ALLOW);
    struct sock_fprog all = {.len = p.count, .filter = p.code};
    if (p.count == PROGRAM_MAX)
        return lr_fail(err, LR_INTERNAL, "seccomp: the list of system calls is too long");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &all) != 0)
        return lr_fail_errno(err, LR_INTERNAL, "seccomp: cannot restrict this process");
#else
    (void)facts;
    (void)err;
#endif
    return LR_OK;
}
