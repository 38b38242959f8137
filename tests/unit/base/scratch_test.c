/* Where an engine keeps files between two starts, on every system, and on Linux what it may
 * write beside them.  lr_sandbox_enter cannot be taken back, so the test starts itself a second
 * time for it. */
#include "base/os/process.h"
#include "base/sandbox.h"
#include "base/subprocess.h"
#include "tests/unit/base/support.h"

static const char program_argument[] = "enter";

/* Enters, and writes a file where the environment says. */
static int enter(const char *scratch)
{
    const struct lr_sandbox_needs needs = {.scratch = scratch, .library = "/nowhere/lib.so"};
    const struct lr_sandbox_facts facts = lr_sandbox_look();
    struct lr_error err;
    char path[LR_PATH_MAX];
    if (lr_sandbox_enter(&facts, &needs, &err) != LR_OK) {
        print_error("%s\n", err.text);
        return 1;
    }
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || strcmp(folder, scratch) != 0) {
        print_error("TMPDIR is \"%s\", not \"%s\"\n", folder != NULL ? folder : "", scratch);
        return 1;
    }
    (void)snprintf(path, sizeof(path), "%s/kernels.cache", folder);
    return lr_file_write_atomic(path, lr_str_z("compiled"), 0600, &err) == LR_OK ? 0 : 1;
}

static void an_engine_keeps_files_in_its_scratch_folder(void **state)
{
    char self[LR_PATH_MAX], scratch[LR_PATH_MAX], path[LR_PATH_MAX + 64];
    char how[LR_EXIT_TEXT_LEN];
    const char *argv[] = {self, program_argument, scratch, NULL};
    const char *env[] = {"TMPDIR=/of/the/user", NULL};
    struct lr_spawn spawn = {.argv = argv, .env = env};
    struct lr_subprocess child;
    struct lr_error err;
    path_in(scratch, *state, "engine of J\xC3\xBCrgen \xE6\x97\xA5");
    assert_int_equal(lr_dir_create(scratch, &err), LR_OK);
    assert_int_equal(lr_self_path(self, sizeof(self), &err), LR_OK);
    if (lr_subprocess_start(&spawn, &child, &err) != LR_OK)
        fail_msg("%s", err.text);
    assert_true(lr_subprocess_wait(&child, 60000));
    assert_string_equal(lr_exit_text(child.status, how), "exited with 0");
    lr_subprocess_close(&child);
    (void)snprintf(path, sizeof(path), "%s/kernels.cache", scratch);
    assert_true(lr_file_exists(path));
}

#ifdef __linux__
static bool may_write_for_cuda(const char *dev, const char *folder)
{
    const char *folders[LR_SANDBOX_CUDA];
    bool found = false;
    for (size_t i = lr_sandbox_cuda_folders(dev, folders); i-- > 0;)
        found = found || strcmp(folders[i], folder) == 0;
    return found;
}

static void an_engine_may_write_what_cuda_needs_where_nvidia_or_wsl2_has_a_device(void **state)
{
    static const char *const devices[] = {"nvidiactl", "dxg"};
    char path[LR_PATH_MAX];
    struct lr_error err;
    assert_int_equal(setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps", 1), 0);
    assert_false(may_write_for_cuda(*state, "/dev/shm"));
    assert_false(may_write_for_cuda(*state, "/run/mps"));
    for (size_t i = 0; i < 2; i++) {
        path_in(path, *state, devices[i]);
        assert_int_equal(lr_file_write_atomic(path, lr_str_z(""), 0600, &err), LR_OK);
        assert_true(may_write_for_cuda(*state, "/dev/shm"));
        assert_true(may_write_for_cuda(*state, "/proc/self"));
        assert_true(may_write_for_cuda(*state, "/run/mps"));
        assert_int_equal(remove(path), 0);
    }
    assert_int_equal(unsetenv("CUDA_MPS_PIPE_DIRECTORY"), 0);
}
#endif

int main(int argc, char **argv)
{
    lr_process_begin(&argc, &argv);
    if (argc == 3 && strcmp(argv[1], program_argument) == 0)
        return enter(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_engine_keeps_files_in_its_scratch_folder,
                                        make_folder, drop_folder),
#ifdef __linux__
        cmocka_unit_test_setup_teardown(
            an_engine_may_write_what_cuda_needs_where_nvidia_or_wsl2_has_a_device, make_folder,
            drop_folder),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
