/* tests/unit/router/support.h - what the tests of the router share. */
#ifndef TESTS_UNIT_ROUTER_SUPPORT_H
#define TESTS_UNIT_ROUTER_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"

#define assert_contains(text, part)                                                            \
    do {                                                                                       \
        if (strstr(text, part) == NULL) {                                                      \
            print_error("\"%s\"\ndoes not contain \"%s\"\n", text, part);                      \
            fail();                                                                            \
        }                                                                                      \
    } while (0)

static inline int make_folder(void **state)
{
    char *path = malloc(64);
    if (path == NULL)
        return -1;
    (void)snprintf(path, 64, "/tmp/lr-router-test-XXXXXX");
    *state = path;
    return mkdtemp(path) != NULL ? 0 : -1;
}

static inline int drop_folder(void **state)
{
    lr_code code = lr_dir_remove(*state, NULL);
    free(*state);
    return code == LR_OK ? 0 : -1;
}

#endif
