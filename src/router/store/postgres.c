/* router/store/postgres.c - the PostgreSQL side of router/store/sql.h, through libpq.
 *
 * libpq is opened with dlopen, so that a router with a file for its database needs none.
 * Several routers share one database: each listens on a channel and says a word on it
 * with every change, so the others read again.  A lost connection is made again, once,
 * before a statement that is not inside a transaction; after that everything counts as
 * changed.
 *
 * A server that is frozen, or behind a network that drops everything, keeps its connections
 * open and never answers.  So libpq is used without blocking, every wait has a deadline, and a
 * connection that ran into it is given up.
 */
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/os/library.h"
#include "base/random.h"
#include "router/store/sql.h"

enum {
    VALUES_MAX = 64,
    NUMBER_LEN = 24,
    SLICE_MS = 50, /* a timeout that was made shorter is seen after this */
};

/* clang-format off */
#define LIBPQ_FUNCTIONS(X)                                                                    \
    X(PQconnectStart) X(PQconnectPoll) X(PQsocket) X(PQsetnonblocking) X(PQstatus)            \
    X(PQhost) X(PQdb) X(PQfinish) X(PQerrorMessage) X(PQsendQueryParams) X(PQflush)           \
    X(PQisBusy) X(PQgetResult) X(PQresultStatus) X(PQresultErrorField) X(PQntuples)           \
    X(PQgetvalue) X(PQgetlength) X(PQclear) X(PQconsumeInput) X(PQnotifies) X(PQfreemem)      \
    X(PQsetNoticeProcessor)
/* clang-format on */

static struct {
    void *handle;
#define X(name) __typeof__(&name) name;
    LIBPQ_FUNCTIONS(X)
#undef X
} pq;

struct pg {
    struct router_sql base;
    char *url;          /* owned */
    PGconn *connection; /* NULL: given up */
    char name[160];     /* which server and database, for errors */
    uint64_t called_ms; /* when the call that runs began */
    char self[24];      /* what we sign our words with */
    bool was_lost;
    bool is_open; /* a transaction is: lost with the connection */
};

struct pg_row {
    struct router_row base;
    const PGresult *result;
    int index;
};

static lr_code load_library(struct lr_error *err)
{
    if (pq.handle != NULL)
        return LR_OK;
    if (lr_library_name(LR_LIBRARY_PQ)[0] == '\0')
        return lr_fail(err, LR_UNSUPPORTED,
                       "a PostgreSQL database can be used on Linux only: leave --database out");
    pq.handle = lr_library_open_known(LR_LIBRARY_PQ);
    if (pq.handle == NULL)
        return lr_fail(err, LR_UNSUPPORTED,
                       "a PostgreSQL database needs libpq.so.5 (Debian: apt install libpq5)");
#define X(name)                                                                                \
    *(void **)(void *)&pq.name = lr_library_symbol(pq.handle, #name);                          \
    if (pq.name == NULL)                                                                       \
        return lr_fail(err, LR_UNSUPPORTED, "libpq.so.5 lacks " #name);
    LIBPQ_FUNCTIONS(X)
#undef X
    return LR_OK;
}

static lr_code postgres_fail(const struct pg *pg, const PGresult *result, struct lr_error *err)
{
    const char *state = result != NULL ? pq.PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text =
        result != NULL ? pq.PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    bool is_taken = state != NULL && strcmp(state, "23505") == 0; /* unique_violation */
    char line[400];
    (void)snprintf(line, sizeof(line), "%s",
                   text != NULL ? text : pq.PQerrorMessage(pg->connection));
    /* libpq's advice is on lines of its own; a log has one. */
    for (char *c = line; *c != '\0'; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    struct lr_str trimmed = lr_str_trim(lr_str_z(line));
    return lr_fail(err, is_taken ? LR_CONFLICT : LR_UNAVAILABLE, "PostgreSQL: " LR_STR_FMT,
                   LR_STR_ARG(trimmed));
}

/* ---- waiting, with a deadline ---- */

static void postgres_give_up(struct pg *pg)
{
    pq.PQfinish(pg->connection);
    pg->connection = NULL;
}

static lr_code fail_silent(struct pg *pg, const char *what, struct lr_error *err)
{
    uint64_t now = lr_clock_ms(NULL);
    postgres_give_up(pg);
    pg->base.gave_up_ms = now;
    return lr_fail(err, LR_UNAVAILABLE,
                   "PostgreSQL %s %s within %.1f s (setting database-timeout): look at the "
                   "server and at the network between",
                   pg->name, what, (double)(now - pg->called_ms) / 1000);
}

/* False: the deadline of the call has passed. */
static bool wait_for(struct pg *pg, unsigned events)
{
    int fd = pq.PQsocket(pg->connection);
    if (fd < 0)
        return true; /* the connection is lost: the next call into libpq says so */
    for (;;) {
        uint64_t spent = lr_clock_ms(NULL) - pg->called_ms;
        uint32_t limit = atomic_load(&pg->base.timeout_ms);
        if (spent >= limit)
            return false;
        uint64_t left = limit - spent;
        if (lr_fd_wait(fd, events, left < SLICE_MS ? (int)left : SLICE_MS) > 0)
            return true;
    }
}

/* libpq would write them to standard error. */
static void on_notice(void *arg, const char *text)
{
    (void)arg;
    lr_log_debug(NULL, "store.notice text=%s", text);
}

static lr_code dial(struct pg *pg, struct lr_error *err)
{
    postgres_give_up(pg);
    pg->connection = pq.PQconnectStart(pg->url);
    const char *host = pq.PQhost(pg->connection), *database = pq.PQdb(pg->connection);
    (void)snprintf(pg->name, sizeof(pg->name), "\"%.40s\" at %.100s",
                   database != NULL ? database : "", host != NULL ? host : "");
    (void)pq.PQsetNoticeProcessor(pg->connection, on_notice, NULL);
    /* Until PQconnectPoll says otherwise the socket is to be written. */
    PostgresPollingStatusType state = pq.PQstatus(pg->connection) == CONNECTION_BAD
                                          ? PGRES_POLLING_FAILED
                                          : PGRES_POLLING_WRITING;
    while (state == PGRES_POLLING_READING || state == PGRES_POLLING_WRITING) {
        if (!wait_for(pg, state == PGRES_POLLING_READING ? LR_FD_READABLE : LR_FD_WRITABLE))
            return fail_silent(pg, "did not accept a connection", err);
        state = pq.PQconnectPoll(pg->connection);
    }
    if (state != PGRES_POLLING_OK || pq.PQsetnonblocking(pg->connection, 1) != 0)
        return postgres_fail(pg, NULL, err);
    return LR_OK;
}

/* The answer of one statement; NULL: err says why there is none. */
static PGresult *postgres_ask(struct pg *pg, const char *text, const char *const *params,
                              int count, struct lr_error *err)
{
    PGresult *result = NULL;
    if (pq.PQsendQueryParams(pg->connection, text, count, NULL, params, NULL, NULL, 0) != 1) {
        (void)postgres_fail(pg, NULL, err);
        return NULL;
    }
    for (;;) {
        int unsent = pq.PQflush(pg->connection);
        if (unsent == 0 && pq.PQisBusy(pg->connection) == 0) {
            PGresult *next = pq.PQgetResult(pg->connection);
            if (next == NULL)
                break;
            pq.PQclear(result);
            result = next;
            continue;
        }
        if (unsent >= 0 && !wait_for(pg, LR_FD_READABLE | (unsent != 0 ? LR_FD_WRITABLE : 0))) {
            pq.PQclear(result);
            (void)fail_silent(pg, "did not answer", err);
            return NULL;
        }
        if (unsent < 0 || pq.PQconsumeInput(pg->connection) != 1) {
            pq.PQclear(result);
            (void)postgres_fail(pg, NULL, err);
            return NULL;
        }
    }
    if (result == NULL)
        (void)postgres_fail(pg, NULL, err);
    return result;
}

static lr_code listen_for_words(struct pg *pg, struct lr_error *err)
{
    PGresult *result = postgres_ask(pg, "LISTEN llm_router", NULL, 0, err);
    if (result == NULL)
        return LR_UNAVAILABLE;
    lr_code code =
        pq.PQresultStatus(result) == PGRES_COMMAND_OK ? LR_OK : postgres_fail(pg, result, err);
    pq.PQclear(result);
    return code;
}

/* Makes a lost connection again; not inside a transaction, whose first half is lost. */
static lr_code stay_connected(struct pg *pg, struct lr_error *err)
{
    if (pq.PQstatus(pg->connection) == CONNECTION_OK)
        return LR_OK;
    if (pg->is_open)
        return lr_fail(err, LR_UNAVAILABLE, "PostgreSQL: the connection was lost");
    lr_code code = dial(pg, err);
    if (code == LR_OK)
        code = listen_for_words(pg, err);
    if (code != LR_OK)
        return code;
    pg->was_lost = true;
    lr_log_warn(NULL, "store.reconnected database=PostgreSQL");
    return LR_OK;
}

static lr_code pg_run(struct router_sql *sql, const char *text,
                      const struct router_sql_value *values, size_t count, router_row_fn fn,
                      void *ctx, struct lr_error *err)
{
    struct pg *pg = (struct pg *)(void *)sql;
    const char *params[VALUES_MAX];
    char numbers[VALUES_MAX][NUMBER_LEN];
    char *copies[VALUES_MAX] = {NULL};
    if (strcmp(text, "ROLLBACK") == 0 && pq.PQstatus(pg->connection) != CONNECTION_OK) {
        pg->is_open = false; /* the server has done it */
        return LR_OK;
    }
    pg->called_ms = lr_clock_ms(NULL);
    lr_code code = stay_connected(pg, err);
    if (code == LR_OK && count > VALUES_MAX)
        code = lr_fail(err, LR_INTERNAL, "a statement has more than %d values", VALUES_MAX);
    for (size_t i = 0; code == LR_OK && i < count; i++) {
        params[i] = NULL;
        if (values[i].type == ROUTER_SQL_INT) {
            (void)snprintf(numbers[i], NUMBER_LEN, "%lld", (long long)values[i].number);
            params[i] = numbers[i];
        } else if (values[i].type == ROUTER_SQL_TEXT) {
            copies[i] = strndup(values[i].text.ptr != NULL ? values[i].text.ptr : "",
                                values[i].text.len);
            params[i] = copies[i];
            if (copies[i] == NULL)
                code = lr_fail(err, LR_OUT_OF_RAM, "no memory for a statement");
        }
    }
    if (code == LR_OK) {
        PGresult *result = postgres_ask(pg, text, params, (int)count, err);
        ExecStatusType status = pq.PQresultStatus(result);
        if (result == NULL)
            code = LR_UNAVAILABLE;
        else if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
            code = postgres_fail(pg, result, err);
        struct pg_row row = {.base.sql = sql, .result = result};
        int rows = code == LR_OK ? pq.PQntuples(result) : 0;
        for (row.index = 0; code == LR_OK && fn != NULL && row.index < rows; row.index++)
            code = fn(ctx, &row.base, err);
        pq.PQclear(result);
    }
    for (size_t i = 0; i < count && i < VALUES_MAX; i++)
        free(copies[i]);
    if (code == LR_OK && strcmp(text, "BEGIN") == 0)
        pg->is_open = true;
    else if (strcmp(text, "ROLLBACK") == 0 || (code == LR_OK && strcmp(text, "COMMIT") == 0))
        pg->is_open = false;
    return code;
}

static struct lr_str pg_text(const struct router_row *row, int column)
{
    const struct pg_row *r = (const struct pg_row *)(const void *)row;
    return lr_str(pq.PQgetvalue(r->result, r->index, column),
                  (size_t)pq.PQgetlength(r->result, r->index, column));
}

static int64_t pg_int(const struct router_row *row, int column)
{
    int64_t value = 0;
    (void)lr_str_i64(pg_text(row, column), &value);
    return value;
}

static bool pg_changed(struct router_sql *sql)
{
    struct pg *pg = (struct pg *)(void *)sql;
    bool changed = pg->was_lost;
    struct lr_error err;
    pg->was_lost = false;
    pg->called_ms = lr_clock_ms(NULL);
    (void)pq.PQconsumeInput(pg->connection);
    if (stay_connected(pg, &err) != LR_OK)
        return false;
    changed = changed || pg->was_lost;
    pg->was_lost = false;
    for (PGnotify *word; (word = pq.PQnotifies(pg->connection)) != NULL;) {
        changed = changed || strcmp(word->extra, pg->self) != 0;
        pq.PQfreemem(word);
    }
    return changed;
}

static lr_code pg_announce(struct router_sql *sql, struct lr_error *err)
{
    struct pg *pg = (struct pg *)(void *)sql;
    return ROUTER_SQL(sql, "SELECT pg_notify('llm_router', $1)", NULL, NULL, err,
                      ROUTER_Z(pg->self));
}

static void pg_close(struct router_sql *sql)
{
    struct pg *pg = (struct pg *)(void *)sql;
    postgres_give_up(pg);
    free(pg->url);
    free(pg);
}

static const struct router_sql_backend backend = {
    .name = "PostgreSQL",
    .begin = "BEGIN",
    .columns = "SELECT column_name FROM information_schema.columns WHERE table_schema = "
               "current_schema() AND table_name = $1",
    .run = pg_run,
    .row_int = pg_int,
    .row_text = pg_text,
    .close = pg_close,
    .changed = pg_changed,
    .announce = pg_announce,
};

lr_code router_postgres_open(const char *url, uint32_t timeout_ms, struct router_sql **out,
                             struct lr_error *err)
{
    *out = NULL;
    lr_code code = load_library(err);
    if (code != LR_OK)
        return code;
    struct pg *pg = calloc(1, sizeof(*pg));
    if (pg == NULL || (pg->url = strdup(url)) == NULL) {
        free(pg);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a database");
    }
    pg->base.backend = &backend;
    atomic_store(&pg->base.timeout_ms, timeout_ms);
    lr_random_base62(pg->self, sizeof(pg->self) - 1);
    pg->called_ms = lr_clock_ms(NULL);
    code = dial(pg, err);
    if (code == LR_OK)
        code = listen_for_words(pg, err);
    if (code != LR_OK) {
        pg_close(&pg->base);
        return code;
    }
    *out = &pg->base;
    return LR_OK;
}
