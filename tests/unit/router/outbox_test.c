/* Messages about alerts: one for the first router that sees an alert and one for the last. */
#include "tests/unit/router/support.h"

#include "router/store/outbox.h"
#include "router/store/store.h"

static struct router_store *store;
static struct router_sql *sql;

static int setup(void **state)
{
    char path[128];
    struct lr_error err;
    if (make_folder(state) != 0)
        return -1;
    (void)snprintf(path, sizeof(path), "%s/router.db", (const char *)*state);
    if (router_store_open(path, 10000, &store, &err) != LR_OK)
        return -1;
    sql = router_store_sql(store);
    return 0;
}

static int teardown(void **state)
{
    (void)router_store_close(store);
    return drop_folder(state);
}

static void open_at(const char *router, uint64_t alert, const char *body)
{
    struct router_told told = {alert, "model_failed", "m", body};
    struct lr_error err;
    assert_int_equal(router_told_open(sql, router, &told, &err), LR_OK);
}

static void end_at(const char *router, uint64_t alert, const char *body)
{
    struct router_told told = {alert, "model_failed", "m", body};
    struct lr_error err;
    assert_int_equal(router_told_end(sql, router, &told, &err), LR_OK);
}

struct seen {
    int64_t id;
    char body[32];
};

static void see(void *ctx, int64_t id, struct lr_str body)
{
    struct seen *seen = ctx;
    seen->id = id;
    LR_COPY(seen->body, body);
}

/* The oldest message, which is removed; "" without one. */
static const char *take(int64_t *waiting)
{
    static struct seen seen;
    struct lr_error err;
    seen = (struct seen){0};
    assert_int_equal(router_outbox_first(sql, see, &seen, waiting, &err), LR_OK);
    assert_int_equal(router_outbox_remove(sql, seen.id, &err), LR_OK);
    return seen.body;
}

static void count(void *ctx, uint64_t alert, struct lr_str kind, struct lr_str subject)
{
    assert_true(alert != 0 && lr_str_eq_z(kind, "model_failed") && lr_str_eq_z(subject, "m"));
    ++*(size_t *)ctx;
}

static size_t told_at(const char *router)
{
    struct lr_error err;
    size_t told = 0;
    assert_int_equal(router_told_read(sql, router, count, &told, &err), LR_OK);
    return told;
}

static void an_alert_opens_with_the_first_router_and_ends_with_the_last(void **state)
{
    int64_t waiting;
    (void)state;
    open_at("a", 7, "opened by a");
    open_at("b", 7, "opened by b");
    open_at("b", 8, "another");
    end_at("a", 7, "ended by a");
    end_at("b", 7, "ended by b");
    assert_string_equal(take(&waiting), "opened by a");
    assert_int_equal(waiting, 3);
    assert_string_equal(take(&waiting), "another");
    assert_string_equal(take(&waiting), "ended by b");
    assert_string_equal(take(&waiting), "");
    assert_int_equal(told_at("b"), 1);
}

static void a_router_inherits_the_alerts_of_those_that_are_gone(void **state)
{
    const char *const alive[] = {"a", "b"};
    struct lr_error err;
    (void)state;
    open_at("b", 7, "x");
    open_at("gone", 7, "x");
    open_at("gone", 8, "x");
    assert_int_equal(router_told_claim_orphans(sql, "a", alive, 2, &err), LR_OK);
    assert_int_equal(told_at("gone"), 0);
    assert_int_equal(told_at("a"), 2);
    assert_int_equal(told_at("b"), 1);
}

static void beyond_the_limit_the_oldest_messages_make_room(void **state)
{
    int64_t waiting;
    struct lr_error err;
    (void)state;
    assert_int_equal(router_sql_plain(sql, "BEGIN", &err), LR_OK);
    for (uint64_t i = 1; i <= ROUTER_OUTBOX_MAX + 5; i++)
        open_at("a", i, i == 6 ? "the first that is left" : "x");
    assert_int_equal(router_sql_plain(sql, "COMMIT", &err), LR_OK);
    assert_string_equal(take(&waiting), "the first that is left");
    assert_int_equal(waiting, ROUTER_OUTBOX_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            an_alert_opens_with_the_first_router_and_ends_with_the_last, setup, teardown),
        cmocka_unit_test_setup_teardown(a_router_inherits_the_alerts_of_those_that_are_gone,
                                        setup, teardown),
        cmocka_unit_test_setup_teardown(beyond_the_limit_the_oldest_messages_make_room, setup,
                                        teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
