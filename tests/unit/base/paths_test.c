/* Paths as users have them, on every system: long, with blanks, and with letters that are not
 * ASCII. */
#include "base/file.h"
#include "tests/unit/base/support.h"

#ifdef _WIN32
#include "base/os/windows/internal.h"
#endif

/* Below `root`: 10 folders, and a file, which have together more than 300 characters. */
enum { LEVELS = 10, LONG = 300 };
static const char part[] = "Ordner von J\xC3\xBCrgen \xE6\x97\xA5\xE6\x9C\xAC";

/* How many letters UTF-8 text has. */
static size_t letters(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++)
        count += ((unsigned char)*text & 0xC0) != 0x80;
    return count;
}

static void long_folder(const char *root, char out[LR_PATH_MAX])
{
    int n = snprintf(out, LR_PATH_MAX, "%s", root);
    for (int i = 0; i < LEVELS; i++)
        n += snprintf(out + n, LR_PATH_MAX - (size_t)n, "/%d %s von vielen", i, part);
    assert_true(n > 0 && n < LR_PATH_MAX - 100);
    assert_true(letters(out) > LONG);
}

static void put(const char *path, const char *text)
{
    struct lr_error err;
    if (lr_file_write_atomic(path, lr_str_z(text), 0600, &err) != LR_OK)
        fail_msg("%s", err.text);
}

static void files_below_a_long_path_are_written_renamed_and_mapped(void **state)
{
    struct lr_error err;
    struct lr_file_map map;
    char folder[LR_PATH_MAX], from[LR_PATH_MAX + 64], to[LR_PATH_MAX + 64];
    long_folder(*state, folder);
    (void)snprintf(from, sizeof(from),
                   "%s/Gr\xC3\xBC\xC3\x9F"
                   "e 1.txt",
                   folder);
    (void)snprintf(to, sizeof(to), "%s/\xE6\x96\x87 2.txt", folder);
    assert_int_equal(lr_dir_create(folder, &err), LR_OK);
    assert_true(lr_dir_exists(folder));
    put(from, "old");
    put(from, "new text");
    put(to, "is replaced");
    assert_int_equal(lr_file_rename(from, to, &err), LR_OK);
    assert_false(lr_file_exists(from));
    assert_int_equal(lr_file_map(to, &map, &err), LR_OK);
    assert_int_equal(map.len, strlen("new text"));
    assert_memory_equal(map.data, "new text", map.len);
    lr_file_unmap(&map);
    assert_true(lr_unlink(to));
    assert_false(lr_file_exists(to));
}

static void a_folder_with_a_long_path_lists_its_names_unchanged(void **state)
{
    struct lr_error err;
    char folder[LR_PATH_MAX], path[LR_PATH_MAX + 64];
    long_folder(*state, folder);
    (void)snprintf(path, sizeof(path), "%s/%s.txt", folder, part);
    assert_int_equal(lr_dir_create(folder, &err), LR_OK);
    put(path, "x");
    struct lr_dir *dir = lr_dir_open(folder);
    assert_non_null(dir);
    const char *name = lr_dir_next(dir);
    assert_non_null(name);
    assert_int_equal(strncmp(name, part, strlen(part)), 0);
    assert_string_equal(name + strlen(part), ".txt");
    assert_null(lr_dir_next(dir));
    lr_dir_close(dir);
}

static void a_lock_below_a_long_path_is_held_once(void **state)
{
    struct lr_error err;
    struct lr_file_lock lock, second;
    char folder[LR_PATH_MAX], path[LR_PATH_MAX + 64];
    long_folder(*state, folder);
    (void)snprintf(path, sizeof(path), "%s/node.lock", folder);
    assert_int_equal(lr_dir_create(folder, &err), LR_OK);
    assert_int_equal(lr_file_lock(path, &lock, &err), LR_OK);
    assert_int_equal(lr_file_lock(path, &second, &err), LR_CONFLICT);
    lr_file_unlock(&lock);
    assert_int_equal(lr_file_lock(path, &second, &err), LR_OK);
    lr_file_unlock(&second);
}

static void a_tree_of_long_paths_is_removed(void **state)
{
    struct lr_error err;
    char folder[LR_PATH_MAX], path[LR_PATH_MAX + 64], top[LR_PATH_MAX];
    (void)snprintf(top, sizeof(top), "%s/%s", (const char *)*state, part);
    long_folder(top, folder);
    (void)snprintf(path, sizeof(path), "%s/%s.txt", folder, part);
    assert_int_equal(lr_dir_create(folder, &err), LR_OK);
    put(path, "x");
    assert_int_equal(lr_dir_remove(top, &err), LR_OK);
    assert_false(lr_dir_exists(top));
    assert_true(lr_dir_exists(*state));
}

/* The data folder is there, unless a setting names another one. */
static void the_home_folder_may_have_blanks_and_any_letters(void **state)
{
#ifdef _WIN32
    static const char variable[] = "LOCALAPPDATA";
#else
    static const char variable[] = "HOME";
#endif
    struct lr_error err;
    char root[LR_PATH_MAX], home[LR_PATH_MAX + 64], path[LR_PATH_MAX + 64];
    assert_non_null(lr_realpath(*state, root)); /* with a drive on Windows */
    (void)snprintf(home, sizeof(home), "%s/%s", root, part);
    assert_int_equal(setenv(variable, home, 1), 0);
    const char *found = lr_home_dir();
    assert_non_null(found);
    assert_string_equal(found, home);
    (void)snprintf(path, sizeof(path), "%s/a file", found);
    assert_int_equal(lr_dir_create(found, &err), LR_OK);
    put(path, "x");
    assert_true(lr_file_exists(path));
}

#ifdef _WIN32
static void assert_wide(const char *path, const wchar_t *beginning, const wchar_t *end)
{
    wchar_t *wide = lr_os_wide_path(path);
    assert_non_null(wide);
    if (wcsncmp(wide, beginning, wcslen(beginning)) != 0 ||
        wcscmp(wide + wcslen(wide) - wcslen(end), end) != 0)
        fail_msg("%s became %ls", path, wide);
    char back[LR_PATH_MAX];
    assert_true(lr_os_narrow(wide, back, sizeof(back), true));
    assert_string_equal(back, path);
    free(wide);
}

/* No server is asked. */
static void a_long_path_of_windows_gets_the_mark_of_its_kind(void **state)
{
    (void)state;
    char name[LONG], path[LR_PATH_MAX];
    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(path, sizeof(path), "C:/%s/a b", name);
    assert_wide(path, L"\\\\?\\C:\\xxx", L"xxx\\a b");
    (void)snprintf(path, sizeof(path), "//server/share/%s/a b", name);
    assert_wide(path, L"\\\\?\\UNC\\server\\share\\xxx", L"xxx\\a b");
    assert_wide("//server/share/a b", L"\\\\server\\share\\a b", L"\\a b");
    assert_wide("C:/a b", L"C:\\a b", L"\\a b");
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(files_below_a_long_path_are_written_renamed_and_mapped,
                                        make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_folder_with_a_long_path_lists_its_names_unchanged,
                                        make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(a_lock_below_a_long_path_is_held_once, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_tree_of_long_paths_is_removed, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(the_home_folder_may_have_blanks_and_any_letters,
                                        make_folder, drop_folder),
#ifdef _WIN32
        cmocka_unit_test(a_long_path_of_windows_gets_the_mark_of_its_kind),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
