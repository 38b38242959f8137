/* A link of the router walks through its states: the connection is this file's, and time moves
 * when the test says so. */
#include "tests/unit/router/support.h"

#include "base/machine.h"
#include "router/relay/link.h"
#include "wire/link.h"

/* ---- the injected connection ---- */

struct net_call {
    struct net_call_callbacks callbacks;
    char url[320];
    struct lr_buf sent;
    bool is_cancelled;
};

static struct net_call calls[4];
static size_t call_count;
static size_t queued;

lr_code net_call_start(struct net_client *client, const struct net_call_config *config,
                       struct net_call **out, struct lr_error *err)
{
    struct net_call *c = &calls[call_count++];
    (void)client, (void)err;
    assert_true(call_count <= sizeof(calls) / sizeof(calls[0]));
    *c = (struct net_call){.callbacks = config->callbacks};
    (void)snprintf(c->url, sizeof(c->url), "%s", config->url);
    lr_buf_init(&c->sent, 1 << 20);
    *out = c;
    return LR_OK;
}

lr_code net_call_write(struct net_call *c, struct lr_str bytes)
{
    assert_false(c->is_cancelled);
    lr_buf_add_str(&c->sent, bytes);
    return LR_OK;
}

size_t net_call_queued(const struct net_call *c)
{
    (void)c;
    return queued;
}

void net_call_cancel(struct net_call *c)
{
    c->is_cancelled = true;
}

/* ---- a loop, a node, and streams that note what they hear ---- */

static struct lr_fake_clock time_;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct router_links links;
static struct router_node node;

struct owner {
    struct router_stream stream;
    int events, lost;
    bool has_more;
    enum wire_type last;
    struct lr_error why;
};

static struct owner owners[3];

static void on_event(void *arg, const struct wire_frame *event, bool has_more)
{
    struct owner *o = arg;
    o->events++;
    o->last = event->type;
    o->has_more = has_more;
}

static void on_lost(void *arg, const struct lr_error *err)
{
    struct owner *o = arg;
    o->lost++;
    o->why = *err;
}

static lr_code submit(int i, struct lr_error *err)
{
    struct wire_generate ask;
    wire_generate_defaults(&ask);
    ask.request_id = LR_STR_LIT("a-request.0");
    ask.model = LR_STR_LIT("demo");
    owners[i] = (struct owner){0};
    owners[i].stream =
        (struct router_stream){.arg = &owners[i], .on_event = on_event, .on_lost = on_lost};
    return router_link_submit(&links, &node, &ask, &owners[i].stream, err);
}

static void must_submit(int i)
{
    struct lr_error err;
    assert_int_equal(submit(i, &err), LR_OK);
}

static int setup(void **state)
{
    struct lr_error err;
    (void)state;
    lr_fake_clock_init(&time_, 1000, 0);
    links = (struct router_links){.lock = &lock, .clock = &time_.clock};
    router_links_init(&links);
    node = (struct router_node){.url = "http://127.0.0.1:1", .secret = "a-secret"};
    call_count = queued = 0;
    return net_loop_create(&links.net, &err) == LR_OK ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    router_links_free(&links);
    net_loop_destroy(links.net);
    for (size_t i = 0; i < call_count; i++)
        lr_buf_free(&calls[i].sent);
    return 0;
}

/* ---- what the node does ---- */

static void node_opens(struct net_call *c)
{
    char name[WIRE_LINK_NAME_MAX];
    wire_link_name(WIRE_PROTOCOL, false, name);
    struct net_header header = {LR_STR_LIT("Upgrade"), lr_str_z(name)};
    c->callbacks.on_headers(c->callbacks.arg, 101, (struct net_headers){&header, 1});
}

static void node_refuses(struct net_call *c)
{
    c->callbacks.on_headers(c->callbacks.arg, 401, (struct net_headers){0});
    c->callbacks.on_body(c->callbacks.arg, LR_STR_LIT("{\"error\":1}"));
    c->callbacks.on_done(c->callbacks.arg, NULL);
}

static void node_says(struct net_call *c, struct lr_str bytes)
{
    c->callbacks.on_body(c->callbacks.arg, bytes);
}

/* An event of a stream; `is_last`: DONE. */
static void event(struct net_call *c, int i, uint32_t index, bool is_last)
{
    struct wire_event_head head;
    struct wire_frame frame;
    struct lr_buf plain, out;
    bool has = false;
    lr_buf_init(&plain, 4096);
    lr_buf_init(&out, 4096);
    if (is_last)
        wire_done_encode(&plain, &(struct wire_done){.reason = LR_FINISH_STOP});
    else
        wire_token_encode(&plain, &(struct wire_token){.bytes = LR_STR_LIT("x")});
    struct lr_str bytes = lr_buf_str(&plain);
    assert_int_equal(wire_frame_next(&bytes, &frame, &has, NULL), LR_OK);
    (void)wire_event_relay(&out, &frame, owners[i].stream.number, index);
    assert_true(has && wire_event_head_decode(frame.body, &head));
    node_says(c, lr_buf_str(&out));
    lr_buf_free(&plain);
    lr_buf_free(&out);
}

/* The frames that the node got, and the type of the last. */
static int frames(const struct net_call *c, enum wire_type *last)
{
    struct lr_str bytes = lr_buf_str(&c->sent);
    struct wire_frame frame;
    bool has = true;
    int count = 0;
    while (wire_frame_next(&bytes, &frame, &has, NULL) == LR_OK && has) {
        *last = frame.type;
        count++;
    }
    return count;
}

static bool is_attached(int i)
{
    return owners[i].stream.link != NULL;
}

/* ---- the moves of the picture ---- */

static void requests_wait_for_the_link_to_open_and_go_out_with_it(void **state)
{
    enum wire_type last = 0;
    (void)state;
    must_submit(0);
    must_submit(1);
    assert_int_equal(call_count, 1); /* one link for both */
    assert_string_equal(calls[0].url, "http://127.0.0.1:1/v0/link");
    assert_int_equal(frames(&calls[0], &last), 0);
    assert_int_equal(owners[0].stream.sent_ns, 0);
    node_opens(&calls[0]);
    assert_int_equal(frames(&calls[0], &last), 2);
    assert_int_equal(last, WIRE_SUBMIT);
    assert_int_equal(owners[1].stream.sent_ns, lr_clock_ns(&time_.clock));
    must_submit(2);
    assert_int_equal(frames(&calls[0], &last), 3);
    assert_int_equal(owners[2].stream.sent_ns, lr_clock_ns(&time_.clock));
}

static void a_link_that_does_not_open_loses_those_that_wait_for_it(void **state)
{
    (void)state;
    must_submit(0);
    must_submit(1);
    node_refuses(&calls[0]);
    assert_int_equal(owners[0].lost + owners[1].lost, 2);
    assert_contains(owners[0].why.text, "status 401");
    assert_false(is_attached(0));
    assert_null(links.first);
    must_submit(0); /* the next one opens another link */
    assert_int_equal(call_count, 2);
}

static void the_nodes_end_closes_an_open_link(void **state)
{
    (void)state;
    must_submit(0);
    node_opens(&calls[0]);
    calls[0].callbacks.on_done(calls[0].callbacks.arg, NULL);
    assert_int_equal(owners[0].lost, 1);
    assert_contains(owners[0].why.text, "closed its link");
    assert_null(links.first);
}

static void five_seconds_without_a_frame_close_a_link_in_any_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        uint64_t before = net_loop_now_ms(links.net);
        must_submit(0);
        if (i == 1)
            node_opens(&calls[i]);
        router_links_watch(&links, before + ROUTER_SILENCE_MS - 1);
        assert_int_equal(owners[0].lost, 0);
        router_links_watch(&links, net_loop_now_ms(links.net) + ROUTER_SILENCE_MS);
        assert_int_equal(owners[0].lost, 1);
        assert_int_equal(owners[0].why.code, LR_TIMEOUT);
        assert_true(calls[i].is_cancelled);
        assert_null(links.first);
    }
}

static void a_link_of_another_protocol_is_closed(void **state)
{
    struct net_header header = {LR_STR_LIT("Upgrade"), LR_STR_LIT("websocket")};
    (void)state;
    must_submit(0);
    calls[0].callbacks.on_headers(calls[0].callbacks.arg, 101,
                                  (struct net_headers){&header, 1});
    assert_int_equal(owners[0].lost, 1);
    assert_true(calls[0].is_cancelled);
    assert_null(links.first);
}

static void bytes_that_are_no_frame_close_the_link_of_all(void **state)
{
    (void)state;
    must_submit(0);
    must_submit(1);
    node_opens(&calls[0]);
    node_says(&calls[0], LR_STR_LIT("HTTP/1.1 500 this is no frame at all"));
    assert_int_equal(owners[0].lost + owners[1].lost, 2);
    assert_true(calls[0].is_cancelled);
    assert_null(links.first);
}

/* ---- events and their order ---- */

static void an_event_goes_to_its_stream_and_the_last_one_ends_it(void **state)
{
    (void)state;
    must_submit(0);
    must_submit(1);
    node_opens(&calls[0]);
    event(&calls[0], 1, 0, false);
    assert_int_equal(owners[1].events, 1);
    assert_int_equal(owners[0].events, 0);
    event(&calls[0], 1, 1, true);
    assert_int_equal(owners[1].last, WIRE_DONE);
    assert_false(is_attached(1));
    assert_true(is_attached(0));
    event(&calls[0], 1, 2, false); /* behind the last one: nobody's */
    assert_int_equal(owners[1].events, 2);
    calls[0].callbacks.on_done(calls[0].callbacks.arg, NULL);
    assert_int_equal(owners[1].lost, 0);
    assert_int_equal(owners[0].lost, 1);
}

static void a_missing_event_loses_its_stream_and_no_other(void **state)
{
    enum wire_type last = 0;
    (void)state;
    must_submit(0);
    must_submit(1);
    node_opens(&calls[0]);
    event(&calls[0], 0, 1, false);
    assert_int_equal(owners[0].lost, 1);
    assert_contains(owners[0].why.text, "event 1 of a generation came where 0 was due");
    assert_int_equal(frames(&calls[0], &last), 3);
    assert_int_equal(last, WIRE_CANCEL);
    event(&calls[0], 1, 0, false);
    assert_int_equal(owners[1].events, 1);
}

/* ---- leaving ---- */

static void
a_stream_that_is_cancelled_hears_its_last_event_and_one_that_left_hears_nothing(void **state)
{
    enum wire_type last = 0;
    (void)state;
    must_submit(0);
    must_submit(1);
    node_opens(&calls[0]);
    router_link_cancel(&owners[0].stream);
    router_link_leave(&owners[1].stream);
    assert_int_equal(frames(&calls[0], &last), 4);
    assert_int_equal(last, WIRE_CANCEL);
    event(&calls[0], 0, 0, true);
    event(&calls[0], 1, 0, true);
    assert_int_equal(owners[0].events, 1);
    assert_int_equal(owners[1].events, 0);
    router_link_leave(&owners[1].stream); /* twice is fine */
    assert_int_equal(frames(&calls[0], &last), 4);
}

static void a_node_that_does_not_read_is_sent_no_more(void **state)
{
    struct lr_error err;
    (void)state;
    must_submit(0);
    node_opens(&calls[0]);
    queued = 128 << 20;
    assert_int_equal(submit(1, &err), LR_UNAVAILABLE);
    assert_false(is_attached(1));
}

static void a_node_that_came_back_from_elsewhere_has_another_link(void **state)
{
    (void)state;
    must_submit(0);
    node_opens(&calls[0]);
    (void)snprintf(node.url, sizeof(node.url), "http://127.0.0.1:2");
    must_submit(1);
    assert_int_equal(call_count, 2);
    assert_string_equal(calls[1].url, "http://127.0.0.1:2/v0/link");
    calls[0].callbacks.on_done(calls[0].callbacks.arg, NULL);
    assert_int_equal(owners[0].lost, 1);
    assert_true(is_attached(1));
}

static void no_move_was_illegal(void **state)
{
    (void)state;
    assert_int_equal(lr_machine_bad_moves(), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(requests_wait_for_the_link_to_open_and_go_out_with_it),
        TEST(a_link_that_does_not_open_loses_those_that_wait_for_it),
        TEST(the_nodes_end_closes_an_open_link),
        TEST(five_seconds_without_a_frame_close_a_link_in_any_state),
        TEST(a_link_of_another_protocol_is_closed),
        TEST(bytes_that_are_no_frame_close_the_link_of_all),
        TEST(an_event_goes_to_its_stream_and_the_last_one_ends_it),
        TEST(a_missing_event_loses_its_stream_and_no_other),
        TEST(a_stream_that_is_cancelled_hears_its_last_event_and_one_that_left_hears_nothing),
        TEST(a_node_that_does_not_read_is_sent_no_more),
        TEST(a_node_that_came_back_from_elsewhere_has_another_link),
        TEST(no_move_was_illegal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
