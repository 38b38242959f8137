/* router/store/sqlite.c - the SQLite side of router/store/sql.h.
 *
 * WAL with full syncs: what was committed survives kill -9 and a power cut.  Statements
 * are kept prepared, keyed by the address of their (static) text.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/file.h"
#include "router/store/sql.h"

enum { KEPT_MAX = 64, BUSY_LOOK_MS = 10 };

struct lite {
    struct router_sql base;
    sqlite3 *db;
    char *path;         /* owned */
    uint64_t called_ms; /* when the call that runs began */
    struct {
        const char *text;
        sqlite3_stmt *statement;
    } kept[KEPT_MAX];
    size_t kept_count;
};

struct lite_row {
    struct router_row base;
    sqlite3_stmt *statement;
};

/* What the operator can do about it. */
static const char *advice(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
        return ": free space on its disk, or look at the disk's health";
    case SQLITE_READONLY:
    case SQLITE_CANTOPEN:
    case SQLITE_PERM:
        return ": let this user write the file and its folder";
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return ": put a backup in its place";
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return ": another program holds it for longer than the setting database-timeout";
    default:
        return "";
    }
}

static lr_code sqlite_fail(struct lite *lite, int rc, const char *what, struct lr_error *err)
{
    lr_code code = (rc & 0xff) == SQLITE_CONSTRAINT ? LR_CONFLICT : LR_UNAVAILABLE;
    if ((rc & 0xff) == SQLITE_BUSY)
        lite->base.gave_up_ms = lr_clock_ms(NULL);
    return lr_fail(err, code, "SQLite %.200s, %.100s: %s%s", lite->path, what,
                   lite->db != NULL ? sqlite3_errmsg(lite->db) : sqlite3_errstr(rc),
                   advice(rc));
}

static lr_code sqlite_prepare(struct lite *lite, const char *text, sqlite3_stmt **out,
                              struct lr_error *err)
{
    for (size_t i = 0; i < lite->kept_count; i++)
        if (lite->kept[i].text == text) {
            *out = lite->kept[i].statement;
            return LR_OK;
        }
    if (lite->kept_count == KEPT_MAX) {
        lite->kept_count--;
        (void)sqlite3_finalize(lite->kept[lite->kept_count].statement);
    }
    int rc = sqlite3_prepare_v3(lite->db, text, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
    if (rc != SQLITE_OK)
        return sqlite_fail(lite, rc, text, err);
    lite->kept[lite->kept_count].text = text;
    lite->kept[lite->kept_count++].statement = *out;
    return LR_OK;
}

static void bind(sqlite3_stmt *statement, const struct router_sql_value *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct router_sql_value *v = &values[i];
        char name[16];
        (void)snprintf(name, sizeof(name), "$%zu", i + 1);
        /* SQLite numbers parameters as they appear, whatever their names say. */
        int at = sqlite3_bind_parameter_index(statement, name);
        if (v->type == ROUTER_SQL_INT)
            (void)sqlite3_bind_int64(statement, at, v->number);
        else if (v->type == ROUTER_SQL_TEXT)
            (void)sqlite3_bind_text(statement, at, v->text.ptr != NULL ? v->text.ptr : "",
                                    (int)v->text.len, SQLITE_STATIC);
        else
            (void)sqlite3_bind_null(statement, at);
    }
}

/* SQLite's own handler has a fixed time; ours ends sooner when the router stops. */
static int on_busy(void *arg, int tries)
{
    const struct lite *lite = arg;
    (void)tries;
    if (lr_clock_ms(NULL) - lite->called_ms >= atomic_load(&lite->base.timeout_ms))
        return 0;
    lr_sleep_ms(BUSY_LOOK_MS);
    return 1;
}

static lr_code lite_run(struct router_sql *sql, const char *text,
                        const struct router_sql_value *values, size_t count, router_row_fn fn,
                        void *ctx, struct lr_error *err)
{
    struct lite *lite = (struct lite *)(void *)sql;
    struct lite_row row = {.base.sql = sql};
    lite->called_ms = lr_clock_ms(NULL);
    lr_code code = sqlite_prepare(lite, text, &row.statement, err);
    if (code != LR_OK)
        return code;
    bind(row.statement, values, count);
    int rc = SQLITE_ROW;
    while (code == LR_OK && (rc = sqlite3_step(row.statement)) == SQLITE_ROW)
        if (fn != NULL)
            code = fn(ctx, &row.base, err);
    if (code == LR_OK && rc != SQLITE_DONE)
        code = sqlite_fail(lite, rc, "running a statement", err);
    (void)sqlite3_reset(row.statement);
    (void)sqlite3_clear_bindings(row.statement);
    return code;
}

static int64_t lite_int(const struct router_row *row, int column)
{
    const struct lite_row *r = (const struct lite_row *)(const void *)row;
    return sqlite3_column_int64(r->statement, column);
}

static struct lr_str lite_text(const struct router_row *row, int column)
{
    const struct lite_row *r = (const struct lite_row *)(const void *)row;
    const void *text = sqlite3_column_text(r->statement, column);
    return lr_str(text, (size_t)sqlite3_column_bytes(r->statement, column));
}

static void lite_close(struct router_sql *sql)
{
    struct lite *lite = (struct lite *)(void *)sql;
    for (size_t i = 0; i < lite->kept_count; i++)
        (void)sqlite3_finalize(lite->kept[i].statement);
    (void)sqlite3_close(lite->db);
    free(lite->path);
    free(lite);
}

static const struct router_sql_backend backend = {
    .name = "SQLite",
    /* Waits for the other router's transaction at its beginning: a transaction that first reads
     * and then writes would fail instead where the other one wrote in between. */
    .begin = "BEGIN IMMEDIATE",
    .columns = "SELECT name FROM pragma_table_info($1)",
    .run = lite_run,
    .row_int = lite_int,
    .row_text = lite_text,
    .close = lite_close,
};

lr_code router_sqlite_open(const char *path, uint32_t timeout_ms, struct router_sql **out,
                           struct lr_error *err)
{
    static const char *const setup[] = {"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL",
                                        "PRAGMA foreign_keys=ON", "PRAGMA secure_delete=ON"};
    *out = NULL;
    struct lite *lite = calloc(1, sizeof(*lite));
    if (lite == NULL || (lite->path = strdup(path)) == NULL) {
        free(lite);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a database");
    }
    lite->base.backend = &backend;
    atomic_store(&lite->base.timeout_ms, timeout_ms);
    /* Names, addresses and usage are in it.  SQLite gives its side files the mode of this one.
     */
    int fd = lr_open(path, LR_OPEN_READ_WRITE | LR_OPEN_CREATE, 0600);
    if (fd >= 0)
        (void)close(fd);
    int rc =
        sqlite3_open_v2(path, &lite->db,
                        SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    lr_code code = rc == SQLITE_OK ? LR_OK : sqlite_fail(lite, rc, "opening", err);
    if (code == LR_OK)
        (void)sqlite3_busy_handler(lite->db, on_busy, lite);
    for (size_t i = 0; code == LR_OK && i < sizeof(setup) / sizeof(setup[0]); i++)
        code = lite_run(&lite->base, setup[i], NULL, 0, NULL, NULL, err);
    if (code != LR_OK) {
        lite_close(&lite->base);
        return code;
    }
    *out = &lite->base;
    return LR_OK;
}
