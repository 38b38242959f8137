/* router/store/usage_journal.h - usage records that wait for the database, in a file, so that
 * they survive `kill -9`.
 *
 * The file is memory of this process that belongs to the data folder: a record is copied into
 * it before its answer ends, which needs no system call, and taken out once it is committed.
 * The kernel keeps such memory when the process is killed; it is lost with the machine's power.
 * Numbers of records rise by one.  The transaction that stores records also stores the number
 * of its last one, so a record that is found in a journal later is known to be in the database
 * or not, and is counted exactly once.
 *
 * A data folder has up to eight journals, because a router that hands over still writes.  Each
 * has a lock.  The journal of a process that has ended is read at the next start, and while a
 * router runs: the process may have been this router's predecessor, and the database may have
 * had no room for the records before.
 * Thread: the owner's lock is held, unless a comment says otherwise.
 */
#ifndef ROUTER_STORE_USAGE_JOURNAL_H
#define ROUTER_STORE_USAGE_JOURNAL_H

#include <pthread.h>

#include "base/file.h"
#include "router/store/store.h"

enum { ROUTER_JOURNALS = 8, ROUTER_JOURNAL_ROWS = 4096 };

struct router_usage_journal_file;

struct router_usage_journal {
    struct router_usage_journal_file *file; /* mapped; NULL: none, rows are in memory only */
    struct lr_file_lock lock;
    char path[LR_PATH_MAX];
    char id[24];   /* random: its row in usage_journals */
    uint64_t last; /* number of the newest record */
    unsigned told; /* bits: a reason why the journal of that number waits was logged */
    unsigned left; /* bits: that journal is of no use to this process, whatever comes */
};

/* Makes a journal in the folder, and gives the records of those whose processes have ended to
 * the database.  Failures are logged: the router works without.  Before the database's thread
 * begins. */
void router_usage_journal_open(struct router_usage_journal *journal, struct router_sql *sql,
                               const char *folder);
/* Whether a router has run with this folder: *path is a file that it left. */
bool router_usage_journal_was_here(const char *folder, char path[LR_PATH_MAX]);

/* While the router runs: gives the records of those whose processes have ended since to the
 * database, and makes the journal that could not be made before.  True: records were stored.
 * `lock` is the owner's, and not held.  Thread: the database's. */
bool router_usage_journal_look(struct router_usage_journal *journal, struct router_sql *sql,
                               const char *folder, pthread_mutex_t *lock);
/* Gives the record its number and keeps it, if there is room. */
void router_usage_journal_add(struct router_usage_journal *journal, struct router_usage *row);
/* The records up to this number are committed. */
void router_usage_journal_drop(struct router_usage_journal *journal,
                               const struct router_usage *rows, size_t count);
/* In the transaction that stores the record of this number.  Thread: the database's. */
LR_MUST_USE lr_code router_usage_journal_note(const struct router_usage_journal *journal,
                                              struct router_sql *sql, uint64_t last,
                                              struct lr_error *err);
/* is_empty: every record is committed, and the file is removed. */
void router_usage_journal_close(struct router_usage_journal *journal, struct router_sql *sql,
                                bool is_empty);

#endif
