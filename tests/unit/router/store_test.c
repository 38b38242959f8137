/* What must survive: a restart, a kill at any point, a lost connection, a program that is
 * older.  Every test runs against SQLite and against a real PostgreSQL server; the last
 * group is about what only a shared database has.
 */
#include "router/store/store.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"
#include "router/fleet/peers.h"
#include "router/fleet/registry.h"
#include "router/store/keys.h"
#include "tests/unit/router/postgres.h"
#include "tests/unit/router/support.h"

#define POSTGRES LR_SOURCE_DIR "/tests/support/postgres"

enum { WAIT_MS = 60000, TIMEOUT_MS = 60000 };

static int rounds(int few)
{
    return getenv("LR_LONG") != NULL ? 10 * few : few;
}

/* ---- a database for each test ---- */

struct fixture {
    char folder[64];
    char database[320];
};

static int make_database(struct fixture *fixture)
{
    static int number;
    char url[320], name[32], statement[64];
    struct router_sql *sql;
    struct lr_error err;
    (void)snprintf(name, sizeof(name), "t%d", ++number);
    (void)snprintf(statement, sizeof(statement), "CREATE DATABASE %s", name);
    name_database("postgres", url);
    name_database(name, fixture->database);
    lr_code code = router_postgres_open(url, TIMEOUT_MS, &sql, &err);
    if (code == LR_OK)
        code = router_sql_plain(sql, statement, &err);
    if (code != LR_OK)
        print_error("%s\n", err.text);
    router_sql_close(sql);
    return code == LR_OK ? 0 : -1;
}

static int make_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    (void)snprintf(fixture->folder, sizeof(fixture->folder), "/tmp/lr-router-test-XXXXXX");
    *state = fixture;
    if (mkdtemp(fixture->folder) == NULL)
        return -1;
    (void)snprintf(fixture->database, sizeof(fixture->database), "%s/router.db",
                   fixture->folder);
    return server_url[0] != '\0' ? make_database(fixture) : 0;
}

static int drop_fixture(void **state)
{
    struct fixture *fixture = *state;
    lr_code code = lr_dir_remove(fixture->folder, NULL);
    free(fixture);
    return code == LR_OK ? 0 : -1;
}

/* ---- helpers ---- */

static struct router_store *open_store(const struct fixture *fixture)
{
    struct router_store *store;
    struct lr_error err;
    if (router_store_open(fixture->database, TIMEOUT_MS, &store, &err) != LR_OK) {
        print_error("%s\n", err.text);
        fail();
    }
    return store;
}

static struct router_store *start_store(const struct fixture *fixture)
{
    struct lr_error err;
    struct router_store *store = open_store(fixture);
    assert_int_equal(router_store_start(store, &err), LR_OK);
    return store;
}

static lr_code take_int(void *ctx, const struct router_row *row, struct lr_error *err)
{
    (void)err;
    *(int64_t *)ctx = router_row_int(row, 0);
    return LR_OK;
}

static int64_t ask(struct router_sql *sql, const char *question)
{
    int64_t number = -1;
    assert_int_equal(router_sql_run(sql, question, NULL, 0, take_int, &number, NULL), LR_OK);
    return number;
}

static int64_t ask_number(const struct fixture *fixture, const char *question)
{
    struct router_store *store = open_store(fixture);
    int64_t number = ask(router_store_sql(store), question);
    router_store_close(store);
    return number;
}

static int64_t count_usage(const struct fixture *fixture)
{
    return ask_number(fixture, "SELECT COUNT(*) FROM usage");
}

#define await(condition)                                                                       \
    do {                                                                                       \
        uint64_t end_ = lr_clock_ms(NULL) + WAIT_MS;                                           \
        while (!(condition) && lr_clock_ms(NULL) < end_)                                       \
            (void)usleep(1000);                                                                \
        assert_true(condition);                                                                \
    } while (0)

/* One piece of work for the database's thread, and its end. */
struct task {
    struct router_key key;
    _Atomic int ended; /* 1: committed, 2: failed */
    struct lr_error err;
};

static lr_code insert_key(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_key_insert(sql, &((struct task *)arg)->key, err);
}

static void on_inserted(void *arg, const struct lr_error *err)
{
    struct task *task = arg;
    if (err != NULL)
        task->err = *err;
    atomic_store(&task->ended, err == NULL ? 1 : 2);
}

static void draw(struct task *task)
{
    static unsigned count;
    char text[32];
    *task = (struct task){.key = {.name = "k", .role = ROUTER_API, .created_ms = 1000}};
    /* Not drawn: a forked child would draw what its brother drew. */
    (void)snprintf(text, sizeof(text), "%d-%u", (int)getpid(), ++count);
    (void)snprintf(task->key.id, sizeof(task->key.id), "key-%.18s", text);
    lr_sha256_of(lr_str_z(text), task->key.hash);
}

/* 1: it was committed. */
static int insert_and_wait(struct router_store *store, struct task *task)
{
    draw(task);
    router_store_submit(store, insert_key, NULL, on_inserted, task);
    await(atomic_load(&task->ended) != 0);
    return atomic_load(&task->ended);
}

/* ---- both databases ---- */

static void keys_and_models_come_back_after_a_restart(void **state)
{
    struct router_key key = {.name = "mine", .role = ROUTER_ADMIN, .tokens_per_minute = 7};
    char text[ROUTER_KEY_TEXT];
    struct lr_error err;
    struct router_registry registry;
    struct router_keys keys;
    struct router_model *model;
    struct router_key *found;
    int64_t generation, again;
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
                                         .path = LR_STR_LIT("/m/x"),
                                         .dialect = LR_STR_LIT("glm"),
                                         .created_ms = 5};
    assert_int_equal(router_registry_add(&registry, &new_model, &model, &err), LR_OK);
    assert_int_equal(router_model_insert(sql, model, &generation, &err), LR_OK);
    assert_int_equal(router_model_insert(sql, model, &again, &err), LR_CONFLICT);
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
    assert_string_equal(model->path, "/m/x");
    assert_string_equal(model->dialect, "glm");
    assert_int_equal(model->generation, generation);
    assert_int_equal(router_keys_check(&keys, lr_str_z(text), 2000, &found, &err), LR_OK);
    assert_int_equal(found->tokens_per_minute, 7);
    assert_int_equal(found->role, ROUTER_ADMIN);
    router_registry_free(&registry);
    router_keys_free(&keys);
    router_store_close(store);
}

static void a_model_that_is_registered_again_has_a_higher_generation(void **state)
{
    struct router_new_model new_model = {.id = LR_STR_LIT("m"), .source = LR_STR_LIT("local")};
    struct router_registry registry;
    struct router_model *model;
    struct lr_error err;
    int64_t last = 0, generation;
    for (int i = 0; i < 3; i++) {
        struct router_store *store = open_store(*state);
        struct router_sql *sql = router_store_sql(store);
        router_registry_init(&registry);
        assert_int_equal(router_registry_add(&registry, &new_model, &model, &err), LR_OK);
        for (int j = 0; j < 3; j++) {
            assert_int_equal(router_model_insert(sql, model, &generation, &err), LR_OK);
            assert_true(generation > last);
            last = generation;
            assert_int_equal(router_model_delete(sql, model->folded, &err), LR_OK);
        }
        router_registry_free(&registry);
        router_store_close(store);
    }
}

static void a_node_is_stored_once_and_its_last_word_counts(void **state)
{
    struct router_node node = {.id = "node-1", .name = "a", .url = "http://x", .secret = "s"};
    struct router_nodes nodes;
    struct lr_error err;
    struct router_store *store = open_store(*state);
    assert_int_equal(router_node_save(router_store_sql(store), &node, &err), LR_OK);
    (void)snprintf(node.name, sizeof(node.name), "b");
    node.is_drained = true;
    assert_int_equal(router_node_save(router_store_sql(store), &node, &err), LR_OK);
    router_nodes_init(&nodes);
    assert_int_equal(router_nodes_load(&nodes, router_store_sql(store), &err), LR_OK);
    assert_int_equal(nodes.count, 1);
    assert_string_equal(nodes.all[0]->name, "b");
    assert_true(nodes.all[0]->is_drained);
    assert_false(router_node_is_online(nodes.all[0]));
    router_nodes_free(&nodes);
    router_store_close(store);
}

static void usage_is_written_when_the_store_closes(void **state)
{
    struct router_store *store = start_store(*state);
    struct router_usage row = {.time_ms = 1, .key_id = "k", .model = "m", .prompt_tokens = 3};
    for (int i = 0; i < 1000; i++)
        router_store_usage(store, &row);
    router_store_close(store);
    assert_int_equal(count_usage(*state), 1000);
    assert_int_equal(ask_number(*state, "SELECT CAST(SUM(prompt_tokens) AS BIGINT) FROM usage"),
                     3000);
}

static lr_code fail_in_the_middle(struct router_sql *sql, void *arg, struct lr_error *err)
{
    lr_code code = insert_key(sql, arg, err);
    return code == LR_OK ? lr_fail(err, LR_INTERNAL, "on purpose") : code;
}

static void work_that_fails_leaves_nothing_behind(void **state)
{
    struct task task;
    struct router_store *store = start_store(*state);
    draw(&task);
    router_store_submit(store, fail_in_the_middle, NULL, on_inserted, &task);
    await(atomic_load(&task.ended) == 2);
    assert_string_equal(task.err.text, "on purpose");
    assert_int_equal(insert_and_wait(store, &task), 1);
    router_store_close(store);
    assert_int_equal(ask_number(*state, "SELECT COUNT(*) FROM keys"), 1);
}

/* What a child tells its parent after every commit. */
struct word {
    uint64_t usage;
    uint64_t keys;
};

static void write_for_ever(const struct fixture *fixture, int fd)
{
    struct router_store *store = start_store(fixture);
    struct router_usage row = {.time_ms = 1, .model = "m"};
    struct router_store_stats stats;
    struct word word = {0};
    struct task task;
    for (;;) {
        router_store_usage(store, &row);
        if (insert_and_wait(store, &task) != 1)
            _exit(1);
        router_store_get_stats(store, &stats);
        word.keys++;
        word.usage = stats.usage_written;
        if (write(fd, &word, sizeof(word)) != sizeof(word))
            _exit(1);
    }
}

/* Kills fall anywhere in a transaction: the delay after the first usage differs. */
static void a_kill_loses_nothing_that_was_committed(void **state)
{
    for (int round = 0; round < rounds(3); round++) {
        int pipes[2];
        struct word word = {0};
        assert_int_equal(pipe(pipes), 0);
        int64_t usage = count_usage(*state);
        int64_t keys = ask_number(*state, "SELECT COUNT(*) FROM keys");
        pid_t child = fork();
        if (child == 0) {
            (void)close(pipes[0]);
            write_for_ever(*state, pipes[1]);
        }
        (void)close(pipes[1]);
        while (word.usage == 0)
            assert_true(read(pipes[0], &word, sizeof(word)) == sizeof(word));
        (void)usleep((useconds_t)(round * 737 % 10000));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        while (read(pipes[0], &word, sizeof(word)) == sizeof(word))
            continue; /* said before it died */
        (void)close(pipes[0]);
        assert_true(count_usage(*state) - usage >= (int64_t)word.usage);
        assert_true(ask_number(*state, "SELECT COUNT(*) FROM keys") - keys >=
                    (int64_t)word.keys);
    }
}

static void a_kill_while_the_tables_are_made_leaves_a_database_that_opens(void **state)
{
    for (int round = 0; round < rounds(8); round++) {
        void *fixture;
        assert_int_equal(make_fixture(&fixture), 0);
        pid_t child = fork();
        if (child == 0) {
            router_store_close(open_store(fixture));
            _exit(0);
        }
        (void)usleep((useconds_t)(round * 1300 % 20000));
        (void)kill(child, SIGKILL);
        (void)waitpid(child, NULL, 0);
        assert_int_equal(count_usage(fixture), 0);
        assert_int_equal(ask_number(fixture, "SELECT COUNT(*) FROM schema_version"), 1);
        assert_int_equal(drop_fixture(&fixture), 0);
    }
    (void)state;
}

static void a_database_of_the_first_version_becomes_the_newest_with_what_it_holds(void **state)
{
    static const char *const back[] = {"ALTER TABLE models DROP COLUMN path",
                                       "ALTER TABLE keys DROP COLUMN models",
                                       "ALTER TABLE keys DROP COLUMN uses",
                                       "ALTER TABLE keys DROP COLUMN joins",
                                       "ALTER TABLE models DROP COLUMN generation",
                                       "ALTER TABLE models DROP COLUMN dialect",
                                       "DROP TABLE counters",
                                       "DROP TABLE aliases",
                                       "DROP TABLE responses",
                                       "DROP TABLE response_texts",
                                       "DROP TABLE response_sums",
                                       "DROP TABLE routers",
                                       "DROP TABLE schema_additions",
                                       "DROP TABLE sessions",
                                       "DROP TABLE sign_ins",
                                       "DROP TABLE facts",
                                       "ALTER TABLE keys DROP COLUMN viewer",
                                       "DROP TABLE silences",
                                       "DROP TABLE alert_told",
                                       "DROP TABLE alert_outbox",
                                       "DROP TABLE history",
                                       "DROP TABLE history_gpus",
                                       "DROP TABLE usage_months",
                                       "DROP TABLE usage_journals",
                                       "ALTER TABLE audit DROP COLUMN actor_name",
                                       "ALTER TABLE audit DROP COLUMN address",
                                       "ALTER TABLE audit DROP COLUMN old_values",
                                       "ALTER TABLE audit DROP COLUMN new_values",
                                       "ALTER TABLE keys DROP COLUMN owner",
                                       "ALTER TABLE keys DROP COLUMN label",
                                       "ALTER TABLE keys DROP COLUMN addresses",
                                       "ALTER TABLE keys DROP COLUMN tokens_per_month",
                                       "ALTER TABLE keys DROP COLUMN tokens_per_month_soft",
                                       "ALTER TABLE keys DROP COLUMN concurrent_requests",
                                       "ALTER TABLE keys DROP COLUMN request_bytes",
                                       "ALTER TABLE keys DROP COLUMN keep_texts",
                                       "ALTER TABLE keys DROP COLUMN old_hash",
                                       "ALTER TABLE keys DROP COLUMN old_until_ms",
                                       "UPDATE schema_version SET number = 1",
                                       "INSERT INTO models (folded_id, id, source, format, "
                                       "manifest, chat_template, created_ms) VALUES ('a', 'A', "
                                       "'local', '', '', '', 5)",
                                       "INSERT INTO keys (id, name, role, hash, created_ms, "
                                       "expires_ms, revoked_ms, requests_per_minute, "
                                       "tokens_per_minute) VALUES ('key-1', 'old', 'api', "
                                       "'00000000000000000000000000000000"
                                       "00000000000000000000000000000000', 1, 0, 0, 7, 0)"};
    struct router_registry registry;
    struct router_keys keys;
    struct lr_error err;
    struct router_store *store = open_store(*state);
    for (size_t i = 0; i < sizeof(back) / sizeof(back[0]); i++)
        assert_int_equal(router_sql_plain(router_store_sql(store), back[i], &err), LR_OK);
    router_store_close(store);
    store = open_store(*state);
    router_registry_init(&registry);
    assert_int_equal(router_registry_load(&registry, router_store_sql(store), &err), LR_OK);
    const struct router_model *model = router_registry_find(&registry, LR_STR_LIT("a"));
    assert_non_null(model);
    assert_string_equal(model->path, "");
    assert_int_equal(model->generation, 0);
    router_registry_free(&registry);
    router_keys_init(&keys);
    assert_int_equal(router_keys_load(&keys, router_store_sql(store), &err), LR_OK);
    const struct router_key *key = router_keys_find(&keys, LR_STR_LIT("key-1"));
    assert_non_null(key);
    assert_string_equal(key->models, ""); /* every model, as before */
    assert_int_equal(key->requests_per_minute, 7);
    router_keys_free(&keys);
    router_store_close(store);
}

static void a_database_of_a_newer_program_is_refused(void **state)
{
    const struct fixture *fixture = *state;
    struct router_store *store = open_store(fixture);
    struct lr_error err;
    assert_int_equal(router_sql_plain(router_store_sql(store),
                                      "UPDATE schema_version SET number = 99", &err),
                     LR_OK);
    router_store_close(store);
    assert_int_equal(router_store_open(fixture->database, TIMEOUT_MS, &store, &err),
                     LR_UNSUPPORTED);
    assert_contains(err.text, "99");
}

/* Four releases: the second and the third add something, the fourth changes what there was. */
static void the_releases_before_use_a_database_after_additive_steps_only(void **state)
{
    static const char *const first[] = {
        "CREATE TABLE things (name TEXT NOT NULL, colour TEXT NOT NULL)", NULL};
    static const char *const second[] = {
        "ALTER TABLE things ADD COLUMN size BIGINT NOT NULL DEFAULT 7", NULL};
    static const char *const third[] = {"CREATE TABLE places (name TEXT NOT NULL)", NULL};
    static const char *const fourth[] = {"ALTER TABLE things DROP COLUMN colour", NULL};
    static const struct router_schema_step steps[] = {
        {.statements = first},
        {.statements = second, .is_additive = true},
        {.statements = third, .is_additive = true},
        {.statements = fourth},
    };
    struct router_store *store = open_store(*state);
    struct router_sql *sql = router_store_sql(store);
    struct lr_error err;
    assert_int_equal(router_sql_plain(sql, "DELETE FROM schema_version", &err), LR_OK);
    assert_int_equal(router_sql_plain(sql, "DELETE FROM schema_additions", &err), LR_OK);
    assert_int_equal(router_schema_apply(sql, steps, 3, &err), LR_OK);
    for (size_t release = 1; release <= 3; release++) {
        assert_int_equal(router_schema_apply(sql, steps, release, &err), LR_OK);
        assert_int_equal(
            router_sql_plain(sql, "INSERT INTO things (name, colour) VALUES ('a', 'red')",
                             &err),
            LR_OK);
    }
    assert_int_equal(ask(sql, "SELECT number FROM schema_version"), 1);
    assert_int_equal(ask(sql, "SELECT number FROM schema_additions"), 3);
    assert_int_equal(ask(sql, "SELECT COUNT(*) FROM things WHERE size = 7"), 3);
    assert_int_equal(router_schema_apply(sql, steps, 4, &err), LR_OK);
    assert_int_equal(router_schema_apply(sql, steps, 4, &err), LR_OK);
    for (size_t release = 1; release <= 3; release++) {
        assert_int_equal(router_schema_apply(sql, steps, release, &err), LR_UNSUPPORTED);
        assert_contains(err.text, "version 4");
    }
    router_store_close(store);
}

/* As the next release leaves it, after an additive step of its own. */
static void a_database_of_the_next_release_is_used_and_kept_as_it_is(void **state)
{
    static const char *const next[] = {
        "ALTER TABLE keys ADD COLUMN mood TEXT NOT NULL DEFAULT 'calm'",
        "CREATE TABLE moods (name TEXT PRIMARY KEY)",
        "DELETE FROM schema_additions",
        "INSERT INTO schema_additions (number) VALUES (99)",
    };
    const struct fixture *fixture = *state;
    struct router_store *store = open_store(fixture);
    struct router_key key = {.role = ROUTER_API, .name = "k"};
    char text[ROUTER_KEY_TEXT];
    struct lr_error err;
    for (size_t i = 0; i < sizeof(next) / sizeof(next[0]); i++)
        assert_int_equal(router_sql_plain(router_store_sql(store), next[i], &err), LR_OK);
    router_store_close(store);
    store = open_store(fixture);
    router_key_draw(&key, 1, text);
    assert_int_equal(router_key_insert(router_store_sql(store), &key, &err), LR_OK);
    router_store_close(store);
    assert_int_equal(ask_number(fixture, "SELECT COUNT(*) FROM keys WHERE mood = 'calm'"), 1);
    assert_int_equal(ask_number(fixture, "SELECT number FROM schema_additions"), 99);
}

/* ---- only where several share it ---- */

static void count_change(void *arg, struct router_sql *sql)
{
    (void)sql;
    atomic_fetch_add((_Atomic int *)arg, 1);
}

static void a_change_at_one_is_told_to_the_other_at_once(void **state)
{
    _Atomic int changes = 0;
    struct task task;
    struct lr_error err;
    struct router_store *one = start_store(*state), *other = open_store(*state);
    router_store_on_change(other, count_change, &changes);
    assert_int_equal(router_store_start(other, &err), LR_OK);
    await(atomic_load(&changes) >= 1); /* the first look of its own */
    /* Its own look is up to two seconds away: four quick ones in a row are no accident.  A busy
     * machine may need some tries. */
    int quick = 0;
    for (int round = 0; quick < 4; round++) {
        int before = atomic_load(&changes);
        uint64_t begun = lr_clock_ms(NULL);
        assert_true(round < 40);
        assert_int_equal(insert_and_wait(one, &task), 1);
        await(atomic_load(&changes) > before);
        quick = lr_clock_ms(NULL) - begun < 500 ? quick + 1 : 0;
    }
    router_store_close(one);
    router_store_close(other);
}

/* Every other connection to this database is ended, as a restart of the server does. */
static void cut_connections(const struct fixture *fixture)
{
    struct router_sql *sql;
    struct lr_error err;
    assert_int_equal(router_postgres_open(fixture->database, TIMEOUT_MS, &sql, &err), LR_OK);
    assert_int_equal(router_sql_plain(sql,
                                      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                      "WHERE datname = current_database() AND pid <> "
                                      "pg_backend_pid()",
                                      &err),
                     LR_OK);
    router_sql_close(sql);
}

static void after_a_lost_connection_everything_is_read_again_and_words_arrive(void **state)
{
    _Atomic int changes = 0;
    struct task task;
    struct lr_error err;
    struct router_store *one = start_store(*state), *other = open_store(*state);
    router_store_on_change(other, count_change, &changes);
    assert_int_equal(router_store_start(other, &err), LR_OK);
    await(atomic_load(&changes) >= 1);
    int quick = 0;
    for (int round = 0; quick < 6; round++) { /* a busy machine may need more than three */
        int before = atomic_load(&changes);
        uint64_t begun = lr_clock_ms(NULL);
        assert_true(round < 20);
        cut_connections(*state);
        await(atomic_load(&changes) > before);
        quick += lr_clock_ms(NULL) - begun < 1500;
        before = atomic_load(&changes);
        begun = lr_clock_ms(NULL);
        assert_int_equal(insert_and_wait(one, &task), 1); /* it came back, too */
        await(atomic_load(&changes) > before);
        quick += lr_clock_ms(NULL) - begun < 1500;
    }
    router_store_close(one);
    router_store_close(other);
}

static void usage_outlives_lost_connections_and_is_counted_once(void **state)
{
    enum { ROWS = 4000 };
    struct router_store *store = start_store(*state);
    struct router_store_stats stats;
    for (int i = 0; i < ROWS; i++) {
        struct router_usage row = {.time_ms = i, .key_id = "k", .model = "m"};
        (void)snprintf(row.request_id, sizeof(row.request_id), "r%d", i);
        router_store_usage(store, &row);
        if (i % 500 == 250)
            cut_connections(*state);
        if (i % 50 == 0)
            (void)usleep(10000);
    }
    do {
        (void)usleep(10000);
        router_store_get_stats(store, &stats);
    } while (stats.usage_written < ROWS);
    router_store_close(store);
    assert_int_equal(count_usage(*state), ROWS);
    assert_int_equal(ask_number(*state, "SELECT COUNT(DISTINCT request_id) FROM usage"), ROWS);
}

/* ---- a database that says nothing ---- */

static void signal_server(const char *word)
{
    char command[256];
    (void)snprintf(command, sizeof(command), POSTGRES " %s %s", word, server_folder);
    assert_int_equal(system(command), 0);
}

/* PostgreSQL is frozen; of SQLite another program holds the lock. */
static struct router_sql *silence(const struct fixture *fixture)
{
    struct router_sql *holder = NULL;
    struct lr_error err;
    if (server_url[0] != '\0') {
        signal_server("freeze");
        return NULL;
    }
    assert_int_equal(router_sqlite_open(fixture->database, TIMEOUT_MS, &holder, &err), LR_OK);
    assert_int_equal(router_sql_plain(holder, "BEGIN IMMEDIATE", &err), LR_OK);
    return holder;
}

static void end_silence(struct router_sql *holder)
{
    if (holder == NULL)
        signal_server("thaw");
    router_sql_close(holder);
}

static struct router_store *start_impatient(const struct fixture *fixture, uint32_t timeout_ms)
{
    struct router_store *store;
    struct lr_error err;
    assert_int_equal(router_store_open(fixture->database, timeout_ms, &store, &err), LR_OK);
    assert_int_equal(router_store_start(store, &err), LR_OK);
    return store;
}

static void a_silent_database_costs_each_change_one_timeout_and_no_row_is_lost(void **state)
{
    enum { TASKS = 60, ROWS = 600 };
    struct router_store *store = start_impatient(*state, 500);
    struct router_store_stats stats;
    struct task tasks[TASKS], after;
    assert_int_equal(insert_and_wait(store, &after), 1);
    struct router_sql *holder = silence(*state);
    uint64_t begun = lr_clock_ms(NULL);
    for (int i = 0; i < TASKS; i++) {
        draw(&tasks[i]);
        router_store_submit(store, insert_key, NULL, on_inserted, &tasks[i]);
    }
    for (int i = 0; i < ROWS; i++) {
        struct router_usage row = {.time_ms = i, .key_id = "k", .model = "m"};
        (void)snprintf(row.request_id, sizeof(row.request_id), "r%d", i);
        router_store_usage(store, &row);
        if (i % 200 == 0)
            router_store_audit(store,
                               &(struct router_action){"session.create", row.request_id, "",
                                                       .by = {"somebody", "", "127.0.0.1"}});
    }
    for (int i = 0; i < TASKS; i++) {
        await(atomic_load(&tasks[i].ended) == 2);
        assert_int_equal(tasks[i].err.code, LR_UNAVAILABLE);
        assert_contains(tasks[i].err.text, "database-timeout");
    }
    assert_true(lr_clock_ms(NULL) - begun < 15000); /* one after the other would take 30 s */
    char trouble[ROUTER_TROUBLE];
    assert_true(router_store_trouble(store, trouble));
    end_silence(holder);
    do {
        (void)usleep(10000);
        router_store_get_stats(store, &stats);
    } while (stats.usage_written < ROWS);
    assert_int_equal(insert_and_wait(store, &after), 1);
    assert_false(router_store_trouble(store, trouble));
    assert_true(router_store_close(store));
    assert_int_equal(count_usage(*state), ROWS);
    assert_int_equal(ask_number(*state, "SELECT COUNT(DISTINCT request_id) FROM usage"), ROWS);
    assert_int_equal(ask_number(*state, "SELECT COUNT(DISTINCT target) FROM audit"), 3);
    assert_int_equal(ask_number(*state, "SELECT COUNT(*) FROM audit"), 3);
}

static void a_silent_database_does_not_keep_the_store_from_closing(void **state)
{
    struct router_store *store = start_impatient(*state, 60000);
    struct router_usage row = {.time_ms = 1, .key_id = "k", .model = "m"};
    struct task task;
    assert_int_equal(insert_and_wait(store, &task), 1);
    struct router_sql *holder = silence(*state);
    draw(&task);
    router_store_submit(store, insert_key, NULL, on_inserted, &task);
    router_store_usage(store, &row);
    uint64_t begun = lr_clock_ms(NULL);
    assert_true(router_store_close(store));
    assert_true(lr_clock_ms(NULL) - begun < 30000); /* the database has sixty seconds */
    assert_int_equal(atomic_load(&task.ended), 2);  /* whoever waited was told */
    end_silence(holder);
}

static void the_row_of_a_router_that_ended_is_kept_for_a_day(void **state)
{
    struct router_store *store = open_store(*state);
    struct router_sql *sql = router_store_sql(store);
    struct router_load load = {0};
    struct router_peers peers;
    assert_int_equal(
        router_sql_plain(
            sql,
            "INSERT INTO routers (url, seen_ms) SELECT 'http://' || hours, "
            "EXTRACT(EPOCH FROM clock_timestamp()) * 1000 - (hours - 0.5) * 3600000 "
            "FROM generate_series(1, 48) AS hours",
            NULL),
        LR_OK);
    assert_int_equal(router_peers_exchange(sql, "http://own", "1", &load, &peers, NULL), LR_OK);
    assert_int_equal(peers.count, 1);
    assert_string_equal(peers.all[0].url, "http://own");
    assert_int_equal(ask(sql, "SELECT COUNT(*) FROM routers"), 1 + 24);
    router_store_close(store);
}

#define WITH_FIXTURE(name) cmocka_unit_test_setup_teardown(name, make_fixture, drop_fixture)

int main(void)
{
    const struct CMUnitTest both[] = {
        WITH_FIXTURE(keys_and_models_come_back_after_a_restart),
        WITH_FIXTURE(a_model_that_is_registered_again_has_a_higher_generation),
        WITH_FIXTURE(a_node_is_stored_once_and_its_last_word_counts),
        WITH_FIXTURE(usage_is_written_when_the_store_closes),
        WITH_FIXTURE(work_that_fails_leaves_nothing_behind),
        WITH_FIXTURE(a_kill_loses_nothing_that_was_committed),
        WITH_FIXTURE(a_kill_while_the_tables_are_made_leaves_a_database_that_opens),
        WITH_FIXTURE(a_database_of_the_first_version_becomes_the_newest_with_what_it_holds),
        WITH_FIXTURE(a_database_of_a_newer_program_is_refused),
        WITH_FIXTURE(the_releases_before_use_a_database_after_additive_steps_only),
        WITH_FIXTURE(a_database_of_the_next_release_is_used_and_kept_as_it_is),
        WITH_FIXTURE(a_silent_database_costs_each_change_one_timeout_and_no_row_is_lost),
        WITH_FIXTURE(a_silent_database_does_not_keep_the_store_from_closing),
    };
    const struct CMUnitTest shared[] = {
        WITH_FIXTURE(a_change_at_one_is_told_to_the_other_at_once),
        WITH_FIXTURE(after_a_lost_connection_everything_is_read_again_and_words_arrive),
        WITH_FIXTURE(usage_outlives_lost_connections_and_is_counted_once),
        WITH_FIXTURE(the_row_of_a_router_that_ended_is_kept_for_a_day),
    };
    int failed = cmocka_run_group_tests_name("SQLite", both, NULL, NULL);
    if (start_server(POSTGRES) != 0) {
        print_error("the PostgreSQL server did not start\n");
        return 1;
    }
    failed += cmocka_run_group_tests_name("PostgreSQL", both, NULL, NULL);
    failed += cmocka_run_group_tests_name("shared", shared, NULL, NULL);
    return stop_server(POSTGRES) == 0 ? failed : failed + 1;
}
