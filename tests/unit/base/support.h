/* tests/unit/base/support.h - shared by the tests of base. */
#ifndef TESTS_UNIT_BASE_SUPPORT_H
#define TESTS_UNIT_BASE_SUPPORT_H

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

#define assert_contains(text, part) assert_contains_at(text, part, __FILE__, __LINE__)

static inline void assert_contains_at(const char *text, const char *part, const char *file,
                                      int line)
{
    if (strstr(text, part) == NULL) {
        print_error("\"%s\"\ndoes not contain \"%s\"\n", text, part);
        _fail(file, line);
    }
}

/* A fresh folder for one test; the teardown removes it. */
static inline int make_folder(void **state)
{
    char *path = malloc(64);
    if (path == NULL)
        return -1;
    (void)snprintf(path, 64, "/tmp/lr-base-test-XXXXXX");
    *state = path;
    return mkdtemp(path) != NULL ? 0 : -1;
}

static inline int drop_folder(void **state)
{
    struct lr_error err;
    lr_code code = lr_dir_remove(*state, &err);
    free(*state);
    return code == LR_OK ? 0 : -1;
}

static inline void path_in(char out[LR_PATH_MAX], const char *folder, const char *name)
{
    (void)snprintf(out, LR_PATH_MAX, "%s/%s", folder, name);
}

#endif
