#include "router/http/events.h"

#include <stdlib.h>

#include "base/clock.h"
#include "router/state.h"

enum { EVENT_BYTES = 16 << 10 };

struct router_subscriber {
    struct router_subscriber *next, **link; /* lock */
    struct router *router;
    struct net_loop *loop;
    const struct router_key *key; /* NULL: nobody in particular */
    uint64_t session;             /* 0: none */
    struct net_request *req;      /* loop */
    bool is_ended;                /* loop */
    _Atomic unsigned refs;        /* the list, and each text on its way */
};

struct letter {
    struct router_subscriber *to;
    char *text; /* owned; NULL: a comment */
    bool is_last;
};

void router_events_init(struct router_events *events)
{
    *events = (struct router_events){0};
    lr_buf_init(&events->text, EVENT_BYTES);
}

void router_events_free(struct router_events *events)
{
    for (size_t i = 0; i < ROUTER_EVENTS_KEPT; i++)
        free(events->kept[i]);
    lr_buf_free(&events->text);
}

static void unref(struct router_subscriber *s)
{
    if (atomic_fetch_sub(&s->refs, 1) == 1)
        free(s);
}

/* Whoever is cut off sees that something is missing.  Thread: its loop. */
static void end(struct router_subscriber *s, bool is_cut)
{
    if (s->is_ended)
        return;
    s->is_ended = true;
    router_lock(s->router);
    *s->link = s->next;
    if (s->next != NULL)
        s->next->link = s->link;
    s->router->events.subscriber_count--;
    router_unlock(s->router);
    if (is_cut)
        net_stream_abort(s->req);
    else
        net_stream_end(s->req);
    unref(s);
}

static void deliver(void *arg)
{
    struct letter *letter = arg;
    struct router_subscriber *s = letter->to;
    if (!s->is_ended) {
        lr_code code = letter->text != NULL ? net_sse_event(s->req, lr_str_z(letter->text))
                                            : net_sse_comment(s->req, "");
        if (code == LR_TOO_LARGE || letter->is_last)
            end(s, code == LR_TOO_LARGE);
    }
    unref(s);
    free(letter->text);
    free(letter);
}

static void send_to(struct router_subscriber *s, const char *text, bool is_last)
{
    struct letter *letter = calloc(1, sizeof(*letter));
    if (letter == NULL)
        return;
    atomic_fetch_add(&s->refs, 1);
    letter->to = s;
    letter->text = text != NULL ? strdup(text) : NULL;
    letter->is_last = is_last;
    net_loop_post(s->loop, deliver, letter);
}

struct lr_json_writer *router_event_begin(struct router_events *events, const char *name)
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

void router_event_send_live(struct router_events *events)
{
    lr_json_end_object(&events->writer);
    if (events->text.failed)
        return;
    for (struct router_subscriber *s = events->subscribers; s != NULL; s = s->next)
        send_to(s, lr_buf_z(&events->text), false);
}

void router_event_send(struct router_events *events)
{
    router_event_send_live(events);
    if (events->text.failed)
        return;
    size_t slot = events->count++ % ROUTER_EVENTS_KEPT;
    free(events->kept[slot]);
    events->kept[slot] = strdup(lr_buf_z(&events->text));
}

static void on_gone(void *arg)
{
    end(arg, true);
}

void router_events_subscribe(struct router *r, struct net_request *req)
{
    struct router_events *events = &r->events;
    const struct router_caller *caller =
        &((const struct router_access *)net_request_user(req))->caller;
    struct router_subscriber *s = calloc(1, sizeof(*s));
    if (s == NULL) {
        router_refuse(req, LR_OUT_OF_RAM, "no memory for a subscription");
        return;
    }
    *s = (struct router_subscriber){.router = r,
                                    .loop = net_request_loop(req),
                                    .req = req,
                                    .key = caller->key,
                                    .session = caller->session,
                                    .refs = 1};
    router_lock(r);
    if (events->subscriber_count == ROUTER_SUBSCRIBERS_MAX) {
        router_unlock(r);
        free(s);
        router_refuse(req, LR_RATE_LIMITED, "%d listen already: close a dashboard",
                      ROUTER_SUBSCRIBERS_MAX);
        return;
    }
    net_sse_begin(req);
    net_stream_flush(req);
    events->subscriber_count++;
    s->next = events->subscribers;
    s->link = &events->subscribers;
    if (s->next != NULL)
        s->next->link = &s->next;
    events->subscribers = s;
    uint64_t from = events->count > ROUTER_EVENTS_KEPT ? events->count - ROUTER_EVENTS_KEPT : 0;
    for (uint64_t i = from; i < events->count; i++)
        if (events->kept[i % ROUTER_EVENTS_KEPT] != NULL)
            send_to(s, events->kept[i % ROUTER_EVENTS_KEPT], false);
    router_unlock(r);
    net_request_on_gone(req, on_gone, s);
}

/* A stream outlives the check at its beginning, not the right to it. */
static bool may_listen(struct router *r, const struct router_subscriber *s, uint64_t now_ms,
                       int64_t wall_ms)
{
    if (s->session != 0)
        return router_session_by_id(&r->sessions, s->session, now_ms, wall_ms) != NULL;
    return s->key == NULL || router_key_is_good(s->key, wall_ms);
}

void router_events_keep_alive(struct router *r)
{
    uint64_t now_ms = lr_clock_ms(NULL);
    int64_t wall_ms = lr_clock_wall_ms(NULL);
    router_lock(r);
    for (struct router_subscriber *s = r->events.subscribers; s != NULL; s = s->next)
        send_to(s, NULL, !may_listen(r, s, now_ms, wall_ms));
    router_unlock(r);
}

void router_events_end_all(struct router *r)
{
    router_lock(r);
    for (struct router_subscriber *s = r->events.subscribers; s != NULL; s = s->next)
        send_to(s, NULL, true);
    router_unlock(r);
}
