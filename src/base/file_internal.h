/* base/file_internal.h - what file.c and dir.c share. */
#ifndef BASE_FILE_INTERNAL_H
#define BASE_FILE_INTERNAL_H

#include "base/fail.h"

lr_code lr_file_code(int error); /* of an errno */

/* "cannot <verb> <path>: <errno's text>" with the code of errno. */
lr_code lr_fail_file(struct lr_error *err, const char *verb, const char *path);

#endif
