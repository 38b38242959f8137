/* base/os/darwin/libc.c - functions of other C libraries. */
#include "base/os/darwin/libc.h"

/* No compiler removes writes through a volatile pointer. */
void explicit_bzero(void *bytes, size_t len)
{
    volatile unsigned char *at = bytes;
    while (len-- != 0)
        *at++ = 0;
}
