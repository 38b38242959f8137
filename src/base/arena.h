/* base/arena.h - memory that is freed together.
 *
 * Everything that one request, one parse or one load allocates comes from one arena and is
 * freed with it; a single allocation cannot be freed.  An arena has a limit, so a hostile input
 * causes an error instead of exhausting the machine's memory.  Thread: one at a time.
 */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/str.h"
#include "llm-router/status.h"

struct lr_arena_block;

struct lr_arena {
    struct lr_arena_block *blocks; /* owned, newest first */
    char *next;                    /* free part of the newest block */
    char *end;
    size_t used;  /* bytes handed out, alignment included */
    size_t limit; /* most bytes ever handed out */
};

void lr_arena_init(struct lr_arena *arena, size_t limit);
void lr_arena_free(struct lr_arena *arena); /* leaves an empty arena with the same limit */

/* 16-byte aligned, not zeroed; NULL past the limit or without memory. */
void *lr_arena_alloc(struct lr_arena *arena, size_t len);
void *lr_arena_zalloc(struct lr_arena *arena, size_t len);
/* count * size, checked for overflow. */
void *lr_arena_array(struct lr_arena *arena, size_t count, size_t size);

/* Terminated copies; NULL like lr_arena_alloc. */
char *lr_arena_copy(struct lr_arena *arena, struct lr_str s);
char *lr_arena_printf(struct lr_arena *arena, const char *fmt, ...) LR_PRINTF(2, 3);

#endif
