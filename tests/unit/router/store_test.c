/* What must survive: a restart, a kill at any point, a program that is older. */
#include "tests/unit/router/support.h"

#include <signal.h>
#include <sys/wait.h>

#include "router/keys.h"
#include "router/registry.h"
#include "router/store.h"

static struct router_store *open_store(const char *folder)
{
    struct router_store *store;
    struct lr_error err;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/router.db", folder);
    if (router_store_open(path, &store, &err) != LR_OK) {
        print_error("%s\n", err.text);
        fail();
    }
    return store;
}

static lr_code take_int(void *ctx, const struct router_row *row, struct lr_error *err)
{
    (void)err;
    *(int64_t *)ctx = router_row_int(row, 0);
    return LR_OK;
}

static int64_t count_usage(const char *folder)
{
    struct router_store *store = open_store(folder);
    int64_t count = -1;
    assert_int_equal(router_sql_run(router_store_sql(store), "SELECT COUNT(*) FROM usage", NULL,
                                    0, take_int, &count, NULL),
                     LR_OK);
    router_store_close(store);
    return count;
}

static void keys_and_models_come_back_after_a_restart(void **state)
{
    struct router_key key = {.name = "mine", .role = ROUTER_ADMIN, .tokens_per_minute = 7};
    char text[ROUTER_KEY_TEXT];
    struct lr_error err;
    struct router_registry registry;
    struct router_keys keys;
    struct router_model *model;
    struct router_key *found;
    struct router_store *store = open_store(*state);
    struct router_sql *sql = router_store_sql(store);
    router_key_draw(&key, 1000, text);
    assert_int_equal(router_key_insert(sql, &key, &err), LR_OK);
    assert_int_equal(router_key_insert(sql, &key, &err), LR_CONFLICT);
    router_registry_init(&registry);
    struct router_new_model new_model = {.id = LR_STR_LIT("Org/Name"),
                                         .source = LR_STR_LIT("hub"),
                                         .format = LR_STR_LIT("gguf"),
                                         .manifest = LR_STR_LIT("{\"a\":1}"),
                                         .created_ms = 5};
    assert_int_equal(router_registry_add(&registry, &new_model, &model, &err), LR_OK);
    assert_int_equal(router_model_insert(sql, model, &err), LR_OK);
    router_registry_free(&registry);
    router_store_close(store);

    store = open_store(*state);
    sql = router_store_sql(store);
    router_registry_init(&registry);
    router_keys_init(&keys);
    assert_int_equal(router_registry_load(&registry, sql, &err), LR_OK);
    assert_int_equal(router_keys_load(&keys, sql, &err), LR_OK);
    model = router_registry_find(&registry, LR_STR_LIT("oRG/nAME"));
    assert_non_null(model);
    assert_string_equal(model->id, "Org/Name");
    assert_string_equal(model->manifest, "{\"a\":1}");
    assert_int_equal(router_keys_check(&keys, lr_str_z(text), 2000, &found, &err), LR_OK);
    assert_int_equal(found->tokens_per_minute, 7);
    assert_int_equal(found->role, ROUTER_ADMIN);
    router_registry_free(&registry);
    router_keys_free(&keys);
    router_store_close(store);
}

static void the_same_id_in_another_case_is_a_conflict(void **state)
{
    struct router_registry registry;
    struct router_model *model;
    struct lr_error err;
    struct router_new_model m = {.id = LR_STR_LIT("Org/Name"), .source = LR_STR_LIT("local")};
    (void)state;
    router_registry_init(&registry);
    assert_int_equal(router_registry_add(&registry, &m, &model, &err), LR_OK);
    m.id = LR_STR_LIT("org/name");
    assert_int_equal(router_registry_add(&registry, &m, &model, &err), LR_CONFLICT);
    router_registry_free(&registry);
}

static void ids_that_could_leave_a_folder_are_refused(void **state)
{
    static const char *const bad[] = {"",     "/a",  "a/", "..",   "a/../b", "a//b", "a/b/c",
                                      "a\\b", "a b", ".a", "a/.b", "a\n",    "../x", "a..b"};
    static const char *const good[] = {"a", "org/name", "gpt-oss-20b", "Org/Name.v1_2:q4"};
    struct lr_error err;
    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_int_equal(router_check_model_id(lr_str_z(bad[i]), &err), LR_INVALID_ARGUMENT);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(router_check_model_id(lr_str_z(good[i]), &err), LR_OK);
}

static void usage_is_written_when_the_store_closes(void **state)
{
    struct lr_error err;
    struct router_store *store = open_store(*state);
    struct router_usage row = {.time_ms = 1, .key_id = "k", .model = "m", .prompt_tokens = 3};
    assert_int_equal(router_store_start(store, &err), LR_OK);
    for (int i = 0; i < 1000; i++)
        router_store_usage(store, &row);
    router_store_close(store);
    assert_int_equal(count_usage(*state), 1000);
}

/* The child writes rows for ever and is killed; what it had reported as written is there,
 * and the file opens. */
static void a_kill_loses_nothing_that_was_committed(void **state)
{
    for (int round = 0; round < 3; round++) {
        int pipes[2];
        uint64_t written = 0, last = 0;
        assert_int_equal(pipe(pipes), 0);
        int64_t before = count_usage(*state);
        pid_t child = fork();
        if (child == 0) {
            struct lr_error err;
            struct router_store *store = open_store(*state);
            struct router_usage row = {.time_ms = 1, .model = "m"};
            struct router_store_stats stats;
            if (router_store_start(store, &err) != LR_OK)
                _exit(1);
            for (;;) {
                router_store_usage(store, &row);
                router_store_get_stats(store, &stats);
                if (stats.usage_written != last) {
                    last = stats.usage_written;
                    if (write(pipes[1], &last, sizeof(last)) < 0)
                        _exit(1);
                }
                (void)usleep(10);
            }
        }
        while (written == 0)
            assert_true(read(pipes[0], &written, sizeof(written)) == sizeof(written));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
        assert_true(count_usage(*state) - before >= (int64_t)written);
    }
}

static void a_database_of_a_newer_program_is_refused(void **state)
{
    struct router_store *store = open_store(*state);
    struct lr_error err;
    char path[128];
    assert_int_equal(router_sql_plain(router_store_sql(store),
                                      "UPDATE schema_version SET number = 99", &err),
                     LR_OK);
    router_store_close(store);
    (void)snprintf(path, sizeof(path), "%s/router.db", (const char *)*state);
    assert_int_equal(router_store_open(path, &store, &err), LR_UNSUPPORTED);
    assert_contains(err.text, "99");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(keys_and_models_come_back_after_a_restart, make_folder,
                                        drop_folder),
        cmocka_unit_test(the_same_id_in_another_case_is_a_conflict),
        cmocka_unit_test(ids_that_could_leave_a_folder_are_refused),
        cmocka_unit_test_setup_teardown(usage_is_written_when_the_store_closes, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_kill_loses_nothing_that_was_committed, make_folder,
                                        drop_folder),
        cmocka_unit_test_setup_teardown(a_database_of_a_newer_program_is_refused, make_folder,
                                        drop_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
