/* What came in one read leaves in one write, and what came alone leaves alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/models/batch.h"

static struct node_batch the_batch = {.more_comes = true};
static int runs;
static int order[8];
static struct node_flush *drop_me;

static void count(void *arg)
{
    order[runs] = arg != NULL ? *(int *)arg : 0;
    runs++;
    if (drop_me != NULL)
        node_batch_drop(&the_batch, drop_me);
    drop_me = NULL;
}

static void outside_a_batch_the_function_runs_at_once(void **state)
{
    struct node_batch batch = {0};
    struct node_flush flush = {.fn = count};
    (void)state;
    runs = 0;
    node_batch_add(&batch, &flush);
    assert_int_equal(runs, 1);
}

static void inside_a_batch_the_function_runs_once_at_the_end(void **state)
{
    struct node_batch batch = {.more_comes = true};
    struct node_flush a = {.fn = count}, b = {.fn = count};
    (void)state;
    runs = 0;
    node_batch_begin(&batch);
    for (int i = 0; i < 5; i++) {
        node_batch_add(&batch, &a);
        node_batch_add(&batch, &b);
    }
    assert_int_equal(runs, 0);
    node_batch_end(&batch);
    assert_int_equal(runs, 2);
    node_batch_begin(&batch);
    node_batch_end(&batch);
    assert_int_equal(runs, 2);
}

static void the_last_event_of_a_client_does_not_wait_for_others(void **state)
{
    struct node_batch batch = {.more_comes = true};
    struct node_flush a = {.fn = count}, many = {.fn = count};
    (void)state;
    runs = 0;
    node_batch_begin(&batch);
    node_batch_add(&batch, &a);
    node_batch_add_last(&batch, &many);
    assert_int_equal(runs, 0);
    batch.more_comes = false;
    node_batch_add(&batch, &a);
    assert_int_equal(runs, 1);
    node_batch_add_last(&batch, &many);
    assert_int_equal(runs, 1);
    node_batch_end(&batch);
    assert_int_equal(runs, 2);
}

static void an_answer_that_has_ended_is_not_flushed(void **state)
{
    struct node_flush a = {.fn = count}, b = {.fn = count}, c = {.fn = count};
    (void)state;
    runs = 0;
    node_batch_begin(&the_batch);
    node_batch_add(&the_batch, &a);
    node_batch_add(&the_batch, &b);
    node_batch_add(&the_batch, &c);
    node_batch_drop(&the_batch, &b);
    drop_me = &c; /* the first flush that runs ends another answer */
    node_batch_end(&the_batch);
    assert_int_equal(runs, 1);
    assert_null(the_batch.due);
}

static void answers_are_flushed_in_order(void **state)
{
    struct node_batch batch = {.more_comes = true};
    int names[] = {1, 2, 3};
    struct node_flush f[3];
    (void)state;
    runs = 0;
    node_batch_begin(&batch);
    for (int i = 0; i < 3; i++) {
        f[i] = (struct node_flush){.fn = count, .arg = &names[i]};
        node_batch_add(&batch, &f[i]);
    }
    node_batch_drop(&batch, &f[2]);
    node_batch_add(&batch, &f[2]);
    node_batch_end(&batch);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 2);
    assert_int_equal(order[2], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outside_a_batch_the_function_runs_at_once),
        cmocka_unit_test(inside_a_batch_the_function_runs_once_at_the_end),
        cmocka_unit_test(the_last_event_of_a_client_does_not_wait_for_others),
        cmocka_unit_test(an_answer_that_has_ended_is_not_flushed),
        cmocka_unit_test(answers_are_flushed_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
