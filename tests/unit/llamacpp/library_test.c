/* tests/unit/llamacpp/library_test.c - only the libllama of the build is accepted. */
#include "tests/unit/llamacpp/support.h"

static const char library[] = LLAMACPP_LIBRARY_DIR "/" LLAMACPP_LIBRARY_NAME;

static void test_another_version_is_refused_with_both_named(void **state)
{
    (void)state;
    struct llamacpp_library lib;
    struct lr_error err = {0};

    assert_int_equal(llamacpp_library_open(library, "0.4.0", &lib, &err), LR_ABI_MISMATCH);
    assert_non_null(strstr(err.text, "0.4.0"));
    assert_non_null(strstr(err.text, LLAMACPP_BUILT_FOR));
    assert_int_equal(llamacpp_library_open(library, LLAMACPP_BUILT_FOR, &lib, &err), LR_OK);
}

static void test_a_library_that_is_not_libllama_is_refused(void **state)
{
    (void)state;
    struct llamacpp_library lib;
    struct lr_error err = {0};

    /* One of these is there on every system. */
    static const char *const others[] = {"libm.so.6", "kernel32.dll",
                                         "/usr/lib/libSystem.B.dylib"};
    lr_code code = LR_INTERNAL;
    for (size_t i = 0; i < 3 && code == LR_INTERNAL; i++)
        code = llamacpp_library_open(others[i], LLAMACPP_BUILT_FOR, &lib, &err);
    assert_int_equal(code, LR_ABI_MISMATCH);
    assert_int_equal(llamacpp_library_open("/nowhere/libllama.so", "1", &lib, &err),
                     LR_INTERNAL);
    assert_non_null(strstr(err.text, "/nowhere/libllama.so"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_another_version_is_refused_with_both_named),
        cmocka_unit_test(test_a_library_that_is_not_libllama_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
