/* cli/bench_memory.c - see bench_memory.h.
 *
 * Each thread sums the 64-bit words of its own part with four accumulators, which a compiler
 * turns into vector loads.  Parts are 256 MiB, larger than any cache.
 */
#include "cli/bench_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

enum { PART_BYTES = 256 << 20, PASSES = 6, MOST_THREADS = 256 };

struct part {
    pthread_t thread;
    uint64_t *words;
    uint64_t sum;
    _Atomic uint32_t *ready; /* threads that are ready to start */
    _Atomic int *go;
};

static uint64_t sum_words(const uint64_t *words, size_t count)
{
    uint64_t a = 0, b = 0, c = 0, d = 0;

    for (size_t i = 0; i < count; i += 16)
        for (size_t j = 0; j < 16; j += 4) {
            a += words[i + j];
            b += words[i + j + 1];
            c += words[i + j + 2];
            d += words[i + j + 3];
        }
    return a + b + c + d;
}

static void *part_main(void *arg)
{
    struct part *p = arg;

    atomic_fetch_add(p->ready, 1);
    while (!atomic_load(p->go))
        ;
    p->sum = sum_words(p->words, PART_BYTES / sizeof(uint64_t));
    return NULL;
}

static double pass(struct part *parts, uint32_t threads)
{
    _Atomic uint32_t ready = 0;
    _Atomic int go = 0;
    uint32_t started = 0;

    for (; started < threads; started++) {
        parts[started].ready = &ready;
        parts[started].go = &go;
        if (pthread_create(&parts[started].thread, NULL, part_main, &parts[started]) != 0)
            break;
    }
    while (atomic_load(&ready) < started)
        ;
    uint64_t from = lr_clock_ns(NULL);
    atomic_store(&go, 1);
    for (uint32_t i = 0; i < started; i++)
        pthread_join(parts[i].thread, NULL);
    uint64_t ns = lr_clock_ns(NULL) - from;
    return ns > 0 ? (double)started * PART_BYTES * 1e9 / (double)ns : 0;
}

double cli_bench_memory(uint32_t threads)
{
    struct part parts[MOST_THREADS];
    double best = 0;

    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    memset(parts, 0, sizeof(parts));
    bool ok = true;
    for (uint32_t i = 0; i < threads; i++) {
        parts[i].words = malloc(PART_BYTES);
        ok = ok && parts[i].words != NULL;
        if (parts[i].words != NULL)
            memset(parts[i].words, (int)i + 1, PART_BYTES);
    }
    for (int i = 0; ok && i < PASSES; i++) {
        double rate = pass(parts, threads);
        best = rate > best ? rate : best;
    }
    for (uint32_t i = 0; i < threads; i++)
        free(parts[i].words);
    return best;
}
