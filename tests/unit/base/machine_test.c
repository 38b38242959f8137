/* State machines: the table of legal moves. */
#include "base/machine.h"
#include "tests/unit/base/support.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OPEN, SHUT, LOCKED };
static const struct lr_machine door = {
    "door",
    {
        [OPEN] = {"open", LR_STATE(SHUT)},
        [SHUT] = {"shut", LR_STATE(OPEN) | LR_STATE(LOCKED)},
        [LOCKED] = {"locked", LR_STATE(SHUT)},
    },
};

static void a_legal_move_is_allowed_and_an_illegal_one_is_counted(void **state)
{
    (void)state;
    lr_machine_tolerate(true);
    uint64_t before = lr_machine_bad_moves();
    assert_true(lr_machine_allows(&door, "front", OPEN, SHUT));
    assert_true(lr_machine_allows(&door, "front", SHUT, LOCKED));
    assert_int_equal(lr_machine_bad_moves(), before);
    assert_false(lr_machine_allows(&door, "front", OPEN, LOCKED));
    assert_false(lr_machine_allows(&door, "front", OPEN, OPEN));
    assert_int_equal(lr_machine_bad_moves(), before + 2);
    lr_machine_tolerate(false);
}

static void an_illegal_move_aborts_where_it_is_not_tolerated(void **state)
{
    (void)state;
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        lr_machine_tolerate(false);
        _exit(lr_machine_allows(&door, "front", OPEN, LOCKED));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_legal_move_is_allowed_and_an_illegal_one_is_counted),
        cmocka_unit_test(an_illegal_move_aborts_where_it_is_not_tolerated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
