/* Both sides of a handover in one process, over the real socket: the old router is looked at by
 * this thread, and each new router asks on a thread of its own.  Time moves when a test says
 * so. */
#include "tests/unit/router/support.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/os/fd.h"
#include "router/fleet/nodes.h"
#include "router/handover/handover.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct router_nodes nodes;
static struct net_loops *loops; /* they do not run: nothing is answered */
static struct net_server *server;
static int given_count;

static void nothing(void *arg)
{
    (void)arg;
}

static void on_given(void *arg)
{
    (void)arg;
    given_count++;
}

static bool no_way_back(void *arg)
{
    (void)arg;
    return false;
}

static void offer_place(struct router_handover *h, const char *folder)
{
    struct lr_error err;
    *h = (struct router_handover){.memory = {.nodes = &nodes},
                                  .lock = &lock,
                                  .server = server,
                                  .folder = folder,
                                  .version = "1.0",
                                  .data_lock = STDIN_FILENO,
                                  .database_lock = -1,
                                  .on_giving = nothing,
                                  .on_given = on_given,
                                  .on_over = nothing,
                                  .take_back = no_way_back};
    assert_int_equal(router_handover_start(h, &err), LR_OK);
}

/* ---- a new router ---- */

struct successor {
    pthread_t thread;
    const char *folder;
    struct router_takeover takeover;
    struct lr_error err;
    lr_code code;
    atomic_bool has_ended;
};

static void *ask(void *arg)
{
    struct successor *s = arg;
    s->code = router_takeover_ask(&s->takeover, s->folder, "1.1", false, &s->err);
    atomic_store(&s->has_ended, true);
    return NULL;
}

static void *get_ready(void *arg)
{
    struct successor *s = arg;
    struct router_known_nodes memory = {.nodes = &nodes};
    s->code = router_takeover_finish(&s->takeover, &memory, &s->err);
    atomic_store(&s->has_ended, true);
    return NULL;
}

static void begin(struct successor *s, const char *folder, void *(*step)(void *))
{
    s->folder = folder;
    atomic_store(&s->has_ended, false);
    assert_int_equal(pthread_create(&s->thread, NULL, step, s), 0);
}

/* Both routers go on until the new one has its answer, or has waited in vain for LIMIT_MS. */
static bool is_answered(struct successor *s, struct router_handover *h)
{
    enum { LIMIT_MS = 20000 };
    for (int ms = 0; ms < LIMIT_MS && !atomic_load(&s->has_ended); ms++) {
        router_handover_look(h, 1);
        lr_sleep_ms(1);
    }
    if (!atomic_load(&s->has_ended))
        return false;
    (void)pthread_join(s->thread, NULL);
    return true;
}

static int set_up(void **state)
{
    struct net_server_config config = {.host = "127.0.0.1"};
    struct lr_error err;
    router_nodes_init(&nodes);
    given_count = 0;
    assert_int_equal(net_loops_create(1, &loops, &err), LR_OK);
    assert_int_equal(net_server_start(loops, &config, &server, &err), LR_OK);
    return make_folder(state);
}

static int tear_down(void **state)
{
    router_nodes_free(&nodes);
    net_server_destroy(server);
    net_loops_destroy(loops);
    return drop_folder(state);
}

/* The first router has given its place to a second one, which has not offered it yet. */
static void hand_over(const char *folder, struct router_handover *old, struct successor *second)
{
    offer_place(old, folder);
    begin(second, folder, ask);
    assert_true(is_answered(second, old));
    assert_int_equal(second->code, LR_OK);
    assert_true(router_takeover_is_preparing(&second->takeover));
    begin(second, folder, get_ready);
    assert_true(is_answered(second, old));
    assert_int_equal(second->code, LR_OK);
    assert_int_equal(old->state, ROUTER_HANDOVER_GIVEN);
    assert_int_equal(given_count, 1);
}

static void
a_router_that_asks_while_the_successor_is_still_beginning_is_sent_on_at_once(void **state)
{
    struct router_handover first, second;
    static struct successor to_second, to_third;
    hand_over(*state, &first, &to_second);
    begin(&to_third, *state, ask);
    assert_true(is_answered(&to_third, &first));
    assert_int_equal(to_third.code, LR_OK);
    assert_int_equal(to_third.takeover.state, ROUTER_TAKEOVER_NOBODY);
    assert_int_equal(first.state, ROUTER_HANDOVER_GIVEN);

    offer_place(&second, *state);
    begin(&to_third, *state, ask);
    assert_true(is_answered(&to_third, &second));
    assert_int_equal(to_third.code, LR_OK);
    assert_true(router_takeover_is_preparing(&to_third.takeover));
    router_takeover_free(&to_third.takeover);
    router_handover_stop(&second);
    router_takeover_free(&to_second.takeover);
    router_handover_stop(&first);
}

static void
a_router_that_waits_while_another_one_takes_over_is_sent_on_when_it_has(void **state)
{
    struct router_handover first;
    static struct successor second, third;
    offer_place(&first, *state);
    begin(&second, *state, ask);
    assert_true(is_answered(&second, &first));
    begin(&third, *state, ask); /* nobody hears it yet */
    begin(&second, *state, get_ready);
    assert_true(is_answered(&second, &first));
    assert_int_equal(first.state, ROUTER_HANDOVER_GIVEN);
    assert_true(is_answered(&third, &first));
    assert_int_equal(third.code, LR_OK);
    assert_int_equal(third.takeover.state, ROUTER_TAKEOVER_NOBODY);
    router_takeover_free(&second.takeover);
    router_handover_stop(&first);
}

static void a_router_that_has_given_its_place_away_for_good_sends_on_too(void **state)
{
    struct router_handover first;
    static struct successor second, third;
    hand_over(*state, &first, &second);
    router_takeover_bye(&second.takeover);
    for (int i = 0; i < 2; i++)
        router_handover_look(&first, 1);
    assert_int_equal(first.state, ROUTER_HANDOVER_OVER);
    begin(&third, *state, ask);
    assert_true(is_answered(&third, &first));
    assert_int_equal(third.code, LR_OK);
    assert_int_equal(third.takeover.state, ROUTER_TAKEOVER_NOBODY);
    router_takeover_free(&second.takeover);
    router_handover_stop(&first);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(a_router_that_asks_while_the_successor_is_still_beginning_is_sent_on_at_once),
        TEST(a_router_that_waits_while_another_one_takes_over_is_sent_on_when_it_has),
        TEST(a_router_that_has_given_its_place_away_for_good_sends_on_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
