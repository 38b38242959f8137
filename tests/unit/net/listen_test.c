/* The forms of --listen, and what happens to the file of a Unix socket. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "net/listen.h"

static void every_form_names_its_address(void **state)
{
    static const struct {
        const char *text, *host;
        unsigned port;
        bool is_local;
    } good[] = {
        {"11680", "127.0.0.1", 11680, true},
        {"0", "127.0.0.1", 0, true},
        {":11680", "::", 11680, false},
        {"127.0.0.1:80", "127.0.0.1", 80, true},
        {"[::1]:0", "::1", 0, true},
        {"[::]:1", "::", 1, false},
        {"localhost:65535", "localhost", 65535, true},
        {"0.0.0.0:11680", "0.0.0.0", 11680, false},
        {"unix:/run/router.sock", "unix:/run/router.sock", 0, true},
    };
    static const char *const bad[] = {
        "",      "nonsense", "127.0.0.1",     "127.0.0.1:",    "127.0.0.1:65536",
        "65536", ":",        "127.0.0.1:-80", "unix:run.sock", "unix:",
    };
    (void)state;
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct net_listeners l = {.count = 1};
        assert_int_equal(net_listener_parse(good[i].text, &l.all[0], NULL), LR_OK);
        assert_string_equal(l.all[0].host, good[i].host);
        assert_int_equal(l.all[0].port, good[i].port);
        assert_int_equal(l.all[0].fd, -1);
        assert_int_equal(net_listeners_are_local(&l), good[i].is_local);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct net_listener l;
        struct lr_error err;
        assert_int_equal(net_listener_parse(bad[i], &l, &err), LR_INVALID_ARGUMENT);
        assert_non_null(strstr(err.text, bad[i]));
    }
    char text[300] = "unix:/";
    memset(text + 6, 'x', 200);
    struct net_listener l;
    assert_int_equal(net_listener_parse(text, &l, NULL), LR_INVALID_ARGUMENT);
}

static void all_interfaces_are_those_of_ipv4_too(void **state)
{
    struct net_listeners l = {.count = 1};
    (void)state;
    assert_int_equal(net_listener_parse(":0", &l.all[0], NULL), LR_OK);
    assert_int_equal(net_listeners_bind(&l, NULL), LR_OK);
    assert_int_not_equal(l.all[0].port, 0);
    struct net_listeners near = {.count = 1};
    struct lr_error err;
    char text[32];
    (void)snprintf(text, sizeof(text), "127.0.0.1:%u", l.all[0].port);
    assert_int_equal(net_listener_parse(text, &near.all[0], NULL), LR_OK);
    assert_int_equal(net_listeners_bind(&near, &err), LR_IO);
    assert_non_null(strstr(err.text, "the port is in use"));
    net_listeners_close(&l);
}

static void the_file_of_a_unix_socket_comes_and_goes_with_its_server(void **state)
{
    char dir[] = "/tmp/lr-listen-XXXXXX", text[64];
    struct stat info;
    struct lr_error err;
    struct net_listeners first = {.count = 1}, second = {.count = 1};
    (void)state;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(text, sizeof(text), "unix:%s/s", dir);
    const char *path = text + 5;
    assert_int_equal(net_listener_parse(text, &first.all[0], NULL), LR_OK);
    assert_int_equal(net_listener_parse(text, &second.all[0], NULL), LR_OK);
    assert_int_equal(net_listeners_bind(&first, NULL), LR_OK);
    assert_int_equal(stat(path, &info), 0);
    assert_int_equal(info.st_mode & 0777, 0660);
    assert_int_equal(net_listeners_bind(&second, &err), LR_IO);
    assert_non_null(strstr(err.text, "the path is in use"));
    /* As after kill -9: the socket is gone, its file is not. */
    (void)close(first.all[0].fd);
    assert_int_equal(net_listeners_bind(&second, &err), LR_OK);
    /* Another process has it, too. */
    struct net_listener copy;
    assert_int_equal(net_listener_adopt(dup(second.all[0].fd), &copy, NULL), LR_OK);
    assert_string_equal(copy.host, text);
    net_listener_close(&copy);
    assert_int_equal(stat(path, &info), 0);
    net_listeners_close(&second);
    assert_int_equal(stat(path, &info), -1);
    (void)rmdir(dir);
}

static void only_listening_stream_sockets_are_adopted(void **state)
{
    struct net_listener l;
    int pair[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    assert_int_equal(net_listener_adopt(pair[0], &l, NULL), LR_INVALID_ARGUMENT);
    (void)close(pair[0]);
    (void)close(pair[1]);
    int datagrams = socket(AF_INET, SOCK_DGRAM, 0);
    assert_int_equal(net_listener_adopt(datagrams, &l, NULL), LR_INVALID_ARGUMENT);
    (void)close(datagrams);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_names_its_address),
        cmocka_unit_test(all_interfaces_are_those_of_ipv4_too),
        cmocka_unit_test(the_file_of_a_unix_socket_comes_and_goes_with_its_server),
        cmocka_unit_test(only_listening_stream_sockets_are_adopted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
