/* base/os/darwin/libc.h - functions that macOS's C library lacks.  The build includes this
 * header into every file for macOS. */
#ifndef BASE_OS_DARWIN_LIBC_H
#define BASE_OS_DARWIN_LIBC_H

#ifndef __ASSEMBLER__
#include <stddef.h>

void explicit_bzero(void *bytes, size_t len);
#endif

#endif
