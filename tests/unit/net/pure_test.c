/* The parts without sockets: paths, queries, the loopback guard, events, bodies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "net/body.h"
#include "net/guard.h"
#include "net/head.h"
#include "net/path.h"
#include "net/sse.h"

static struct lr_arena arena;

static int start(void **state)
{
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    lr_arena_free(&arena);
    return 0;
}

/* ---- paths ---- */

static void a_path_is_split_before_it_is_decoded(void **state)
{
    (void)state;
    static const struct {
        const char *raw;
        const char *joined; /* segments between bars */
    } cases[] = {
        {"/", ""},
        {"/v1/models", "v1|models"},
        {"/v0/models/org%2Fname", "v0|models|org/name"},
        {"/v0/models/org%2fname/", "v0|models|org/name"},
        {"/a%20b", "a b"},
        {"/%E3%81%82", "\xe3\x81\x82"},
        {"/...", "..."},
        {"/a+b", "a+b"},
        {"/%252F", "%2F"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct net_path path;
        struct lr_error err;
        if (net_path_split(&arena, lr_str_z(cases[i].raw), &path, &err) != LR_OK)
            fail_msg("%s: %s", cases[i].raw, err.text);
        char joined[256] = "";
        for (size_t k = 0; k < path.count; k++) {
            if (k != 0)
                (void)strcat(joined, "|");
            (void)strncat(joined, path.segments[k].ptr, path.segments[k].len);
        }
        assert_string_equal(joined, cases[i].joined);
    }
}

static void a_dangerous_path_is_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {"",        "a",    "//",      "/a//b",     "/a//",
                                        "/a/../b", "/..",  "/.",      "/%2e%2E",   "/a/%2e",
                                        "/%",      "/%2",  "/%g0",    "/%00",      "/%0a",
                                        "/%7f",    "/%ff", "/%c0%af", "/%ed%a0%80"};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct net_path path;
        struct lr_str text;
        if (net_path_split(&arena, lr_str_z(cases[i]), &path, NULL) != LR_INVALID_ARGUMENT)
            fail_msg("%s was taken", cases[i]);
        assert_int_equal(net_path_decode(&arena, lr_str_z(cases[i]), &text, NULL),
                         LR_INVALID_ARGUMENT);
    }
    char deep[128] = "";
    for (int i = 0; i < NET_PATH_MAX_SEGMENTS + 1; i++)
        (void)strcat(deep, "/a");
    struct net_path path;
    assert_int_equal(net_path_split(&arena, lr_str_z(deep), &path, NULL), LR_INVALID_ARGUMENT);
}

static void a_decoded_path_keeps_its_escaped_slash(void **state)
{
    (void)state;
    struct lr_str text;
    assert_int_equal(net_path_decode(&arena, LR_STR_LIT("/m/org%2fn%61me/"), &text, NULL),
                     LR_OK);
    assert_string_equal(text.ptr, "/m/org%2Fname");
    assert_int_equal(net_path_decode(&arena, LR_STR_LIT("/v1/models/"), &text, NULL), LR_OK);
    assert_true(lr_str_eq_z(text, "/v1/models"));
    assert_int_equal(net_path_decode(&arena, LR_STR_LIT("/.well-known/x"), &text, NULL), LR_OK);
    assert_true(lr_str_eq_z(text, "/.well-known/x"));
}

static void query_parameters_are_found_and_decoded(void **state)
{
    (void)state;
    struct lr_str q = LR_STR_LIT("a=1&b=x+y%26z&c&d=&a=2&e=%zz&f%67=h");
    struct lr_str v;
    assert_true(net_query_get(&arena, q, "a", &v) && lr_str_eq_z(v, "1"));
    assert_true(net_query_get(&arena, q, "b", &v) && lr_str_eq_z(v, "x y&z"));
    assert_true(net_query_get(&arena, q, "c", &v) && v.len == 0);
    assert_true(net_query_get(&arena, q, "d", &v) && v.len == 0);
    assert_true(net_query_get(&arena, q, "fg", &v) && lr_str_eq_z(v, "h"));
    assert_false(net_query_get(&arena, q, "e", &v));
    assert_false(net_query_get(&arena, q, "x", &v));
    assert_false(net_query_get(&arena, lr_str("", 0), "a", &v));
}

/* ---- the loopback guard ---- */

static lr_code guard(const char *host, const char *name, const char *value, bool has_body,
                     struct lr_error *err)
{
    struct net_header header = {lr_str_z(name), lr_str_z(value)};
    struct net_guard_input in = {.host = lr_str_z(host),
                                 .headers = {&header, name != NULL ? 1 : 0},
                                 .has_body = has_body,
                                 .is_post = true};
    return net_guard_loopback(&in, err);
}

static void only_loopback_hosts_pass(void **state)
{
    (void)state;
    static const char *const good[] = {"localhost",    "LOCALHOST:11680", "127.0.0.1",
                                       "127.0.0.1:80", "127.255.1.2",     "[::1]",
                                       "[::1]:11680",  "a.localhost",     "localhost."};
    static const char *const bad[] = {"",
                                      "example.com",
                                      "localhost.example.com",
                                      "127.0.0.1.example.com",
                                      "notlocalhost",
                                      "128.0.0.1",
                                      "127.1",
                                      "0x7f000001",
                                      "2130706433",
                                      "0.0.0.0",
                                      "[::]",
                                      "[::1",
                                      "[::1]x",
                                      "[::1]:",
                                      "localhost:",
                                      "localhost:80x",
                                      "localhost:80:80",
                                      "192.168.0.1:11680"};
    struct lr_error err;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        if (guard(good[i], NULL, "", false, &err) != LR_OK)
            fail_msg("%s was refused", good[i]);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (guard(bad[i], NULL, "", false, &err) != LR_MISDIRECTED)
            fail_msg("%s was let in", bad[i]);
    assert_int_equal(lr_code_http(LR_MISDIRECTED), 421);
}

static void a_foreign_origin_is_refused(void **state)
{
    (void)state;
    struct lr_error err;
    static const char *const good[] = {"http://localhost:11680", "http://127.0.0.1",
                                       "https://[::1]:8443"};
    static const char *const bad[] = {"https://example.com",
                                      "null",
                                      "file://",
                                      "",
                                      "http://localhost.example.com",
                                      "http://localhost@evil",
                                      "chrome-extension://abc"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_int_equal(guard("localhost", "Origin", good[i], false, &err), LR_OK);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (guard("localhost", "oRiGiN", bad[i], false, &err) != LR_PERMISSION_DENIED)
            fail_msg("%s was let in", bad[i]);
    assert_int_equal(guard("localhost", "Sec-Fetch-Site", "cross-site", false, &err),
                     LR_PERMISSION_DENIED);
    assert_int_equal(guard("localhost", "Sec-Fetch-Site", "same-origin", false, &err), LR_OK);
}

static void a_body_must_be_json(void **state)
{
    (void)state;
    struct lr_error err;
    const char *type = "Content-Type";
    assert_int_equal(guard("localhost", type, "application/json", true, &err), LR_OK);
    assert_int_equal(guard("localhost", type, "Application/JSON; charset=utf-8", true, &err),
                     LR_OK);
    assert_int_equal(guard("localhost", type, "text/plain", true, &err), LR_UNSUPPORTED_MEDIA);
    assert_int_equal(guard("localhost", type, "application/jsonx", true, &err),
                     LR_UNSUPPORTED_MEDIA);
    assert_int_equal(guard("localhost", type, "application/x-www-form-urlencoded", false, &err),
                     LR_UNSUPPORTED_MEDIA);
    assert_int_equal(guard("localhost", NULL, "", true, &err), LR_UNSUPPORTED_MEDIA);
    assert_int_equal(guard("localhost", NULL, "", false, &err), LR_OK);
    assert_non_null(strstr(err.text, "application/json"));
}

static void without_a_body_only_a_form_is_judged_by_its_type(void **state)
{
    struct net_header header = {LR_STR_LIT("Content-Type"), LR_STR_LIT("text/html")};
    struct net_guard_input in = {.host = LR_STR_LIT("localhost"), .headers = {&header, 1}};
    struct lr_error err;
    (void)state;
    assert_int_equal(net_guard_loopback(&in, &err), LR_OK);
    in.is_post = true;
    assert_int_equal(net_guard_loopback(&in, &err), LR_UNSUPPORTED_MEDIA);
    in = (struct net_guard_input){.host = in.host, .headers = in.headers, .has_body = true};
    assert_int_equal(net_guard_loopback(&in, &err), LR_UNSUPPORTED_MEDIA);
}

static void a_form_of_curl_is_a_body_for_inference_only(void **state)
{
    struct net_header headers[] = {
        {LR_STR_LIT("Content-Type"), LR_STR_LIT("application/x-www-form-urlencoded")},
        {LR_STR_LIT("Origin"), LR_STR_LIT("http://localhost:3000")},
    };
    struct net_guard_input in = {.host = LR_STR_LIT("localhost"),
                                 .headers = {headers, 1},
                                 .has_body = true,
                                 .is_post = true};
    struct lr_error err;
    (void)state;
    assert_int_equal(net_guard_loopback(&in, &err), LR_OK);
    in.headers.count = 2; /* a page of this machine */
    assert_int_equal(net_guard_loopback(&in, &err), LR_UNSUPPORTED_MEDIA);
    headers[1] = (struct net_header){LR_STR_LIT("Sec-Fetch-Site"), LR_STR_LIT("none")};
    assert_int_equal(net_guard_loopback(&in, &err), LR_UNSUPPORTED_MEDIA);
    in.headers.count = 1;
    in.rules.is_management = true;
    assert_int_equal(net_guard_loopback(&in, &err), LR_UNSUPPORTED_MEDIA);
}

static void loopback_binds_are_known(void **state)
{
    (void)state;
    assert_true(net_is_loopback_bind("127.0.0.1"));
    assert_true(net_is_loopback_bind("::1"));
    assert_true(net_is_loopback_bind("localhost"));
    assert_false(net_is_loopback_bind("0.0.0.0"));
    assert_false(net_is_loopback_bind("::"));
    assert_false(net_is_loopback_bind("10.0.0.1"));
}

/* ---- events ---- */

static char seen[512];

static void on_event(void *arg, struct lr_str event, struct lr_str data)
{
    (void)arg;
    size_t at = strlen(seen);
    (void)snprintf(seen + at, sizeof(seen) - at, "[" LR_STR_FMT "|" LR_STR_FMT "]",
                   LR_STR_ARG(event), LR_STR_ARG(data));
}

static void events_are_read_however_they_are_cut(void **state)
{
    (void)state;
    const char *text =
        "\xef\xbb\xbf"
        "data: one\n\n: comment\r\ndata:two\r\ndata:  three\r\n\r\nevent: e\rdata\r\r"
        "id: 7\n\nretry: 5\nfoo: bar\ndata: x\n\ndata: unfinished\n";
    const char *wanted = "[|one][|two\n three][e|][|x]";
    size_t len = strlen(text);
    for (size_t step = 1; step <= len; step++) {
        struct net_sse_parser parser;
        net_sse_parser_init(&parser, 1024, on_event, NULL);
        seen[0] = '\0';
        for (size_t at = 0; at < len; at += step) {
            size_t piece = len - at < step ? len - at : step;
            assert_int_equal(net_sse_parser_feed(&parser, lr_str(text + at, piece), NULL),
                             LR_OK);
        }
        assert_string_equal(seen, wanted);
        net_sse_parser_deinit(&parser);
    }
}

static void an_event_over_the_limit_is_refused(void **state)
{
    (void)state;
    struct net_sse_parser parser;
    struct lr_error err;
    net_sse_parser_init(&parser, 16, on_event, NULL);
    assert_int_equal(net_sse_parser_feed(&parser, LR_STR_LIT("data: 0123456789abcdef"), &err),
                     LR_TOO_LARGE);
    net_sse_parser_deinit(&parser);
    net_sse_parser_init(&parser, 16, on_event, NULL);
    assert_int_equal(
        net_sse_parser_feed(&parser, LR_STR_LIT("data: 01234567\ndata: 01234567\n"), &err),
        LR_TOO_LARGE);
    net_sse_parser_deinit(&parser);
}

/* ---- heads and bodies, split everywhere ---- */

static void a_head_is_judged_the_same_however_it_is_cut(void **state)
{
    (void)state;
    static const char *const heads[] = {
        "GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\nrest", "GET / HTTP/1.1\r\nHost: a\rX\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n", "GET / HTTP/1.1\r\nA: b\r\n c\r\n\r\n",
        "GET / HTTP/1.1\r\nA: b\r\n\r"};
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        size_t len = strlen(heads[i]);
        struct net_head_scan whole = {0};
        enum net_head_result expected = net_head_scan(&whole, lr_str(heads[i], len), NULL);
        struct net_head_scan scan = {0};
        enum net_head_result result = NET_HEAD_MORE;
        for (size_t at = 1; at <= len && result == NET_HEAD_MORE; at++)
            result = net_head_scan(&scan, lr_str(heads[i], at), NULL);
        assert_int_equal(result, expected);
        if (result == NET_HEAD_COMPLETE) {
            assert_int_equal(scan.at, whole.at);
            assert_int_equal(scan.line_count, whole.line_count);
        }
    }
}

static void a_chunked_body_is_read_however_it_is_cut(void **state)
{
    (void)state;
    const char *text = "5\r\nhello\r\n1;x=y\r\n \r\n00005\r\nworld\r\n0\r\n\r\nnext";
    size_t len = strlen(text);
    for (size_t step = 1; step <= len; step++) {
        struct net_body body;
        net_body_init(&body, NET_BODY_CHUNKED, 0);
        char out[64] = "";
        enum net_body_result result = NET_BODY_MORE;
        struct lr_str rest = {0};
        for (size_t at = 0; at < len && result != NET_BODY_END; at += step) {
            rest = lr_str(text + at, len - at < step ? len - at : step);
            struct lr_str data;
            do {
                result = net_body_next(&body, &rest, &data, NULL);
                (void)strncat(out, data.ptr, data.len);
            } while (result == NET_BODY_DATA);
            assert_int_not_equal(result, NET_BODY_BAD);
        }
        assert_int_equal(result, NET_BODY_END);
        assert_string_equal(out, "hello world");
        assert_int_equal(body.total, 11);
        assert_true(net_body_ends_here(&body));
    }
}

int main(void)
{
#define CASE(f) cmocka_unit_test_setup_teardown(f, start, stop)
    const struct CMUnitTest tests[] = {
        CASE(a_path_is_split_before_it_is_decoded),
        CASE(a_dangerous_path_is_refused),
        CASE(a_decoded_path_keeps_its_escaped_slash),
        CASE(query_parameters_are_found_and_decoded),
        CASE(only_loopback_hosts_pass),
        CASE(a_foreign_origin_is_refused),
        CASE(a_body_must_be_json),
        CASE(without_a_body_only_a_form_is_judged_by_its_type),
        CASE(a_form_of_curl_is_a_body_for_inference_only),
        CASE(loopback_binds_are_known),
        CASE(events_are_read_however_they_are_cut),
        CASE(an_event_over_the_limit_is_refused),
        CASE(a_head_is_judged_the_same_however_it_is_cut),
        CASE(a_chunked_body_is_read_however_it_is_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
