/* Folders, on every system: what an empty path is. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/os/file.h"

/* On Windows it once listed the root, which a caller then emptied. */
static void a_folder_without_a_name_does_not_exist(void **state)
{
    (void)state;
    struct lr_error err;
    errno = 0;
    assert_null(lr_dir_open(""));
    assert_int_equal(errno, ENOENT);
    assert_false(lr_dir_exists(""));
    assert_int_equal(lr_dir_remove("", &err), LR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_without_a_name_does_not_exist),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
