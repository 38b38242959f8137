/* router/store/backup.c - a copy of the router's SQLite database, also while the router runs.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/os/file.h"
#include "router/store/backup.h"

enum { BUSY_MS = 10000 };

static lr_code copy_all(sqlite3 *from, sqlite3 *to, const char *file, struct lr_error *err)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    int rc = backup != NULL ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(to);
    (void)sqlite3_backup_finish(backup);
    if (rc == SQLITE_DONE)
        return LR_OK;
    return lr_fail(err, LR_IO, "cannot write the backup %.200s: %s", file, sqlite3_errstr(rc));
}

/* Opening reads nothing.  A copy that fails later does not say which of the two files it was.
 */
static lr_code check_source(sqlite3 *from, const char *source, struct lr_error *err)
{
    int rc = sqlite3_exec(from, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (rc == SQLITE_OK)
        return LR_OK;
    bool is_locked_out = rc == SQLITE_CANTOPEN || rc == SQLITE_READONLY;
    return lr_fail(err, LR_IO, "cannot read %.200s: %s%s", source, sqlite3_errstr(rc),
                   is_locked_out ? "; this user must be able to write to its folder, where "
                                   "SQLite keeps router.db-shm"
                                 : "");
}

/* Made before SQLite opens it, so that at no moment others can read the file. */
static lr_code create_private(const char *file, struct lr_error *err)
{
    int fd = lr_open(file, LR_OPEN_WRITE | LR_OPEN_NEW, 0600);
    if (fd < 0 && errno == EEXIST)
        return lr_fail(err, LR_CONFLICT,
                       "%.200s exists: name another file, or move that one away", file);
    if (fd < 0)
        return lr_fail_errno(err, LR_IO, "cannot create the backup %.200s", file);
    (void)close(fd);
    return LR_OK;
}

lr_code router_backup(const char *data_dir, const char *file, struct lr_error *err)
{
    sqlite3 *from = NULL, *to = NULL;
    char source[4096];
    (void)snprintf(source, sizeof(source), "%s/router.db", data_dir);
    int rc = sqlite3_open_v2(source, &from, SQLITE_OPEN_READONLY, NULL);
    lr_code code = LR_OK;
    if (rc != SQLITE_OK)
        code = lr_fail(err, LR_IO,
                       "cannot open %.200s: %s; --data-dir names the router's data folder, and "
                       "a router with --database is backed up with pg_dump",
                       source, sqlite3_errstr(rc));
    if (code == LR_OK)
        (void)sqlite3_busy_timeout(from, BUSY_MS);
    if (code == LR_OK)
        code = check_source(from, source, err);
    if (code == LR_OK)
        code = create_private(file, err);
    if (code == LR_OK) {
        rc = sqlite3_open_v2(file, &to, SQLITE_OPEN_READWRITE, NULL);
        code = rc == SQLITE_OK ? copy_all(from, to, file, err)
                               : lr_fail(err, LR_IO, "cannot write the backup %.200s: %s", file,
                                         sqlite3_errstr(rc));
        if (sqlite3_close(to) != SQLITE_OK || code != LR_OK)
            (void)lr_unlink(file);
    }
    (void)sqlite3_close(from);
    return code;
}
