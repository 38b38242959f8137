#include "base/arena.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lr_arena_block {
    struct lr_arena_block *next;
    size_t pad; /* keeps the bytes after it 16-byte aligned */
};

enum { ALIGN = 16, SMALLEST_BLOCK = 4096, LARGEST_BLOCK = 1 << 20 };

void lr_arena_init(struct lr_arena *arena, size_t limit)
{
    *arena = (struct lr_arena){.limit = limit};
}

void lr_arena_free(struct lr_arena *arena)
{
    struct lr_arena_block *block = arena->blocks;
    while (block != NULL) {
        struct lr_arena_block *next = block->next;
        free(block);
        block = next;
    }
    lr_arena_init(arena, arena->limit);
}

/* Block size grows with the arena: a large parse needs few mallocs, and a small request does
 * not take a megabyte. */
static bool add_block(struct lr_arena *arena, size_t len)
{
    size_t size = arena->used < SMALLEST_BLOCK ? SMALLEST_BLOCK : arena->used;
    if (size > LARGEST_BLOCK)
        size = LARGEST_BLOCK;
    if (size < len)
        size = len;
    struct lr_arena_block *block = malloc(sizeof(*block) + size);
    if (block == NULL)
        return false;
    block->next = arena->blocks;
    arena->blocks = block;
    arena->next = (char *)(block + 1);
    arena->end = arena->next + size;
    return true;
}

void *lr_arena_alloc(struct lr_arena *arena, size_t len)
{
    if (len > SIZE_MAX / 2) /* leaves room to round up and to add a block's header */
        return NULL;
    size_t rounded = (len + ALIGN - 1) / ALIGN * ALIGN;
    if (rounded == 0)
        rounded = ALIGN;
    if (rounded > arena->limit || arena->used > arena->limit - rounded)
        return NULL;
    if ((size_t)(arena->end - arena->next) < rounded && !add_block(arena, rounded))
        return NULL;
    void *out = arena->next;
    arena->next += rounded;
    arena->used += rounded;
    return out;
}

void *lr_arena_zalloc(struct lr_arena *arena, size_t len)
{
    void *out = lr_arena_alloc(arena, len);
    if (out != NULL)
        memset(out, 0, len);
    return out;
}

void *lr_arena_array(struct lr_arena *arena, size_t count, size_t size)
{
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return lr_arena_alloc(arena, count * size);
}

char *lr_arena_copy(struct lr_arena *arena, struct lr_str s)
{
    char *out = s.len < SIZE_MAX ? lr_arena_alloc(arena, s.len + 1) : NULL;
    if (out == NULL)
        return NULL;
    if (s.len != 0)
        memcpy(out, s.ptr, s.len);
    out[s.len] = '\0';
    return out;
}

char *lr_arena_printf(struct lr_arena *arena, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    va_list again;
    va_copy(again, args);
    int len = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    char *out = len >= 0 ? lr_arena_alloc(arena, (size_t)len + 1) : NULL;
    if (out != NULL)
        (void)vsnprintf(out, (size_t)len + 1, fmt, again);
    va_end(again);
    return out;
}
