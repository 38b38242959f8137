/* cli/bench_memory.h - how fast this machine reads memory, as a reference for speeds. */
#ifndef CLI_BENCH_MEMORY_H
#define CLI_BENCH_MEMORY_H

#include <stdint.h>

/* Bytes per second that `threads` threads read together from memory outside of caches; the best
 * of a few passes.  0: not enough memory. */
double cli_bench_memory(uint32_t threads);

#endif
