#include "router/store.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/failpoint.h"
#include "base/log.h"
#include "router/books.h"

enum {
    LOOK_MS = 2000, /* a net under the other routers' words */
    FLUSH_MS = 250, /* usage older than this is on disk (a restart loses less than 1 s) */
    USAGE_PENDING_MAX = 1 << 20 /* rows that may wait: two minutes of 8,000 requests a second */
};

struct work {
    struct work *next;
    router_store_fn fn;
    router_store_done done;
    struct net_loop *loop;
    void *arg;
    struct router_audit *audit; /* owned; NULL: none */
    bool failed;
    struct lr_error err;
};

struct router_store {
    struct router_sql *sql;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool is_running, is_closing;
    struct work *first, **last;
    struct router_usage *usage; /* owned; waits to be written */
    size_t usage_count, usage_cap;
    bool is_usage_doubtful; /* the last batch failed; maybe only its answer (thread) */
    struct router_store_stats stats;
    char trouble[ROUTER_TROUBLE]; /* why the database failed last; "": it works */
    router_store_changed_fn on_change;
    void *on_change_arg;
    uint64_t looked_ms;
};

bool router_store_can_share(const char *database)
{
    return strncmp(database, "postgres://", 11) == 0 ||
           strncmp(database, "postgresql://", 13) == 0;
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

lr_code router_store_open(const char *database, struct router_store **out, struct lr_error *err)
{
    pthread_condattr_t attr;
    *out = NULL;
    struct router_store *store = calloc(1, sizeof(*store));
    if (store == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a database");
    store->last = &store->first;
    (void)pthread_mutex_init(&store->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&store->wake, &attr);
    (void)pthread_condattr_destroy(&attr);
    lr_code code = router_store_can_share(database)
                       ? router_postgres_open(database, &store->sql, err)
                       : router_sqlite_open(database, &store->sql, err);
    if (code == LR_OK)
        code = migrate(store->sql, router_store_is_shared(store), err);
    if (code != LR_OK) {
        router_store_close(store);
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

void router_store_on_change(struct router_store *store, router_store_changed_fn fn, void *arg)
{
    store->on_change = fn;
    store->on_change_arg = arg;
}

/* ---- the thread ---- */

static void post_done(void *arg)
{
    struct work *work = arg;
    work->done(work->arg, work->failed ? &work->err : NULL);
    free(work);
}

/* A connection that was lost while nobody used it shows here; nothing was done yet, so it
 * is simply tried again. */
static lr_code begin(struct router_sql *sql, struct lr_error *err)
{
    lr_code code = router_sql_plain(sql, "BEGIN", err);
    if (code != LR_OK && sql->backend->changed != NULL)
        code = router_sql_plain(sql, "BEGIN", err);
    return code;
}

static lr_code in_transaction(struct router_sql *sql, router_store_fn fn, void *arg, bool tells,
                              struct lr_error *err)
{
    lr_code code = begin(sql, err);
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
    if (code == LR_OK && work->audit != NULL)
        code = router_audit_insert(sql, work->audit, err);
    return code;
}

static void do_work(struct router_store *store, struct work *work)
{
    lr_code code = in_transaction(store->sql, run_work, work, true, &work->err);
    const struct router_audit *a = work->audit;
    note(store, code, &work->err);
    if (code == LR_OK && a != NULL)
        lr_log_info(NULL, "audit.done action=%s actor=%s target=%s detail=%s", a->action,
                    a->actor, a->target, a->detail);
    free(work->audit);
    work->failed = code != LR_OK;
    if (work->failed)
        lr_log_warn(NULL, "store.failed reason=%s", work->err.text);
    if (work->done == NULL)
        free(work);
    else if (work->loop == NULL)
        post_done(work);
    else
        net_loop_post(work->loop, post_done, work);
}

static bool has_room(struct router_store *store)
{
    if (store->usage_count < store->usage_cap)
        return true;
    if (store->usage_count >= USAGE_PENDING_MAX)
        return false;
    size_t cap = store->usage_cap != 0 ? 2 * store->usage_cap : 256;
    struct router_usage *grown = realloc(store->usage, cap * sizeof(*grown));
    if (grown == NULL)
        return false;
    store->usage = grown;
    store->usage_cap = cap;
    return true;
}

/* Called with the lock held; gives it up while it writes.  Rows that cannot be written stay,
 * before those that came meanwhile, and are tried again. */
static void write_usage(struct router_store *store)
{
    struct router_usage *rows = store->usage;
    struct router_usage_batch batch = {rows, store->usage_count};
    size_t cap = store->usage_cap;
    struct lr_error err;
    store->usage = NULL;
    store->usage_count = store->usage_cap = 0;
    (void)pthread_mutex_unlock(&store->lock);
    lr_code code = store->is_usage_doubtful && router_usage_is_written(store->sql, &rows[0])
                       ? LR_OK
                       : in_transaction(store->sql, router_usage_insert, &batch, false, &err);
    if (code != LR_OK && !store->is_usage_doubtful)
        lr_log_error(NULL, "store.usage_waits rows=%zu reason=%s", batch.count, err.text);
    store->is_usage_doubtful = code != LR_OK;
    note(store, code, &err);
    (void)pthread_mutex_lock(&store->lock);
    store->stats.transactions++;
    if (code == LR_OK) {
        free(rows);
        store->stats.usage_written += batch.count;
        return;
    }
    struct router_usage *newer = store->usage;
    size_t newer_count = store->usage_count;
    store->usage = rows;
    store->usage_count = batch.count;
    store->usage_cap = cap;
    for (size_t i = 0; i < newer_count; i++) {
        if (has_room(store))
            store->usage[store->usage_count++] = newer[i];
        else
            store->stats.usage_dropped++;
    }
    free(newer);
}

static void wait_for_work(struct router_store *store)
{
    struct timespec until;
    if (store->first != NULL || store->is_closing)
        return;
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += FLUSH_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000L;
    until.tv_nsec %= 1000000000L;
    (void)pthread_cond_timedwait(&store->wake, &store->lock, &until);
}

static void look_for_changes(struct router_store *store)
{
    uint64_t now = lr_clock_ms(NULL);
    if (store->on_change == NULL || !router_store_is_shared(store))
        return;
    if (store->sql->backend->changed(store->sql) || now - store->looked_ms >= LOOK_MS) {
        store->looked_ms = now;
        store->on_change(store->on_change_arg, store->sql);
    }
}

static void *run(void *arg)
{
    struct router_store *store = arg;
    uint64_t flushed_ms = 0;
    (void)pthread_mutex_lock(&store->lock);
    for (;;) {
        wait_for_work(store);
        struct work *work = store->first;
        if (work != NULL) {
            store->first = work->next;
            if (store->first == NULL)
                store->last = &store->first;
            store->stats.transactions++;
            (void)pthread_mutex_unlock(&store->lock);
            do_work(store, work);
            (void)pthread_mutex_lock(&store->lock);
        }
        uint64_t now = lr_clock_ms(NULL);
        bool last = store->is_closing && store->first == NULL;
        if (store->usage_count != 0 && (last || now - flushed_ms >= FLUSH_MS)) {
            write_usage(store);
            flushed_ms = now;
        }
        if (last) {
            if (store->usage_count != 0)
                lr_log_error(NULL, "store.usage_lost rows=%zu", store->usage_count);
            break;
        }
        (void)pthread_mutex_unlock(&store->lock);
        look_for_changes(store);
        (void)pthread_mutex_lock(&store->lock);
    }
    (void)pthread_mutex_unlock(&store->lock);
    return NULL;
}

lr_code router_store_start(struct router_store *store, struct lr_error *err)
{
    if (pthread_create(&store->thread, NULL, run, store) != 0)
        return lr_fail(err, LR_OUT_OF_RAM, "cannot start the database's thread");
    store->is_running = true;
    return LR_OK;
}

void router_store_close(struct router_store *store)
{
    if (store == NULL)
        return;
    if (store->is_running) {
        (void)pthread_mutex_lock(&store->lock);
        store->is_closing = true;
        (void)pthread_cond_signal(&store->wake);
        (void)pthread_mutex_unlock(&store->lock);
        (void)pthread_join(store->thread, NULL);
    }
    router_sql_close(store->sql);
    (void)pthread_mutex_destroy(&store->lock);
    (void)pthread_cond_destroy(&store->wake);
    free(store->usage);
    free(store);
}

/* ---- from the loops ---- */

static void submit(struct router_store *store, struct work wanted)
{
    struct work *work = calloc(1, sizeof(*work));
    if (work == NULL) {
        struct lr_error err;
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory to write to the database");
        free(wanted.audit);
        if (wanted.done != NULL)
            wanted.done(wanted.arg, &err);
        return;
    }
    *work = wanted;
    (void)pthread_mutex_lock(&store->lock);
    *store->last = work;
    store->last = &work->next;
    (void)pthread_cond_signal(&store->wake);
    (void)pthread_mutex_unlock(&store->lock);
}

void router_store_submit(struct router_store *store, router_store_fn fn, struct net_loop *loop,
                         router_store_done done, void *arg)
{
    submit(store, (struct work){.fn = fn, .done = done, .loop = loop, .arg = arg});
}

void router_store_act(struct router_store *store, const struct router_action *action,
                      router_store_fn fn, struct net_loop *loop, router_store_done done,
                      void *arg)
{
    struct router_audit *a = calloc(1, sizeof(*a));
    struct lr_error err;
    if (a == NULL) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for the audit log");
        if (done != NULL)
            done(arg, &err);
        return;
    }
    a->time_ms = lr_clock_wall_ms(NULL);
    (void)snprintf(a->actor, sizeof(a->actor), "%s", action->actor);
    (void)snprintf(a->action, sizeof(a->action), "%s", action->action);
    (void)snprintf(a->target, sizeof(a->target), "%s", action->target);
    (void)snprintf(a->detail, sizeof(a->detail), "%s", action->detail);
    submit(store, (struct work){.fn = fn, .done = done, .loop = loop, .arg = arg, .audit = a});
}

void router_store_usage(struct router_store *store, const struct router_usage *row)
{
    (void)pthread_mutex_lock(&store->lock);
    bool kept = has_room(store);
    if (kept)
        store->usage[store->usage_count++] = *row;
    else
        store->stats.usage_dropped++;
    (void)pthread_mutex_unlock(&store->lock);
    if (!kept)
        lr_log_error(NULL, "store.usage_dropped request=%s key=%s", row->request_id,
                     row->key_id);
}

void router_store_audit(struct router_store *store, const char *actor, const char *action,
                        const char *target, const char *detail)
{
    struct router_action a = {actor, action, target, detail};
    router_store_act(store, &a, NULL, NULL, NULL, NULL);
}

void router_store_get_stats(struct router_store *store, struct router_store_stats *out)
{
    (void)pthread_mutex_lock(&store->lock);
    *out = store->stats;
    (void)pthread_mutex_unlock(&store->lock);
}
