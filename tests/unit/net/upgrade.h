/* tests/unit/net/upgrade.h - both ends of an upgraded connection: the harness's /upgrade echoes
 * everything, and a client sends and checks a pattern. */
#ifndef TEST_NET_UPGRADE_H
#define TEST_NET_UPGRADE_H

#include "net/client.h"

struct stream_test {
    struct net_loop *loop;
    struct net_call *call;
    size_t size; /* to send */
    size_t sent, got;
    unsigned refusals; /* writes that found the queue full */
    int status;
    bool is_done, is_wrong;
    struct lr_error err;
};

static inline char stream_byte(size_t i)
{
    return (char)(i * 31 + i / 1000);
}

static inline void stream_send(void *arg)
{
    struct stream_test *t = arg;
    static char block[48 << 10];
    while (t->sent < t->size) {
        size_t len = t->size - t->sent < sizeof(block) ? t->size - t->sent : sizeof(block);
        for (size_t i = 0; i < len; i++)
            block[i] = stream_byte(t->sent + i);
        lr_code code = net_call_write(t->call, lr_str(block, len));
        t->refusals += code == LR_TOO_LARGE;
        if (code != LR_OK)
            return;
        t->sent += len;
    }
}

static inline void stream_on_headers(void *arg, int status, struct net_headers headers)
{
    struct stream_test *t = arg;
    struct lr_str protocol;
    t->status = status;
    t->is_wrong = status == 101 && (!net_headers_get(headers, "Upgrade", &protocol) ||
                                    !lr_str_eq_z(protocol, "echo/1"));
    if (status == 101)
        stream_send(t);
}

static inline void stream_on_body(void *arg, struct lr_str bytes)
{
    struct stream_test *t = arg;
    if (t->status != 101)
        return;
    for (size_t i = 0; i < bytes.len; i++)
        t->is_wrong = t->is_wrong || bytes.ptr[i] != stream_byte(t->got + i);
    t->got += bytes.len;
    if (t->got == t->size)
        net_loop_stop(t->loop);
}

static inline void stream_on_done(void *arg, const struct lr_error *err)
{
    struct stream_test *t = arg;
    t->is_done = true;
    if (err != NULL)
        t->err = *err;
    net_loop_stop(t->loop);
}

/* Runs the loop until everything came back or the call ended. */
static inline void stream_run(struct net_client *client, const char *url, const char *protocol,
                              struct stream_test *t)
{
    struct lr_error err;
    struct net_call_config config = {.url = url,
                                     .upgrade = protocol,
                                     .max_send_bytes = 256 << 10,
                                     .callbacks = {.arg = t,
                                                   .on_headers = stream_on_headers,
                                                   .on_body = stream_on_body,
                                                   .on_drain = stream_send,
                                                   .on_done = stream_on_done}};
    if (net_call_start(client, &config, &t->call, &err) != LR_OK)
        fail_msg("%s", err.text);
    net_loop_run(t->loop);
}

static inline void expect_stream(struct net_client *client, struct net_loop *loop,
                                 const char *url)
{
    struct stream_test t = {.loop = loop, .size = 20u << 20};
    stream_run(client, url, "echo/1", &t);
    if (t.err.code != LR_OK)
        fail_msg("%s", t.err.text);
    assert_int_equal(t.status, 101);
    assert_int_equal(t.got, t.size);
    assert_false(t.is_wrong);
    assert_true(t.refusals >
                0); /* back-pressure: neither end takes more than the other reads */
    net_call_cancel(t.call);
}

#endif
