/* Stored responses in SQLite, with a clock of the test's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "router/store/responses.h"
#include "router/store/running.h"

enum { KEEP_MS = 8000 };

static char dir[] = "/tmp/lr-responses-XXXXXX", file[64];
static struct router_sql *sql;

static int open_database(void **state)
{
    struct lr_error err;
    (void)state;
    (void)snprintf(file, sizeof(file), "%s/r.db", mkdtemp(dir));
    if (router_sqlite_open(file, 1000, &sql, &err) != LR_OK ||
        router_schema_migrate(sql, &err) != LR_OK)
        fail_msg("%s", err.text);
    return 0;
}

static int close_database(void **state)
{
    static const char *const tails[] = {"", "-wal", "-shm"};
    char path[80];
    (void)state;
    router_sql_close(sql);
    for (size_t i = 0; i < 3; i++) {
        (void)snprintf(path, sizeof(path), "%s%s", file, tails[i]);
        (void)unlink(path);
    }
    (void)rmdir(dir);
    (void)snprintf(dir, sizeof(dir), "/tmp/lr-responses-XXXXXX");
    return 0;
}

static void add_row(const char *id, const char *key, const char *previous, bool is_running,
                    int64_t now_ms)
{
    char input[64], output[64];
    (void)snprintf(input, sizeof(input), "[{\"in\":\"%s\"}]", id);
    (void)snprintf(output, sizeof(output), "{\"out\":\"%s\"}", id);
    struct router_response row = {.id = lr_str_z(id),
                                  .key = lr_str_z(key),
                                  .previous = lr_str_z(previous),
                                  .input = lr_str_z(input),
                                  .output = lr_str_z(output),
                                  .answer = LR_STR_LIT("{\"output\":[]}"),
                                  .output_at = 11,
                                  .is_running = is_running};
    assert_int_equal(router_response_insert(sql, &row, now_ms, NULL), LR_OK);
}

static void add(const char *id, const char *key, const char *previous, int64_t now_ms)
{
    add_row(id, key, previous, false, now_ms);
}

static struct router_responses_view at(const char *key, int64_t now_ms)
{
    return (struct router_responses_view){lr_str_z(key), now_ms, now_ms - KEEP_MS};
}

static void expect_chain(const char *key, const char *id, int64_t now_ms, const char *items,
                         const char *missing)
{
    struct router_responses_view view = at(key, now_ms);
    char absent[ROUTER_RESPONSE_ID];
    struct lr_buf got;
    lr_buf_init(&got, 4096);
    assert_int_equal(router_responses_chain(sql, &view, lr_str_z(id), &got, absent, NULL),
                     LR_OK);
    assert_string_equal(absent, missing);
    assert_string_equal(lr_buf_z(&got), items);
    lr_buf_free(&got);
}

static void take(void *ctx, const struct router_response *row)
{
    (void)row;
    (*(int *)ctx)++;
}

static bool has(const char *key, const char *id, int64_t now_ms)
{
    struct router_responses_view view = at(key, now_ms);
    int count = 0;
    lr_code code = router_response_read(sql, &view, lr_str_z(id), take, &count, NULL);
    assert_int_equal(code == LR_OK, count == 1);
    return count == 1;
}

static int64_t number(const char *text)
{
    int64_t value = -1;
    assert_int_equal(router_sql_run(sql, text, NULL, 0, router_row_number, &value, NULL),
                     LR_OK);
    return value;
}

static void a_conversation_is_read_oldest_first_and_whole_or_not_at_all(void **state)
{
    struct router_responses_view view = at("k", 1000);
    (void)state;
    add("a", "k", "", 1000);
    add("b", "k", "a", 1000);
    add("c", "k", "b", 1000);
    add("d", "other", "c", 1000);
    expect_chain("k", "c", 2000,
                 "{\"in\":\"a\"},{\"out\":\"a\"},{\"in\":\"b\"},{\"out\":\"b\"},{\"in\":\"c\"},"
                 "{\"out\":\"c\"}",
                 "");
    expect_chain("other", "c", 2000, "", "c");
    expect_chain("other", "d", 2000, "", "c");
    assert_int_equal(router_response_delete(sql, &view, LR_STR_LIT("a"), NULL), LR_OK);
    expect_chain("k", "c", 2000, "", "a");
}

static void a_conversation_that_goes_on_is_kept_from_its_beginning(void **state)
{
    (void)state;
    add("a", "k", "", 1000);
    add("b", "k", "a", 8000);
    expect_chain("k", "b", 8500,
                 "{\"in\":\"a\"},{\"out\":\"a\"},{\"in\":\"b\"},{\"out\":\"b\"}", "");
    assert_true(has("k", "a", 16000));
    assert_false(has("k", "a", 16500));
    expect_chain("k", "b", 16500, "", "b");
}

static void items_are_found_by_their_responses_and_keep_them(void **state)
{
    struct router_responses_view view = at("k", 8500);
    struct lr_str ids[40];
    char names[40][8];
    struct lr_buf got;
    (void)state;
    lr_buf_init(&got, 1 << 20);
    for (int i = 0; i < 40; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "r%d", i);
        ids[i] = lr_str_z(names[i]);
        add(names[i], i == 7 ? "other" : "k", "", 1000);
    }
    assert_int_equal(router_responses_items(sql, &view, ids, 40, &got, NULL), LR_OK);
    for (int i = 0; i < 40; i++) {
        char wanted[32];
        (void)snprintf(wanted, sizeof(wanted), "{\"out\":\"r%d\"}", i);
        assert_int_equal(strstr(lr_buf_z(&got), wanted) != NULL, i != 7);
        assert_int_equal(has(i == 7 ? "other" : "k", names[i], 16000), i != 7);
    }
    lr_buf_free(&got);
}

static void the_sweep_removes_old_ones_then_the_oldest_of_the_largest_key(void **state)
{
    bool more;
    (void)state;
    for (int i = 0; i < 100; i++) {
        char id[8];
        (void)snprintf(id, sizeof(id), "o%d", i);
        add(id, "k", "", 1000);
    }
    for (int i = 0; i < 100; i += 32) {
        assert_int_equal(router_responses_sweep(sql, 1000, 1 << 20, &more, NULL), LR_OK);
        assert_int_equal(more, i < 96);
    }
    assert_int_equal(number("SELECT COUNT(*) FROM responses"), 0);
    assert_int_equal(number("SELECT COUNT(*) FROM response_texts"), 0);
    assert_int_equal(number("SELECT SUM(bytes) FROM response_sums"), 0);

    add("a", "small", "", 1000);
    add("b", "large", "", 2000);
    add("c", "large", "", 3000);
    add("d", "large", "", 4000);
    int64_t each = number("SELECT bytes FROM responses WHERE id = 'a'");
    assert_int_equal(router_responses_sweep(sql, 0, (uint64_t)(2 * each), &more, NULL), LR_OK);
    assert_false(more);
    assert_true(has("small", "a", 4000) && has("large", "d", 4000));
    assert_false(has("large", "b", 4000) || has("large", "c", 4000));
    assert_int_equal(number("SELECT SUM(bytes) FROM response_sums"), 2 * each);
}

static void a_sum_that_is_wrong_does_not_stop_the_sweep(void **state)
{
    bool more;
    (void)state;
    add("a", "k", "", 1000);
    assert_int_equal(
        router_sql_plain(sql, "INSERT INTO response_sums (key_id, bytes) VALUES ('x', 999999)",
                         NULL),
        LR_OK);
    assert_int_equal(router_responses_sweep(sql, 0, 1000, &more, NULL), LR_OK);
    assert_false(more);
    assert_true(has("k", "a", 1000));
}

static void a_revoked_key_leaves_no_responses(void **state)
{
    bool more;
    (void)state;
    add("a", "k", "", 20000);
    add("b", "other", "", 20000);
    assert_int_equal(router_responses_expire(sql, "k", NULL), LR_OK);
    assert_false(has("k", "a", 20000));
    assert_int_equal(router_responses_sweep(sql, 0, 1 << 20, &more, NULL), LR_OK);
    assert_int_equal(number("SELECT COUNT(*) FROM responses"), 1);
    assert_true(has("other", "b", 20000));
}

static bool look(struct router_running *running, uint64_t now_ms, int64_t wall_ms)
{
    bool more;
    assert_int_equal(router_running_look(running, sql, now_ms, wall_ms, &more, NULL), LR_OK);
    return more;
}

static void beat(const char *id, int64_t wall_ms)
{
    bool is_running = false;
    assert_int_equal(
        router_response_beat(sql, lr_str_z(id), "in_progress", wall_ms, &is_running, NULL),
        LR_OK);
    assert_true(is_running);
}

static int64_t running(void)
{
    return number("SELECT COUNT(*) FROM responses WHERE running = 1");
}

static void
a_response_fails_when_its_counter_stands_still_for_a_minute_whatever_clocks_say(void **state)
{
    struct router_running seen;
    uint64_t now = 5000000;
    (void)state;
    router_running_init(&seen);
    add_row("alive", "k", "", true, 1000);
    add_row("lost", "k", "", true, 1000);
    for (int64_t ms = 0; ms < 2 * ROUTER_RESPONSE_LOST_MS; ms += 2000, now += 2000) {
        static const int64_t walls[] = {0, 1000, 9000000, -9000000, INT64_MAX / 2};
        if (ms % 20000 == 0)
            beat("alive", walls[ms / 20000 % 5]);
        assert_false(look(&seen, now, walls[ms / 2000 % 5]));
        assert_int_equal(running(), ms < ROUTER_RESPONSE_LOST_MS ? 2 : 1);
    }
    beat("alive", 0);
    assert_int_equal(number("SELECT COUNT(*) FROM responses WHERE status = 'failed'"), 1);
    /* For an hour the database did not answer: nobody could raise a counter. */
    assert_false(look(&seen, now += 3600000, 0));
    assert_false(look(&seen, now += 3600000, 0));
    assert_int_equal(running(), 1);
    assert_int_equal(seen.rows.count, 1);
    router_running_free(&seen);
}

static void a_router_that_ended_leaves_no_running_response_however_many_it_had(void **state)
{
    struct router_running seen;
    char id[8];
    (void)state;
    router_running_init(&seen);
    for (int i = 0; i < 100; i++) {
        (void)snprintf(id, sizeof(id), "r%d", i);
        add_row(id, "k", "", true, 1000);
    }
    uint64_t now = 1;
    for (; now < ROUTER_RESPONSE_LOST_MS; now += ROUTER_LOOK_MS)
        assert_false(look(&seen, now, 0));
    for (int64_t left = 100; left > 0; left -= 32) {
        assert_int_equal(running(), left);
        assert_int_equal(look(&seen, now, 0), left > 32);
    }
    assert_int_equal(running(), 0);
    router_running_free(&seen);
}

static void
a_response_of_a_release_without_the_counter_fails_by_its_last_sign_of_life(void **state)
{
    struct router_running seen;
    (void)state;
    router_running_init(&seen);
    add_row("old", "k", "", true, 1000);
    assert_int_equal(router_sql_plain(sql, "UPDATE responses SET beats = 0", NULL), LR_OK);
    assert_false(look(&seen, 1, 999 + ROUTER_RESPONSE_LOST_MS));
    assert_int_equal(running(), 1);
    assert_false(look(&seen, 2, 1000 + ROUTER_RESPONSE_LOST_MS));
    assert_int_equal(running(), 0);
    router_running_free(&seen);
}

static void a_damaged_row_is_an_error(void **state)
{
    struct router_responses_view view = at("k", 1000);
    int count = 0;
    (void)state;
    add("a", "k", "", 1000);
    assert_int_equal(router_sql_plain(sql, "UPDATE response_texts SET output_at = 4000", NULL),
                     LR_OK);
    assert_int_equal(router_response_read(sql, &view, LR_STR_LIT("a"), take, &count, NULL),
                     LR_IO);
    assert_int_equal(count, 0);
}

#define WITH_DATABASE(test) cmocka_unit_test_setup_teardown(test, open_database, close_database)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_DATABASE(a_conversation_is_read_oldest_first_and_whole_or_not_at_all),
        WITH_DATABASE(a_conversation_that_goes_on_is_kept_from_its_beginning),
        WITH_DATABASE(items_are_found_by_their_responses_and_keep_them),
        WITH_DATABASE(the_sweep_removes_old_ones_then_the_oldest_of_the_largest_key),
        WITH_DATABASE(a_sum_that_is_wrong_does_not_stop_the_sweep),
        WITH_DATABASE(a_revoked_key_leaves_no_responses),
        WITH_DATABASE(
            a_response_fails_when_its_counter_stands_still_for_a_minute_whatever_clocks_say),
        WITH_DATABASE(a_router_that_ended_leaves_no_running_response_however_many_it_had),
        WITH_DATABASE(
            a_response_of_a_release_without_the_counter_fails_by_its_last_sign_of_life),
        WITH_DATABASE(a_damaged_row_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
