/* tests/unit/net/routes_test.c - which row of a table a request names. */
#include "harness.h"

#include "net/routes.h"

struct row {
    struct net_route at;
    int number;
};

static const struct row rows[] = {
    {{"GET", ""}, 1},
    {{"GET", "models"}, 2},
    {{"POST", "models/new"}, 3},
    {{"POST", "models/**/load"}, 4},
    {{"DELETE", "models/**"}, 5},
    {{"GET", "nodes/*/logs"}, 6},
    {{"GET", "nodes/*/*"}, 7},
    {{"POST", "nodes/*/logs"}, 8},
};

static const struct net_routes table = {
    .rows = rows, .row_size = sizeof(rows[0]), .count = sizeof(rows) / sizeof(rows[0])};

static void a_path_names_the_first_row_that_matches(void **state)
{
    static const struct {
        const char *method, *path, *tail;
        int number; /* 0: no row */
    } asked[] = {
        {"GET", "/", "", 1},
        {"HEAD", "/models", "", 2},
        {"GET", "/models/", "", 2},
        {"POST", "/models/org/name/load/", "org/name", 4},
        {"POST", "/models", "", 0},
        {"POST", "/models/new", "", 3},
        {"POST", "/models/org/name/load", "org/name", 4},
        {"POST", "/models/org%2Fname/load", "org/name", 4},
        {"POST", "/models/load", "", 0},
        {"DELETE", "/models/a/b/c", "a/b/c", 5},
        {"DELETE", "/models", "", 0},
        {"GET", "/nodes/x/logs", "x", 6},
        {"GET", "/nodes/x/memory", "memory", 7},
        {"GET", "/nodes/x/logs/y", "", 0},
        {"PATCH", "/models", "", 0},
    };
    struct lr_arena arena;
    (void)state;
    lr_arena_init(&arena, 1 << 20);
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        struct net_path path;
        struct lr_str tail;
        assert_int_equal(net_path_split(&arena, lr_str_z(asked[i].path), &path, NULL), LR_OK);
        const struct row *row =
            net_routes_find(&table, lr_str_z(asked[i].method), &path, &tail, &arena);
        assert_int_equal(row != NULL ? row->number : 0, asked[i].number);
        if (row != NULL)
            assert_true(lr_str_eq_z(tail, asked[i].tail));
    }
    lr_arena_free(&arena);
}

/* ---- over a socket ---- */

static void answer(void *arg, struct net_request *req)
{
    const struct net_routes *routes = arg;
    struct net_match match;
    struct lr_error err;
    if (net_routes_match(routes, req, &match, &err) != LR_OK)
        net_respond_error(req, &err);
    else
        net_respond(req, 200, "text/plain", match.tail);
}

static void ask(const char *method, const char *path, char *out, size_t size)
{
    char text[200];
    int fd = dial();
    (void)snprintf(text, sizeof(text), "%s %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
                   method, path);
    say_z(fd, text);
    (void)hear_all(fd, out, size);
    (void)close(fd);
}

static void serve(const struct net_routes *routes)
{
    harness_start((struct net_server_config){.handler = {.arg = (void *)(uintptr_t)routes,
                                                         .on_request = answer}},
                  1);
}

static void a_wrong_method_is_405_and_names_the_right_ones(void **state)
{
    char text[4096];
    (void)state;
    serve(&table);
    ask("GET", "/nodes/x/logs", text, sizeof(text));
    assert_int_equal(status_of(text), 200);
    assert_non_null(strstr(text, "\r\n\r\nx"));
    ask("DELETE", "/nodes/x/logs", text, sizeof(text));
    assert_int_equal(status_of(text), 405);
    assert_non_null(strstr(text, "Allow: GET, HEAD, POST\r\n"));
    assert_non_null(strstr(text, "this method is not offered for /nodes/x/logs"));
    ask("DELETE", "/unknown", text, sizeof(text));
    assert_int_equal(status_of(text), 404);
    assert_null(strstr(text, "Allow:"));
    assert_non_null(strstr(text, "there is no /unknown"));
    ask("GET", "/a/../b", text, sizeof(text));
    assert_int_equal(status_of(text), 400);
    harness_stop();
}

static void a_server_that_answers_options_says_so(void **state)
{
    char text[4096];
    struct net_routes with_options = table;
    (void)state;
    with_options.has_options = true;
    serve(&with_options);
    ask("PATCH", "/models", text, sizeof(text));
    assert_int_equal(status_of(text), 405);
    assert_non_null(strstr(text, "Allow: GET, HEAD, OPTIONS\r\n"));
    harness_stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_names_the_first_row_that_matches),
        cmocka_unit_test(a_wrong_method_is_405_and_names_the_right_ones),
        cmocka_unit_test(a_server_that_answers_options_says_so),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
