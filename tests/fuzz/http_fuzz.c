/* LINK: net */
/* tests/fuzz/http_fuzz.c - untrusted bytes through the HTTP parsers, without sockets.
 *
 * The first byte selects the kind of input (requests, answers, events, a path), the second the
 * size of the pieces.  The result must not depend on the pieces, and accepted input must not
 * contain a byte that could split a head.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/buf.h"
#include "net/cidr.h"
#include "net/guard.h"
#include "net/head.h"
#include "net/path.h"
#include "net/sse.h"
#include "net/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_MESSAGES = 32 };

static void require(bool claim)
{
    if (!claim)
        abort();
}

static void require_clean(struct lr_str s)
{
    for (size_t i = 0; i < s.len; i++)
        require(s.ptr[i] != '\r' && s.ptr[i] != '\n' && s.ptr[i] != '\0');
}

static void record_head(struct lr_buf *log, const struct net_head *head)
{
    lr_buf_addf(log, "%d %d %d %llu\n", head->status, head->minor, (int)head->body,
                (unsigned long long)head->length);
    for (size_t i = 0; i < head->headers.count; i++) {
        struct net_header header = head->headers.items[i];
        require(net_header_name_ok(header.name) && net_header_value_ok(header.value));
        require_clean(header.value);
        lr_buf_add_str(log, header.name);
        lr_buf_add_str(log, header.value);
    }
    require_clean(head->target);
    require_clean(head->authority);
    lr_buf_add_str(log, head->method);
    lr_buf_add_str(log, head->path);
    lr_buf_add_str(log, head->query);
}

/* One connection's input, as server or client reads it: head, body, next head. */
struct reader {
    bool is_response;
    bool in_body;
    bool is_over;
    unsigned messages;
    struct net_head_scan scan;
    struct net_body body;
    struct lr_buf kept;
    struct lr_buf log;
};

static bool read_head(struct reader *r, struct lr_str *input)
{
    enum net_head_result result = net_head_scan(&r->scan, *input, NULL);
    if (result != NET_HEAD_COMPLETE) {
        r->is_over = result == NET_HEAD_BAD;
        return false;
    }
    require(r->scan.at <= input->len);
    struct lr_arena arena;
    lr_arena_init(&arena, 1 << 20);
    struct net_head head;
    struct lr_error err;
    int status = 0;
    struct lr_str block = lr_str_sub(*input, 0, r->scan.at);
    lr_code code =
        r->is_response
            ? net_head_parse_response(&arena, block, r->scan.line_count, "GET", &head, &err)
            : net_head_parse_request(&arena, block, r->scan.line_count, &head, &status, &err);
    *input = lr_str_sub(*input, r->scan.at, input->len);
    r->scan = (struct net_head_scan){0};
    if (code == LR_OK) {
        record_head(&r->log, &head);
        struct lr_str path;
        if (!r->is_response && net_path_decode(&arena, head.path, &path, NULL) == LR_OK)
            require_clean(path);
        struct net_guard_input in = {.host = head.authority, .headers = head.headers};
        char client[NET_ADDRESS_TEXT];
        struct net_cidrs all = {.items = {{.bits = 0}}, .count = 1};
        net_forwarded_client(head.headers, "127.0.0.1", &all, client);
        if (!r->is_response)
            lr_buf_addf(&r->log, "%d %s", (int)net_guard_loopback(&in, NULL), client);
        net_body_init(&r->body, head.body, head.length);
        r->in_body = true;
    } else {
        lr_buf_addf(&r->log, "refused %d", status);
        r->is_over = true;
    }
    lr_arena_free(&arena);
    return !r->is_over && ++r->messages < MAX_MESSAGES;
}

static bool read_body(struct reader *r, struct lr_str *input)
{
    struct lr_str data;
    switch (net_body_next(&r->body, input, &data, NULL)) {
    case NET_BODY_DATA:
        lr_buf_add_str(&r->log, data);
        return true;
    case NET_BODY_END:
        require(net_body_ends_here(&r->body));
        r->in_body = false;
        return true;
    case NET_BODY_BAD:
        lr_buf_add_z(&r->log, "bad body");
        r->is_over = true;
        return false;
    case NET_BODY_MORE:
        break;
    }
    require(input->len == 0);
    return false;
}

static void feed(struct reader *r, struct lr_str piece)
{
    lr_buf_add_str(&r->kept, piece);
    struct lr_str input = lr_buf_str(&r->kept);
    bool goes_on = true;
    while (goes_on && !r->is_over)
        goes_on = r->in_body ? read_body(r, &input) : read_head(r, &input);
    lr_buf_consume(&r->kept, r->kept.len - input.len);
}

static void read_all(struct reader *r, struct lr_str bytes, size_t step, bool is_response)
{
    *r = (struct reader){.is_response = is_response};
    lr_buf_init(&r->kept, 1 << 22);
    lr_buf_init(&r->log, 1 << 24);
    for (size_t at = 0; at < bytes.len && !r->is_over; at += step)
        feed(r, lr_str_sub(bytes, at, at + step));
}

static void try_messages(struct lr_str bytes, size_t step, bool is_response)
{
    struct reader whole;
    struct reader pieces;
    read_all(&whole, bytes, bytes.len + 1, is_response);
    read_all(&pieces, bytes, step, is_response);
    require(whole.is_over == pieces.is_over || whole.messages == MAX_MESSAGES);
    if (whole.messages < MAX_MESSAGES)
        require(lr_str_eq(lr_buf_str(&whole.log), lr_buf_str(&pieces.log)));
    lr_buf_free(&whole.kept);
    lr_buf_free(&whole.log);
    lr_buf_free(&pieces.kept);
    lr_buf_free(&pieces.log);
}

static void on_event(void *arg, struct lr_str event, struct lr_str data)
{
    lr_buf_add_str(arg, event);
    lr_buf_add_char(arg, '|');
    lr_buf_add_str(arg, data);
}

static bool read_events(struct lr_str bytes, size_t step, struct lr_buf *log)
{
    struct net_sse_parser parser;
    lr_code code = LR_OK;
    lr_buf_init(log, 1 << 24);
    net_sse_parser_init(&parser, 4096, on_event, log);
    for (size_t at = 0; at < bytes.len && code == LR_OK; at += step)
        code = net_sse_parser_feed(&parser, lr_str_sub(bytes, at, at + step), NULL);
    net_sse_parser_deinit(&parser);
    return code == LR_OK;
}

static void try_events(struct lr_str bytes, size_t step)
{
    struct lr_buf whole;
    struct lr_buf pieces;
    bool first = read_events(bytes, bytes.len + 1, &whole);
    bool second = read_events(bytes, step, &pieces);
    require(first == second);
    require(lr_str_eq(lr_buf_str(&whole), lr_buf_str(&pieces)));
    lr_buf_free(&whole);
    lr_buf_free(&pieces);
}

static void try_path(struct lr_str bytes)
{
    struct lr_arena arena;
    struct net_path path;
    struct lr_str value;
    struct net_url url;
    lr_arena_init(&arena, 1 << 20);
    if (net_path_split(&arena, bytes, &path, NULL) == LR_OK) {
        for (size_t i = 0; i < path.count; i++) {
            require_clean(path.segments[i]);
            require(!lr_str_eq_z(path.segments[i], "..") &&
                    !lr_str_eq_z(path.segments[i], "."));
        }
    }
    (void)net_query_get(&arena, bytes, "a", &value);
    (void)net_is_loopback_host(bytes);
    const char *text = lr_arena_copy(&arena, bytes);
    if (text != NULL && net_url_parse(text, &url, NULL) == LR_OK)
        require_clean(lr_str_z(url.authority));
    lr_arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2 || size > 64 * 1024)
        return 0;
    struct lr_str bytes = lr_str((const char *)data + 2, size - 2);
    size_t step = (size_t)data[1] % 64 + 1;
    switch (data[0] % 4) {
    case 0:
        try_messages(bytes, step, false);
        break;
    case 1:
        try_messages(bytes, step, true);
        break;
    case 2:
        try_events(bytes, step);
        break;
    default:
        try_path(bytes);
        break;
    }
    return 0;
}
