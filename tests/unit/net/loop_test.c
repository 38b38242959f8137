/* Loops: posting from any thread, order, timers, delayed freeing, groups. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "net/loop.h"

static struct net_loop *loop;

static int start(void **state)
{
    (void)state;
    return net_loop_create(&loop, NULL) == LR_OK ? 0 : -1;
}

static int stop(void **state)
{
    (void)state;
    net_loop_destroy(loop);
    return 0;
}

static void stop_loop(void *arg)
{
    net_loop_stop(arg);
}

static int order[8];
static int order_count;

static void record(void *arg)
{
    order[order_count++] = (int)(intptr_t)arg;
}

static void posted_calls_run_in_order_and_not_inside_the_call(void **state)
{
    (void)state;
    order_count = 0;
    for (intptr_t i = 1; i <= 3; i++)
        net_loop_post(loop, record, (void *)i);
    assert_int_equal(order_count, 0);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    assert_int_equal(order_count, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(order[i], i + 1);
}

static void what_was_posted_runs_at_the_latest_when_the_loop_is_destroyed(void **state)
{
    (void)state;
    order_count = 0;
    struct net_loop *other;
    assert_int_equal(net_loop_create(&other, NULL), LR_OK);
    net_loop_post(other, record, (void *)9);
    net_loop_destroy(other);
    assert_int_equal(order_count, 1);
}

enum { THREADS = 4, POSTS = 2000 };
static _Atomic unsigned total;
static unsigned local_total; /* used by the loop's thread only: TSan would show a race */

static void count_one(void *arg)
{
    (void)arg;
    local_total++;
    if (atomic_fetch_add(&total, 1) + 1 == THREADS * POSTS)
        net_loop_stop(loop);
}

static void *post_many(void *arg)
{
    (void)arg;
    for (int i = 0; i < POSTS; i++)
        net_loop_post(loop, count_one, NULL);
    return NULL;
}

static void many_threads_may_post(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    atomic_store(&total, 0);
    local_total = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_many, NULL), 0);
    net_loop_run(loop);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(local_total, THREADS * POSTS);
}

struct ticking {
    struct net_timer *timer;
    int count;
};

static void tick(void *arg)
{
    struct ticking *t = arg;
    if (++t->count == 3) {
        net_timer_stop(t->timer); /* inside its own callback */
        net_loop_stop(loop);
    }
}

static void a_timer_repeats_until_it_is_stopped(void **state)
{
    (void)state;
    struct ticking t = {0};
    uint64_t begun = net_loop_now_ms(loop);
    t.timer = net_timer_start(loop, 5, 5, tick, &t);
    net_loop_run(loop);
    assert_int_equal(t.count, 3);
    assert_true(net_loop_now_ms(loop) - begun >= 14);
}

static void a_stopped_timer_never_fires(void **state)
{
    (void)state;
    order_count = 0;
    struct net_timer *timer = net_timer_start(loop, 0, 0, record, (void *)1);
    net_timer_stop(timer);
    struct net_timer *end = net_timer_start(loop, 20, 0, stop_loop, loop);
    net_loop_run(loop);
    net_timer_stop(end);
    assert_int_equal(order_count, 0);
}

static void bury_record(void *arg)
{
    net_loop_bury(loop, record, arg);
    assert_int_equal(order_count, 0); /* not inside the callback that buried it */
}

static void buried_objects_die_when_the_turn_ends(void **state)
{
    (void)state;
    order_count = 0;
    net_loop_post(loop, bury_record, (void *)1);
    net_loop_post(loop, stop_loop, loop);
    net_loop_run(loop);
    assert_int_equal(order_count, 1);
}

static void a_signal_reaches_the_loop(void **state)
{
    (void)state;
    struct net_signal *sig;
    assert_int_equal(net_signal_start(loop, SIGUSR1, stop_loop, loop, &sig, NULL), LR_OK);
    assert_int_equal(kill(getpid(), SIGUSR1), 0);
    net_loop_run(loop);
    net_signal_stop(sig);
}

static _Atomic unsigned arrived;

static void arrive(void *arg)
{
    struct net_loops *loops = arg;
    if (atomic_fetch_add(&arrived, 1) + 1 == net_loops_count(loops))
        net_loops_stop(loops);
}

static void a_group_runs_each_loop_on_its_own_thread(void **state)
{
    (void)state;
    struct net_loops *loops;
    assert_int_equal(net_loops_create(3, &loops, NULL), LR_OK);
    assert_int_equal(net_loops_count(loops), 3);
    atomic_store(&arrived, 0);
    for (unsigned i = 0; i < 3; i++)
        net_loop_post(net_loops_get(loops, i), arrive, loops);
    assert_int_equal(net_loops_run(loops, NULL), LR_OK);
    assert_int_equal(atomic_load(&arrived), 3);
    net_loops_destroy(loops);
}

static void post_record(void *arg)
{
    net_loop_post(arg, record, (void *)7);
}

static void
settling_makes_what_was_posted_to_every_loop_happen_before_the_loops_are_destroyed(void **state)
{
    (void)state;
    struct net_loops *loops;
    assert_int_equal(net_loops_create(2, &loops, NULL), LR_OK);
    order_count = 0;
    net_loop_post(net_loops_get(loops, 0), record, (void *)5);
    net_loop_post(net_loops_get(loops, 1), post_record, net_loops_get(loops, 1));
    net_loops_settle(loops);
    assert_int_equal(order_count, 2);
    assert_int_equal(order[0], 5);
    assert_int_equal(order[1], 7);
    net_loops_destroy(loops);
    assert_int_equal(order_count, 2);
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(posted_calls_run_in_order_and_not_inside_the_call),
        CASE(what_was_posted_runs_at_the_latest_when_the_loop_is_destroyed),
        CASE(many_threads_may_post),
        CASE(a_timer_repeats_until_it_is_stopped),
        CASE(a_stopped_timer_never_fires),
        CASE(buried_objects_die_when_the_turn_ends),
        CASE(a_signal_reaches_the_loop),
        CASE(a_group_runs_each_loop_on_its_own_thread),
        CASE(
            settling_makes_what_was_posted_to_every_loop_happen_before_the_loops_are_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
