/* devices/cpu/region.h - memory for a number of pages that changes.
 *
 * The addresses are reserved once.  Memory of the system is used when a page is first written,
 * so an unused context costs nothing; what is given back is zero when it is used again.
 * Thread: one caller.
 */
#ifndef ENGINES_DEVICES_CPU_REGION_H
#define ENGINES_DEVICES_CPU_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "llm-router/status.h"

/* Addresses for the most pages of a kind; memory only behind the first ones. */
struct engine_region {
    char *base; /* NULL: none */
    size_t reserved;
    size_t usable; /* bytes from the base on, whole pages of the system */
    uint64_t page_bytes;
};

/* False: no memory.  Close it in any case. */
bool engine_region_open(struct engine_region *r, uint32_t pages, uint32_t most,
                        uint64_t page_bytes);
void engine_region_close(struct engine_region *r); /* zero bytes are fine */

/* OUT_OF_RAM: nothing has changed. */
lr_code engine_region_resize(struct engine_region *r, uint32_t pages, struct lr_error *err);
void engine_region_move(struct engine_region *r, uint32_t from, uint32_t to); /* a page */

#endif
