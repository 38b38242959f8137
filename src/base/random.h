/* base/random.h - random numbers from the kernel.
 *
 * Suitable for keys and ids.  If the kernel gives no randomness, the process aborts.  Thread:
 * any.
 */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

void lr_random_bytes(void *out, size_t len);
uint64_t lr_random_u64(void);
uint64_t lr_random_below(uint64_t bound); /* uniform in [0, bound); bound > 0 */

/* Terminated text of exactly len characters; out has len + 1 bytes.  Base62 carries
 * 5.95 bits a character: 22 characters are 131 bits. */
void lr_random_hex(char *out, size_t len);
void lr_random_base62(char *out, size_t len);

#endif
