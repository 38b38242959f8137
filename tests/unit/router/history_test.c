/* The history of figures: slots of three lengths, parts of several processes, an end; the last
 * two also against a real PostgreSQL server. */
#include "tests/unit/router/postgres.h"
#include "tests/unit/router/support.h"

#include "router/observe/history.h"
#include "router/observe/stats.h"

#define POSTGRES LR_SOURCE_DIR "/tests/support/postgres"

static struct router_history history, other; /* of two processes */

/* A database without a table. */
static lr_code open_sql(struct router_sql **sql, struct lr_error *err)
{
    char url[320];
    if (server_url[0] == '\0')
        return router_sqlite_open(":memory:", 1000, sql, err);
    name_database("postgres", url);
    lr_code code = router_postgres_open(url, 60000, sql, err);
    if (code == LR_OK)
        code = router_sql_plain(*sql, "DROP SCHEMA public CASCADE", err);
    return code == LR_OK ? router_sql_plain(*sql, "CREATE SCHEMA public", err) : code;
}

static int open_database(void **state)
{
    struct lr_error err;
    struct router_sql *sql;
    if (open_sql(&sql, &err) != LR_OK || router_schema_migrate(sql, &err) != LR_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    router_history_init(&history);
    router_history_init(&other);
    *state = sql;
    return 0;
}

static int close_database(void **state)
{
    router_history_free(&history);
    router_history_free(&other);
    router_sql_close(*state);
    return 0;
}

/* The time is now_s; gives how many rows were written. */
static size_t turn(struct router_sql *sql, struct router_history *h, int64_t now_s)
{
    struct router_history_rows *rows = router_history_turn(h, now_s, false);
    size_t count = rows != NULL ? rows->count : 0;
    for (size_t i = 0; i < count; i++)
        assert_int_equal(router_history_write(sql, &rows->rows[i], NULL), LR_OK);
    free(rows);
    return count;
}

static void count(struct router_history *h, const char *model, size_t figure, int64_t by)
{
    int64_t figures[ROUTER_FIGURES] = {[ROUTER_FIGURE_requests] = 1};
    figures[figure] += by;
    router_history_add(h, model, "node-1", figures);
}

struct sums {
    int64_t slots, figures[ROUTER_FIGURES];
};

static lr_code add_row(void *ctx, const struct router_history_row *row, struct lr_error *err)
{
    struct sums *sums = ctx;
    (void)err;
    sums->slots++;
    for (size_t i = 0; i < ROUTER_FIGURES; i++)
        sums->figures[i] += row->figures[i];
    return LR_OK;
}

static struct sums ask(struct router_sql *sql, uint32_t level, const char *model)
{
    struct sums sums = {0};
    struct router_history_question q = {level, 0, INT64_MAX, lr_str_z(model), lr_str_z("")};
    struct lr_error err;
    lr_code code = router_history_read(sql, ROUTER_HISTORY_REQUESTS, &q, add_row, &sums, &err);
    if (code != LR_OK)
        print_error("%s\n", err.text);
    assert_int_equal(code, LR_OK);
    return sums;
}

static void every_level_has_every_request(void **state)
{
    struct router_sql *sql = *state;
    int64_t now_s = 1800000;
    assert_int_equal(turn(sql, &history, now_s), 0);
    for (int i = 0; i < 400; i++) { /* more than an hour */
        count(&history, i % 2 == 0 ? "even" : "odd", ROUTER_FIGURE_prompt_tokens, 10);
        now_s += 10;
        assert_int_equal(turn(sql, &history, now_s), 3);
    }
    for (uint32_t level = 0; level < ROUTER_LEVELS; level++) {
        struct sums all = ask(sql, level, ""), even = ask(sql, level, "even");
        assert_int_equal(all.figures[ROUTER_FIGURE_requests], 400);
        assert_int_equal(all.figures[ROUTER_FIGURE_prompt_tokens], 4000);
        assert_int_equal(even.figures[ROUTER_FIGURE_requests], 200);
        assert_int_equal(all.slots, level == 0 ? 400 : level == 1 ? 14 : 3);
    }
}

static void parts_of_routers_and_restarts_are_added(void **state)
{
    struct router_sql *sql = *state;
    uint64_t counts[ROUTER_BUCKETS];
    (void)turn(sql, &history, 1800000);
    (void)turn(sql, &other, 1800000);
    for (int i = 0; i < 98; i++)
        count(&history, "m", ROUTER_FIGURE_wait + 4, 1); /* 4 to 8 ms */
    for (int i = 0; i < 102; i++)
        count(&other, "m", ROUTER_FIGURE_wait + 9, 1); /* 128 to 256 ms */
    (void)turn(sql, &history, 1800010);
    (void)turn(sql, &other, 1800010);
    (void)turn(sql, &history, 1800020); /* nothing new: nothing is written again */
    struct sums sums = ask(sql, 0, "m");
    assert_int_equal(sums.slots, 1);
    assert_int_equal(sums.figures[ROUTER_FIGURE_requests], 200);
    for (size_t i = 0; i < ROUTER_BUCKETS; i++)
        counts[i] = (uint64_t)sums.figures[ROUTER_FIGURE_wait + i];
    /* The mean of the two medians would be about 100 ms. */
    assert_in_range((int)router_percentile(counts, 0.50), 128, 135);
    assert_in_range((int)router_percentile(counts, 0.99), 250, 256);
}

static void a_process_that_ends_writes_its_last_slot(void **state)
{
    struct router_sql *sql = *state;
    (void)turn(sql, &history, 1800000);
    count(&history, "m", ROUTER_FIGURE_prompt_tokens, 7);
    struct router_history_rows *rows = router_history_turn(&history, 1800003, true);
    assert_non_null(rows);
    assert_int_equal(rows->count, 3);
    assert_int_equal(rows->rows[0].slot_s, 1800000);
    assert_int_equal(rows->rows[0].figures[ROUTER_FIGURE_prompt_tokens], 7);
    free(rows);
}

static void the_tables_are_bounded(void **state)
{
    struct router_sql *sql = *state;
    char model[32];
    int64_t now_s = 1800000, rows = 0, total = 0;
    (void)turn(sql, &history, now_s);
    for (int i = 0; i < 1000; i++) {
        (void)snprintf(model, sizeof(model), "m%d", i);
        count(&history, model, ROUTER_FIGURE_prompt_tokens, 1);
    }
    assert_int_equal(turn(sql, &history, now_s + 10), 3 * (ROUTER_HISTORY_SERIES + 1));
    total = ask(sql, 0, "").figures[ROUTER_FIGURE_requests];
    assert_int_equal(total, 1000);
    assert_int_equal(ask(sql, 0, "other").figures[ROUTER_FIGURE_requests],
                     1000 - ROUTER_HISTORY_SERIES);
    /* Each level is kept for its time, and no longer. */
    for (uint32_t level = 0; level < ROUTER_LEVELS; level++) {
        int64_t end_s = now_s + router_levels[level].kept_s;
        assert_int_equal(router_history_sweep(sql, end_s, NULL), LR_OK);
        assert_true(ask(sql, level, "").slots == 1);
        assert_int_equal(
            router_history_sweep(sql, end_s + 3 * router_levels[level].slot_s, NULL), LR_OK);
        assert_true(ask(sql, level, "").slots == 0);
    }
    assert_int_equal(router_sql_run(sql, "SELECT COUNT(*) FROM history", NULL, 0,
                                    router_row_number, &rows, NULL),
                     LR_OK);
    assert_int_equal(rows, 0);
    /* Series whose slots have ended make room for others in memory. */
    (void)turn(sql, &history, now_s + 7200);
    assert_int_equal(history.series[ROUTER_HISTORY_REQUESTS].count, 0);
}

/* As an upgrade does it: a release before had fewer figures, and its rows stay. */
static void a_table_of_an_older_release_gets_the_columns_of_new_figures(void **state)
{
    struct router_sql *sql = *state;
    struct lr_error err;
    count(&history, "m", ROUTER_FIGURE_prompt_tokens, 7);
    (void)turn(sql, &history, 1000);
    assert_int_equal(turn(sql, &history, 1010), 3);
    lr_code code = router_sql_plain(sql, "ALTER TABLE history DROP COLUMN errors", &err);
    if (code == LR_OK)
        code = router_sql_plain(sql, "ALTER TABLE history DROP COLUMN wait_3", &err);
    if (code == LR_OK)
        code = router_schema_migrate(sql, &err);
    assert_string_equal(code == LR_OK ? "" : err.text, "");
    assert_int_equal(ask(sql, 0, "m").figures[ROUTER_FIGURE_prompt_tokens], 7);
    assert_int_equal(ask(sql, 0, "m").figures[ROUTER_FIGURE_failed], 0);
    count(&history, "m", ROUTER_FIGURE_failed, 2);
    count(&history, "m", ROUTER_FIGURE_wait + 3, 4);
    assert_int_equal(turn(sql, &history, 1020), 3);
    assert_int_equal(ask(sql, 0, "m").figures[ROUTER_FIGURE_failed], 2);
    assert_int_equal(ask(sql, 0, "m").figures[ROUTER_FIGURE_wait + 3], 4);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_database, close_database)
    const struct CMUnitTest tests[] = {
        TEST(every_level_has_every_request),
        TEST(parts_of_routers_and_restarts_are_added),
        TEST(a_process_that_ends_writes_its_last_slot),
        TEST(the_tables_are_bounded),
        TEST(a_table_of_an_older_release_gets_the_columns_of_new_figures),
    };
    const struct CMUnitTest both[] = {
        TEST(parts_of_routers_and_restarts_are_added),
        TEST(the_tables_are_bounded),
        TEST(a_table_of_an_older_release_gets_the_columns_of_new_figures),
    };
    int failed = cmocka_run_group_tests_name("SQLite", tests, NULL, NULL);
    if (start_server(POSTGRES) != 0) {
        print_error("the PostgreSQL server did not start\n");
        return 1;
    }
    failed += cmocka_run_group_tests_name("PostgreSQL", both, NULL, NULL);
    return stop_server(POSTGRES) == 0 ? failed : failed + 1;
}
