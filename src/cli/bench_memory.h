/* cli/bench_memory.h - how fast this machine reads memory, for putting speeds in proportion. */
#ifndef CLI_BENCH_MEMORY_H
#define CLI_BENCH_MEMORY_H

#include <stdint.h>

/* Bytes per second that `threads` threads read together from memory that no cache
 * holds; the best of a few passes.  0: no memory for it. */
double cli_bench_memory(uint32_t threads);

#endif
