/* What a hostile engine gets on kernels that confine less than this one: the limits of an older
 * kernel are set in a child process, which then makes the attempts of
 * engines/testing/hostile.h. What succeeds must be on the list that doctor prints, and what is
 * on the list must succeed.
 *
 * A scene is a process with the user that the attempts are made as, in the place of the node;
 * its children are a sibling, which waits, and the worker.
 */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "engines/testing/hostile.h"
#include "tests/unit/base/support.h"

enum { NOBODY = 65534, NEWEST = 7 };

struct tally {
    struct lr_sandbox_facts facts;
    unsigned open[LR_BARRIERS]; /* attempts that were not refused */
    unsigned wrong;
};

/* As the test's process runs: also with sanitizers, whose children are confined here. */
static int landlock_here(void)
{
    enum { CREATE_RULESET = 444, ASK_VERSION = 1 };
    long version = syscall(CREATE_RULESET, NULL, 0, ASK_VERSION);
    return version > 0 ? (int)version : 0;
}

static void count(void *arg, const struct hostile_attempt *attempt, int code)
{
    struct tally *t = arg;
    if (hostile_is_refusal(code))
        return;
    t->open[attempt->barrier]++;
    if (lr_sandbox_keeps(&t->facts, attempt->barrier)) {
        print_error("Landlock %d, seccomp %d: %s was not refused: %s\n", t->facts.landlock,
                    t->facts.has_seccomp, attempt->name, strerror(code));
        t->wrong++;
    }
}

static void make_file(char out[HOSTILE_PATH], const char *folder, const char *name)
{
    (void)snprintf(out, HOSTILE_PATH, "%.200s/%s", folder, name);
    int fd = open(out, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, "x", 1) != 1)
        _exit(100);
    (void)close(fd);
}

static void make_socket(char out[HOSTILE_PATH], const char *folder, const char *name, int type)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(out, HOSTILE_PATH, "%.80s/%s", folder, name);
    (void)snprintf(at.sun_path, sizeof(at.sun_path), "%.100s", out);
    int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) != 0 ||
        (type != SOCK_DGRAM && listen(fd, 4) != 0))
        _exit(101);
}

static int make_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof(at);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&at, len) != 0 || listen(fd, 4) != 0 ||
        getsockname(fd, (struct sockaddr *)&at, &len) != 0)
        _exit(102);
    return ntohs(at.sin_port);
}

/* The place's folders: model, elsewhere (to which a link of the model leads) and scratch. */
static void make_place(const char *place, struct hostile_plan *plan, char scratch[HOSTILE_PATH])
{
    char elsewhere[HOSTILE_PATH], link[HOSTILE_PATH];
    (void)snprintf(plan->model, HOSTILE_PATH, "%.200s/model", place);
    (void)snprintf(elsewhere, sizeof(elsewhere), "%.200s/elsewhere", place);
    (void)snprintf(scratch, HOSTILE_PATH, "%.200s/scratch", place);
    (void)snprintf(link, sizeof(link), "%.200s/model/to-folder", place);
    if (mkdir(plan->model, 0700) != 0 || mkdir(elsewhere, 0700) != 0 ||
        mkdir(scratch, 0700) != 0 || symlink(elsewhere, link) != 0)
        _exit(103);
    make_file(plan->readable, plan->model, "readable");
    make_file(plan->other, elsewhere, "other");
    make_file(plan->secret, elsewhere, "secret");
    make_file(plan->outside, place, "outside");
    make_file(plan->spare, place, "spare");
    (void)snprintf(plan->to_folder, HOSTILE_PATH, "%.200s/secret", link);
    (void)snprintf(plan->to_file, HOSTILE_PATH, "%.200s/model/to-file", place);
    if (symlink(plan->secret, plan->to_file) != 0)
        _exit(104);
    make_socket(plan->handover, place, "handover", SOCK_SEQPACKET);
    make_socket(plan->listener, place, "listener", SOCK_STREAM);
    make_socket(plan->datagram, place, "datagram", SOCK_DGRAM);
    plan->port = make_port();
}

/* Returns how many attempts ended in another way than the facts promise. */
static int be_worker(const struct lr_sandbox_facts *facts, const struct hostile_plan *plan,
                     const char *scratch)
{
    static char report[HOSTILE_REPORT];
    struct tally tally = {.facts = *facts};
    struct lr_error err;
    const struct lr_sandbox_needs needs = {.scratch = scratch,
                                           .library = "/nowhere/lib.so",
                                           .folder = plan->model,
                                           .is_downloaded = true};
    if (lr_sandbox_enter(facts, &needs, &err) != LR_OK) {
        print_error("%s\n", err.text);
        return 90;
    }
    hostile_try(plan, report, count, &tally);
    for (int i = 0; i < LR_BARRIERS; i++)
        if (!lr_sandbox_keeps(facts, (enum lr_barrier)i) && tally.open[i] == 0) {
            print_error("Landlock %d, seccomp %d: nothing of barrier %d is open\n%s",
                        facts->landlock, facts->has_seccomp, i, report);
            tally.wrong++;
        }
    return (int)tally.wrong;
}

static int await(pid_t child)
{
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int be_scene(const struct lr_sandbox_facts *facts, const char *place, uid_t uid)
{
    struct hostile_plan plan = {.port = 0};
    char scratch[HOSTILE_PATH];
    if (uid != getuid() && (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0))
        return 98;
    (void)prctl(PR_SET_DUMPABLE, 1); /* a change of the user takes it away */
    make_place(place, &plan, scratch);
    pid_t sibling = fork();
    if (sibling == 0)
        for (;;)
            (void)pause();
    plan.sibling = (int)sibling;
    pid_t worker = fork();
    if (worker == 0)
        _exit(be_worker(facts, &plan, scratch));
    int wrong = await(worker);
    (void)kill(sibling, SIGKILL);
    (void)await(sibling);
    return wrong;
}

/* Whether everything that succeeds is on the list, and the other way round. */
static void check(const struct lr_sandbox_facts *facts, const char *folder, uid_t uid)
{
    char place[LR_PATH_MAX];
    static unsigned number;
    (void)snprintf(place, sizeof(place), "%s/%u", folder, number++);
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(chown(place, uid, uid), 0);
    pid_t scene = fork();
    if (scene == 0)
        _exit(be_scene(facts, place, uid));
    assert_int_equal(await(scene), 0);
}

static void what_a_kernel_leaves_open_is_what_it_is_said_to_leave_open(void **state)
{
    const struct lr_sandbox_facts kernels[] = {
        {.landlock = NEWEST, .has_seccomp = true}, /* as now */
        {.landlock = 5, .has_seccomp = true},
        {.landlock = 3, .has_seccomp = true},                   /* Linux 6.2 */
        {.landlock = 2, .has_seccomp = true},                   /* Debian 12 */
        {.landlock = 2, .has_seccomp = true, .has_cuda = true}, /* with NVIDIA's driver */
        {.landlock = 1, .has_seccomp = true},
        {.landlock = 0, .has_seccomp = true},
        {.landlock = 2, .has_seccomp = true, .has_mps = true},
        {.landlock = NEWEST, .has_seccomp = false},
        {.landlock = 2, .has_seccomp = false},
    };
    /* Users who are not root may signal, limit and trace processes of theirs. */
    const uid_t users[] = {getuid(), NOBODY};
    size_t count_of_users = getuid() == 0 ? 2 : 1;
    assert_int_equal(chmod(*state, 0755), 0);
    for (size_t u = 0; u < count_of_users; u++)
        for (size_t i = 0; i < sizeof(kernels) / sizeof(kernels[0]); i++) {
            struct lr_sandbox_facts facts = kernels[i];
            if (facts.landlock > landlock_here())
                facts.landlock = landlock_here();
            check(&facts, *state, users[u]);
        }
}

static void an_older_kernel_is_told_what_seccomp_alone_keeps_there(void **state)
{
    const struct lr_sandbox_facts debian_12 = {.landlock = 2, .has_seccomp = true};
    const struct lr_sandbox_facts newest = {.landlock = NEWEST, .has_seccomp = true};
    const struct lr_sandbox_facts nothing = {.landlock = 0, .has_seccomp = true};
    char text[LR_SANDBOX_TEXT];
    (void)state;
    assert_string_equal(lr_sandbox_lacks(&debian_12, text), "");
    assert_contains(lr_sandbox_thin(&debian_12, text), "seccomp alone keeps workers from");
    assert_contains(text,
                    "emptying files that they may read (Landlock as well since Linux 6.2)");
    assert_contains(text, "signals to other processes (Landlock as well since Linux 6.12)");
    assert_string_equal(lr_sandbox_lacks(&newest, text), "");
    assert_string_equal(lr_sandbox_thin(&newest, text), "");
    assert_contains(lr_sandbox_lacks(&nothing, text), "there is no Landlock here");
    assert_contains(text, "all files of this user");
    assert_contains(lr_sandbox_older(text), "before Linux 6.7 to seccomp: TCP connections");
}

static void a_configured_service_of_cuda_opens_local_sockets_and_that_is_said(void **state)
{
    const struct lr_sandbox_facts facts = {
        .landlock = NEWEST, .has_seccomp = true, .has_mps = true};
    char device[LR_PATH_MAX], text[LR_SANDBOX_TEXT];
    struct lr_error err;
    assert_int_equal(setenv("CUDA_MPS_PIPE_DIRECTORY", "/run/mps", 1), 0);
    assert_null(lr_sandbox_mps_folder(*state)); /* there is no GPU of NVIDIA */
    path_in(device, *state, "nvidiactl");
    assert_int_equal(lr_file_write_atomic(device, lr_str_z(""), 0600, &err), LR_OK);
    assert_string_equal(lr_sandbox_mps_folder(*state), "/run/mps");
    assert_int_equal(unsetenv("CUDA_MPS_PIPE_DIRECTORY"), 0);
    assert_null(lr_sandbox_mps_folder(*state));
    assert_string_equal(lr_sandbox_lacks(&facts, text), "");
    assert_contains(lr_sandbox_opened(&facts, text), "workers may open local sockets");
    assert_contains(text, "a router on a unix socket, D-Bus or Docker");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            what_a_kernel_leaves_open_is_what_it_is_said_to_leave_open, make_folder,
            drop_folder),
        cmocka_unit_test(an_older_kernel_is_told_what_seccomp_alone_keeps_there),
        cmocka_unit_test_setup_teardown(
            a_configured_service_of_cuda_opens_local_sockets_and_that_is_said, make_folder,
            drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
