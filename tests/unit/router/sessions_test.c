/* Rows of sessions in SQLite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "router/store/sessions.h"

static char dir[] = "/tmp/lr-sessions-XXXXXX", file[64];
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
    (void)snprintf(dir, sizeof(dir), "/tmp/lr-sessions-XXXXXX");
    return 0;
}

static void add(const char *key_id, unsigned char number, int64_t used_ms)
{
    struct router_session_row row = {
        .hash = {(unsigned char)key_id[0], number}, .made_ms = used_ms, .used_ms = used_ms};
    LR_COPY(row.key_id, lr_str_z(key_id));
    assert_int_equal(router_session_insert(sql, &row, NULL), LR_OK);
}

static bool has(const char *key_id, unsigned char number)
{
    const unsigned char hash[LR_SHA256_LEN] = {(unsigned char)key_id[0], number};
    struct router_session_row row;
    bool is_found;
    assert_int_equal(router_session_read(sql, hash, &row, &is_found, NULL), LR_OK);
    return is_found;
}

static void a_key_has_as_many_rows_as_it_may_have_sessions(void **state)
{
    static struct router_session_row rows[2 * ROUTER_SESSIONS_OF_KEY];
    size_t count;
    (void)state;
    add("other", 1, 1);
    for (int i = 0; i < ROUTER_SESSIONS_OF_KEY; i++)
        add("key", (unsigned char)i, 1000 + i);
    add("key", 200, 10); /* by the clock of a router that is behind the others */
    assert_int_equal(
        router_session_read_all(sql, rows, sizeof(rows) / sizeof(rows[0]), &count, NULL),
        LR_OK);
    assert_int_equal(count, ROUTER_SESSIONS_OF_KEY + 1);
    assert_true(has("key", 200) && has("key", 1));
    assert_false(has("key", 0)); /* used longest ago */
    assert_true(has("other", 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_key_has_as_many_rows_as_it_may_have_sessions),
    };
    return cmocka_run_group_tests(tests, open_database, close_database);
}
