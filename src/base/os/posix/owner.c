/* base/os/posix/owner.c - owners of files, and who may write a file. */
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/os/file.h"

/* True for a group whose only member is this user, which many systems create for each user.
 * Files are often writable by such a group.  Root's group is never private in this sense. */
static bool is_private_group(gid_t group)
{
    char names[2][1024];
    struct passwd user, *me = NULL;
    struct group entry, *found = NULL;
    if (geteuid() == 0 || getpwuid_r(geteuid(), &user, names[0], sizeof(names[0]), &me) != 0 ||
        me == NULL || getgrgid_r(group, &entry, names[1], sizeof(names[1]), &found) != 0 ||
        found == NULL)
        return false;
    return me->pw_gid == group && strcmp(me->pw_name, found->gr_name) == 0 &&
           found->gr_mem[0] == NULL;
}

bool lr_own_like(const char *path, const char *like)
{
    struct lr_stat is, wanted;
    if (!lr_stat(path, &is) || !lr_stat(like, &wanted))
        return false;
    return (is.owner == wanted.owner && is.group == wanted.group) ||
           chown(path, wanted.owner, wanted.group) == 0;
}

lr_code lr_file_check_owner(const char *path, bool is_parent, struct lr_error *err)
{
    struct lr_stat info;
    if (!lr_stat(path, &info))
        return lr_fail_errno(err, LR_IO, "%s", path);
    if (is_parent && (info.mode & S_ISVTX) != 0)
        info.mode &= ~(uint32_t)(S_IWGRP | S_IWOTH);
    if (info.owner != 0 && info.owner != geteuid())
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "%s belongs to user %u: it must belong to root or to user %u", path,
                       (unsigned)info.owner, (unsigned)geteuid());
    if ((info.mode & S_IWOTH) != 0)
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "%s may be written by everybody (mode %04o): chmod o-w it", path,
                       (unsigned)(info.mode & 07777));
    if ((info.mode & S_IWGRP) != 0 && !is_private_group((gid_t)info.group))
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "%s may be written by group %u (mode %04o): chmod g-w it", path,
                       (unsigned)info.group, (unsigned)(info.mode & 07777));
    return LR_OK;
}
