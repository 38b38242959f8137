/* router/store/backup.c - see router/store/backup.h. */
#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/fail.h"
#include "base/file.h"
#include "base/os/file.h"
#include "router/store/backup.h"
#include "router/store/sql.h"

enum { BUSY_MS = 10000 };

static lr_code copy_all(sqlite3 *from, sqlite3 *to, const char *file, struct lr_error *err)
{
    sqlite3_backup *backup = sqlite3_backup_init(to, "main", from, "main");
    int rc = backup != NULL ? sqlite3_backup_step(backup, -1) : sqlite3_errcode(to);
    (void)sqlite3_backup_finish(backup);
    if (rc == SQLITE_DONE)
        return LR_OK;
    return lr_fail(err, LR_IO, "cannot write %.200s: %s", file, sqlite3_errstr(rc));
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
        return lr_fail_errno(err, LR_IO, "cannot create %.200s", file);
    (void)close(fd);
    return LR_OK;
}

/* From one database that may be in use to a new file. */
static lr_code copy_to_new(sqlite3 *from, const char *source, const char *file,
                           struct lr_error *err)
{
    sqlite3 *to = NULL;
    (void)sqlite3_busy_timeout(from, BUSY_MS);
    lr_code code = check_source(from, source, err);
    if (code == LR_OK)
        code = create_private(file, err);
    if (code != LR_OK)
        return code;
    int rc = sqlite3_open_v2(file, &to, SQLITE_OPEN_READWRITE, NULL);
    code = rc == SQLITE_OK
               ? copy_all(from, to, file, err)
               : lr_fail(err, LR_IO, "cannot write %.200s: %s", file, sqlite3_errstr(rc));
    if (sqlite3_close(to) != SQLITE_OK || code != LR_OK)
        (void)lr_unlink(file);
    return code;
}

lr_code router_backup(const char *data_dir, const char *file, struct lr_error *err)
{
    sqlite3 *from = NULL;
    char source[4096];
    (void)snprintf(source, sizeof(source), "%s/router.db", data_dir);
    int rc = sqlite3_open_v2(source, &from, SQLITE_OPEN_READONLY, NULL);
    lr_code code =
        rc == SQLITE_OK
            ? copy_to_new(from, source, file, err)
            : lr_fail(err, LR_IO,
                      "cannot open %.200s: %s; --data-dir names the router's data folder, and "
                      "a router with --database is backed up with pg_dump",
                      source, sqlite3_errstr(rc));
    (void)sqlite3_close(from);
    return code;
}

/* ---- restore ---- */

static lr_code copy_backup(const char *file, const char *copy, struct lr_error *err)
{
    sqlite3 *from = NULL;
    int rc = sqlite3_open_v2(file, &from, SQLITE_OPEN_READONLY, NULL);
    lr_code code = rc == SQLITE_OK ? copy_to_new(from, file, copy, err)
                                   : lr_fail(err, LR_NOT_FOUND, "cannot open %.200s: %s", file,
                                             sqlite3_errstr(rc));
    (void)sqlite3_close(from);
    return code;
}

static lr_code take_text(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct lr_str text = router_row_text(row, 0);
    return lr_str_eq_z(text, "ok") ? LR_OK
                                   : lr_fail(err, LR_MODEL_CORRUPT, "%.200s is damaged: %.*s",
                                             (const char *)ctx, LR_STR_ARG(text));
}

/* Whether the copy is whole and of a form that this program knows; what is in it. */
static lr_code check_copy(const char *copy, const char *file, struct router_restored *out,
                          struct lr_error *err)
{
    struct router_sql *sql = NULL;
    char name[4096];
    (void)snprintf(name, sizeof(name), "%s", file);
    lr_code code = router_sqlite_open(copy, BUSY_MS, &sql, err);
    if (code == LR_OK)
        code = router_sql_run(sql, "PRAGMA integrity_check(1)", NULL, 0, take_text, name, err);
    if (code == LR_OK)
        code = router_schema_migrate(sql, err);
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT count(*) FROM keys", NULL, 0, router_row_number,
                              &out->keys, err);
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT count(*) FROM models", NULL, 0, router_row_number,
                              &out->models, err);
    router_sql_close(sql);
    return code;
}

/* The files of a database: itself, what SQLite has not yet moved into it, their index. */
static const char *const parts[] = {"", "-wal", "-shm"};
enum { PARTS = sizeof(parts) / sizeof(parts[0]) };

static void remove_copy(const char *copy)
{
    char path[4200];
    for (size_t i = 0; i < PARTS; i++) {
        (void)snprintf(path, sizeof(path), "%s%s", copy, parts[i]);
        (void)lr_unlink(path);
    }
}

/* The database before, with its parts, gets another name; what was committed to it stays in it.
 */
static lr_code keep_before(const char *database, char kept[4096], struct lr_error *err)
{
    char from[4200], to[4200];
    struct lr_stat stat;
    kept[0] = '\0';
    if (!lr_stat(database, &stat))
        return LR_OK;
    for (unsigned i = 1; kept[0] == '\0' || lr_stat(kept, &stat); i++)
        (void)snprintf(kept, 4096, "%.4000s.before-%u", database, i);
    for (size_t i = PARTS; i-- > 0;) {
        (void)snprintf(from, sizeof(from), "%s%s", database, parts[i]);
        (void)snprintf(to, sizeof(to), "%s%s", kept, parts[i]);
        if (lr_stat(from, &stat) && !lr_rename(from, to))
            return lr_fail_errno(err, LR_IO, "cannot move %.200s to %.200s", from, to);
    }
    return LR_OK;
}

lr_code router_restore(const char *data_dir, const char *file, bool only_check,
                       struct router_restored *out, struct lr_error *err)
{
    char database[4096], copy[4096], path[4096];
    struct lr_file_lock lock = {-1};
    lr_code code = LR_OK;
    *out = (struct router_restored){0};
    (void)snprintf(database, sizeof(database), "%.4000s/router.db", data_dir);
    (void)snprintf(copy, sizeof(copy), "%.4000s/router.db.restoring", data_dir);
    (void)snprintf(path, sizeof(path), "%.4000s/router.lock", data_dir);
    if (!lr_dir_exists(data_dir))
        return lr_fail(err, LR_NOT_FOUND,
                       "%.200s is missing; --data-dir names the router's data folder",
                       data_dir);
    if (!only_check)
        code = lr_file_lock(path, &lock, err);
    if (code != LR_OK)
        return lr_fail_prefix(err, "stop the router first");
    remove_copy(copy); /* of a restore that was killed */
    code = copy_backup(file, copy, err);
    if (code == LR_OK)
        code = check_copy(copy, file, out, err);
    if (code == LR_OK && !only_check && !lr_own_like(copy, data_dir))
        code = lr_fail_errno(err, LR_IO, "cannot give %.200s to the owner of %.200s", copy,
                             data_dir);
    if (code == LR_OK && !only_check)
        code = keep_before(database, out->kept, err);
    if (code == LR_OK && !only_check && !lr_rename(copy, database))
        code = lr_fail_errno(err, LR_IO, "cannot move %.200s to %.200s", copy, database);
    if (code == LR_OK && !only_check)
        code = lr_file_sync_dir(data_dir, err);
    remove_copy(copy);
    lr_file_unlock(&lock);
    return code;
}
