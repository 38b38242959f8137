/* engines/testing/hostile_files.c - files: other ones, and more than reading the engine's own.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "engines/testing/hostile.h"

enum {
    CALL_OPENAT2 = 437,
    CALL_FCHMODAT2 = 452,
    BOTH_OR_NEITHER = 3 /* of reading, writing */
};

static int open_it(const char *path, int flags)
{
    int fd = open(path, flags | O_CLOEXEC, 0600);
    int code = hostile_code(fd);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

/* In the folder that an engine may write to. */
static void in_scratch(char out[HOSTILE_PATH], const char *name)
{
    const char *scratch = getenv("TMPDIR");
    (void)snprintf(out, HOSTILE_PATH, "%.400s/%s", scratch != NULL ? scratch : "/tmp", name);
}

/* ---- other files ---- */

static int read_outside(const struct hostile_plan *plan)
{
    return open_it(plan->outside, O_RDONLY);
}

static int write_outside(const struct hostile_plan *plan)
{
    return open_it(plan->outside, O_WRONLY);
}

static int make_outside(const struct hostile_plan *plan)
{
    char path[HOSTILE_PATH + 8];
    (void)snprintf(path, sizeof(path), "%s.new", plan->outside);
    return open_it(path, O_WRONLY | O_CREAT);
}

static int remove_outside(const struct hostile_plan *plan)
{
    return hostile_code(unlink(plan->spare));
}

/* A second name, in a folder where everything is allowed. */
static int link_outside(const struct hostile_plan *plan)
{
    char path[HOSTILE_PATH];
    in_scratch(path, "second-name");
    int code = hostile_code(link(plan->outside, path));
    (void)unlink(path);
    return code;
}

static int own_symbolic_link(const struct hostile_plan *plan)
{
    char path[HOSTILE_PATH];
    in_scratch(path, "way-out");
    if (symlink(plan->outside, path) != 0 && errno != EEXIST)
        return errno;
    int code = open_it(path, O_RDONLY);
    (void)unlink(path);
    return code;
}

static int read_shadow(const struct hostile_plan *plan)
{
    (void)plan;
    return open_it("/etc/shadow", O_RDONLY);
}

static int read_other_model(const struct hostile_plan *plan)
{
    return open_it(plan->other, O_RDONLY);
}

static int read_secret(const struct hostile_plan *plan)
{
    return open_it(plan->secret, O_RDONLY);
}

static int read_through_link(const struct hostile_plan *plan)
{
    return open_it(plan->to_folder, O_RDONLY);
}

static int read_linked_file(const struct hostile_plan *plan)
{
    return open_it(plan->to_file, O_RDONLY);
}

static int write_model(const struct hostile_plan *plan)
{
    return open_it(plan->readable, O_WRONLY);
}

static int make_in_model(const struct hostile_plan *plan)
{
    char path[HOSTILE_PATH + 16];
    (void)snprintf(path, sizeof(path), "%s/made-by-engine", plan->model);
    return open_it(path, O_WRONLY | O_CREAT);
}

static int write_setting_of_kernel(const struct hostile_plan *plan)
{
    (void)plan;
    return open_it("/proc/sys/kernel/core_pattern", O_WRONLY);
}

static int watch_folder(const struct hostile_plan *plan)
{
    int fd = inotify_init1(IN_CLOEXEC), code = hostile_code(fd);
    if (fd >= 0)
        code = hostile_code(inotify_add_watch(fd, plan->outside, IN_MODIFY));
    if (fd >= 0)
        (void)close(fd);
    return code;
}

/* ---- emptying a file that can be read ---- */

static int empty_by_path(const struct hostile_plan *plan)
{
    return hostile_code(truncate(plan->readable, 0));
}

static int empty_by_opening(const struct hostile_plan *plan)
{
    return open_it(plan->readable, O_RDONLY | O_TRUNC);
}

static int empty_by_opening_for_nothing(const struct hostile_plan *plan)
{
    return open_it(plan->readable, BOTH_OR_NEITHER | O_TRUNC);
}

static int empty_by_openat2(const struct hostile_plan *plan)
{
    const uint64_t how[3] = {O_RDONLY | O_TRUNC | O_CLOEXEC, 0, 0};
    int fd = (int)syscall(CALL_OPENAT2, AT_FDCWD, plan->readable, how, sizeof(how));
    int code = hostile_code(fd);
    if (fd >= 0)
        (void)close(fd);
    return code;
}

/* ---- modes, owners, times and attributes of a file that can be read ---- */

static int mode_by_path(const struct hostile_plan *plan)
{
    return hostile_code(chmod(plan->outside, 0644));
}

static int mode_by_new_call(const struct hostile_plan *plan)
{
    return hostile_code(syscall(CALL_FCHMODAT2, AT_FDCWD, plan->outside, 0644, 0));
}

static int owner_by_path(const struct hostile_plan *plan)
{
    return hostile_code(chown(plan->outside, getuid(), getgid()));
}

static int times_by_path(const struct hostile_plan *plan)
{
    return hostile_code(utimensat(AT_FDCWD, plan->outside, NULL, 0));
}

static int attribute_by_path(const struct hostile_plan *plan)
{
    return hostile_code(setxattr(plan->outside, "user.hostile", "x", 1, 0));
}

/* The file is opened for reading; `change` is called with its descriptor. */
static int by_descriptor(const struct hostile_plan *plan, int (*change)(int fd))
{
    int fd = open(plan->readable, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    int code = hostile_code(change(fd));
    (void)close(fd);
    return code;
}

static int change_mode(int fd)
{
    return fchmod(fd, 0666);
}

static int change_owner(int fd)
{
    return fchown(fd, getuid(), getgid());
}

static int change_times(int fd)
{
    return futimens(fd, NULL);
}

static int change_attribute(int fd)
{
    return fsetxattr(fd, "user.hostile", "x", 1, 0);
}

static int change_flags(int fd)
{
    int flags = 0;
    (void)ioctl(fd, FS_IOC_GETFLAGS, &flags);
    return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static int mode_by_descriptor(const struct hostile_plan *plan)
{
    return by_descriptor(plan, change_mode);
}

static int owner_by_descriptor(const struct hostile_plan *plan)
{
    return by_descriptor(plan, change_owner);
}

static int times_by_descriptor(const struct hostile_plan *plan)
{
    return by_descriptor(plan, change_times);
}

static int attribute_by_descriptor(const struct hostile_plan *plan)
{
    return by_descriptor(plan, change_attribute);
}

static int flags_by_descriptor(const struct hostile_plan *plan)
{
    return by_descriptor(plan, change_flags);
}

const struct hostile_attempt hostile_files[] = {
    {"read_outside", LR_BARRIER_FILES, read_outside},
    {"write_outside", LR_BARRIER_FILES, write_outside},
    {"make_outside", LR_BARRIER_FILES, make_outside},
    {"remove_outside", LR_BARRIER_FILES, remove_outside},
    {"link_outside", LR_BARRIER_FILES, link_outside},
    {"own_symbolic_link", LR_BARRIER_FILES, own_symbolic_link},
    {"read_shadow", LR_BARRIER_FILES, read_shadow},
    {"read_other_model", LR_BARRIER_FILES, read_other_model},
    {"read_secret", LR_BARRIER_FILES, read_secret},
    {"read_through_link", LR_BARRIER_FILES, read_through_link},
    {"read_linked_file", LR_BARRIER_FILES, read_linked_file},
    {"write_model", LR_BARRIER_FILES, write_model},
    {"make_in_model", LR_BARRIER_FILES, make_in_model},
    {"write_setting_of_kernel", LR_BARRIER_FILES, write_setting_of_kernel},
    {"watch_folder", LR_BARRIER_KERNEL, watch_folder},
    {"mode_by_path", LR_BARRIER_ATTRIBUTES, mode_by_path},
    {"mode_by_new_call", LR_BARRIER_ATTRIBUTES, mode_by_new_call},
    {"owner_by_path", LR_BARRIER_ATTRIBUTES, owner_by_path},
    {"times_by_path", LR_BARRIER_ATTRIBUTES, times_by_path},
    {"attribute_by_path", LR_BARRIER_ATTRIBUTES, attribute_by_path},
    {"mode_by_descriptor", LR_BARRIER_ATTRIBUTES, mode_by_descriptor},
    {"owner_by_descriptor", LR_BARRIER_ATTRIBUTES, owner_by_descriptor},
    {"times_by_descriptor", LR_BARRIER_ATTRIBUTES, times_by_descriptor},
    {"attribute_by_descriptor", LR_BARRIER_ATTRIBUTES, attribute_by_descriptor},
    {"flags_by_descriptor", LR_BARRIER_ATTRIBUTES, flags_by_descriptor},
    {"empty_by_opening", LR_BARRIER_TRUNCATE, empty_by_opening},
    {"empty_by_opening_for_nothing", LR_BARRIER_TRUNCATE, empty_by_opening_for_nothing},
    {"empty_by_openat2", LR_BARRIER_TRUNCATE, empty_by_openat2},
    {"empty_by_path", LR_BARRIER_TRUNCATE, empty_by_path},
    {.name = NULL},
};
