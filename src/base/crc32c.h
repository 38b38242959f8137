/* base/crc32c.h - CRC-32C (Castagnoli), as in RFC 3720: finds every burst of up to 32 bits, and
 * any other change with all but one in 4 billion.  No protection from people.  Thread: any.
 */
#ifndef BASE_CRC32C_H
#define BASE_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* `crc` is 0, or the result for the bytes before these. */
uint32_t lr_crc32c(uint32_t crc, const void *bytes, size_t len);

#endif
