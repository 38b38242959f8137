/* tests/unit/net/bus_test.c - subscribers of events, on two loops. */
#include "harness.h"

#include "net/bus.h"

static struct net_bus bus;
static _Atomic bool may_listen;

static void subscribe(void *arg, struct net_request *req)
{
    net_bus_subscribe(arg, req);
}

static bool check(void *arg, struct net_request *req)
{
    (void)arg;
    (void)req;
    return atomic_load(&may_listen);
}

static void tell(const char *name, uint64_t number, bool is_live)
{
    lr_json_member_u64(net_bus_begin(&bus, name), "number", number);
    if (is_live)
        net_bus_send_live(&bus);
    else
        net_bus_send(&bus);
}

static int set_up(void **state)
{
    (void)state;
    net_bus_init(&bus);
    bus.may_listen = check;
    atomic_store(&may_listen, true);
    harness_start(
        (struct net_server_config){
            .max_stream_bytes = 64 << 10,
            .handler = {.arg = &bus, .on_request = subscribe, .on_end = on_end}},
        2);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    net_bus_end_all(&bus);
    harness_stop();
    assert_int_equal(atomic_load(&bus.subscriber_count), 0);
    net_bus_free(&bus);
    return 0;
}

static int listen_to(void)
{
    int fd = dial();
    say_z(fd, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    return fd;
}

static void every_subscriber_hears_the_kept_events_and_then_each_new_one(void **state)
{
    static char text[64 << 10];
    int fds[4];
    (void)state;
    for (uint64_t i = 1; i <= NET_BUS_KEPT + 2; i++)
        tell("old", i, false);
    tell("stale", 1, true);
    assert_null(net_bus_kept(&bus, 1)); /* number 2, which the ring has lost */
    assert_non_null(net_bus_kept(&bus, 2));
    assert_null(net_bus_kept(&bus, bus.count));
    for (size_t i = 0; i < 4; i++) {
        fds[i] = listen_to();
        hear_until(fds[i], text, sizeof(text), "\"number\":66}\n\n");
        assert_null(strstr(text, "\"number\":2}"));
        assert_non_null(strstr(text, "\"event\":\"old\""));
        assert_null(strstr(text, "stale"));
    }
    tell("new", 1, true);
    tell("new", 2, false);
    for (size_t i = 0; i < 4; i++) {
        hear_until(fds[i], text, sizeof(text), "\"number\":2}\n\n");
        assert_non_null(strstr(text, "\"number\":1}"));
        (void)close(fds[i]);
    }
}

static void a_subscriber_that_may_not_listen_any_more_is_ended(void **state)
{
    char text[8192];
    int fd = listen_to();
    (void)state;
    hear_until(fd, text, sizeof(text), "\r\n\r\n");
    net_bus_keep_alive(&bus);
    hear_until(fd, text, sizeof(text), ":");
    atomic_store(&may_listen, false);
    net_bus_keep_alive(&bus);
    hear_until(fd, text, sizeof(text), "0\r\n\r\n"); /* the end, not a cut */
    tell("late", 1, false);
    assert_false(is_closed_within(fd, 50));
    (void)close(fd);
}

static void a_subscriber_that_does_not_read_is_cut_off_and_nobody_waits(void **state)
{
    static char filler[12 << 10], text[64 << 10];
    int slow = listen_to(), fast = listen_to();
    (void)state;
    memset(filler, 'x', sizeof(filler) - 1);
    hear_until(slow, text, sizeof(text), "\r\n\r\n");
    hear_until(fast, text, sizeof(text), "\r\n\r\n");
    for (unsigned i = 0; i < 2000 && atomic_load(&bus.subscriber_count) == 2; i++) {
        lr_json_member_z(net_bus_begin(&bus, "big"), "text", filler);
        net_bus_send_live(&bus);
        hear_until(fast, text, sizeof(text), "}\n\n");
    }
    assert_int_equal(atomic_load(&bus.subscriber_count), 1);
    await(&h.ended, 1);
    (void)close(slow);
    (void)close(fast);
}

static _Atomic bool is_held, is_let_go;

/* Asked on the subscriber's loop. */
static bool check_slowly(void *arg, struct net_request *req)
{
    (void)arg;
    (void)req;
    atomic_store(&is_held, true);
    while (!atomic_load(&is_let_go))
        (void)usleep(1000);
    return true;
}

static void a_subscriber_whose_loop_is_busy_is_cut_off_before_its_events_pile_up(void **state)
{
    static char filler[12 << 10], text[64 << 10];
    unsigned sent = 0;
    int fd = listen_to();
    (void)state;
    memset(filler, 'x', sizeof(filler) - 1);
    hear_until(fd, text, sizeof(text), "\r\n\r\n");
    bus.may_listen = check_slowly;
    net_bus_keep_alive(&bus);
    while (!atomic_load(&is_held))
        (void)usleep(1000);
    for (; sent < 1000 && atomic_load(&bus.subscriber_count) == 1; sent++) {
        lr_json_member_z(net_bus_begin(&bus, "big"), "text", filler);
        net_bus_send_live(&bus);
    }
    size_t left = atomic_load(&bus.subscriber_count);
    atomic_store(&is_let_go, true);
    assert_int_equal(left, 0);
    assert_in_range(sent * sizeof(filler), NET_BUS_KEPT * sizeof(filler), 3 << 20);
    await(&h.ended, 1);
    (void)close(fd);
}

static void one_more_than_the_most_is_refused(void **state)
{
    char text[4096];
    (void)state;
    atomic_fetch_add(&bus.subscriber_count, NET_BUS_SUBSCRIBERS_MAX);
    int fd = listen_to();
    hear_until(fd, text, sizeof(text), "close a dashboard");
    assert_int_equal(status_of(text), 429);
    assert_int_equal(atomic_load(&bus.subscriber_count), NET_BUS_SUBSCRIBERS_MAX);
    atomic_fetch_sub(&bus.subscriber_count, NET_BUS_SUBSCRIBERS_MAX);
    (void)close(fd);
}

static void an_event_that_is_too_large_is_left_out(void **state)
{
    static char filler[32 << 10];
    (void)state;
    memset(filler, 'x', sizeof(filler) - 1);
    lr_json_member_z(net_bus_begin(&bus, "big"), "text", filler);
    net_bus_send(&bus);
    assert_int_equal(bus.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(
            every_subscriber_hears_the_kept_events_and_then_each_new_one, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_subscriber_that_may_not_listen_any_more_is_ended,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_subscriber_that_does_not_read_is_cut_off_and_nobody_waits, set_up, tear_down),
        cmocka_unit_test_setup_teardown(
            a_subscriber_whose_loop_is_busy_is_cut_off_before_its_events_pile_up, set_up,
            tear_down),
        cmocka_unit_test_setup_teardown(one_more_than_the_most_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_event_that_is_too_large_is_left_out, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
