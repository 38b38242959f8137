/* The limits that a worker sets before the engine's code runs: resources, signals, descriptors,
 * and a life that ends with the node's. */
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "tests/unit/worker/support.h"
#include "worker/confine.h"

static bool is_ignored(int number)
{
    struct sigaction action;
    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Returns the number of the first check that fails. */
static int look_around(void *arg)
{
    struct rlimit core;
    struct lr_error err;
    int signal_number = 0;
    (void)arg;
    int stray = fcntl(WORKER_OUT_FD, F_DUPFD, 40);
    if (worker_confine(getppid(), &err) != LR_OK)
        return 1;
    if (prctl(PR_GET_PDEATHSIG, &signal_number) != 0 || signal_number != SIGKILL)
        return 2;
    if (prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1)
        return 3;
    if (getrlimit(RLIMIT_CORE, &core) != 0 || core.rlim_cur != 0 || core.rlim_max != 0)
        return 4;
    if (!is_ignored(SIGINT) || !is_ignored(SIGTERM) || !is_ignored(SIGHUP) ||
        !is_ignored(SIGPIPE))
        return 5;
    if (stray < 40 || fcntl(stray, F_GETFD) != -1)
        return 6;
    for (int fd = 0; fd <= WORKER_OUT_FD; fd++)
        if (fcntl(fd, F_GETFD) == -1)
            return 7;
    /* Processes started by the plugin do not inherit the pipes. */
    if (fcntl(WORKER_IN_FD, F_GETFD) != FD_CLOEXEC ||
        fcntl(WORKER_OUT_FD, F_GETFD) != FD_CLOEXEC)
        return 8;
    if (umask(0) != 077)
        return 9;
    return 0;
}

static void everything_is_settled_before_foreign_code_runs(void **state)
{
    struct place p = place_start(look_around, NULL);
    (void)state;
    assert_int_equal(place_end(&p), 0);
}

static int with_another_parent(void *arg)
{
    struct lr_error err;
    (void)arg;
    if (worker_confine(getppid() + 1, &err) != LR_UNAVAILABLE)
        return 1;
    return strstr(err.text, "has gone") != NULL ? 0 : 2;
}

static void a_node_that_is_gone_already_is_noticed(void **state)
{
    struct place p = place_start(with_another_parent, NULL);
    (void)state;
    assert_int_equal(place_end(&p), 0);
}

/* A node that starts a worker and is killed; the worker holds the pipe as long as it lives. */
static int node_with_worker(void *arg)
{
    struct lr_error err;
    (void)arg;
    pid_t node = getpid();
    if (fork() == 0) {
        struct lr_buf out;
        if (worker_confine(node, &err) != LR_OK)
            _exit(1);
        lr_buf_init(&out, 4096);
        wire_empty_encode(&out, WIRE_TICK);
        (void)!write(WORKER_OUT_FD, out.data, out.len);
        for (;;)
            (void)pause();
    }
    (void)close(WORKER_OUT_FD);
    for (;;)
        (void)pause();
    return 0;
}

static void a_worker_dies_with_its_node(void **state)
{
    struct place p = place_start(node_with_worker, NULL);
    struct wire_frame frame;
    (void)state;
    (void)place_expect(&p, WIRE_TICK); /* the worker runs, and only it can write */
    assert_int_equal(kill(p.pid, SIGKILL), 0);
    assert_false(place_next(&p, &frame));
    assert_int_equal(place_end(&p), -SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_settled_before_foreign_code_runs),
        cmocka_unit_test(a_node_that_is_gone_already_is_noticed),
        cmocka_unit_test(a_worker_dies_with_its_node),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
