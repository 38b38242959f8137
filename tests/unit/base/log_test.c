/* The log: one line per event, whatever the values contain. */
#include "base/arena.h"
#include "base/errors.h"
#include "base/json.h"
#include "base/log.h"
#include "tests/unit/base/support.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>

static struct lr_fake_clock fake_clock;
static int ends[2];
static char captured[65536];
static const char *volatile nothing; /* volatile: the compiler warns about a plain NULL */

static int set_up(void **state)
{
    (void)state;
    lr_fake_clock_init(&fake_clock, 0, 1794710401123);
    lr_log_set_clock(&fake_clock.clock);
    if (pipe(ends) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0)
        return -1;
    lr_log_set_fd(ends[1]);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lr_log_set(LR_LOG_INFO, LR_LOG_TEXT);
    lr_log_set_fd(2);
    lr_log_set_clock(NULL);
    return close(ends[0]) | close(ends[1]);
}

/* The text written since the last call. */
static const char *take(void)
{
    ssize_t len = read(ends[0], captured, sizeof(captured) - 1);
    captured[len > 0 ? len : 0] = '\0';
    return captured;
}

static void a_line_reads_as_it_was_written(void **state)
{
    (void)state;
    struct lr_log_ctx ctx = {.request_id = "req_1"};
    lr_log_info(NULL, "node.start");
    assert_string_equal(take(), "2026-11-15T02:40:01.123Z info node.start\n");
    lr_log_warn(&ctx, "node.join id=%s addr=%s:%u share=%.2f", "n1", "10.0.0.1", 11681u, 0.5);
    assert_string_equal(take(), "2026-11-15T02:40:01.123Z warn node.join request_id=req_1 "
                                "id=n1 addr=10.0.0.1:11681 share=0.50\n");
}

static void a_line_about_an_error_ends_with_its_id(void **state)
{
    (void)state;
    struct lr_error err;
    (void)lr_fail_as(&err, node_busy, 4, "m");
    lr_log_warn(LR_LOG_OF(&err), "node.full reason=%s", err.text);
    assert_contains(take(), "reason=\"busy: all 4 slots of model \\\"m\\\" are taken\" "
                            "error=node_busy\n");
    (void)lr_fail(&err, LR_NOT_FOUND, "x");
    lr_log_warn(LR_LOG_OF(&err), "node.full reason=%s", err.text);
    assert_contains(take(), "reason=x error=not_found\n");
}

static char tapped[256];
static int64_t tapped_ms;

static void on_line(enum lr_log_level level, int64_t wall_ms, struct lr_str text)
{
    tapped_ms = wall_ms;
    (void)snprintf(tapped, sizeof(tapped), "%s|" LR_STR_FMT, lr_log_level_name(level),
                   LR_STR_ARG(text));
}

static void a_tap_hears_every_line_without_time_and_level(void **state)
{
    (void)state;
    lr_log_set_tap(on_line);
    lr_log_warn(NULL, "node.join id=%s", "n1");
    assert_string_equal(tapped, "warn|node.join id=n1");
    assert_int_equal(tapped_ms, 1794710401123);
    lr_log_set(LR_LOG_INFO, LR_LOG_JSON);
    lr_log_info(NULL, "node.start");
    assert_string_equal(tapped, "info|{\"time\":\"2026-11-15T02:40:01.123Z\","
                                "\"level\":\"info\",\"event\":\"node.start\"}");
    lr_log_debug(NULL, "node.detail");
    assert_contains(tapped, "node.start");
    lr_log_set_tap(NULL);
    lr_log_error(NULL, "node.end");
    assert_contains(tapped, "node.start");
}

static void every_conversion_is_written_in_full(void **state)
{
    (void)state;
    lr_log_error(NULL, "a.b i=%d l=%ld ll=%lld z=%zu u64=%llu x=%016llx c=%c g=%g e=%.1e", -1,
                 -2L, -3LL, (size_t)4, 18446744073709551615ULL, 255ULL, 'q', 1e-9, 12345.0);
    assert_contains(take(), "a.b i=-1 l=-2 ll=-3 z=4 u64=18446744073709551615 "
                            "x=00000000000000ff c=q g=1e-09 e=1.2e+04\n");
    lr_log_error(NULL, "a.b s=%.*s t=%.2s n=%s", 3, "abcdef", "xyz", nothing);
    assert_contains(take(), "a.b s=abc t=xy n=null\n");
}

static void a_value_never_ends_the_line_or_forges_a_key(void **state)
{
    (void)state;
    lr_log_info(NULL, "a.b v=%s w=%d", "x\n2026 error fake key=1 \"quoted\" \x1b[31m\\", 1);
    assert_contains(take(), "a.b v=\"x\\n2026 error fake key=1 \\\"quoted\\\" "
                            "\\u001b[31m\\\\\" w=1\n");
    lr_log_info(NULL, "a.b v=%s w=%s", "", "a=b");
    assert_contains(take(), "a.b v=\"\" w=\"a=b\"\n");
    lr_log_info(NULL, "a.b v=%s", "\xC2\x85\xE2\x80\xA8\xFF\xE2\x82\xAC");
    assert_contains(take(), "a.b v=\"\\u0085\\u2028\xEF\xBF\xBD\xE2\x82\xAC\"\n");
    struct lr_log_ctx ctx = {.request_id = "r\n1"};
    lr_log_info(&ctx, "a.b");
    assert_contains(take(), "request_id=\"r\\n1\"\n");
}

static void json_lines_keep_types_and_are_valid(void **state)
{
    (void)state;
    struct lr_arena arena;
    struct lr_error err;
    const struct lr_json *line;
    struct lr_log_ctx ctx = {.request_id = "req_2"};
    lr_arena_init(&arena, 1 << 20);
    lr_log_set(LR_LOG_INFO, LR_LOG_JSON);
    lr_log_info(&ctx, "worker.exit pid=%d rate=%f nan=%f why=%s null=%s pad=%04d at=%s:%d", 7,
                1.5, 0.0 / 0.0, "said \"no\"\n\t\x7f", nothing, 7, "h", 1);
    const char *text = take();
    assert_int_equal(lr_json_parse(&arena, lr_str_z(text), NULL, &line, &err), LR_OK);
    const struct {
        const char *key;
        enum lr_json_type type;
        const char *text;
    } expected[] = {
        {"time", LR_JSON_STRING, "2026-11-15T02:40:01.123Z"},
        {"level", LR_JSON_STRING, "info"},
        {"event", LR_JSON_STRING, "worker.exit"},
        {"request_id", LR_JSON_STRING, "req_2"},
        {"pid", LR_JSON_NUMBER, "7"},
        {"rate", LR_JSON_NUMBER, "1.500000"},
        {"why", LR_JSON_STRING, "said \"no\"\n\t\x7f"},
        {"pad", LR_JSON_STRING, "0007"},
        {"at", LR_JSON_STRING, "h:1"},
    };
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        const struct lr_json *value = lr_json_get(line, expected[i].key);
        assert_true(lr_json_is(value, expected[i].type));
        assert_true(lr_str_eq_z(value->text, expected[i].text));
    }
    assert_true(lr_json_is(lr_json_get(line, "nan"), LR_JSON_STRING));
    assert_true(lr_json_is(lr_json_get(line, "null"), LR_JSON_NULL));
    lr_arena_free(&arena);
}

static void long_lines_are_cut_and_stay_valid(void **state)
{
    (void)state;
    static char big[20000];
    struct lr_error err;
    for (int format = LR_LOG_TEXT; format <= LR_LOG_JSON; format++) {
        lr_log_set(LR_LOG_INFO, (enum lr_log_format)format);
        for (size_t len = 3900; len < 4200; len++) {
            /* Quotes double in length, so the line ends inside the second value. */
            memset(big, len % 2 == 0 ? '"' : 'x', len);
            big[len] = '\0';
            lr_log_info(NULL, "a.b one=%s two=%s three=%s n=%d", big, big, big, 1234567);
            const char *line = take();
            size_t got = strlen(line);
            assert_in_range(got, 4000, LR_LOG_LINE_MAX);
            assert_ptr_equal(strchr(line, '\n'), line + got - 1);
            assert_contains(line, format == LR_LOG_JSON ? ",\"cut\":true}\n" : " cut=true\n");
            if (format == LR_LOG_JSON) {
                struct lr_arena arena;
                const struct lr_json *tree;
                lr_arena_init(&arena, 1 << 20);
                assert_int_equal(lr_json_parse(&arena, lr_str(line, got), NULL, &tree, &err),
                                 LR_OK);
                lr_arena_free(&arena);
            }
        }
    }
}

static int evaluated;

static int count_evaluation(void)
{
    return ++evaluated;
}

static void a_level_that_is_off_costs_nothing(void **state)
{
    (void)state;
    lr_log_set(LR_LOG_WARN, LR_LOG_TEXT);
    lr_log_info(NULL, "a.b n=%d", count_evaluation());
    assert_int_equal(evaluated, 0);
    assert_string_equal(take(), "");
    lr_log_warn(NULL, "a.b n=%d", count_evaluation());
    assert_int_equal(evaluated, 1);
    enum lr_log_level level;
    assert_true(lr_log_level_parse(lr_str_z("debug"), &level) && level == LR_LOG_DEBUG);
    assert_false(lr_log_level_parse(lr_str_z("loud"), &level));
}

static void errno_survives_logging(void **state)
{
    (void)state;
    errno = ENOSPC;
    lr_log_set_fd(-1);
    lr_log_error(NULL, "a.b");
    lr_log_set_fd(ends[1]);
    assert_int_equal(errno, ENOSPC);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 200; i++)
        lr_log_info(NULL, "t.line who=%s n=%d", (const char *)arg, i);
    return NULL;
}

static void lines_of_several_threads_do_not_mix(void **state)
{
    (void)state;
    char path[] = "/tmp/lr-log-test-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    lr_log_set_fd(file);
    pthread_t threads[4];
    char names[4][2] = {"a", "b", "c", "d"};
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, names[i]), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    FILE *lines = fopen(path, "r");
    assert_non_null(lines);
    int next[4] = {0};
    char line[256];
    while (fgets(line, sizeof(line), lines) != NULL) {
        char who;
        int n;
        assert_int_equal(
            sscanf(line, "2026-11-15T02:40:01.123Z info t.line who=%c n=%d\n", &who, &n), 2);
        assert_int_equal(n, next[who - 'a']++);
    }
    for (int i = 0; i < 4; i++)
        assert_int_equal(next[i], 200);
    (void)fclose(lines);
    (void)close(file);
    (void)unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_line_reads_as_it_was_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_line_about_an_error_ends_with_its_id, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_tap_hears_every_line_without_time_and_level, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(every_conversion_is_written_in_full, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_value_never_ends_the_line_or_forges_a_key, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(json_lines_keep_types_and_are_valid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(long_lines_are_cut_and_stay_valid, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_level_that_is_off_costs_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(errno_survives_logging, set_up, tear_down),
        cmocka_unit_test_setup_teardown(lines_of_several_threads_do_not_mix, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
