#include "base/sandbox.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/os/linux/filter.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_RELAXED true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_RELAXED true
#endif
#endif
#ifndef IS_RELAXED
#define IS_RELAXED false
#endif

/* Numbers of the kernel's interface, defined here because headers of older systems lack
 * some. */
enum {
    CALL_CREATE_RULESET = 444,
    CALL_ADD_RULE = 445,
    CALL_RESTRICT_SELF = 446,
    ASK_VERSION = 1,
    RULE_PATH_BENEATH = 1,
    CALL_SECCOMP_AVAILABLE = 2, /* SECCOMP_GET_ACTION_AVAIL */
};

enum {
    FS_WRITE_FILE = 1 << 1,
    FS_READ_FILE = 1 << 2,
    FS_READ_DIR = 1 << 3,
    FS_VERSION_1 =
        (1 << 13) - 1,  /* the rights above, and to execute, remove and create anything */
    FS_REFER = 1 << 13, /* version 2 */
    FS_TRUNCATE =
        1
        << 14, /* version 3; ioctl on devices (version 5) stays allowed, because GPUs need it */
    NET_TCP = 3,   /* version 4: bind and connect */
    SCOPE_ALL = 3, /* version 6: abstract sockets, signals */
};

struct ruleset {
    uint64_t fs, net, scoped;
};

struct path_beneath {
    uint64_t allowed;
    int32_t parent;
} __attribute__((packed));

struct lr_sandbox_facts lr_sandbox_look(void)
{
    uint32_t action = 0x00050000U; /* SECCOMP_RET_ERRNO */
    const char *folders[LR_SANDBOX_CUDA];
    long version = syscall(CALL_CREATE_RULESET, NULL, 0, ASK_VERSION);
    return (struct lr_sandbox_facts){
        .landlock = version > 0 && !IS_RELAXED ? (int)version : 0,
        .has_seccomp = LR_FILTER_ARCH != 0 &&
                       syscall(SYS_seccomp, CALL_SECCOMP_AVAILABLE, 0, &action) == 0,
        .has_mps = lr_sandbox_mps_folder("/dev") != NULL,
        .has_cuda = lr_sandbox_cuda_folders("/dev", folders) != 0,
        .is_relaxed = IS_RELAXED,
    };
}

/* Rights of a folder on a plain file would be EINVAL. */
static lr_code add_path(int ruleset, const struct lr_sandbox_path *path, uint64_t handled,
                        struct lr_error *err)
{
    const uint64_t of_files = FS_WRITE_FILE | FS_READ_FILE | FS_TRUNCATE;
    struct stat info;
    struct path_beneath rule = {.allowed = FS_READ_FILE | FS_READ_DIR,
                                .parent = open(path->path, O_PATH | O_CLOEXEC)};
    if (rule.parent < 0 || fstat(rule.parent, &info) != 0) {
        if (rule.parent >= 0)
            (void)close(rule.parent);
        return LR_OK; /* a path that does not exist or cannot be opened needs no right */
    }
    if (path->is_writable)
        rule.allowed = handled & ~UINT64_C(1); /* all rights but execute */
    if (!S_ISDIR(info.st_mode))
        rule.allowed &= of_files;
    lr_code code = LR_OK;
    if (syscall(CALL_ADD_RULE, ruleset, RULE_PATH_BENEATH, &rule, 0) != 0)
        code = lr_fail_errno(err, LR_INTERNAL, "Landlock: a rule for %.300s", path->path);
    (void)close(rule.parent);
    return code;
}

lr_code lr_sandbox_files(const struct lr_sandbox_facts *facts,
                         const struct lr_sandbox_path *paths, size_t count,
                         struct lr_error *err)
{
    int version = facts->landlock;
    struct ruleset rules = {.fs = FS_VERSION_1};
    if (version == 0)
        return LR_OK;
    rules.fs |= (version >= 2 ? FS_REFER : 0) | (version >= 3 ? FS_TRUNCATE : 0);
    rules.net = version >= 4 ? NET_TCP : 0;
    rules.scoped = version >= 6 ? SCOPE_ALL : 0;
    /* An older kernel refuses a struct longer than its own. */
    size_t size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    int fd = (int)syscall(CALL_CREATE_RULESET, &rules, size, 0);
    if (fd < 0)
        return lr_fail_errno(err, LR_INTERNAL, "Landlock: no rules");
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < count; i++)
        code = add_path(fd, &paths[i], rules.fs, err);
    if (code == LR_OK && (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
                          syscall(CALL_RESTRICT_SELF, fd, 0) != 0))
        code = lr_fail_errno(err, LR_INTERNAL, "Landlock: cannot restrict this process");
    (void)close(fd);
    return code;
}

void lr_sandbox_powers(void)
{
    /* CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_IPC_LOCK, CAP_SYS_NICE */
    const uint32_t kept = 1U << 1 | 1U << 2 | 1U << 14 | 1U << 23;
    struct {
        uint32_t version;
        int pid;
    } header = {0x20080522, 0}; /* _LINUX_CAPABILITY_VERSION_3 */
    struct {
        uint32_t effective, permitted, inheritable;
    } sets[2];
    if (syscall(SYS_capget, &header, sets) != 0)
        return;
    for (int i = 0; i < 2; i++) {
        uint32_t mask = i == 0 ? kept : 0;
        sets[i].effective &= mask;
        sets[i].permitted &= mask;
        sets[i].inheritable = 0;
    }
    (void)syscall(SYS_capset, &header, sets);
}

void lr_no_core_dumps(void)
{
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
}
