/* router/store/store.h - what must survive a restart, on a thread of its own.
 *
 * Everything the router asks often (keys, models, nodes) is held in memory and read from
 * the database only at the start; writes go through here, one transaction each, and
 * usage rows are gathered and written together several times a second.  So no loop ever
 * waits for a disk.
 *
 *   store.c    the thread of the database
 *   records.c  usage records and the audit log, which are written in batches
 *   change.c   what an action changed: before and after, for the audit log
 *   journal.c  usage records that wait, in a file
 *   retention.c  removes old records
 *   keys.c     API keys and their limits
 *   sessions.c sessions of the dashboard
 *   sign_ins.c sign-ins with an OpenID provider that are under way
 *   budget.c   tokens by month and key
 *   responses.c  stored responses of the Responses API
 *   outbox.c   messages about alerts
 *   history.c  figures of the last seven days
 *   schema.c   the tables, and how an older database becomes a newer one
 *   sql.h      the SQL that sqlite.c and postgres.c share
 *   backup.c   a copy of the SQLite file
 *   probe.c    whether a database answers
 *
 * Thread: any, unless a comment says otherwise.
 */
#ifndef ROUTER_STORE_STORE_H
#define ROUTER_STORE_STORE_H

#include "net/loop.h"
#include "router/store/change.h"
#include "router/store/sql.h"

struct router_store;

/* Usage of one request.  Texts are cut to fit: they are ids of ours. */
struct router_usage {
    int64_t time_ms;
    char key_id[24];
    char model[160];
    char node[48];
    char request_id[72];
    uint32_t status;
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
    uint64_t wait_ms, total_ms;
    uint64_t number; /* of the store: rises by one (store/usage_journal.h) */
};

/* `database` is "postgres://..." or a file's path.  Opens and migrates it.  No call waits for
 * it longer than timeout_ms. */
LR_MUST_USE lr_code router_store_open(const char *database, uint32_t timeout_ms,
                                      struct router_store **out, struct lr_error *err);

/* SQLite makes a new database of an empty file.  CONFLICT: the file is empty, and a router has
 * run with it or with the data folder, whose data are lost. */
LR_MUST_USE lr_code router_store_check_file(const char *database, const char *folder,
                                            struct lr_error *err);

/* Whether several routers may use it at once. */
bool router_store_can_share(const char *database);

/* For loading at the start and for tests: before router_store_start only. */
struct router_sql *router_store_sql(struct router_store *store);

/* Usage records that wait for the database are kept in this folder, too, and those that a
 * killed process has left there are stored now or when the database takes them.  Before
 * router_store_start; the folder's name is borrowed until the store is closed. */
void router_store_journal(struct router_store *store, const char *folder);

/* fn(arg, rows, count) on the database's thread after these rows were committed.  Before
 * router_store_start. */
typedef void (*router_store_usage_fn)(void *arg, const struct router_usage *rows, size_t count);
void router_store_on_usage(struct router_store *store, router_store_usage_fn fn, void *arg);

/* Begins the thread. */
LR_MUST_USE lr_code router_store_start(struct router_store *store, struct lr_error *err);

/* The router stops: from now on a database that does not answer is given up soon, also by a
 * call that waits for it already. */
void router_store_hurry(struct router_store *store);

/* Writes what waits and ends the thread; the last calls of router_store_done are posted then.
 * False: the thread hangs where no timeout reaches (a disk that does not answer, a name
 * server); it goes on to use the store and what it was given, so nothing of that may be freed
 * before the process ends.  NULL is fine. */
bool router_store_stop(struct router_store *store);
/* Stops the store, if that was not done yet, and frees it.  False: as above. */
bool router_store_close(struct router_store *store);

/* fn(arg, sql) on the database's thread whenever another router may have changed
 * something: at its word, after a lost connection, and every two seconds in any case.
 * Only for a database that several share, or while router_store_follow says so.  Before
 * router_store_start. */
typedef void (*router_store_changed_fn)(void *arg, struct router_sql *sql);
void router_store_on_change(struct router_store *store, router_store_changed_fn fn, void *arg);
/* The router before this one still writes into the database, or (is_alive false) has just
 * ended: fn is called every quarter of a second, and once more at its end. */
void router_store_follow(struct router_store *store, bool is_alive);
/* The function of router_store_on_change is called soon. */
void router_store_look(struct router_store *store);
bool router_store_is_shared(const struct router_store *store);

/* Runs in a transaction on the database's thread. */
typedef lr_code (*router_store_fn)(struct router_sql *sql, void *arg, struct lr_error *err);
/* err NULL: committed. */
typedef void (*router_store_done)(void *arg, const struct lr_error *err);

/* done(arg) is posted to `loop` afterwards; without a loop done runs on the database's
 * thread (free(arg), say).  done may be NULL.  Where the database did not answer others within
 * the timeout meanwhile, the work is not tried, and fails with their error: nobody waits for
 * one timeout after the other. */
void router_store_submit(struct router_store *store, router_store_fn fn, struct net_loop *loop,
                         router_store_done done, void *arg);

/* The same for data that no router holds in memory: the other routers are not told. */
void router_store_quietly(struct router_store *store, router_store_fn fn, struct net_loop *loop,
                          router_store_done done, void *arg);

/* Dropped, with a log line, when the database has not kept up for a very long time. */
void router_store_usage(struct router_store *store, const struct router_usage *row);

/* Like submit, for an admin's action: its line in the audit log is in the same transaction, so
 * that one is never there without the other.  fn NULL: the line alone; action NULL: no line. */
struct router_actor {
    const char *id;   /* of a key or a node, a person's name with the id, or "local" */
    const char *name; /* of the key, person or node at this time; "": none */
    const char *from; /* the address of the client */
};
struct router_action { /* all of it is copied */
    const char *action, *target, *detail;
    const struct router_change *change; /* NULL: nothing to compare */
    struct router_actor by;
};
void router_store_act(struct router_store *store, const struct router_action *action,
                      router_store_fn fn, struct net_loop *loop, router_store_done done,
                      void *arg);

/* An action that changes nothing here: a node did it.  Kept and written later where the
 * database does not answer; dropped, with a log line, when very many wait. */
void router_store_audit(struct router_store *store, const struct router_action *action);

/* Why the database does not answer or cannot be written, for an alert: noted with every
 * transaction, and by callers that only read (err NULL: it works).  False: all is well. */
enum { ROUTER_TROUBLE = 300 };
void router_store_note(struct router_store *store, const struct lr_error *err);
bool router_store_trouble(struct router_store *store, char out[ROUTER_TROUBLE]);

struct router_store_stats {
    uint64_t usage_written, usage_dropped, usage_waiting, transactions;
};
void router_store_get_stats(struct router_store *store, struct router_store_stats *out);

#endif
