/* router/store/probe.c - whether the database of some settings answers; nothing is changed. */
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "router/store/probe.h"
#include "router/store/store.h"

static lr_code probe_postgres(const char *url, uint32_t timeout_ms, struct lr_error *err)
{
    struct router_sql *sql = NULL;
    int64_t one = 0;
    lr_code code = router_postgres_open(url, timeout_ms, &sql, err);
    if (code == LR_OK)
        code = router_sql_run(sql, "SELECT 1", NULL, 0, router_row_number, &one, err);
    router_sql_close(sql);
    return code;
}

/* A router that runs with this file is not disturbed. */
static lr_code probe_sqlite(const char *file, uint32_t timeout_ms, struct lr_error *err)
{
    sqlite3 *db = NULL;
    int rc = sqlite3_open_v2(file, &db, SQLITE_OPEN_READONLY, NULL);
    (void)sqlite3_busy_timeout(db, (int)timeout_ms);
    if (rc == SQLITE_OK)
        rc = sqlite3_exec(db, "SELECT COUNT(*) FROM sqlite_master", NULL, NULL, NULL);
    (void)sqlite3_close(db);
    return rc == SQLITE_OK ? LR_OK
                           : lr_fail(err, LR_IO, "the database %.300s cannot be read: %s", file,
                                     sqlite3_errstr(rc));
}

lr_code router_check_database(const struct lr_settings *s, struct lr_error *err)
{
    const char *database = lr_settings_str(s, "database");
    uint32_t timeout_ms = (uint32_t)lr_settings_ms(s, "database-timeout");
    char file[LR_PATH_MAX];
    if (database != NULL && router_store_can_share(database))
        return probe_postgres(database, timeout_ms, err);
    if (database != NULL && strstr(database, "://") != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "database: it is neither postgres://... nor a file's path");
    if (database == NULL) {
        (void)snprintf(file, sizeof(file), "%.4000s/router.db", lr_settings_str(s, "data-dir"));
        database = file;
    }
    /* A router makes a file that does not exist. */
    return lr_file_exists(database) ? probe_sqlite(database, timeout_ms, err) : LR_OK;
}
