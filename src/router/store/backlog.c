#include "router/store/backlog.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_ROWS = 64 };

static unsigned char *row_at(const struct router_backlog *b, size_t index)
{
    return b->rows + index * b->row_bytes;
}

/* Moves the rows down where at least half of the memory is free, so that a row is moved once
 * on average; else takes twice the memory. */
static bool make_room(struct router_backlog *b)
{
    if (b->end < b->cap)
        return true;
    size_t count = router_backlog_count(b);
    if (b->cap != 0 && b->first >= b->cap / 2) {
        memmove(b->rows, row_at(b, b->first), count * b->row_bytes);
        b->first = 0;
        b->end = count;
        return true;
    }
    size_t cap = b->cap != 0 ? 2 * b->cap : FIRST_ROWS;
    unsigned char *grown = realloc(b->rows, cap * b->row_bytes);
    if (grown == NULL)
        return false;
    b->rows = grown;
    b->cap = cap;
    return true;
}

bool router_backlog_add(struct router_backlog *b, const void *row)
{
    if (router_backlog_count(b) >= b->max || !make_room(b))
        return false;
    memcpy(row_at(b, b->end++), row, b->row_bytes);
    return true;
}

void router_backlog_copy(const struct router_backlog *b, size_t count, void *out)
{
    if (count != 0)
        memcpy(out, row_at(b, b->first), count * b->row_bytes);
}

void router_backlog_drop(struct router_backlog *b, size_t count)
{
    b->first += count;
    if (b->first == b->end)
        router_backlog_free(b);
}

void router_backlog_free(struct router_backlog *b)
{
    free(b->rows);
    b->rows = NULL;
    b->first = b->end = b->cap = 0;
}
