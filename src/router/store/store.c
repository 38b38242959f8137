#include "router/store/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "base/os/cpu.h"
#include "base/os/file.h"
#include "router/store/clock.h"
#include "router/store/records.h"
#include "router/store/usage_journal.h"

enum {
    LOOK_MS = 2000, /* a net under the other routers' words; for journals, too */
    FLUSH_MS = 250, /* usage older than this is on disk (a restart loses less than 1 s) */
    MIGRATE_FACTOR =
        12,          /* a step over a large table takes longer than a statement of every day */
    HURRY_MS = 2000, /* for a call while the router stops */
    STUCK_MS = 5000, /* no call has ended for so long, though each has HURRY_MS */
};

struct work {
    struct work *next;
    router_store_fn fn;
    router_store_done done;
    struct net_loop *loop;
    void *arg;
    uint64_t submitted_ms;
    bool is_audited, is_quiet, failed;
    struct router_audit audit;
    struct lr_error err;
};

/* Whether the router before still writes into a database that is not shared. */
enum follow { FOLLOWS_NOBODY, FOLLOWS, FOLLOWS_LAST /* it has ended: look once more */ };

struct router_store {
    struct router_sql *sql;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_running, is_closing, has_ended;
    uint64_t closing_ms; /* since when it is */
    _Atomic bool is_hurried;
    struct work *first, **last;
    int64_t audit_ms; /* the time of the last line of the audit log; under the lock */
    struct router_records records;
    struct router_usage_journal journal;
    const char *journals;     /* the folder of it and of others; borrowed from the caller */
    uint64_t next_journal_ms; /* when to look for the journals of others again */
    router_store_usage_fn on_usage;
    void *on_usage_arg;
    struct router_store_stats stats;
    char trouble[ROUTER_TROUBLE]; /* why the database failed last; "": it works */
    router_store_changed_fn on_change;
    void *on_change_arg;
    uint64_t looked_ms;
    _Atomic(enum follow) follows;
    _Atomic bool must_look;
};

bool router_store_can_share(const char *database)
{
    return strncmp(database, "postgres://", 11) == 0 ||
           strncmp(database, "postgresql://", 13) == 0;
}

lr_code router_store_check_file(const char *database, const char *folder, struct lr_error *err)
{
    struct lr_stat file, log;
    char trace[LR_PATH_MAX];
    if (!lr_stat(database, &file) || file.size != 0)
        return LR_OK;
    (void)snprintf(trace, sizeof(trace), "%.4000s-wal", database);
    bool has_log = lr_stat(trace, &log) && log.size != 0;
    if (!has_log && !router_usage_journal_was_here(folder, trace))
        return LR_OK;
    return lr_fail_as(err, database_empty, database, trace);
}

/* Two routers that start at once must not make the tables at once. */
static lr_code migrate(struct router_sql *sql, bool shared, struct lr_error *err)
{
    enum { LOCK_ID = 711680 }; /* any number that only llm-router uses in its database */
    lr_code code = LR_OK;
    if (shared)
        code = ROUTER_SQL(sql, "SELECT pg_advisory_lock($1)", NULL, NULL, err,
                          ROUTER_INT(LOCK_ID));
    if (code == LR_OK)
        code = router_schema_migrate(sql, err);
    if (shared) {
        lr_code ignored = ROUTER_SQL(sql, "SELECT pg_advisory_unlock($1)", NULL, NULL, NULL,
                                     ROUTER_INT(LOCK_ID));
        (void)ignored; /* it goes with the connection at the latest */
    }
    return code;
}

lr_code router_store_open(const char *database, uint32_t timeout_ms, struct router_store **out,
                          struct lr_error *err)
{
    *out = NULL;
    struct router_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a database");
    store->last = &store->first;
    store->journal.lock.fd = -1;
    (void)pthread_mutex_init(&store->lock, NULL);
    lr_cond_init(&store->wake);
    lr_code code = router_store_can_share(database)
                       ? router_postgres_open(database, timeout_ms, &store->sql, err)
                       : router_sqlite_open(database, timeout_ms, &store->sql, err);
    if (code == LR_OK) {
        atomic_store(&store->sql->timeout_ms, MIGRATE_FACTOR * timeout_ms);
        code = migrate(store->sql, router_store_is_shared(store), err);
        atomic_store(&store->sql->timeout_ms, timeout_ms);
    }
    if (code != LR_OK) {
        (void)router_store_close(store);
        return code;
    }
    *out = store;
    return LR_OK;
}

struct router_sql *router_store_sql(struct router_store *store)
{
    return store->sql;
}

bool router_store_is_shared(const struct router_store *store)
{
    return store->sql->backend->changed != NULL;
}

void router_store_follow(struct router_store *store, bool is_alive)
{
    atomic_store(&store->follows, is_alive ? FOLLOWS : FOLLOWS_LAST);
}

void router_store_look(struct router_store *store)
{
    atomic_store(&store->must_look, true);
}

void router_store_on_change(struct router_store *store, router_store_changed_fn fn, void *arg)
{
    store->on_change = fn;
    store->on_change_arg = arg;
}

void router_store_journal(struct router_store *store, const char *folder)
{
    store->journals = folder;
    router_usage_journal_open(&store->journal, store->sql, folder);
}

void router_store_on_usage(struct router_store *store, router_store_usage_fn fn, void *arg)
{
    store->on_usage = fn;
    store->on_usage_arg = arg;
}

/* ---- the thread ---- */

static void post_done(void *arg)
{
    struct work *work = arg;
    work->done(work->arg, work->failed ? &work->err : NULL);
    free(work);
}

/* A connection that was lost while nobody used it shows here; nothing was done yet, so it
 * is simply tried again.  Not where the timeout is spent already. */
static lr_code store_begin(struct router_sql *sql, struct lr_error *err)
{
    uint64_t gave_up_ms = sql->gave_up_ms;
    lr_code code = router_sql_plain(sql, sql->backend->begin, err);
    if (code != LR_OK && sql->backend->changed != NULL && sql->gave_up_ms == gave_up_ms)
        code = router_sql_plain(sql, sql->backend->begin, err);
    return code;
}

static lr_code in_transaction(struct router_sql *sql, router_store_fn fn, void *arg, bool tells,
                              struct lr_error *err)
{
    lr_code code = store_begin(sql, err);
    if (code != LR_OK)
        return code;
    LR_FAILPOINT("store.begun");
    code = fn(sql, arg, err);
    if (code == LR_OK && tells && sql->backend->announce != NULL)
        code = sql->backend->announce(sql, err);
    LR_FAILPOINT("store.before_commit");
    if (code == LR_OK)
        code = router_sql_plain(sql, "COMMIT", err);
    LR_FAILPOINT("store.after_commit");
    if (code != LR_OK) {
        lr_code ignored = router_sql_plain(sql, "ROLLBACK", NULL);
        (void)ignored; /* the first failure is the one to tell */
    }
    return code;
}

void router_store_note(struct router_store *store, const struct lr_error *err)
{
    (void)pthread_mutex_lock(&store->lock);
    (void)snprintf(store->trouble, sizeof(store->trouble), "%s", err != NULL ? err->text : "");
    (void)pthread_mutex_unlock(&store->lock);
}

bool router_store_trouble(struct router_store *store, char out[ROUTER_TROUBLE])
{
    (void)pthread_mutex_lock(&store->lock);
    memcpy(out, store->trouble, ROUTER_TROUBLE);
    (void)pthread_mutex_unlock(&store->lock);
    return out[0] != '\0';
}

/* A refused row (CONFLICT, say) is no trouble of the database. */
static void note(struct router_store *store, lr_code code, const struct lr_error *err)
{
    if (code == LR_OK || code == LR_UNAVAILABLE)
        router_store_note(store, code == LR_OK ? NULL : err);
}

static lr_code run_work(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct work *work = arg;
    lr_code code = work->fn != NULL ? work->fn(sql, work->arg, err) : LR_OK;
    if (code == LR_OK && work->is_audited)
        code = router_audit_insert(sql, &work->audit, err);
    return code;
}

static void log_audit(const struct router_audit *a)
{
    lr_log_info(NULL, "audit.done action=%s actor=%s from=%s target=%s detail=%s", a->action,
                a->actor, a->from, a->target, a->detail);
}

/* The timeout of another call passed while this work waited. */
static bool store_is_hopeless(const struct router_store *store, const struct work *work)
{
    return work->submitted_ms <= store->sql->gave_up_ms;
}

static lr_code fail_with_others(struct router_store *store, struct lr_error *err)
{
    char trouble[ROUTER_TROUBLE];
    (void)router_store_trouble(store, trouble);
    return lr_fail(err, LR_UNAVAILABLE, "%s",
                   trouble[0] != '\0' ? trouble : "the database does not answer");
}

static void do_work(struct router_store *store, struct work *work)
{
    lr_code code;
    if (store_is_hopeless(store, work)) {
        code = fail_with_others(store, &work->err);
    } else {
        code = in_transaction(store->sql, run_work, work, !work->is_quiet, &work->err);
        note(store, code, &work->err);
    }
    if (code == LR_OK && work->is_audited)
        log_audit(&work->audit);
    work->failed = code != LR_OK;
    if (work->failed)
        lr_log_warn(LR_LOG_OF(&work->err), "store.failed reason=%s", work->err.text);
    if (work->done == NULL)
        free(work);
    else if (work->loop == NULL)
        post_done(work);
    else
        net_loop_post(work->loop, post_done, work);
}

/* ---- usage and audit rows ---- */

struct insertion {
    const struct router_usage_journal *journal;
    struct router_batch *batch;
};

static lr_code insert_batch(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct insertion *in = arg;
    size_t count = in->batch->count[ROUTER_USAGE];
    const struct router_usage *rows = (const void *)in->batch->rows[ROUTER_USAGE];
    lr_code code = router_batch_insert(sql, in->batch, err);
    if (code == LR_OK && count != 0)
        code = router_usage_journal_note(in->journal, sql, rows[count - 1].number, err);
    return code;
}

/* Called with the lock held; gives it up while it writes.  Rows that cannot be written stay and
 * are tried again.  False: they could not. */
static bool write_batch(struct router_store *store)
{
    struct router_batch batch;
    struct lr_error err;
    bool is_written = false;
    if (!router_batch_take(&store->records, &batch))
        return false;
    (void)pthread_mutex_unlock(&store->lock);
    lr_code code =
        batch.is_doubtful ? router_batch_find(store->sql, &batch, &is_written, &err) : LR_OK;
    if (code == LR_OK && !is_written)
        code = in_transaction(store->sql, insert_batch,
                              &(struct insertion){&store->journal, &batch}, false, &err);
    if (code != LR_OK && !batch.is_doubtful)
        lr_log_error(LR_LOG_OF(&err), "store.rows_wait usage=%zu audit=%zu reason=%s",
                     batch.count[ROUTER_USAGE], batch.count[ROUTER_AUDIT], err.text);
    note(store, code, &err);
    const struct router_audit *audits = (const void *)batch.rows[ROUTER_AUDIT];
    for (size_t i = 0; code == LR_OK && i < batch.count[ROUTER_AUDIT]; i++)
        log_audit(&audits[i]);
    const struct router_usage *rows = (const void *)batch.rows[ROUTER_USAGE];
    size_t count = code == LR_OK ? batch.count[ROUTER_USAGE] : 0;
    if (count != 0 && store->on_usage != NULL)
        store->on_usage(store->on_usage_arg, rows, count);
    (void)pthread_mutex_lock(&store->lock);
    router_usage_journal_drop(&store->journal, rows, count);
    store->stats.transactions++;
    store->stats.usage_written += code == LR_OK ? batch.count[ROUTER_USAGE] : 0;
    router_batch_end(&store->records, &batch, code == LR_OK);
    return code == LR_OK;
}

/* The fuller of the two. */
static size_t rows_waiting(const struct router_store *store)
{
    size_t usage = router_records_waiting(&store->records, ROUTER_USAGE);
    size_t audits = router_records_waiting(&store->records, ROUTER_AUDIT);
    return usage > audits ? usage : audits;
}

/* Lock held; gives it up while it waits.  False: the time has passed. */
static bool wait_ms(struct router_store *store, long ms)
{
    uint64_t until = lr_clock_ns(NULL) + (uint64_t)ms * 1000000;
    return lr_cond_wait_until(&store->wake, &store->lock, until) == 0;
}

static void look_for_changes(struct router_store *store)
{
    uint64_t now = lr_clock_ms(NULL), silent_ms = now - store->looked_ms;
    enum follow follows = atomic_load(&store->follows);
    bool is_shared = router_store_is_shared(store);
    if (store->on_change == NULL || atomic_load(&store->is_hurried))
        return;
    bool is_due =
        is_shared ? store->sql->backend->changed(store->sql) || silent_ms >= LOOK_MS
                  : follows == FOLLOWS_LAST || (follows == FOLLOWS && silent_ms >= FLUSH_MS);
    if (!atomic_exchange(&store->must_look, false) && !is_due)
        return;
    if (follows == FOLLOWS_LAST)
        atomic_store(&store->follows, FOLLOWS_NOBODY);
    store->looked_ms = now;
    store->on_change(store->on_change_arg, store->sql);
}

/* Less often where the database is slow to say that it has no room. */
static void look_at_journals(struct router_store *store)
{
    uint64_t now = lr_clock_ms(NULL);
    if (store->journals == NULL || now < store->next_journal_ms ||
        atomic_load(&store->is_hurried))
        return;
    if (router_usage_journal_look(&store->journal, store->sql, store->journals, &store->lock))
        router_store_look(store); /* budgets count what was stored */
    uint64_t end = lr_clock_ms(NULL);
    store->next_journal_ms = end + LOOK_MS + 4 * (end - now);
}

/* Lock held: everything that waits, until the database fails. */
static void write_last(struct router_store *store)
{
    bool is_well = store->sql->gave_up_ms < store->closing_ms;
    while (is_well && rows_waiting(store) != 0)
        is_well = write_batch(store);
    if (rows_waiting(store) != 0)
        lr_log_error(NULL, "store.rows_lost usage=%zu audit=%zu",
                     router_records_waiting(&store->records, ROUTER_USAGE),
                     router_records_waiting(&store->records, ROUTER_AUDIT));
}

/* Lock held; gives it up while it works. */
static void do_first(struct router_store *store)
{
    struct work *work = store->first;
    store->first = work->next;
    if (store->first == NULL)
        store->last = &store->first;
    store->stats.transactions++;
    (void)pthread_mutex_unlock(&store->lock);
    do_work(store, work);
    (void)pthread_mutex_lock(&store->lock);
}

static void *store_run(void *arg)
{
    struct router_store *store = arg;
    uint64_t flushed_ms = 0;
    bool has_more = false; /* the last batch was written, and another is full */
    (void)pthread_mutex_lock(&store->lock);
    while (!store->is_closing || store->first != NULL) {
        if (!has_more && store->first == NULL)
            (void)wait_ms(store, FLUSH_MS);
        if (store->first != NULL)
            do_first(store);
        while (store->first != NULL && store_is_hopeless(store, store->first))
            do_first(store);
        if (store->is_closing)
            continue;
        uint64_t now = lr_clock_ms(NULL);
        if (has_more || (rows_waiting(store) != 0 && now - flushed_ms >= FLUSH_MS)) {
            has_more = write_batch(store) && rows_waiting(store) >= ROUTER_BATCH_ROWS;
            flushed_ms = now;
        }
        (void)pthread_mutex_unlock(&store->lock);
        look_at_journals(store);
        look_for_changes(store);
        (void)pthread_mutex_lock(&store->lock);
    }
    write_last(store);
    store->has_ended = true;
    (void)pthread_cond_signal(&store->wake);
    (void)pthread_mutex_unlock(&store->lock);
    return NULL;
}

lr_code router_store_start(struct router_store *store, struct lr_error *err)
{
    if (pthread_create(&store->thread, NULL, store_run, store) != 0)
        return lr_fail(err, LR_OUT_OF_RAM, "cannot start the database's thread");
    store->is_running = true;
    return LR_OK;
}

void router_store_hurry(struct router_store *store)
{
    atomic_store(&store->is_hurried, true);
    if (store->sql != NULL && atomic_load(&store->sql->timeout_ms) > HURRY_MS)
        atomic_store(&store->sql->timeout_ms, HURRY_MS);
}

/* False: no call to the database has ended for a while. */
static bool end_thread(struct router_store *store)
{
    bool is_stuck = false;
    (void)pthread_mutex_lock(&store->lock);
    store->is_closing = true;
    store->closing_ms = lr_clock_ms(NULL);
    (void)pthread_cond_signal(&store->wake);
    while (!store->has_ended && !is_stuck) {
        uint64_t answers = atomic_load(&store->sql->answers);
        is_stuck = !wait_ms(store, STUCK_MS) && !store->has_ended &&
                   atomic_load(&store->sql->answers) == answers;
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (!is_stuck)
        (void)pthread_join(store->thread, NULL);
    return !is_stuck;
}

bool router_store_stop(struct router_store *store)
{
    if (store == NULL)
        return true;
    router_store_hurry(store);
    if (store->is_running && !end_thread(store)) {
        lr_log_error(NULL, "store.stuck database=%s usage=%zu", store->sql->backend->name,
                     router_records_waiting(&store->records, ROUTER_USAGE));
        return false;
    }
    store->is_running = false;
    return true;
}

bool router_store_close(struct router_store *store)
{
    if (!router_store_stop(store))
        return false;
    if (store == NULL)
        return true;
    router_usage_journal_close(&store->journal, store->sql, rows_waiting(store) == 0);
    router_sql_close(store->sql);
    (void)pthread_mutex_destroy(&store->lock);
    (void)pthread_cond_destroy(&store->wake);
    router_records_free(&store->records);
    free(store);
    return true;
}

/* ---- from the loops ---- */

static void submit(struct router_store *store, struct work wanted)
{
    /* Not refused: `done` would run inside this call, where its caller holds the lock. */
    struct work *work = net_alloc(sizeof(*work));
    *work = wanted;
    work->submitted_ms = lr_clock_ms(NULL);
    (void)pthread_mutex_lock(&store->lock);
    *store->last = work;
    store->last = &work->next;
    (void)pthread_cond_signal(&store->wake);
    (void)pthread_mutex_unlock(&store->lock);
}

/* The wall clock, but each line of the audit log has a time of its own: two changes of one
 * millisecond are listed in their order.  A clock that was set back counts from where it is. */
static int64_t audit_time(struct router_store *store)
{
    enum { SAME_MOMENT_MS = 1000 };
    int64_t now = lr_clock_wall_ms(&router_clock);
    (void)pthread_mutex_lock(&store->lock);
    if (now <= store->audit_ms && store->audit_ms - now < SAME_MOMENT_MS)
        now = store->audit_ms + 1;
    store->audit_ms = now;
    (void)pthread_mutex_unlock(&store->lock);
    return now;
}

static struct router_audit store_describe(struct router_store *store,
                                          const struct router_action *action)
{
    struct router_audit a = {.time_ms = audit_time(store)};
    LR_COPY(a.actor, lr_str_z(action->by.id));
    LR_COPY(a.name, lr_str_z(action->by.name));
    LR_COPY(a.from, lr_str_z(action->by.from));
    LR_COPY(a.action, lr_str_z(action->action));
    LR_COPY(a.target, lr_str_z(action->target));
    LR_COPY(a.detail, lr_str_z(action->detail));
    if (action->change != NULL) {
        LR_COPY(a.before, lr_str_z(action->change->before.text));
        LR_COPY(a.after, lr_str_z(action->change->after.text));
    }
    return a;
}

void router_store_act(struct router_store *store, const struct router_action *action,
                      router_store_fn fn, struct net_loop *loop, router_store_done done,
                      void *arg)
{
    submit(store, (struct work){.fn = fn,
                                .done = done,
                                .loop = loop,
                                .arg = arg,
                                .is_audited = action != NULL,
                                .audit = action != NULL ? store_describe(store, action)
                                                        : (struct router_audit){0}});
}

void router_store_submit(struct router_store *store, router_store_fn fn, struct net_loop *loop,
                         router_store_done done, void *arg)
{
    router_store_act(store, NULL, fn, loop, done, arg);
}

void router_store_quietly(struct router_store *store, router_store_fn fn, struct net_loop *loop,
                          router_store_done done, void *arg)
{
    submit(store,
           (struct work){.fn = fn, .done = done, .loop = loop, .arg = arg, .is_quiet = true});
}

void router_store_usage(struct router_store *store, const struct router_usage *row)
{
    struct router_usage own = *row;
    (void)pthread_mutex_lock(&store->lock);
    router_usage_journal_add(&store->journal, &own);
    bool kept = router_records_add(&store->records, ROUTER_USAGE, &own);
    store->stats.usage_dropped += !kept;
    (void)pthread_mutex_unlock(&store->lock);
    if (!kept)
        lr_log_error(NULL, "store.usage_dropped request=%s key=%s", row->request_id,
                     row->key_id);
}

void router_store_audit(struct router_store *store, const struct router_action *action)
{
    struct router_audit a = store_describe(store, action);
    (void)pthread_mutex_lock(&store->lock);
    bool kept = router_records_add(&store->records, ROUTER_AUDIT, &a);
    (void)pthread_mutex_unlock(&store->lock);
    if (!kept)
        lr_log_error(NULL, "store.audit_dropped action=%s actor=%s target=%s detail=%s",
                     a.action, a.actor, a.target, a.detail);
}

void router_store_get_stats(struct router_store *store, struct router_store_stats *out)
{
    (void)pthread_mutex_lock(&store->lock);
    *out = store->stats;
    out->usage_waiting = router_records_waiting(&store->records, ROUTER_USAGE);
    (void)pthread_mutex_unlock(&store->lock);
}
