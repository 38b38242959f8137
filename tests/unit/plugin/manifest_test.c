/* An engine is refused before any of its code runs, and the error tells its author why. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/fail.h"
#include "llm-router/engine.h"
#include "plugin/library.h"
#include "plugin/manifest.h"

static const char good[] =
    "{\"engine_id\":\"echo\",\"engine_version\":\"1.0\",\"abi_version\":1,"
    "\"runtimes\":[\"echo\"],\"formats\":[\"safetensors\"],\"architectures\":[\"X\"],"
    "\"backends\":[\"cpu\",\"cuda\"],\"library\":\"echo.so\",\"license\":\"MIT\"}";

static void a_good_manifest_is_read_whole(void **state)
{
    struct plugin_manifest m;
    (void)state;
    assert_int_equal(plugin_manifest_parse(&m, lr_str_z(good), NULL), LR_OK);
    assert_string_equal(m.engine_id, "echo");
    assert_string_equal(m.backends[1], "cuda");
    assert_null(m.backends[2]);
    assert_null(m.library_sha256);
    assert_int_equal(m.priority, 0);
    assert_true(plugin_list_has(m.backends, "cpu"));
    assert_false(plugin_list_has(m.backends, "metal"));
    plugin_manifest_free(&m);
}

static void each_missing_field_is_named(void **state)
{
    static const char *const fields[] = {"engine_id", "engine_version", "abi_version",
                                         "runtimes",  "formats",        "architectures",
                                         "backends",  "library",        "license"};
    (void)state;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        char text[1024], key[64];
        struct plugin_manifest m;
        struct lr_error err;
        (void)snprintf(text, sizeof(text), "%s", good);
        (void)snprintf(key, sizeof(key), "\"%s\"", fields[i]);
        strstr(text, key)[1] = 'X'; /* renames the key: the field is missing now */
        assert_int_equal(plugin_manifest_parse(&m, lr_str_z(text), &err), LR_INVALID_ARGUMENT);
        char expected[128];
        (void)snprintf(expected, sizeof(expected), "\"%s\" is missing", fields[i]);
        if (strcmp(err.text, expected) != 0)
            fail_msg("expected %s, got %s", expected, err.text);
    }
}

static void all_problems_are_told_at_once(void **state)
{
    struct plugin_manifest m;
    struct lr_error err;
    (void)state;
    assert_int_equal(plugin_manifest_parse(&m, LR_STR_LIT("{\"engine_id\":\"No Good\"}"), &err),
                     LR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.text, "\"engine_id\" may hold only"));
    assert_non_null(strstr(err.text, "\"license\" is missing"));
}

static void wrong_values_are_named(void **state)
{
    static const struct {
        const char *field, *value;
    } cases[] = {
        {"abi_version", "0"},          {"abi_version", "\"1\""},
        {"abi_version", "4294967297"}, {"runtimes", "[]"},
        {"formats", "\"x\""},          {"backends", "[1]"},
        {"library", "\"../echo.so\""}, {"library", "\"..\""},
        {"library", "\"a\\\\b\""},     {"library", "\"a\\nb\""},
        {"library_sha256", "\"12\""},  {"priority", "1001"},
        {"priority", "\"high\""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[2048];
        struct plugin_manifest m;
        struct lr_error err;
        /* A second member of the same name would be refused, so the old one is renamed. */
        (void)snprintf(text, sizeof(text), "%.*s,\"%s\":%s}", (int)sizeof(good) - 2, good,
                       cases[i].field, cases[i].value);
        char key[64];
        (void)snprintf(key, sizeof(key), "\"%s\"", cases[i].field);
        if (strstr(good, key) != NULL)
            strstr(text, key)[1] = 'X';
        assert_int_equal(plugin_manifest_parse(&m, lr_str_z(text), &err), LR_INVALID_ARGUMENT);
        if (strstr(err.text, key) == NULL)
            fail_msg("%s: %s", text, err.text);
    }
}

static void only_the_exact_abi_is_taken(void **state)
{
    struct plugin_manifest m = {.engine_id = "e", .engine_version = "1", .abi_version = 2};
    struct lr_error err;
    (void)state;
    assert_int_equal(plugin_manifest_check_abi(&m, &err), LR_ABI_MISMATCH);
    assert_non_null(strstr(err.text, "ABI 2"));
    m.abi_version = LR_ENGINE_ABI;
    assert_int_equal(plugin_manifest_check_abi(&m, &err), LR_OK);
}

/* ---- folders ---- */

struct folder {
    char path[64];
    char library[96];
    char manifest[96];
};

static struct folder make_folder(void)
{
    struct folder f = {.path = "/tmp/lr-plugin-XXXXXX"};
    assert_non_null(mkdtemp(f.path));
    (void)snprintf(f.library, sizeof(f.library), "%s/echo.so", f.path);
    (void)snprintf(f.manifest, sizeof(f.manifest), "%s/manifest.json", f.path);
    FILE *file = fopen(f.library, "w");
    assert_non_null(file);
    (void)fclose(file);
    file = fopen(f.manifest, "w");
    assert_non_null(file);
    (void)fputs(good, file);
    (void)fclose(file);
    assert_int_equal(chmod(f.library, 0755), 0);
    return f;
}

static void remove_folder(struct folder *f)
{
    (void)unlink(f->library);
    (void)unlink(f->manifest);
    (void)rmdir(f->path);
}

static void expect_refusal(struct folder *f, lr_code code, const char *text)
{
    struct plugin_manifest m;
    struct lr_error err;
    assert_int_equal(plugin_manifest_read(&m, f->path, &err), code);
    if (strstr(err.text, text) == NULL)
        fail_msg("expected \"%s\" in: %s", text, err.text);
}

static void a_good_folder_gives_an_absolute_library(void **state)
{
    struct folder f = make_folder();
    struct plugin_manifest m;
    (void)state;
    assert_int_equal(plugin_manifest_read(&m, f.path, NULL), LR_OK);
    assert_string_equal(m.library_path, f.library);
    plugin_manifest_free(&m);
    remove_folder(&f);
}

static void a_library_others_may_write_is_refused(void **state)
{
    struct folder f = make_folder();
    (void)state;
    assert_int_equal(chmod(f.library, 0777), 0);
    expect_refusal(&f, LR_PERMISSION_DENIED, "chmod o-w");
    assert_int_equal(chmod(f.library, 0755), 0);
    assert_int_equal(chmod(f.path, 0777), 0);
    expect_refusal(&f, LR_PERMISSION_DENIED, "chmod o-w");
    remove_folder(&f);
}

static void a_link_out_of_the_folder_is_refused(void **state)
{
    struct folder f = make_folder();
    (void)state;
    (void)unlink(f.library);
    assert_int_equal(symlink("/bin/sh", f.library), 0);
    expect_refusal(&f, LR_PERMISSION_DENIED, "outside its engine folder");
    (void)unlink(f.library);
    expect_refusal(&f, LR_NOT_FOUND, "echo.so");
    remove_folder(&f);
}

static void a_library_of_somebody_else_is_refused(void **state)
{
    struct folder f = make_folder();
    (void)state;
    if (geteuid() == 0) { /* only root can change a file's owner */
        assert_int_equal(chown(f.library, 12345, 12345), 0);
        expect_refusal(&f, LR_PERMISSION_DENIED, "belongs to user 12345");
    }
    remove_folder(&f);
}

static void a_library_is_not_opened_for_another_abi(void **state)
{
    const struct plugin_expectation other = {.abi_version = LR_ENGINE_ABI + 1};
    const struct plugin_expectation ours = {.abi_version = LR_ENGINE_ABI};
    const struct lr_engine_api *api;
    struct lr_error err;
    (void)state;
    /* The path does not exist: the number is checked first. */
    assert_int_equal(plugin_library_open("/nowhere.so", &other, &api, &err), LR_ABI_MISMATCH);
    assert_null(api);
    assert_int_equal(plugin_library_open("/nowhere.so", &ours, &api, &err), LR_INTERNAL);
    assert_non_null(strstr(err.text, "/nowhere.so"));
    /* A library that is no engine. */
    assert_int_equal(plugin_library_open("libm.so.6", &ours, &api, &err), LR_INTERNAL);
    assert_non_null(strstr(err.text, "lr_engine_entry"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_good_manifest_is_read_whole),
        cmocka_unit_test(each_missing_field_is_named),
        cmocka_unit_test(all_problems_are_told_at_once),
        cmocka_unit_test(wrong_values_are_named),
        cmocka_unit_test(only_the_exact_abi_is_taken),
        cmocka_unit_test(a_good_folder_gives_an_absolute_library),
        cmocka_unit_test(a_library_others_may_write_is_refused),
        cmocka_unit_test(a_link_out_of_the_folder_is_refused),
        cmocka_unit_test(a_library_of_somebody_else_is_refused),
        cmocka_unit_test(a_library_is_not_opened_for_another_abi),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
