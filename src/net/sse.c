/* net/sse.c - server-sent events: writing them to a stream, reading them from one. */
#include "net/sse.h"

#include "net/internal.h"
#include "net/request.h"

/* ---- writing ---- */

void net_live_begin(struct net_request *req, const char *content_type)
{
    net_response_header(req, "Cache-Control", LR_STR_LIT("no-cache"));
    /* Tells nginx not to buffer, so that each event leaves at once. */
    net_response_header(req, "X-Accel-Buffering", LR_STR_LIT("no"));
    net_stream_begin(req, 200, content_type);
}

void net_sse_begin(struct net_request *req)
{
    net_live_begin(req, "text/event-stream");
}

static lr_code put_event(struct net_request *req, const char *name, struct lr_str data)
{
    struct lr_buf *out = &net_request_loop(req)->scratch;
    lr_buf_clear(out);
    if (name != NULL) {
        lr_buf_add_z(out, "event: ");
        lr_buf_add_z(out, name);
        lr_buf_add_char(out, '\n');
    }
    struct lr_str line;
    do {
        size_t end = 0;
        while (end < data.len && data.ptr[end] != '\n' && data.ptr[end] != '\r')
            end++;
        line = lr_str_sub(data, 0, end);
        if (end + 1 < data.len && data.ptr[end] == '\r' && data.ptr[end + 1] == '\n')
            end++;
        data = lr_str_sub(data, end, data.len);
        lr_buf_add_z(out, "data: ");
        lr_buf_add_str(out, line);
        lr_buf_add_char(out, '\n');
        if (data.len == 0)
            break;
        data = lr_str_sub(data, 1, data.len);
    } while (true);
    lr_buf_add_char(out, '\n');
    return out->failed ? LR_TOO_LARGE : net_stream_write(req, lr_buf_str(out));
}

lr_code net_sse_event(struct net_request *req, struct lr_str data)
{
    return put_event(req, NULL, data);
}

lr_code net_sse_named_event(struct net_request *req, const char *name, struct lr_str data)
{
    return put_event(req, name, data);
}

lr_code net_sse_comment(struct net_request *req, const char *text)
{
    struct lr_buf *out = &net_request_loop(req)->scratch;
    lr_buf_clear(out);
    lr_buf_add_z(out, ": ");
    for (const char *c = text; *c != '\0'; c++)
        lr_buf_add_char(out, *c == '\n' || *c == '\r' ? ' ' : *c);
    lr_buf_add_z(out, "\n\n");
    return net_stream_write(req, lr_buf_str(out));
}

/* ---- reading ---- */

void net_sse_parser_init(struct net_sse_parser *parser, size_t max_event_bytes, net_sse_fn fn,
                         void *arg)
{
    *parser = (struct net_sse_parser){.fn = fn, .arg = arg};
    lr_buf_init(&parser->line, max_event_bytes);
    lr_buf_init(&parser->data, max_event_bytes);
    lr_buf_init(&parser->event, max_event_bytes);
}

void net_sse_parser_deinit(struct net_sse_parser *parser)
{
    lr_buf_free(&parser->line);
    lr_buf_free(&parser->data);
    lr_buf_free(&parser->event);
}

static void dispatch(struct net_sse_parser *p)
{
    if (p->has_data)
        p->fn(p->arg, lr_buf_str(&p->event), lr_buf_str(&p->data));
    lr_buf_clear(&p->data);
    lr_buf_clear(&p->event);
    p->has_data = false;
}

static void end_line(struct net_sse_parser *p)
{
    struct lr_str line = lr_buf_str(&p->line);
    if (!p->is_begun && lr_str_starts(line, "\xef\xbb\xbf"))
        line = lr_str_sub(line, 3, line.len);
    p->is_begun = true;
    if (line.len == 0) {
        dispatch(p);
        lr_buf_clear(&p->line);
        return;
    }
    size_t colon = lr_str_find_char(line, ':');
    struct lr_str field = lr_str_sub(line, 0, colon);
    struct lr_str value =
        colon == LR_STR_NONE ? lr_str("", 0) : lr_str_sub(line, colon + 1, line.len);
    if (value.len != 0 && value.ptr[0] == ' ')
        value = lr_str_sub(value, 1, value.len);
    if (lr_str_eq_z(field, "data")) {
        if (p->has_data)
            lr_buf_add_char(&p->data, '\n');
        lr_buf_add_str(&p->data, value);
        p->has_data = true;
    } else if (lr_str_eq_z(field, "event")) {
        lr_buf_clear(&p->event);
        lr_buf_add_str(&p->event, value);
    }
    lr_buf_clear(&p->line);
}

lr_code net_sse_parser_feed(struct net_sse_parser *p, struct lr_str bytes, struct lr_error *err)
{
    while (bytes.len != 0) {
        if (p->after_cr && bytes.ptr[0] == '\n')
            bytes = lr_str_sub(bytes, 1, bytes.len);
        p->after_cr = false;
        size_t end = 0;
        while (end < bytes.len && bytes.ptr[end] != '\n' && bytes.ptr[end] != '\r')
            end++;
        lr_buf_add(&p->line, bytes.ptr, end);
        if (p->line.failed || p->data.failed)
            return lr_fail(err, LR_TOO_LARGE, "an event is larger than the limit of %zu bytes",
                           p->data.limit);
        if (end == bytes.len)
            return LR_OK;
        p->after_cr = bytes.ptr[end] == '\r';
        end_line(p);
        if (p->data.failed)
            return lr_fail(err, LR_TOO_LARGE, "an event is larger than the limit of %zu bytes",
                           p->data.limit);
        bytes = lr_str_sub(bytes, end + 1, bytes.len);
    }
    return LR_OK;
}
