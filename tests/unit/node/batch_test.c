/* What came in one read leaves in one write, and what came alone leaves alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "node/batch.h"

static int runs;
static struct node_flush *drop_me;

static void count(void *arg)
{
    (void)arg;
    runs++;
    if (drop_me != NULL)
        node_batch_drop(drop_me);
    drop_me = NULL;
}

static void outside_a_batch_it_runs_at_once(void **state)
{
    struct node_batch batch = {0};
    struct node_flush flush = {.fn = count};
    (void)state;
    runs = 0;
    node_batch_add(&batch, &flush);
    assert_int_equal(runs, 1);
}

static void inside_a_batch_it_runs_once_at_the_end(void **state)
{
    struct node_batch batch = {0};
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

static void an_answer_that_has_ended_is_not_flushed(void **state)
{
    struct node_batch batch = {0};
    struct node_flush a = {.fn = count}, b = {.fn = count}, c = {.fn = count};
    (void)state;
    runs = 0;
    node_batch_begin(&batch);
    node_batch_add(&batch, &a);
    node_batch_add(&batch, &b);
    node_batch_add(&batch, &c);
    node_batch_drop(&b);
    drop_me = &a; /* the first flush that runs ends another answer */
    node_batch_end(&batch);
    assert_int_equal(runs, 1);
    assert_null(batch.due);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outside_a_batch_it_runs_at_once),
        cmocka_unit_test(inside_a_batch_it_runs_once_at_the_end),
        cmocka_unit_test(an_answer_that_has_ended_is_not_flushed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
