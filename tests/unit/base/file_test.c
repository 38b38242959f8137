/* Files: names never leave their root folder, and an atomic write is complete or not there. */
#include "base/file.h"
#include "base/subprocess.h"
#include "tests/unit/base/support.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void put(const char *path, const char *text)
{
    struct lr_error err;
    assert_int_equal(lr_file_write_atomic(path, lr_str_z(text), 0600, &err), LR_OK);
}

static void assert_holds(const char *path, const char *text)
{
    struct lr_buf buf;
    struct lr_error err;
    lr_buf_init(&buf, 1 << 20);
    assert_int_equal(lr_file_read_buf(path, &buf, &err), LR_OK);
    assert_string_equal(lr_buf_z(&buf), text);
    lr_buf_free(&buf);
}

static void names_that_could_leave_the_root_are_refused(void **state)
{
    (void)state;
    const struct lr_str bad[] = {
        LR_STR_LIT(""),
        LR_STR_LIT("/etc/passwd"),
        LR_STR_LIT(".."),
        LR_STR_LIT("../x"),
        LR_STR_LIT("a/../../x"),
        LR_STR_LIT("a/.."),
        LR_STR_LIT("."),
        LR_STR_LIT("./a"),
        LR_STR_LIT("a/./b"),
        LR_STR_LIT("a//b"),
        LR_STR_LIT("a/"),
        LR_STR_LIT("a\\b"),
        LR_STR_LIT("..\\x"),
        LR_STR_LIT("C:/x"),
        LR_STR_LIT("a\0b"),
        LR_STR_LIT("a\nb"),
        LR_STR_LIT("a\x7f"),
        LR_STR_LIT("file:x"),
        LR_STR_LIT("a/b/../../.."),
    };
    const struct lr_str good[] = {
        LR_STR_LIT("a"),       LR_STR_LIT("a/b.json"),
        LR_STR_LIT("..a"),     LR_STR_LIT("a..b"),
        LR_STR_LIT(".hidden"), LR_STR_LIT("model-00001-of-00002.safetensors"),
        LR_STR_LIT("..."),     LR_STR_LIT("\xE3\x81\x82"),
    };
    char path[LR_PATH_MAX];
    struct lr_error err;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (lr_path_safe(bad[i]))
            fail_msg("accepted \"%s\"", bad[i].ptr);
        assert_int_equal(lr_path_join(path, "/root", bad[i], &err), LR_INVALID_ARGUMENT);
        assert_string_equal(path, "");
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (!lr_path_safe(good[i]))
            fail_msg("refused \"%s\"", good[i].ptr);
    assert_int_equal(lr_path_join(path, "/root/", lr_str_z("a/b"), &err), LR_OK);
    assert_string_equal(path, "/root/a/b");
}

static void too_long_names_are_refused(void **state)
{
    (void)state;
    static char name[5000];
    char path[LR_PATH_MAX];
    struct lr_error err;
    memset(name, 'a', sizeof(name));
    assert_false(lr_path_safe(lr_str(name, 256)));
    for (size_t i = 200; i < sizeof(name); i += 200)
        name[i] = '/';
    assert_true(lr_path_safe(lr_str(name, 4090)));
    assert_int_equal(lr_path_join(path, "/a/long/root", lr_str(name, 4090), &err),
                     LR_INVALID_ARGUMENT);
    assert_int_equal(lr_path_join(path, "/a/long/root", lr_str(name, 4900), &err),
                     LR_INVALID_ARGUMENT);
}

static void a_read_keeps_its_limit(void **state)
{
    char path[LR_PATH_MAX];
    struct lr_arena arena;
    struct lr_str text;
    struct lr_error err;
    lr_arena_init(&arena, 1 << 20);
    path_in(path, *state, "f");
    put(path, "12345");
    assert_int_equal(lr_file_read(&arena, path, 5, &text, &err), LR_OK);
    assert_string_equal(text.ptr, "12345");
    assert_int_equal(lr_file_read(&arena, path, 4, &text, &err), LR_TOO_LARGE);
    assert_contains(err.text, "5 bytes, limit 4");
    assert_int_equal(lr_file_read(&arena, "/proc/self/maps", 10, &text, &err), LR_TOO_LARGE);
    assert_int_equal(lr_file_read(&arena, "/proc/self/maps", 1 << 19, &text, &err), LR_OK);
    assert_true(text.len > 100);
    path_in(path, *state, "none");
    assert_int_equal(lr_file_read(&arena, path, 5, &text, &err), LR_NOT_FOUND);
    assert_contains(err.text, path);
    lr_arena_free(&arena);
}

static void an_atomic_write_replaces_and_leaves_nothing_beside(void **state)
{
    char path[LR_PATH_MAX];
    struct lr_error err;
    struct stat info;
    path_in(path, *state, "state.json");
    put(path, "old");
    assert_int_equal(lr_file_write_atomic(path, lr_str("new\0x", 5), 0644, &err), LR_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_size, 5);
    assert_int_equal(info.st_mode & 0600, 0600);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(*state), 0); /* nothing else is in it */
    assert_int_equal(mkdir(*state, 0700), 0);
    path_in(path, *state, "no/such/folder");
    assert_int_equal(lr_file_write_atomic(path, lr_str_z("x"), 0600, &err), LR_NOT_FOUND);
}

#if defined(LR_FAILPOINTS)
static void a_crash_before_the_rename_leaves_the_old_content(void **state)
{
    char path[LR_PATH_MAX];
    path_in(path, *state, "state.json");
    put(path, "old");
    /* Failpoints are read once per process, so the writer is this program again. */
    char self[LR_PATH_MAX];
    struct lr_subprocess child;
    struct lr_error err;
    assert_int_equal(lr_self_path(self, sizeof(self), &err), LR_OK);
    struct lr_spawn spawn = {
        .argv = (const char *const[]){self, path, NULL},
        .env = (const char *const[]){"LR_FAILPOINT=file.before_rename=kill", NULL},
    };
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    assert_true(lr_subprocess_wait(&child, 10000));
    assert_true(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGKILL);
    assert_holds(path, "old");
}
#endif

static void folders_are_made_with_parents_and_removed_with_content(void **state)
{
    char path[LR_PATH_MAX], file[LR_PATH_MAX], outside[LR_PATH_MAX];
    struct lr_error err;
    path_in(path, *state, "a/b/c");
    assert_int_equal(lr_dir_create(path, &err), LR_OK);
    assert_int_equal(lr_dir_create(path, &err), LR_OK);
    path_in(file, path, "f");
    put(file, "x");
    assert_int_equal(lr_dir_create(file, &err), LR_CONFLICT);
    /* The error is mkdir's, not that of the check whether the folder exists. */
    assert_int_equal(mkdir("/sys/lr-test", 0700), -1);
    const char *reason = strerror(errno);
    assert_int_not_equal(lr_dir_create("/sys/lr-test/below", &err), LR_OK);
    assert_contains(err.text, reason);
    path_in(outside, *state, "outside");
    put(outside, "keep");
    path_in(file, path, "link");
    assert_int_equal(symlink("../../../outside", file), 0);
    path_in(path, *state, "a");
    assert_int_equal(lr_dir_remove(path, &err), LR_OK);
    assert_false(lr_dir_exists(path));
    assert_holds(outside, "keep");
    assert_int_equal(lr_dir_remove(path, &err), LR_NOT_FOUND);
}

static void one_process_owns_a_lock_until_it_ends(void **state)
{
    char path[LR_PATH_MAX], pid_text[32];
    struct lr_file_lock lock, second;
    struct lr_error err;
    int told[2];
    path_in(path, *state, "lock");
    assert_int_equal(pipe(told), 0);
    pid_t child = fork();
    if (child == 0) {
        bool held = lr_file_lock(path, &lock, &err) == LR_OK;
        (void)!write(told[1], &held, sizeof(held));
        for (;;)
            (void)pause();
    }
    bool held = false;
    assert_int_equal(read(told[0], &held, sizeof(held)), sizeof(held));
    assert_true(held);
    assert_int_equal(lr_file_lock(path, &second, &err), LR_CONFLICT);
    (void)snprintf(pid_text, sizeof(pid_text), "process %d", (int)child);
    assert_contains(err.text, pid_text);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(lr_file_lock(path, &second, &err), LR_OK);
    lr_file_unlock(&second);
    lr_file_unlock(&second);
    (void)close(told[0]);
    (void)close(told[1]);
}

static void a_mapping_shows_the_file(void **state)
{
    char path[LR_PATH_MAX];
    struct lr_file_map map;
    struct lr_error err;
    path_in(path, *state, "m");
    put(path, "mapped");
    assert_int_equal(lr_file_map(path, &map, &err), LR_OK);
    assert_int_equal(map.len, 6);
    assert_memory_equal(map.data, "mapped", 6);
    lr_file_unmap(&map);
    assert_int_equal(map.len, 0);
    put(path, "");
    assert_int_equal(lr_file_map(path, &map, &err), LR_OK);
    assert_int_equal(map.len, 0);
    lr_file_unmap(&map);
    assert_int_equal(lr_file_map(*state, &map, &err), LR_INVALID_ARGUMENT);
}

static void free_space_and_sizes_are_told(void **state)
{
    char path[LR_PATH_MAX];
    uint64_t bytes;
    struct lr_error err;
    assert_int_equal(lr_disk_free(*state, &bytes, &err), LR_OK);
    assert_true(bytes > 0);
    path_in(path, *state, "s");
    put(path, "1234567");
    assert_int_equal(lr_file_size(path, &bytes, &err), LR_OK);
    assert_int_equal(bytes, 7);
    assert_true(lr_file_exists(path));
    assert_false(lr_file_exists(*state));
    assert_string_equal(lr_path_base("/a/b"), "b");
    assert_string_equal(lr_path_base("b"), "b");
}

int main(int argc, char **argv)
{
    if (argc == 2)
        return lr_file_write_atomic(argv[1], LR_STR_LIT("new"), 0600, NULL) != LR_OK;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_could_leave_the_root_are_refused),
        cmocka_unit_test(too_long_names_are_refused),
        cmocka_unit_test_setup_teardown(a_read_keeps_its_limit, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(an_atomic_write_replaces_and_leaves_nothing_beside,
                                        make_folder, drop_folder),
#if defined(LR_FAILPOINTS)
        cmocka_unit_test_setup_teardown(a_crash_before_the_rename_leaves_the_old_content,
                                        make_folder, drop_folder),
#endif
        cmocka_unit_test_setup_teardown(folders_are_made_with_parents_and_removed_with_content,
                                        make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(one_process_owns_a_lock_until_it_ends, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_mapping_shows_the_file, make_folder, drop_folder),
        cmocka_unit_test_setup_teardown(free_space_and_sizes_are_told, make_folder,
                                        drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
