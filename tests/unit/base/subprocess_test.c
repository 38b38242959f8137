/* Starting, watching and ending child processes.  The children are shell one-liners, so that
 * the test sees what any program would see. */
#include "base/failpoint.h"
#include "base/os/fd.h"
#include "base/subprocess.h"
#include "tests/unit/base/support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

static const char *const *shell(const char *script)
{
    static const char *argv[4] = {"sh", "-c", NULL, NULL};
    argv[2] = script;
    return argv;
}

/* Reads until the end, at most 10 s of silence. */
static void read_all(int fd, char *out, size_t cap)
{
    size_t len = 0;
    for (;;) {
        struct pollfd wait = {.fd = fd, .events = POLLIN};
        if (poll(&wait, 1, 10000) <= 0)
            fail_msg("the child said nothing for 10 s");
        ssize_t got = read(fd, out + len, cap - 1 - len);
        if (got <= 0)
            break;
        len += (size_t)got;
    }
    out[len] = '\0';
}

static void pipes_environment_and_exit_code_arrive(void **state)
{
    (void)state;
    struct lr_subprocess child;
    struct lr_error err;
    char out[256], errors[256], text[LR_EXIT_TEXT_LEN];
    const char *env[] = {"LR_T=value", "HOME=/nowhere", NULL};
    struct lr_spawn spawn = {.argv =
                                 shell("read x; echo \"$x $LR_T $HOME\"; echo e >&2; exit 3"),
                             .env = env,
                             .in = LR_STDIO_PIPE,
                             .out = LR_STDIO_PIPE,
                             .err = LR_STDIO_PIPE};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    assert_int_equal(write(child.in, "hello\n", 6), 6);
    read_all(child.out, out, sizeof(out));
    read_all(child.err, errors, sizeof(errors));
    assert_true(lr_subprocess_wait(&child, 10000));
    assert_string_equal(out, "hello value /nowhere\n");
    assert_string_equal(errors, "e\n");
    assert_string_equal(lr_exit_text(child.status, text), "exited with 3");
    lr_subprocess_close(&child);
}

static void a_program_that_cannot_run_is_an_error_with_its_name(void **state)
{
    (void)state;
    struct lr_subprocess child;
    struct lr_error err;
    struct lr_spawn spawn = {.argv = (const char *const[]){"no-such-program-xyz", NULL}};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_NOT_FOUND);
    assert_contains(err.text, "no-such-program-xyz");
    spawn.argv = (const char *const[]){"/no/such/program", NULL};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_NOT_FOUND);
    spawn.argv = (const char *const[]){"/etc/hostname", NULL};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_PERMISSION_DENIED);
    spawn.argv = shell("exit 0");
    spawn.cwd = "/no/such/folder";
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_NOT_FOUND);
    assert_int_equal(child.pid, 0);
    lr_subprocess_close(&child);
}

static void the_child_gets_the_named_descriptors_and_no_other(void **state)
{
    (void)state;
    struct lr_subprocess child;
    struct lr_error err;
    char out[1024];
    int a[2], b[2];
    assert_int_equal(pipe(a), 0); /* inheritable on purpose: it must not reach the child */
    assert_int_equal(pipe(b), 0);
    int high = fcntl(a[1], F_DUPFD, 700);
    /* The targets are each other's sources, the hardest case. */
    struct lr_pass_fd pass[] = {{a[1], b[1]}, {b[1], a[1]}, {a[1], 63}};
    char script[256];
    (void)snprintf(script, sizeof(script),
                   "cd /proc/self/fd; echo *; echo to-b >&%d; echo to-a >&%d; echo a63 >&63",
                   a[1], b[1]);
    struct lr_spawn spawn = {.argv = (const char *const[]){"bash", "-c", script, NULL},
                             .in = LR_STDIO_NULL,
                             .out = LR_STDIO_PIPE,
                             .pass = pass,
                             .pass_count = 3};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    (void)close(a[1]);
    (void)close(b[1]);
    (void)close(high);
    read_all(child.out, out, sizeof(out));
    int own = 0;
    for (char *word = strtok(out, " \n"); word != NULL; word = strtok(NULL, " \n")) {
        int fd = atoi(word);
        bool wanted = fd <= 2 || fd == a[1] || fd == b[1] || fd == 63;
        /* The shell has one open for the folder that it lists. */
        if (!wanted && ++own > 1)
            fail_msg("descriptor %d was not named", fd);
        assert_int_not_equal(fd, high);
    }
    char from_a[64], from_b[64];
    read_all(a[0], from_a, sizeof(from_a));
    read_all(b[0], from_b, sizeof(from_b));
    assert_string_equal(from_a, "to-a\na63\n");
    assert_string_equal(from_b, "to-b\n");
    (void)close(a[0]);
    (void)close(b[0]);
    lr_subprocess_close(&child);
}

static void a_killed_child_says_by_which_signal(void **state)
{
    (void)state;
    struct lr_subprocess child;
    struct lr_error err;
    char text[LR_EXIT_TEXT_LEN];
    struct lr_spawn spawn = {.argv = shell("exec sleep 100"), .in = LR_STDIO_NULL};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    assert_false(lr_subprocess_poll(&child));
    assert_false(lr_subprocess_wait(&child, 20));
    lr_subprocess_signal(&child, SIGTERM);
    assert_true(lr_subprocess_wait(&child, 10000));
    assert_string_equal(lr_exit_text(child.status, text), "killed by SIGTERM");
    lr_subprocess_signal(&child, SIGKILL); /* no effect: the child is reaped */
    lr_subprocess_close(&child);
    lr_subprocess_close(&child);
    assert_string_equal(lr_exit_text(SIGKILL, text), "killed by SIGKILL");
    assert_string_equal(lr_exit_text(SIGSEGV | 0x80, text), "killed by SIGSEGV (core dumped)");
}

static void signals_ignored_and_blocked_by_us_work_in_the_child(void **state)
{
    (void)state;
    struct lr_subprocess child;
    struct lr_error err;
    sigset_t term, before;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)sigemptyset(&term);
    (void)sigaddset(&term, SIGTERM);
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &term, &before), 0);
    struct lr_spawn spawn = {.argv = shell("kill -PIPE $$; exit 9")};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    assert_true(lr_subprocess_wait(&child, 10000));
    assert_true(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGPIPE);
    spawn.argv = shell("kill -TERM $$; exit 9");
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    assert_true(lr_subprocess_wait(&child, 10000));
    assert_true(WIFSIGNALED(child.status) && WTERMSIG(child.status) == SIGTERM);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void closing_ends_the_whole_group(void **state)
{
    (void)state;
    struct lr_subprocess child;
    struct lr_error err;
    char out[64] = "";
    struct lr_spawn spawn = {.argv = shell("sleep 100 & echo $!; wait"), .out = LR_STDIO_PIPE};
    assert_int_equal(lr_subprocess_start(&spawn, &child, &err), LR_OK);
    int output = dup(child.out);
    assert_true(read(output, out, sizeof(out) - 1) > 0);
    lr_subprocess_close(&child);
    /* The grandchild held the pipe: its end is seen only after the grandchild is dead too. */
    read_all(output, out, sizeof(out));
    assert_string_equal(out, "");
    (void)close(output);
}

/* A middle process starts a grandchild and is killed; the grandchild's end of a pipe closes
 * when the grandchild is dead. */
static void a_child_dies_with_its_parent(void **state)
{
    (void)state;
    int alive[2], ready[2];
    char text[16];
    assert_true(lr_pipe(alive, 0));
    assert_true(lr_pipe(ready, 0));
    pid_t middle = fork();
    if (middle == 0) {
        struct lr_subprocess child;
        struct lr_pass_fd pass[] = {{alive[1], 5}, {ready[1], 6}};
        struct lr_spawn spawn = {.argv = shell("echo up >&6; exec 6>&-; exec sleep 100"),
                                 .in = LR_STDIO_NULL,
                                 .pass = pass,
                                 .pass_count = 2,
                                 .dies_with_parent = true};
        if (lr_subprocess_start(&spawn, &child, NULL) != LR_OK)
            _exit(1);
        for (;;)
            (void)pause();
    }
    (void)close(alive[1]);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], text, 3), 3);
    assert_int_equal(kill(middle, SIGKILL), 0);
    assert_int_equal(waitpid(middle, NULL, 0), middle);
    read_all(alive[0], text, sizeof(text)); /* fails after 10 s if the grandchild lives on */
    assert_string_equal(text, "");
    (void)close(alive[0]);
    (void)close(ready[0]);
}

static void the_path_of_this_program_is_known(void **state)
{
    (void)state;
    char path[LR_PATH_MAX], small[4];
    struct lr_error err;
    assert_int_equal(lr_self_path(path, sizeof(path), &err), LR_OK);
    assert_contains(path, "subprocess");
    assert_int_equal(lr_self_path(small, sizeof(small), &err), LR_INVALID_ARGUMENT);
}

/* Failpoints read the environment once per process, so each case is its own process. */
static int run_failpoint(const char *spec, int passes)
{
    int status;
    pid_t child = fork();
    if (child == 0) {
        int errors = 0;
        (void)setenv("LR_FAILPOINT", spec, 1);
        if (freopen("/dev/null", "w", stderr) == NULL)
            _exit(0x80);
        for (int i = 1; i <= passes; i++)
            errors |= lr_failpoint_hit("a.b") ? 1 << i : 0;
        _exit(errors);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
}

static void failpoints_act_by_name_and_by_turn(void **state)
{
    (void)state;
    assert_int_equal(run_failpoint("", 3), 0);
    assert_int_equal(run_failpoint("x.y=kill", 3), 0);
    assert_int_equal(run_failpoint("a.b=error", 2), 2 | 4);
    assert_int_equal(run_failpoint("a.b=error:2", 3), 4);
    assert_int_equal(run_failpoint("x.y=kill,a.b=error:1", 2), 2);
    assert_int_equal(run_failpoint("a.b=kill", 1), -SIGKILL);
    assert_int_equal(run_failpoint("a.b=kill:3", 2), 0);
    assert_int_equal(run_failpoint("a.b=explode", 1), -SIGABRT);
    assert_int_equal(run_failpoint("a.b", 1), -SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pipes_environment_and_exit_code_arrive),
        cmocka_unit_test(a_program_that_cannot_run_is_an_error_with_its_name),
        cmocka_unit_test(the_child_gets_the_named_descriptors_and_no_other),
        cmocka_unit_test(a_killed_child_says_by_which_signal),
        cmocka_unit_test(signals_ignored_and_blocked_by_us_work_in_the_child),
        cmocka_unit_test(closing_ends_the_whole_group),
        cmocka_unit_test(a_child_dies_with_its_parent),
        cmocka_unit_test(the_path_of_this_program_is_known),
        cmocka_unit_test(failpoints_act_by_name_and_by_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
