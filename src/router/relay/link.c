#include "router/relay/link.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/list.h"
#include "base/machine.h"
#include "base/slots.h"
#include "router/fleet/reach.h"
#include "wire/link.h"
#include "wire/reader.h"
#include "wire/seal.h"

enum {
    CONNECT_MS = 2000,
    OUT_BYTES = 128 << 20, /* that wait for a node which does not read */
    EVENT_BYTES = 1 << 20, /* a token with twenty alternatives is far below */
    FRAME_BYTES = 64 << 20,
    SEALED_BYTES = 256 << 20, /* everything that waited for a link to open */
    KEEP_BYTES = 1 << 20,     /* of memory, between two frames */
};

enum link_state { LINK_OPENING, LINK_OPEN, LINK_CLOSED };

static const struct lr_machine machine = {
    "link",
    {
        [LINK_OPENING] = {"opening", LR_STATE(LINK_OPEN) | LR_STATE(LINK_CLOSED)},
        [LINK_OPEN] = {"open", LR_STATE(LINK_CLOSED)},
        [LINK_CLOSED] = {"closed", 0},
    },
};

struct router_link {
    struct router_link *next, **link; /* of links->first; link NULL: closed */
    struct router_links *links;
    const struct router_node *node;
    enum link_state state;
    uint32_t protocol;     /* common with the node: as its join said, from 101 on as agreed */
    struct net_call *call; /* NULL: closed */
    int status;            /* of the node's answer; 0: none yet */
    uint64_t heard_ms;     /* the last frame */
    bool has_sums;         /* frames have checksums, both ways */
    struct wire_reader in;
    struct lr_buf out;       /* what waits for LINK_OPEN */
    struct lr_slots streams; /* struct router_stream by its number */
    char url[300];
};

/* ---- its life ---- */

static void send(struct router_link *l, struct lr_str bytes)
{
    /* What cannot be sent is on a connection that is broken: its end is on its way. */
    struct lr_buf *sealed = &l->links->sealed;
    if (l->state == LINK_OPENING)
        lr_buf_add_str(&l->out, bytes);
    if (l->state != LINK_OPEN)
        return;
    if (!l->has_sums) {
        (void)!net_call_write(l->call, bytes);
        return;
    }
    lr_buf_clear(sealed);
    wire_seal(sealed, bytes);
    /* Without memory nothing is sent: its streams go elsewhere after their silence. */
    if (!sealed->failed)
        (void)!net_call_write(l->call, lr_buf_str(sealed));
    if (sealed->failed || sealed->capacity > KEEP_BYTES)
        lr_buf_free(sealed);
}

static void bury(void *arg)
{
    struct router_link *l = arg;
    wire_reader_free(&l->in);
    lr_buf_free(&l->out);
    lr_slots_free(&l->streams);
    free(l);
}

static void detach(struct router_stream *s)
{
    lr_slots_give(&s->link->streams, s->number);
    s->link = NULL;
}

static void lose(struct router_stream *s, const struct lr_error *err)
{
    detach(s);
    s->on_lost(s->arg, err);
}

/* The only function that changes the state; `err` says why the link closes.  An illegal move
 * changes nothing. */
static void move(struct router_link *l, enum link_state to, const struct lr_error *err)
{
    if (!lr_machine_allows(&machine, l->url, l->state, to))
        return;
    l->state = to;
    l->heard_ms = net_loop_now_ms(l->links->net);
    if (to == LINK_OPEN) {
        send(l, lr_buf_str(&l->out));
        lr_buf_free(&l->out);
        uint64_t now = lr_clock_ns(l->links->clock);
        for (uint32_t i = 0; i < l->streams.count; i++)
            if (l->streams.all[i].item != NULL)
                ((struct router_stream *)l->streams.all[i].item)->sent_ns = now;
        return;
    }
    if (l->call != NULL)
        net_call_cancel(l->call);
    l->call = NULL;
    LR_LIST_REMOVE(l, next, link);
    /* Owners that begin anew do so on another link: the slots only empty. */
    for (uint32_t i = 0; i < l->streams.count; i++)
        if (l->streams.all[i].item != NULL)
            lose(l->streams.all[i].item, err);
    net_loop_bury(l->links->net, bury, l);
}

/* ---- what the node says ---- */

static void send_cancel(struct router_link *l, uint64_t number)
{
    struct lr_buf buf;
    lr_buf_init(&buf, 64);
    wire_u64_encode(&buf, WIRE_CANCEL, number);
    send(l, lr_buf_str(&buf));
    lr_buf_free(&buf);
}

static lr_code on_frame(struct router_link *l, const struct wire_frame *frame,
                        struct lr_error *err)
{
    struct wire_event_head head;
    l->heard_ms = net_loop_now_ms(l->links->net);
    if (!wire_is_event(frame->type))
        return LR_OK; /* a sign of life, or what a later version may say */
    if (!wire_event_head_decode(frame->body, &head))
        return wire_malformed(err, "event");
    struct router_stream *s = lr_slots_find(&l->streams, head.request);
    if (s == NULL)
        return LR_OK; /* its owner has left */
    if (head.index != s->next_index) {
        struct lr_error gap;
        (void)lr_fail(&gap, LR_UPSTREAM, "event %u of a generation came where %u was due",
                      head.index, s->next_index);
        send_cancel(l, s->number);
        lose(s, &gap);
        return LR_OK;
    }
    s->next_index++;
    if (wire_event_is_last(frame->type))
        detach(s);
    s->on_event(s->arg, frame, head.has_more);
    return LR_OK;
}

static void on_headers(void *arg, int status, struct net_headers headers)
{
    struct router_link *l = arg;
    struct lr_str name;
    uint32_t protocol = 0;
    bool has_sums = false;
    bool is_ours = status == 101 && net_headers_get(headers, "Upgrade", &name) &&
                   wire_link_parse(name, &protocol, &has_sums) &&
                   wire_protocol_common(protocol) == protocol;
    l->status = status;
    if (is_ours && protocol >= l->protocol) {
        l->protocol = protocol;
        l->has_sums = has_sums;
        if (has_sums)
            wire_reader_expect_seals(&l->in);
        move(l, LINK_OPEN, NULL);
    } else if (status == 101) { /* frames of no protocol that this router knows would follow */
        struct lr_error err;
        (void)lr_fail_as(&err, link_protocol, l->url);
        move(l, LINK_CLOSED, &err);
    }
}

static void on_body(void *arg, struct lr_str bytes)
{
    struct router_link *l = arg;
    struct wire_frame frame;
    struct lr_error err;
    bool has = true;
    lr_code code = LR_OK;
    if (l->state != LINK_OPEN)
        return; /* the body of a refusal: its status is all that is told */
    wire_reader_give(&l->in, bytes);
    while (code == LR_OK && has && l->state == LINK_OPEN) {
        code = wire_reader_next(&l->in, &frame, &has, &err);
        if (code == LR_OK && has)
            code = on_frame(l, &frame, &err);
    }
    if (code != LR_OK)
        move(l, LINK_CLOSED, &err);
}

static void on_done(void *arg, const struct lr_error *err)
{
    struct router_link *l = arg;
    struct lr_error why;
    l->call = NULL;
    if (l->state == LINK_OPEN)
        (void)lr_fail_as(&why, link_closed, l->url);
    else
        (void)lr_fail_as(&why, link_refused, l->url, l->status);
    move(l, LINK_CLOSED, err != NULL ? err : &why);
}

void router_links_watch(struct router_links *links, uint64_t now_ms)
{
    struct lr_error err;
    for (struct router_link *l = links->first, *next; l != NULL; l = next) {
        next = l->next;
        if (now_ms - l->heard_ms < ROUTER_SILENCE_MS)
            continue;
        /* Bytes may still trickle in: the transport sees no silence. */
        (void)lr_fail_as(&err, link_silent, l->url, ROUTER_SILENCE_MS);
        move(l, LINK_CLOSED, &err);
        next = links->first; /* owners of streams may have opened or closed links */
    }
}

/* ---- its beginning ---- */

static lr_code open_link(struct router_links *links, const struct router_node *node,
                         const struct router_target *to, struct router_link **out,
                         struct lr_error *err)
{
    char url[320], name[WIRE_LINK_NAME_MAX];
    struct router_link *l = calloc(1, sizeof(*l));
    if (l == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a link");
    wire_link_name(WIRE_PROTOCOL, false, name);
    (void)snprintf(l->url, sizeof(l->url), "%s", to->url);
    (void)snprintf(url, sizeof(url), "%s/v0/link", l->url);
    struct net_call_config config = {
        .url = url,
        .bearer = to->secret,
        .upgrade = name,
        .max_send_bytes = UINT64_MAX, /* router_link_submit bounds it */
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = ROUTER_SILENCE_MS,
        .idle_timeout_ms = ROUTER_SILENCE_MS, /* the node says something each second */
        .callbacks = {.arg = l,
                      .on_headers = on_headers,
                      .on_body = on_body,
                      .on_done = on_done},
    };
    l->links = links;
    l->heard_ms = net_loop_now_ms(links->net);
    l->node = node;
    l->protocol = to->protocol; /* what waits for LINK_OPEN is written in it */
    lr_code code = net_call_start(links->client, &config, &l->call, err);
    if (code != LR_OK) {
        free(l);
        return code;
    }
    lr_buf_init(&l->out, OUT_BYTES + (1 << 20));
    wire_reader_init(&l->in, EVENT_BYTES);
    LR_LIST_PUSH(&links->first, l, next, link);
    *out = l;
    return LR_OK;
}

static lr_code find_link(struct router_links *links, const struct router_node *node,
                         struct router_link **out, struct lr_error *err)
{
    struct router_link *l = links->first;
    struct router_target to;
    /* A node may join again from elsewhere at any moment, hence the lock. */
    (void)pthread_mutex_lock(links->lock);
    router_target_set(&to, node);
    (void)pthread_mutex_unlock(links->lock);
    /* A node that came back from elsewhere has another link: the old one ends by itself. */
    while (l != NULL && (l->node != node || strcmp(l->url, to.url) != 0))
        l = l->next;
    *out = l;
    return l != NULL ? LR_OK : open_link(links, node, &to, out, err);
}

static size_t queued(const struct router_link *l)
{
    return l->state == LINK_OPEN ? net_call_queued(l->call) : l->out.len;
}

lr_code router_link_submit(struct router_links *links, const struct router_node *node,
                           struct wire_generate *ask, struct router_stream *stream,
                           struct lr_error *err)
{
    struct lr_buf *frame = &links->frame;
    struct router_link *l;
    lr_code code = find_link(links, node, &l, err);
    if (code != LR_OK)
        return code;
    stream->number = ask->id = lr_slots_take(&l->streams, stream);
    stream->next_index = 0;
    if (ask->id == 0)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    lr_buf_clear(frame);
    if (l->protocol < WIRE_SINCE_WEIGHTS)
        ask->weights = (struct lr_str){0};
    wire_submit_encode(frame, ask);
    if (frame->failed)
        code = lr_fail_as(err, request_over, WIRE_BODY_MAX);
    else if (queued(l) + frame->len > OUT_BYTES)
        code = lr_fail_as(err, node_reads_slowly, queued(l));
    if (code != LR_OK) {
        lr_slots_give(&l->streams, ask->id);
        return code;
    }
    stream->link = l;
    stream->sent_ns = l->state == LINK_OPEN ? lr_clock_ns(links->clock) : 0;
    send(l, lr_buf_str(frame));
    return LR_OK;
}

/* ---- leaving ---- */

void router_link_cancel(struct router_stream *stream)
{
    if (stream->link != NULL)
        send_cancel(stream->link, stream->number);
}

void router_link_leave(struct router_stream *stream)
{
    if (stream->link == NULL)
        return;
    router_link_cancel(stream);
    detach(stream);
}

void router_links_init(struct router_links *links)
{
    lr_buf_init(&links->frame, FRAME_BYTES);
    lr_buf_init(&links->sealed, SEALED_BYTES);
}

void router_links_free(struct router_links *links)
{
    lr_buf_free(&links->frame);
    lr_buf_free(&links->sealed);
    while (links->first != NULL) {
        struct router_link *l = links->first;
        links->first = l->next;
        for (uint32_t i = 0; i < l->streams.count; i++)
            if (l->streams.all[i].item != NULL)
                ((struct router_stream *)l->streams.all[i].item)->link = NULL;
        bury(l);
    }
}
