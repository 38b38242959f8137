/* router/store/backlog.h - rows that wait for the database, first come first written, bounded.
 * Thread: the owner's lock is held.
 */
#ifndef ROUTER_STORE_BACKLOG_H
#define ROUTER_STORE_BACKLOG_H

#include <stdbool.h>
#include <stddef.h>

struct router_backlog {
    size_t row_bytes, max; /* set by the owner */
    unsigned char *rows;   /* owned */
    size_t first, end;     /* rows first to end - 1 wait */
    size_t cap;
};

/* False: `max` rows wait already, or there is no memory. */
bool router_backlog_add(struct router_backlog *backlog, const void *row);

static inline size_t router_backlog_count(const struct router_backlog *backlog)
{
    return backlog->end - backlog->first;
}

/* Copies the first `count` rows, which stay. */
void router_backlog_copy(const struct router_backlog *backlog, size_t count, void *out);
/* The first `count` rows are written. */
void router_backlog_drop(struct router_backlog *backlog, size_t count);

void router_backlog_free(struct router_backlog *backlog);

#endif
