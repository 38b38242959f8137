#include "node/http/events.h"

#include <stdlib.h>

#include "base/clock.h"
#include "net/request.h"

enum { EVENT_BYTES = 16 << 10 };

struct node_subscriber {
    struct node_subscriber *next, **link;
    struct net_request *req;
};

void node_events_init(struct node_events *events)
{
    *events = (struct node_events){0};
    lr_buf_init(&events->text, EVENT_BYTES);
}

static void end(struct node_subscriber *s)
{
    *s->link = s->next;
    if (s->next != NULL)
        s->next->link = s->link;
    net_stream_end(s->req);
    free(s);
}

void node_events_free(struct node_events *events)
{
    while (events->subscribers != NULL)
        end(events->subscribers);
    for (size_t i = 0; i < NODE_EVENTS_KEPT; i++) {
        free(events->kept[i]);
        events->kept[i] = NULL;
    }
    lr_buf_free(&events->text);
}

struct lr_json_writer *node_event_begin(struct node_events *events, const char *name)
{
    char time[LR_TIME_TEXT_LEN + 1];
    lr_time_format(lr_clock_wall_ms(NULL), time);
    lr_buf_clear(&events->text);
    lr_json_writer_init(&events->writer, &events->text);
    lr_json_begin_object(&events->writer);
    lr_json_member_z(&events->writer, "event", name);
    lr_json_member_z(&events->writer, "time", time);
    return &events->writer;
}

void node_event_send(struct node_events *events)
{
    lr_json_end_object(&events->writer);
    if (events->text.failed)
        return;
    size_t slot = events->count++ % NODE_EVENTS_KEPT;
    free(events->kept[slot]);
    events->kept[slot] = strdup(lr_buf_z(&events->text));
    struct lr_str text = lr_buf_str(&events->text);
    for (struct node_subscriber *s = events->subscribers, *next; s != NULL; s = next) {
        next = s->next;
        if (net_sse_event(s->req, text) == LR_TOO_LARGE)
            end(s);
    }
}

static void on_gone(void *arg)
{
    end(arg);
}

void node_events_subscribe(struct node_events *events, struct net_request *req)
{
    struct node_subscriber *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        struct lr_error err;
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a subscription");
        net_respond_error(req, &err);
        return;
    }
    s->req = req;
    s->next = events->subscribers;
    s->link = &events->subscribers;
    if (s->next != NULL)
        s->next->link = &s->next;
    events->subscribers = s;
    net_sse_begin(req);
    net_stream_flush(req);
    uint64_t from = events->count > NODE_EVENTS_KEPT ? events->count - NODE_EVENTS_KEPT : 0;
    lr_code code = LR_OK;
    for (uint64_t i = from; i < events->count && code == LR_OK; i++)
        if (events->kept[i % NODE_EVENTS_KEPT] != NULL)
            code = net_sse_event(req, lr_str_z(events->kept[i % NODE_EVENTS_KEPT]));
    net_request_on_gone(req, on_gone, s);
}

void node_events_keep_alive(struct node_events *events)
{
    for (struct node_subscriber *s = events->subscribers, *next; s != NULL; s = next) {
        next = s->next;
        if (net_sse_comment(s->req, "") == LR_TOO_LARGE)
            end(s);
    }
}
