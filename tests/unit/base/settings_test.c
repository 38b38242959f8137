/* Settings: one table, four sources, and errors that name the mistake. */
#include "base/settings.h"
#include "tests/unit/base/support.h"

static const struct lr_setting rows[] = {
    {.name = "config", .type = LR_SETTING_PATH, .flag_only = true, .help = "file"},
    {.name = "listen",
     .type = LR_SETTING_STRING,
     .fallback = "127.0.0.1:1",
     .commands = "router up",
     .value = "ADDR",
     .help = "where clients connect"},
    {.name = "listen",
     .type = LR_SETTING_STRING,
     .fallback = "127.0.0.1:2",
     .commands = "node",
     .help = "where routers connect"},
    {.name = "threads",
     .type = LR_SETTING_INT,
     .fallback = "4",
     .min = 1,
     .max = 64,
     .help = "n"},
    {.name = "bias", .type = LR_SETTING_INT, .fallback = "0", .min = -5, .max = 5, .help = "b"},
    {.name = "ratio", .type = LR_SETTING_FLOAT, .fallback = "0.9", .max = 1, .help = "share"},
    {.name = "cache",
     .type = LR_SETTING_SIZE,
     .fallback = "4GiB",
     .min = 1024,
     .help = "bytes"},
    {.name = "wait",
     .type = LR_SETTING_DURATION,
     .fallback = "30s",
     .min = 100,
     .max = 600000,
     .help = "time"},
    {.name = "artifacts", .type = LR_SETTING_BOOL, .fallback = "true", .help = "use them"},
    {.name = "level",
     .type = LR_SETTING_CHOICE,
     .fallback = "info",
     .choices = "error|warn|info",
     .help = "how much to say"},
    {.name = "card",
     .type = LR_SETTING_CHOICE,
     .fallback = "none",
     .choices = "none|card[:N]|chip[:NAME]",
     .help = "which"},
    {.name = "data-dir", .type = LR_SETTING_PATH, .fallback = "~/.x", .help = "where"},
    {.name = "hub-host", .type = LR_SETTING_LIST, .help = "hosts"},
    {.name = "token", .type = LR_SETTING_INT, .secret = true, .help = "secret"},
    {.name = "cpu-nodes",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .commands = "router",
     .was = "slow-nodes",
     .help = "let them in"},
};
static const struct lr_setting_table table = {rows, sizeof(rows) / sizeof(rows[0])};

static struct lr_settings *fresh(const char *command)
{
    struct lr_settings *s;
    struct lr_error err;
    assert_int_equal(lr_settings_create(&table, 1, command, &s, &err), LR_OK);
    return s;
}

/* Parses words as arguments of `router`; the caller destroys the result. */
static struct lr_settings *with_args(const char *const *words)
{
    struct lr_settings *s = fresh("router");
    struct lr_error err = {0};
    int count = 0;
    while (words[count] != NULL)
        count++;
    if (lr_settings_read_args(s, count, words, &err) != LR_OK)
        fail_msg("%s", err.text);
    return s;
}

#define ARGS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void refuses_args(const char *const *words, const char *part, const char *also)
{
    struct lr_settings *s = fresh("router");
    struct lr_error err = {0};
    int count = 0;
    while (words[count] != NULL)
        count++;
    assert_int_equal(lr_settings_read_args(s, count, words, &err), LR_INVALID_ARGUMENT);
    assert_contains(err.text, part);
    assert_contains(err.text, also);
    lr_settings_destroy(s);
}

static void refuses_text(const char *text, const char *part, const char *also)
{
    struct lr_settings *s = fresh("router");
    struct lr_error err = {0};
    assert_int_equal(lr_settings_read_text(s, lr_str_z(text), "r.conf", &err),
                     LR_INVALID_ARGUMENT);
    assert_contains(err.text, part);
    assert_contains(err.text, also);
    lr_settings_destroy(s);
}

static void defaults_are_parsed_by_type(void **state)
{
    (void)state;
    struct lr_settings *s = fresh("router");
    assert_string_equal(lr_settings_str(s, "listen"), "127.0.0.1:1");
    assert_int_equal(lr_settings_int(s, "threads"), 4);
    assert_true(lr_settings_float(s, "ratio") == 0.9);
    assert_int_equal(lr_settings_size(s, "cache"), (uint64_t)4 << 30);
    assert_int_equal(lr_settings_ms(s, "wait"), 30000);
    assert_true(lr_settings_bool(s, "artifacts"));
    assert_string_equal(lr_settings_str(s, "level"), "info");
    assert_int_equal(lr_settings_list_count(s, "hub-host"), 0);
    assert_false(lr_settings_has(s, "config"));
    assert_null(lr_settings_str(s, "config"));
    char expected[LR_PATH_MAX];
    (void)snprintf(expected, sizeof(expected), "%s/.x", lr_home_dir());
    assert_string_equal(lr_settings_str(s, "data-dir"), expected);
    assert_int_equal(lr_settings_source(s, "level"), LR_FROM_DEFAULT);
    lr_settings_destroy(s);
    s = fresh("node");
    assert_string_equal(lr_settings_str(s, "listen"), "127.0.0.1:2");
    lr_settings_destroy(s);
    lr_settings_destroy(NULL);
}

static void flags_take_every_form(void **state)
{
    (void)state;
    struct lr_settings *s =
        with_args(ARGS("--threads", "8", "pos1", "--level=warn", "--no-artifacts", "--bias=-3",
                       "--card=card:12", "--hub-host", "a, b", "--hub-host=c",
                       "--listen=", "--", "--pos2", "-"));
    assert_int_equal(lr_settings_int(s, "threads"), 8);
    assert_int_equal(lr_settings_int(s, "bias"), -3);
    assert_string_equal(lr_settings_str(s, "level"), "warn");
    assert_string_equal(lr_settings_str(s, "card"), "card:12");
    assert_false(lr_settings_bool(s, "artifacts"));
    assert_int_equal(lr_settings_list_count(s, "hub-host"), 3);
    assert_string_equal(lr_settings_list_item(s, "hub-host", 1), "b");
    assert_string_equal(lr_settings_list_item(s, "hub-host", 2), "c");
    assert_null(lr_settings_list_item(s, "hub-host", 3));
    assert_string_equal(lr_settings_str(s, "listen"), "");
    assert_int_equal(lr_settings_positional_count(s), 3);
    assert_string_equal(lr_settings_positional(s, 0), "pos1");
    assert_string_equal(lr_settings_positional(s, 1), "--pos2");
    assert_string_equal(lr_settings_positional(s, 2), "-");
    lr_settings_destroy(s);
    s = with_args(ARGS("--artifacts", "--cpu-nodes=yes", "--help"));
    assert_true(lr_settings_bool(s, "cpu-nodes"));
    assert_true(lr_settings_is_help(s));
    lr_settings_destroy(s);
}

static void the_old_name_of_a_setting_is_an_error_that_names_the_new_one(void **state)
{
    (void)state;
    refuses_args(ARGS("--slow-nodes"), "--slow-nodes was renamed", "to --cpu-nodes");
    refuses_args(ARGS("--no-slow-nodes"), "--no-slow-nodes was renamed", "to --no-cpu-nodes");
    refuses_text("slow-nodes = true", "r.conf line 1: slow-nodes", "was renamed to cpu-nodes");
    struct lr_settings *s = fresh("node"); /* also for a setting of another command */
    struct lr_error err;
    const char *const env[] = {"LLM_ROUTER_SLOW_NODES=true", NULL};
    assert_int_equal(lr_settings_read_env(s, env, &err), LR_INVALID_ARGUMENT);
    assert_contains(err.text, "LLM_ROUTER_SLOW_NODES was renamed to LLM_ROUTER_CPU_NODES");
    lr_settings_destroy(s);
}

static void unknown_flags_are_named_with_a_near_miss(void **state)
{
    (void)state;
    refuses_args(ARGS("--lisen", "x"), "--lisen", "did you mean --listen?");
    refuses_args(ARGS("--thread=3"), "--thread", "did you mean --threads?");
    refuses_args(ARGS("--zzzzzz"), "unknown setting --zzzzzz", "--help");
    refuses_args(ARGS("--no-listen"), "--no-listen", "unknown");
    refuses_args(ARGS("-x"), "-x", "--name");
    struct lr_settings *s = fresh("node");
    struct lr_error err;
    assert_int_equal(lr_settings_read_args(s, 1, ARGS("--cpu-nodes"), &err),
                     LR_INVALID_ARGUMENT);
    assert_contains(err.text, "--cpu-nodes is not a setting of node; it belongs to: router");
    lr_settings_destroy(s);
}

static void values_out_of_range_are_named_with_what_is_allowed(void **state)
{
    (void)state;
    refuses_args(ARGS("--threads", "0"), "--threads: \"0\"", "1 to 64");
    refuses_args(ARGS("--threads=65"), "\"65\"", "1 to 64");
    refuses_args(ARGS("--threads=4x"), "\"4x\"", "whole number");
    refuses_args(ARGS("--threads="), "\"\"", "whole number");
    refuses_args(ARGS("--threads"), "--threads needs a value", "1 to 64");
    refuses_args(ARGS("--threads", "--level"), "--threads needs a value", "1 to 64");
    refuses_args(ARGS("--bias", "-6"), "\"-6\"", "-5 to 5");
    refuses_args(ARGS("--ratio", "1.01"), "\"1.01\"", "0 to 1");
    refuses_args(ARGS("--ratio", "nan"), "\"nan\"", "a number");
    refuses_args(ARGS("--cache", "1023"), "\"1023\"", "1KiB or more");
    refuses_args(ARGS("--cache", "4XB"), "\"4XB\"", "4GiB");
    refuses_args(ARGS("--cache", "-1"), "\"-1\"", "size");
    refuses_args(ARGS("--wait", "30"), "\"30\"", "100ms to 10m");
    refuses_args(ARGS("--wait", "11m"), "\"11m\"", "100ms to 10m");
    refuses_args(ARGS("--card", "card:"), "--card: \"card:\"",
                 "one of none, card[:N], chip[:NAME]");
    refuses_args(ARGS("--card", "chip:"), "--card: \"chip:\"", "one of");
    refuses_args(ARGS("--card", "card:x"), "--card: \"card:x\"", "one of");
    refuses_args(ARGS("--card", "card3"), "--card: \"card3\"", "one of");
    refuses_args(ARGS("--card", "none:3"), "--card: \"none:3\"", "one of");
    refuses_args(ARGS("--level", "loud"), "--level: \"loud\"", "one of error, warn, info");
    refuses_args(ARGS("--artifacts=maybe"), "\"maybe\"", "true or false");
}

static void a_secret_is_not_repeated(void **state)
{
    (void)state;
    struct lr_settings *s = fresh("router");
    struct lr_error err;
    assert_int_equal(lr_settings_read_args(s, 1, ARGS("--token=hunter2"), &err),
                     LR_INVALID_ARGUMENT);
    assert_null(strstr(err.text, "hunter2"));
    assert_contains(err.text, "--token");
    lr_settings_destroy(s);
}

static void a_flag_wins_over_environment_over_file_over_default(void **state)
{
    (void)state;
    struct lr_error err;
    const char *env[] = {"PATH=/bin",
                         "LLM_ROUTER_THREADS=7",
                         "LLM_ROUTER_LEVEL=warn",
                         "LLM_ROUTER_BIAS=", /* empty: not set */
                         "LLM_ROUTER_SERVICE_HOST=10.0.0.1",
                         NULL};
    const char *file = "threads = 2\nlevel = error\nbias = 1\nwait = 5s\n";
    for (int order = 0; order < 2; order++) {
        struct lr_settings *s = fresh("router");
        if (order == 0)
            assert_int_equal(lr_settings_read_text(s, lr_str_z(file), "f", &err), LR_OK);
        assert_int_equal(lr_settings_read_args(s, 1, ARGS("--threads=9"), &err), LR_OK);
        assert_int_equal(lr_settings_read_env(s, env, &err), LR_OK);
        if (order == 1)
            assert_int_equal(lr_settings_read_text(s, lr_str_z(file), "f", &err), LR_OK);
        assert_int_equal(lr_settings_int(s, "threads"), 9);
        assert_string_equal(lr_settings_str(s, "level"), "warn");
        assert_int_equal(lr_settings_int(s, "bias"), 1);
        assert_int_equal(lr_settings_ms(s, "wait"), 5000);
        assert_int_equal(lr_settings_source(s, "threads"), LR_FROM_FLAG);
        assert_int_equal(lr_settings_source(s, "level"), LR_FROM_ENV);
        assert_int_equal(lr_settings_source(s, "bias"), LR_FROM_FILE);
        assert_int_equal(lr_settings_source(s, "cache"), LR_FROM_DEFAULT);
        lr_settings_destroy(s);
    }
}

static void a_bad_environment_value_is_named(void **state)
{
    (void)state;
    struct lr_settings *s = fresh("node");
    struct lr_error err;
    const char *ours[] = {"LLM_ROUTER_THREADS=many", NULL};
    const char *foreign[] = {"LLM_ROUTER_CPU_NODES=perhaps", NULL};
    assert_int_equal(lr_settings_read_env(s, ours, &err), LR_INVALID_ARGUMENT);
    assert_contains(err.text, "LLM_ROUTER_THREADS: \"many\"");
    assert_int_equal(lr_settings_read_env(s, foreign, &err), LR_INVALID_ARGUMENT);
    assert_contains(err.text, "LLM_ROUTER_CPU_NODES: \"perhaps\"");
    lr_settings_destroy(s);
}

static void the_file_takes_comments_quotes_and_other_commands(void **state)
{
    (void)state;
    struct lr_settings *s = fresh("node");
    struct lr_error err = {0};
    const char *text = "# a comment\r\n\r\n"
                       "  listen = \"a \\\"b\\\" \\\\ # c\"  # real comment\n"
                       "level=warn # why\n"
                       "hub-host = a#b, c\n"
                       "cpu-nodes = true\n"
                       "data-dir = /x y/z";
    if (lr_settings_read_text(s, lr_str_z(text), "f", &err) != LR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(lr_settings_str(s, "listen"), "a \"b\" \\ # c");
    assert_string_equal(lr_settings_str(s, "level"), "warn");
    assert_string_equal(lr_settings_list_item(s, "hub-host", 0), "a#b");
    assert_string_equal(lr_settings_str(s, "data-dir"), "/x y/z");
    lr_settings_destroy(s);
}

static void mistakes_in_the_file_name_the_line(void **state)
{
    (void)state;
    refuses_text("level = warn\n\nthread = 2\n", "r.conf line 3:", "did you mean threads?");
    refuses_text("threads = 0", "r.conf line 1: threads: \"0\"", "1 to 64");
    refuses_text("threads", "r.conf line 1:", "name = value");
    refuses_text("= 5", "r.conf line 1:", "name = value");
    refuses_text("level = \"warn", "r.conf line 1:", "quoting");
    refuses_text("level = \"warn\" x", "r.conf line 1:", "quoting");
    refuses_text("level = \"\\n\"", "r.conf line 1:", "quoting");
    refuses_text("level = warn\nlevel = info", "r.conf line 2:", "line 1");
    refuses_text("config = x", "r.conf line 1:", "flag");
    refuses_text("[section]\nlevel = warn", "r.conf line 1:", "name = value");
}

static void loading_reads_the_file_that_config_names(void **state)
{
    char path[LR_PATH_MAX], flag[LR_PATH_MAX + 16];
    struct lr_error err = {0};
    const char *env[] = {"LLM_ROUTER_LEVEL=warn", NULL};
    path_in(path, *state, "r.conf");
    assert_int_equal(
        lr_file_write_atomic(path, lr_str_z("threads = 3\nlevel = error\n"), 0600, &err),
        LR_OK);
    (void)snprintf(flag, sizeof(flag), "--config=%s", path);
    struct lr_settings *s = fresh("router");
    assert_int_equal(lr_settings_load(s, 1, ARGS(flag), env, &err), LR_OK);
    assert_int_equal(lr_settings_int(s, "threads"), 3);
    assert_string_equal(lr_settings_str(s, "level"), "warn");
    lr_settings_destroy(s);

    s = fresh("router");
    assert_int_equal(lr_settings_load(s, 1, ARGS("--config=/no/such.conf"), env, &err),
                     LR_NOT_FOUND);
    assert_contains(err.text, "/no/such.conf");
    lr_settings_destroy(s);
}

static void a_default_that_breaks_its_own_rule_is_found(void **state)
{
    (void)state;
    const struct lr_setting bad[] = {
        {.name = "n", .type = LR_SETTING_INT, .fallback = "9", .max = 5, .help = ""}};
    const struct lr_setting_table bad_table = {bad, 1};
    struct lr_settings *s;
    struct lr_error err;
    assert_int_equal(lr_settings_create(&bad_table, 1, NULL, &s, &err), LR_INVALID_ARGUMENT);
    assert_null(s);
}

static void help_and_reference_come_from_the_table(void **state)
{
    (void)state;
    struct lr_buf text;
    lr_buf_init(&text, 1 << 16);
    lr_settings_help(&table, 1, "router", &text);
    assert_contains(lr_buf_z(&text), "  --listen ADDR               where clients connect "
                                     "[127.0.0.1:1]\n");
    assert_contains(lr_buf_z(&text), "--[no-]artifacts");
    assert_contains(lr_buf_z(&text), "how much to say: one of error, warn, info [info]");
    assert_null(strstr(lr_buf_z(&text), "127.0.0.1:2"));
    lr_buf_clear(&text);
    lr_settings_reference(&table, &text);
    assert_contains(lr_buf_z(&text), "| `--cache SIZE`<br>`LLM_ROUTER_CACHE` | `4GiB` |");
    assert_contains(lr_buf_z(&text), "`127.0.0.1:2`");
    assert_contains(lr_buf_z(&text), "Never logged");
    lr_buf_free(&text);
}

static void sizes_and_durations_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"0", 0},
                 {"4096", 4096},
                 {"64KiB", 65536},
                 {"64k", 65536},
                 {"1.5GiB", 1610612736},
                 {"1.5GB", 1500000000},
                 {"0.1GB", 100000000},
                 {"12B", 12},
                 {"16TiB", (uint64_t)16 << 40},
                 {"18446744073709551615", UINT64_MAX}};
    uint64_t value;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_true(lr_parse_size(lr_str_z(sizes[i].text), &value) && value == sizes[i].bytes);
    const char *bad[] = {"",
                         "GiB",
                         ".5GiB",
                         "1.GiB",
                         "1..5K",
                         "1 GiB",
                         "-1",
                         "1e3",
                         "x",
                         "1KiBB",
                         "18446744073709551616",
                         "99999999TiB",
                         "18446744073709551615.9KB"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (lr_parse_size(lr_str_z(bad[i]), &value))
            fail_msg("accepted \"%s\"", bad[i]);
    assert_true(lr_parse_duration(lr_str_z("1.5s"), &value) && value == 1500);
    assert_true(lr_parse_duration(lr_str_z("2h"), &value) && value == 7200000);
    assert_true(lr_parse_duration(lr_str_z("0"), &value) && value == 0);
    assert_false(lr_parse_duration(lr_str_z("5"), &value));
    char text[32];
    lr_format_size(13750886400, text);
    assert_string_equal(text, "12.8 GiB");
    lr_format_size(1023, text);
    assert_string_equal(text, "1023 B");
}

static void near_misses_are_found_and_far_ones_are_not(void **state)
{
    (void)state;
    const char *words[] = {"listen", "log-level", "log-format", "data-dir", "up"};
    assert_string_equal(lr_closest("lisetn", words, 5), "listen");
    assert_string_equal(lr_closest("loglevel", words, 5), "log-level");
    assert_string_equal(lr_closest("data_dir", words, 5), "data-dir");
    assert_string_equal(lr_closest("log-f", words, 5), "log-format");
    assert_string_equal(lr_closest("u", words, 5), "up");
    assert_null(lr_closest("quantum", words, 5));
    assert_null(lr_closest("", words, 5));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_parsed_by_type),
        cmocka_unit_test(flags_take_every_form),
        cmocka_unit_test(unknown_flags_are_named_with_a_near_miss),
        cmocka_unit_test(the_old_name_of_a_setting_is_an_error_that_names_the_new_one),
        cmocka_unit_test(values_out_of_range_are_named_with_what_is_allowed),
        cmocka_unit_test(a_secret_is_not_repeated),
        cmocka_unit_test(a_flag_wins_over_environment_over_file_over_default),
        cmocka_unit_test(a_bad_environment_value_is_named),
        cmocka_unit_test(the_file_takes_comments_quotes_and_other_commands),
        cmocka_unit_test(mistakes_in_the_file_name_the_line),
        cmocka_unit_test_setup_teardown(loading_reads_the_file_that_config_names, make_folder,
                                        drop_folder),
        cmocka_unit_test(a_default_that_breaks_its_own_rule_is_found),
        cmocka_unit_test(help_and_reference_come_from_the_table),
        cmocka_unit_test(sizes_and_durations_are_exact),
        cmocka_unit_test(near_misses_are_found_and_far_ones_are_not),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
