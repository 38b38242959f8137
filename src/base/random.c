#include "base/random.h"

#include <pthread.h>
#include <string.h>

#include "base/os/process.h"

/* A request needs several random ids, and each system call takes a microsecond.  So small
 * amounts come from a pool of the thread.  Used bytes are wiped, so that no number is given
 * twice or can be read later.  A child after fork() drops the pool; otherwise parent and child
 * would give the same numbers. */
enum { POOL_BYTES = 256 };
static _Thread_local struct {
    unsigned char bytes[POOL_BYTES];
    size_t left;
} pool;

static void forget_pool(void)
{
    pool.left = 0;
}

static void watch_forks(void)
{
    lr_os_after_fork(forget_pool);
}

void lr_random_bytes(void *out, size_t len)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (len > POOL_BYTES / 4) {
        lr_os_random(out, len);
        return;
    }
    if (pool.left < len) {
        (void)pthread_once(&once, watch_forks);
        lr_os_random(pool.bytes, POOL_BYTES);
        pool.left = POOL_BYTES;
    }
    unsigned char *from = pool.bytes + pool.left - len;
    memcpy(out, from, len);
    explicit_bzero(from, len);
    pool.left -= len;
}

uint64_t lr_random_u64(void)
{
    uint64_t value;
    lr_random_bytes(&value, sizeof(value));
    return value;
}

uint64_t lr_random_below(uint64_t bound)
{
    /* Rejection sampling: values below 2^64 mod bound are thrown away, because they would make
     * low results more likely. */
    uint64_t reject_below = (0 - bound) % bound;
    uint64_t value;
    do
        value = lr_random_u64();
    while (value < reject_below);
    return value % bound;
}

/* Each byte gives one digit; bytes at or above the largest multiple of the base are thrown
 * away. */
static void random_digits(char *out, size_t len, const char *digits, unsigned base)
{
    unsigned char drawn[32];
    size_t used = sizeof(drawn);
    unsigned fair = 256 / base * base;
    for (size_t i = 0; i < len;) {
        if (used == sizeof(drawn)) {
            lr_random_bytes(drawn, sizeof(drawn));
            used = 0;
        }
        unsigned byte = drawn[used++];
        if (byte < fair)
            out[i++] = digits[byte % base];
    }
    out[len] = '\0';
}

void lr_random_hex(char *out, size_t len)
{
    random_digits(out, len, "0123456789abcdef", 16);
}

void lr_random_base62(char *out, size_t len)
{
    random_digits(out, len, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
                  62);
}
