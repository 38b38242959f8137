#include "net/bus.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/list.h"
#include "net/loop.h"

enum {
    EVENT_BYTES = 16 << 10,
    /* Of letters on their way to one subscriber, whose loop may be busy: twice the events that
     * a new subscriber gets at once. */
    UNDERWAY_BYTES = 2 * NET_BUS_KEPT * EVENT_BYTES,
};

struct net_subscriber {
    struct net_subscriber *next, **link; /* the bus's lock; link NULL: not on the list */
    struct net_bus *bus;
    struct net_loop *loop;
    struct net_request *req; /* loop */
    bool has_ended;          /* loop */
    _Atomic size_t underway; /* bytes of its letters */
    _Atomic unsigned refs;   /* the request, and each letter on its way */
};

enum letter_kind { LETTER_EVENT, LETTER_COMMENT, LETTER_END, LETTER_CUT };

struct letter {
    struct net_subscriber *to;
    enum letter_kind kind;
    size_t size;
    char text[]; /* of an event */
};

void net_bus_init(struct net_bus *bus)
{
    *bus = (struct net_bus){0};
    (void)pthread_mutex_init(&bus->lock, NULL);
    lr_buf_init(&bus->text, EVENT_BYTES);
}

void net_bus_free(struct net_bus *bus)
{
    for (size_t i = 0; i < NET_BUS_KEPT; i++)
        free(bus->kept[i]);
    lr_buf_free(&bus->text);
    (void)pthread_mutex_destroy(&bus->lock);
}

/* ---- a subscriber ---- */

static void unref(struct net_subscriber *s)
{
    if (atomic_fetch_sub(&s->refs, 1) == 1)
        free(s);
}

/* The subscriber gets no more letters.  The bus's lock is held. */
static void bus_leave(struct net_subscriber *s)
{
    if (s->link == NULL)
        return;
    LR_LIST_REMOVE(s, next, link);
    atomic_fetch_sub(&s->bus->subscriber_count, 1);
}

/* A subscriber that is cut off sees that something is missing.  Thread: its loop. */
static void bus_end(struct net_subscriber *s, bool is_cut)
{
    if (s->has_ended)
        return;
    s->has_ended = true;
    (void)pthread_mutex_lock(&s->bus->lock);
    bus_leave(s);
    (void)pthread_mutex_unlock(&s->bus->lock);
    if (is_cut)
        net_stream_abort(s->req);
    else
        net_stream_end(s->req);
    unref(s);
}

static void bus_on_gone(void *arg)
{
    bus_end(arg, true);
}

static void bus_deliver(void *arg)
{
    struct letter *letter = arg;
    struct net_subscriber *s = letter->to;
    const struct net_bus *bus = s->bus;
    atomic_fetch_sub(&s->underway, letter->size);
    if (letter->kind == LETTER_CUT) {
        bus_end(s, true);
    } else if (!s->has_ended) {
        lr_code code = letter->kind == LETTER_EVENT
                           ? net_sse_event(s->req, lr_str_z(letter->text))
                           : net_sse_comment(s->req, "");
        bool is_over = letter->kind == LETTER_END ||
                       (letter->kind == LETTER_COMMENT && bus->may_listen != NULL &&
                        !bus->may_listen(bus->arg, s->req));
        if (code == LR_TOO_LARGE || is_over)
            bus_end(s, code == LR_TOO_LARGE);
    }
    unref(s);
    free(letter);
}

static void post(struct net_subscriber *s, enum letter_kind kind, const char *text)
{
    size_t len = strlen(text) + 1;
    struct letter *letter = calloc(1, sizeof(*letter) + len);
    if (letter == NULL)
        return;
    letter->to = s;
    letter->kind = kind;
    letter->size = sizeof(*letter) + len;
    memcpy(letter->text, text, len);
    atomic_fetch_add(&s->refs, 1);
    atomic_fetch_add(&s->underway, letter->size);
    net_loop_post(s->loop, bus_deliver, letter);
}

/* A subscriber whose letters pile up does not get them in time, whether its client does not
 * read or its loop is busy: it is cut off.  The bus's lock is held. */
static void send_to(struct net_subscriber *s, enum letter_kind kind, const char *text)
{
    if (atomic_load(&s->underway) + strlen(text) <= UNDERWAY_BYTES) {
        post(s, kind, text);
        return;
    }
    bus_leave(s);
    post(s, LETTER_CUT, "");
}

/* The bus's lock is held. */
static void send_each(struct net_bus *bus, enum letter_kind kind, const char *text)
{
    for (struct net_subscriber *s = bus->subscribers, *next; s != NULL; s = next) {
        next = s->next;
        send_to(s, kind, text);
    }
}

static void send_all(struct net_bus *bus, enum letter_kind kind, const char *text)
{
    (void)pthread_mutex_lock(&bus->lock);
    send_each(bus, kind, text);
    (void)pthread_mutex_unlock(&bus->lock);
}

void net_bus_keep_alive(struct net_bus *bus)
{
    send_all(bus, LETTER_COMMENT, "");
}

void net_bus_end_all(struct net_bus *bus)
{
    send_all(bus, LETTER_END, "");
}

/* ---- events ---- */

struct lr_json_writer *net_bus_begin(struct net_bus *bus, const char *name)
{
    char time[LR_TIME_TEXT_LEN + 1];
    lr_time_format(lr_clock_wall_ms(NULL), time);
    lr_buf_clear(&bus->text);
    lr_json_writer_init(&bus->writer, &bus->text);
    lr_json_begin_object(&bus->writer);
    lr_json_member_z(&bus->writer, "event", name);
    lr_json_member_z(&bus->writer, "time", time);
    return &bus->writer;
}

void net_bus_send_live(struct net_bus *bus)
{
    lr_json_end_object(&bus->writer);
    if (!bus->text.failed)
        send_all(bus, LETTER_EVENT, lr_buf_z(&bus->text));
}

void net_bus_send(struct net_bus *bus)
{
    lr_json_end_object(&bus->writer);
    if (bus->text.failed)
        return;
    char *copy = strdup(lr_buf_z(&bus->text));
    (void)pthread_mutex_lock(&bus->lock);
    char **slot = &bus->kept[bus->count++ % NET_BUS_KEPT];
    free(*slot);
    *slot = copy;
    send_each(bus, LETTER_EVENT, lr_buf_z(&bus->text));
    (void)pthread_mutex_unlock(&bus->lock);
    if (bus->on_send != NULL)
        bus->on_send(bus->on_send_arg);
}

const char *net_bus_kept(const struct net_bus *bus, uint64_t number)
{
    bool is_kept = number < bus->count && number + NET_BUS_KEPT >= bus->count;
    return is_kept ? bus->kept[number % NET_BUS_KEPT] : NULL;
}

void net_bus_subscribe(struct net_bus *bus, struct net_request *req)
{
    if (lr_str_eq_z(net_request_method(req), "HEAD")) { /* the head is the whole answer */
        net_sse_begin(req);
        net_stream_end(req);
        return;
    }
    struct net_subscriber *s = calloc(1, sizeof(*s));
    bool is_full = atomic_fetch_add(&bus->subscriber_count, 1) >= NET_BUS_SUBSCRIBERS_MAX;
    if (s == NULL || is_full) {
        atomic_fetch_sub(&bus->subscriber_count, 1);
        free(s);
        if (is_full)
            net_refuse(req, LR_RATE_LIMITED, "%d listen already: close a dashboard",
                       NET_BUS_SUBSCRIBERS_MAX);
        else
            net_refuse(req, LR_OUT_OF_RAM, "no memory for a subscription");
        return;
    }
    *s = (struct net_subscriber){
        .bus = bus, .loop = net_request_loop(req), .req = req, .refs = 1};
    (void)pthread_mutex_lock(&bus->lock);
    LR_LIST_PUSH(&bus->subscribers, s, next, link);
    uint64_t from = bus->count > NET_BUS_KEPT ? bus->count - NET_BUS_KEPT : 0;
    for (; from < bus->count; from++)
        if (net_bus_kept(bus, from) != NULL)
            send_to(s, LETTER_EVENT, net_bus_kept(bus, from));
    (void)pthread_mutex_unlock(&bus->lock);
    /* Last: a client that has the head of the answer is subscribed.  Letters come later, since
     * they are posted to this loop. */
    net_sse_begin(req);
    net_stream_flush(req);
    net_request_on_gone(req, bus_on_gone, s);
}
