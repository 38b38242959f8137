#include "router/store/usage_journal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/os/file.h"
#include "base/random.h"
#include "router/store/records.h"

#define MAGIC "lruse01"

struct router_usage_journal_file {
    char magic[8];
    char id[24];
    uint64_t row_bytes; /* of a program with other records this differs */
    struct slot {
        _Atomic uint64_t number; /* 0: free; written last */
        struct router_usage row;
    } slots[ROUTER_JOURNAL_ROWS];
};

/* ---- journals of processes that have ended ---- */

static int by_number(const void *a, const void *b)
{
    const struct router_usage *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Copies the records that the database does not have.  NULL: no memory. */
static struct router_usage *copy_rows(const struct router_usage_journal_file *file,
                                      uint64_t written, size_t *count)
{
    struct router_usage *rows = calloc(ROUTER_JOURNAL_ROWS, sizeof(*rows));
    *count = 0;
    for (size_t i = 0; rows != NULL && i < ROUTER_JOURNAL_ROWS; i++) {
        uint64_t number = atomic_load(&file->slots[i].number);
        if (number <= written)
            continue;
        rows[*count] = file->slots[i].row;
        rows[(*count)++].number = number;
    }
    if (rows != NULL)
        qsort(rows, *count, sizeof(*rows), by_number);
    return rows;
}

static lr_code write_rows(struct router_sql *sql, struct router_usage *rows, size_t count,
                          const char *id, struct lr_error *err)
{
    struct router_batch batch = {.rows[ROUTER_USAGE] = (unsigned char *)rows,
                                 .count[ROUTER_USAGE] = count};
    lr_code code = router_sql_plain(sql, sql->backend->begin, err);
    if (code != LR_OK)
        return code;
    code = router_batch_insert(sql, &batch, err);
    if (code == LR_OK)
        code = ROUTER_SQL(sql, "UPDATE usage_journals SET written = $2 WHERE id = $1", NULL,
                          NULL, err, ROUTER_Z(id), ROUTER_INT(rows[count - 1].number));
    if (code == LR_OK)
        code = router_sql_plain(sql, "COMMIT", err);
    if (code != LR_OK) {
        lr_code ignored = router_sql_plain(sql, "ROLLBACK", NULL);
        (void)ignored; /* the first failure is the one to tell */
    }
    return code;
}

/* A journal without its row in the database belongs to another database: the row is made before
 * the file, and removed after the file. */
static lr_code recover(struct router_sql *sql, const struct router_usage_journal_file *file,
                       size_t *count, struct lr_error *err)
{
    char id[sizeof(file->id)];
    int64_t written = -1;
    (void)snprintf(id, sizeof(id), "%.*s", (int)sizeof(id) - 1, file->id);
    lr_code code = ROUTER_SQL(sql, "SELECT written FROM usage_journals WHERE id = $1",
                              router_row_number, &written, err, ROUTER_Z(id));
    if (code == LR_OK && written < 0)
        code = lr_fail(err, LR_CONFLICT,
                       "its records belong to another database: start the router with that "
                       "database, or remove the file to give its records up");
    if (code != LR_OK)
        return code;
    struct router_usage *rows = copy_rows(file, (uint64_t)written, count);
    if (rows == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for usage records");
    if (*count != 0)
        code = write_rows(sql, rows, *count, id, err);
    free(rows);
    if (code == LR_OK && *count != 0)
        lr_log_info(NULL, "store.recovered usage=%zu", *count);
    return code;
}

static void remove_file(struct router_sql *sql, const char *path, const char *id)
{
    (void)remove(path);
    lr_code ignored = ROUTER_SQL(sql, "DELETE FROM usage_journals WHERE id = $1", NULL, NULL,
                                 NULL, ROUTER_Z(id));
    (void)ignored; /* a row of some bytes stays */
}

static lr_code
usage_journal_read_file(struct router_sql *sql, const char *path,
                        char id[sizeof(((struct router_usage_journal_file *)0)->id)],
                        size_t *count, struct lr_error *err)
{
    struct lr_file_map map;
    lr_code code = lr_file_map(path, &map, err);
    if (code != LR_OK)
        return code;
    const struct router_usage_journal_file *file = (const void *)map.data;
    if (map.len < sizeof(*file)) /* its process ended while it was made */
        code = LR_OK;
    else if (memcmp(file->magic, MAGIC, sizeof(file->magic)) != 0 ||
             file->row_bytes != sizeof(struct router_usage))
        code = lr_fail(err, LR_UNSUPPORTED,
                       "another release wrote it: start that release once more, or remove "
                       "the file to give its records up");
    else
        code = recover(sql, file, count, err);
    if (map.len >= sizeof(*file))
        (void)snprintf(id, sizeof(file->id), "%.*s", (int)sizeof(file->id) - 1, file->id);
    lr_file_unmap(&map);
    return code;
}

/* The file is removed, or left alone where its records could not be stored.  Gives the number
 * of records that the database has now. */
static size_t recover_file(struct router_usage_journal *journal, struct router_sql *sql, int i,
                           const char *path)
{
    struct lr_error err;
    char id[sizeof(((struct router_usage_journal_file *)0)->id)] = "";
    size_t count = 0;
    unsigned bit = 1U << i;
    if (!lr_file_exists(path))
        return 0;
    lr_code code = usage_journal_read_file(sql, path, id, &count, &err);
    if (code == LR_CONFLICT || code == LR_UNSUPPORTED)
        journal->left |= bit;
    if (code == LR_OK) {
        journal->told &= ~bit;
        remove_file(sql, path, id);
        return count;
    }
    if ((journal->told & bit) == 0)
        lr_log_error(LR_LOG_OF(&err), "store.journal_unread file=%s reason=%s", path, err.text);
    journal->told |= bit;
    return 0;
}

/* ---- this process's ---- */

static lr_code usage_journal_make(struct router_usage_journal *journal, struct router_sql *sql,
                                  struct router_usage_journal_file **out, struct lr_error *err)
{
    void *memory;
    lr_random_base62(journal->id, sizeof(journal->id) - 1);
    lr_code code = ROUTER_SQL(sql, "INSERT INTO usage_journals (id, written) VALUES ($1, 0)",
                              NULL, NULL, err, ROUTER_Z(journal->id));
    if (code != LR_OK)
        return code;
    code = lr_file_share(journal->path, sizeof(**out), &memory, err);
    if (code != LR_OK) {
        remove_file(sql, journal->path, journal->id);
        if (code == LR_UNSUPPORTED)
            lr_file_unlock(&journal->lock);
        journal->left |= code == LR_UNSUPPORTED ? ~0U : 0;
        return code;
    }
    *out = memory;
    (*out)->row_bytes = sizeof(struct router_usage);
    memcpy((*out)->id, journal->id, sizeof(journal->id));
    memcpy((*out)->magic, MAGIC, sizeof((*out)->magic));
    return LR_OK;
}

/* Reads the journals that no process has, and locks one that is free for this process. */
static size_t visit(struct router_usage_journal *journal, struct router_sql *sql,
                    const char *folder)
{
    char path[LR_PATH_MAX], lock_path[LR_PATH_MAX];
    size_t count = 0;
    for (int i = 0; i < ROUTER_JOURNALS; i++) {
        struct lr_file_lock lock;
        (void)snprintf(path, sizeof(path), "%.3900s/usage-%d.journal", folder, i);
        (void)snprintf(lock_path, sizeof(lock_path), "%.3900s/usage-%d.lock", folder, i);
        bool is_left = (journal->left & 1U << i) != 0;
        if (is_left || (journal->lock.fd >= 0 && !lr_file_exists(path)))
            continue;
        if (lr_file_lock(lock_path, &lock, NULL) != LR_OK)
            continue; /* this router, or one that hands over */
        count += recover_file(journal, sql, i, path);
        if (journal->lock.fd >= 0 || lr_file_exists(path)) {
            lr_file_unlock(&lock);
            continue;
        }
        journal->lock = lock;
        memcpy(journal->path, path, sizeof(path));
    }
    return count;
}

bool router_usage_journal_was_here(const char *folder, char path[LR_PATH_MAX])
{
    bool is_here = false;
    for (int i = 0; i < ROUTER_JOURNALS && !is_here; i++) {
        (void)snprintf(path, LR_PATH_MAX, "%.3900s/usage-%d.lock", folder, i);
        is_here = lr_file_exists(path);
    }
    return is_here;
}

static lr_code usage_journal_begin(struct router_usage_journal *journal, struct router_sql *sql,
                                   struct router_usage_journal_file **out, struct lr_error *err)
{
    *out = NULL;
    return journal->lock.fd >= 0
               ? usage_journal_make(journal, sql, out, err)
               : lr_fail(err, LR_CONFLICT, "all %d journals are in use", ROUTER_JOURNALS);
}

void router_usage_journal_open(struct router_usage_journal *journal, struct router_sql *sql,
                               const char *folder)
{
    struct lr_error err;
    *journal = (struct router_usage_journal){.lock.fd = -1};
    (void)visit(journal, sql, folder);
    if (usage_journal_begin(journal, sql, &journal->file, &err) != LR_OK)
        lr_log_warn(LR_LOG_OF(&err),
                    "store.no_journal reason=%s (usage of the last moment is lost if this "
                    "process is killed)",
                    err.text);
}

/* Records that wait already are in memory only. */
bool router_usage_journal_look(struct router_usage_journal *journal, struct router_sql *sql,
                               const char *folder, pthread_mutex_t *lock)
{
    struct router_usage_journal_file *made;
    size_t count = visit(journal, sql, folder);
    if (journal->file == NULL && usage_journal_begin(journal, sql, &made, NULL) == LR_OK) {
        (void)pthread_mutex_lock(lock);
        journal->file = made;
        (void)pthread_mutex_unlock(lock);
        lr_log_info(NULL, "store.journal file=%s", journal->path);
    }
    return count != 0;
}

void router_usage_journal_add(struct router_usage_journal *journal, struct router_usage *row)
{
    row->number = ++journal->last;
    if (journal->file == NULL)
        return;
    struct slot *slot = &journal->file->slots[row->number % ROUTER_JOURNAL_ROWS];
    if (atomic_load(&slot->number) != 0)
        return; /* the database has not kept up: the record is in memory only */
    slot->row = *row;
    atomic_store(&slot->number, row->number);
}

void router_usage_journal_drop(struct router_usage_journal *journal,
                               const struct router_usage *rows, size_t count)
{
    for (size_t i = 0; journal->file != NULL && i < count; i++) {
        struct slot *slot = &journal->file->slots[rows[i].number % ROUTER_JOURNAL_ROWS];
        if (atomic_load(&slot->number) == rows[i].number)
            atomic_store(&slot->number, 0);
    }
}

/* An older database that was restored under a running router lacks the journal's row: with the
 * next records it is there again. */
lr_code router_usage_journal_note(const struct router_usage_journal *journal,
                                  struct router_sql *sql, uint64_t last, struct lr_error *err)
{
    if (journal->file == NULL)
        return LR_OK;
    return ROUTER_SQL(sql,
                      "INSERT INTO usage_journals (id, written) VALUES ($1, $2) ON CONFLICT "
                      "(id) DO UPDATE SET written = excluded.written",
                      NULL, NULL, err, ROUTER_Z(journal->id), ROUTER_INT(last));
}

void router_usage_journal_close(struct router_usage_journal *journal, struct router_sql *sql,
                                bool is_empty)
{
    if (journal->file != NULL && is_empty)
        remove_file(sql, journal->path, journal->id);
    lr_file_unshare(journal->file, sizeof(*journal->file));
    journal->file = NULL;
    if (journal->lock.fd >= 0)
        lr_file_unlock(&journal->lock);
}
