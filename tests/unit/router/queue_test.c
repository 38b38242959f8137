/* First come first served within a key, turn by turn between keys. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "router/sched/queue.h"

static const struct router_queue_weight alone; /* nobody holds anything */
static struct router_waiter w[100];
static struct router_queue q;

static int reset(void **state)
{
    (void)state;
    while (router_queue_pop(&q) != NULL)
        ;
    return q.count == 0 && q.head == NULL ? 0 : -1;
}

static void push(int i, uint64_t key)
{
    assert_true(router_queue_push(&q, &w[i], key, false));
}

static void expect(int i)
{
    assert_ptr_equal(router_queue_pop(&q), &w[i]);
}

static void one_key_is_served_in_order(void **state)
{
    (void)state;
    for (int i = 0; i < 5; i++)
        push(i, 7);
    for (int i = 0; i < 5; i++)
        expect(i);
    assert_null(router_queue_pop(&q));
}

static void a_flood_delays_another_key_by_one_turn(void **state)
{
    (void)state;
    for (int i = 0; i < 50; i++)
        push(i, 1);
    push(90, 2);
    expect(0);
    expect(90);
    expect(1);
    expect(2);
}

static void three_keys_take_turns(void **state)
{
    (void)state;
    push(0, 1);
    push(1, 1);
    push(2, 2);
    push(3, 2);
    push(4, 3);
    expect(0);
    expect(2);
    expect(4);
    expect(1);
    expect(3);
    assert_int_equal(q.count, 0);
}

static void one_who_comes_back_goes_to_the_front_of_its_key_queue(void **state)
{
    (void)state;
    push(0, 1);
    push(1, 1);
    assert_true(router_queue_push(&q, &w[2], 1, true));
    expect(2);
    expect(0);
}

static void anybody_may_leave(void **state)
{
    (void)state;
    push(0, 1);
    push(1, 1);
    push(2, 2);
    push(3, 1);
    router_queue_remove(&q, &w[1]);
    router_queue_remove(&q, &w[1]); /* he does not wait any more */
    router_queue_remove(&q, &w[2]);
    assert_int_equal(router_queue_key_count(&q, 1), 2);
    assert_int_equal(router_queue_key_count(&q, 2), 0);
    expect(0);
    expect(3);
    assert_null(router_queue_peek(&q));
}

static void remove_even(void *ctx, struct router_waiter *waiter)
{
    int *seen = ctx;
    (*seen)++;
    if ((waiter - w) % 2 == 0)
        router_queue_remove(&q, waiter);
}

static void a_walk_sees_everybody_and_may_remove(void **state)
{
    int seen = 0;
    (void)state;
    for (int i = 0; i < 10; i++)
        push(i, (uint64_t)(i % 2)); /* key queue 0 is all even: it goes as a whole */
    push(10, 5);
    router_queue_each(&q, remove_even, &seen);
    assert_int_equal(seen, 11);
    assert_int_equal(q.count, 5);
    for (int i = 1; i < 10; i += 2)
        expect(i);
}

static void the_last_of_the_longest_key_queue_makes_room_for_a_shorter_one(void **state)
{
    (void)state;
    assert_null(router_queue_pushed_out(&q, 1, alone));
    push(0, 1);
    assert_null(router_queue_pushed_out(&q, 2, alone)); /* one each is fair */
    push(1, 1);
    push(2, 2);
    push(3, 1);
    assert_ptr_equal(router_queue_pushed_out(&q, 2, alone),
                     &w[3]); /* 3 and 1: 2 and 2 is fair */
    assert_ptr_equal(router_queue_pushed_out(&q, 9, alone), &w[3]);
    assert_null(router_queue_pushed_out(&q, 1, alone)); /* not for its own key */
    router_queue_remove(&q, &w[3]);
    assert_null(router_queue_pushed_out(&q, 2, alone)); /* 2 and 1: nothing would be won */
}

static void bytes_are_bounded_for_all_and_by_half_for_one_key(void **state)
{
    struct router_queue all = {0};
    struct router_waiter some[3] = {{.bytes = 5000}, {.bytes = 300}, {.bytes = 400}};
    (void)state;
    assert_true(router_queue_has_bytes(&all, 1, some[0].bytes, 1000)); /* nothing waits */
    assert_true(router_queue_push(&all, &some[0], 1, false));
    assert_false(router_queue_has_bytes(&all, 2, 1, 1000));
    router_queue_remove(&all, &some[0]);
    assert_true(router_queue_push(&all, &some[1], 1, false));
    assert_true(router_queue_has_bytes(&all, 1, 200, 1000));
    assert_false(router_queue_has_bytes(&all, 1, 201, 1000));
    assert_true(router_queue_has_bytes(&all, 2, 700, 1000));
    assert_true(router_queue_push(&all, &some[2], 2, false));
    assert_false(router_queue_has_bytes(&all, 3, 301, 1000));
    assert_ptr_equal(router_queue_pop(&all), &some[1]);
    assert_true(router_queue_push(&all, &some[1], 1, true)); /* it keeps its size */
    assert_int_equal(all.bytes, 700);
    router_queue_remove(&all, &some[1]);
    router_queue_remove(&all, &some[2]);
    assert_int_equal(all.bytes, 0);
}

static void each_ticket_knows_how_many_come_first(void **state)
{
    static const int keys[] = {1, 1, 1, 2, 2, 3, 1, 3, 3, 3};
    enum { COUNT = sizeof(keys) / sizeof(keys[0]) };
    size_t ahead[COUNT];
    (void)state;
    for (int i = 0; i < COUNT; i++)
        push(i, (uint64_t)keys[i]);
    for (int i = 0; i < COUNT; i++)
        ahead[i] = router_queue_ahead(&q, &w[i]);
    for (size_t turn = 0; turn < COUNT; turn++) {
        const struct router_waiter *next = router_queue_pop(&q);
        assert_int_equal(ahead[next - w], turn);
        if (q.count != 0)
            assert_int_equal(router_queue_ahead(&q, router_queue_peek(&q)), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_bounded_for_all_and_by_half_for_one_key),
        cmocka_unit_test_teardown(one_key_is_served_in_order, reset),
        cmocka_unit_test_teardown(a_flood_delays_another_key_by_one_turn, reset),
        cmocka_unit_test_teardown(three_keys_take_turns, reset),
        cmocka_unit_test_teardown(one_who_comes_back_goes_to_the_front_of_its_key_queue, reset),
        cmocka_unit_test_teardown(anybody_may_leave, reset),
        cmocka_unit_test_teardown(each_ticket_knows_how_many_come_first, reset),
        cmocka_unit_test_teardown(a_walk_sees_everybody_and_may_remove, reset),
        cmocka_unit_test_teardown(
            the_last_of_the_longest_key_queue_makes_room_for_a_shorter_one, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
