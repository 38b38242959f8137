/* base/os/memory.h - how much memory there is, and memory of a certain kind.  Thread: any. */
#ifndef BASE_OS_MEMORY_H
#define BASE_OS_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Where Linux's figures are read; a test has folders of its own.  Other systems ignore it. */
struct lr_memory_roots {
    const char *proc;   /* "/proc" */
    const char *cgroup; /* "/sys/fs/cgroup" */
};

/* The RAM that this process and its neighbours share: the machine's, or the limit of the
 * container.  False: the system does not say. */
bool lr_memory_read(const struct lr_memory_roots *roots, uint64_t *total, uint64_t *used);
/* RAM that a process holds for itself, without files that it has mapped; 0: not known. */
uint64_t lr_memory_of_process(const struct lr_memory_roots *roots, int pid);

/* Not cleared; `align` is a power of two.  Given back by lr_aligned_free only. */
void *lr_aligned_alloc(size_t align, size_t bytes);
void lr_aligned_free(void *memory);
/* Cleared memory for a large table, in large pages where the system has them.  Given back by
 * free. */
void *lr_table_alloc(size_t bytes);

/* Addresses without memory, which is put behind parts of them.  Sizes and borders of parts are
 * multiples of lr_page_bytes().  NULL: the system has no such addresses. */
size_t lr_page_bytes(void);
void *lr_region_reserve(size_t bytes);
void lr_region_free(void *region, size_t bytes);
/* Cleared memory behind a part that has none; the system gives it when it is first written. */
bool lr_region_commit(void *part, size_t bytes);
/* Gives the memory back at once. */
void lr_region_decommit(void *part, size_t bytes);

#endif
