/* node/http/link.c - GET /v0/link: the links of routers.  All generations of one loop of a
 * router go over one connection (wire/link.h).
 *
 *   (GET /v0/link) --101--> open --> closed    the router leaves, does not read or sends no
 *                                              frames
 *
 * The events of one read from a worker leave in one write.  A link that closes takes its
 * generations with it: nobody is left to hear them.
 */
#include <stdlib.h>

#include "base/errors.h"
#include "base/list.h"
#include "base/log.h"
#include "node/http/api.h"
#include "wire/error.h"
#include "wire/link.h"
#include "wire/reader.h"
#include "wire/seal.h"

enum {
    OUT_BYTES = 64 << 20, /* of a router that has stopped reading, before it is left */
    PIECE_BYTES = 256 << 10,
    STREAMS_MAX = 1 << 20,
};

enum link_state { LINK_OPEN, LINK_CLOSED };

/* One generation. */
struct stream {
    struct stream *next, **link; /* of the link's streams */
    struct node_link *owner;
    uint64_t number;                 /* the router's */
    struct node_generation *request; /* NULL: not taken yet, or ended */
    uint32_t index;                  /* of its next event */
    uint64_t last_at; /* where its last event begins in all that the link sends */
};

struct node_link {
    struct node_link *next, **link; /* of node->links */
    struct node *node;
    struct net_request *req;
    uint32_t protocol; /* common with the router */
    enum link_state state;
    bool has_sums; /* frames have checksums, both ways */
    struct wire_reader in;
    struct lr_buf out;    /* events of the running batch, or what the socket did not take */
    struct lr_buf sealed; /* with has_sums: what the socket did not take, in place of `out` */
    uint64_t out_from;    /* bytes that have left `out` */
    struct stream *streams;
    struct stream **by_index; /* owned: streams that may be cancelled, by the low half of their
                                 number */
    uint32_t index_count;
    struct node_flush flush;
};

/* ---- ends ---- */

static void link_forget(struct stream *s)
{
    struct node_link *l = s->owner;
    uint32_t index = (uint32_t)s->number;
    if (index < l->index_count && l->by_index[index] == s)
        l->by_index[index] = NULL;
}

static void drop(struct stream *s)
{
    link_forget(s);
    LR_LIST_REMOVE(s, next, link);
    net_loop_bury(s->owner->node->models.loop, free, s); /* a caller may still look at it */
}

static void bury_link(void *arg)
{
    struct node_link *l = arg;
    wire_reader_free(&l->in);
    lr_buf_free(&l->out);
    lr_buf_free(&l->sealed);
    free(l->by_index);
    free(l);
}

/* The one move: open to closed.  The caller ends the HTTP request that is returned. */
static struct net_request *close_link(struct node_link *l)
{
    l->state = LINK_CLOSED;
    node_batch_drop(&l->node->models.batch, &l->flush);
    LR_LIST_REMOVE(l, next, link);
    while (l->streams != NULL) {
        struct node_generation *request = l->streams->request;
        drop(l->streams);
        if (request != NULL)
            node_generation_cancel(request);
    }
    net_loop_bury(l->node->models.loop, bury_link, l);
    return l->req;
}

static void link_on_gone(void *arg)
{
    net_stream_abort(close_link(arg));
}

void node_links_end(struct node *node)
{
    while (node->links != NULL)
        net_stream_end(close_link(node->links));
}

/* ---- events ---- */

static void forget_sent(struct node_link *l, size_t bytes)
{
    l->out_from += bytes;
    lr_buf_consume(&l->out, bytes);
}

static void link_flush(void *arg)
{
    struct node_link *l = arg;
    struct lr_buf *ready = l->has_sums ? &l->sealed : &l->out;
    if (l->has_sums) {
        wire_seal(&l->sealed, lr_buf_str(&l->out));
        forget_sent(l, l->out.len);
    }
    lr_code code = l->out.failed || ready->failed ? LR_TOO_LARGE : LR_OK;
    while (code == LR_OK && ready->len != 0 && net_stream_queued(l->req) == 0) {
        struct lr_str piece = lr_str_sub(lr_buf_str(ready), 0, PIECE_BYTES);
        code = net_stream_write(l->req, piece);
        if (l->has_sums)
            lr_buf_consume(ready, piece.len);
        else
            forget_sent(l, piece.len);
    }
    if (code == LR_TOO_LARGE)
        link_on_gone(l); /* it does not read: its generations are for nobody */
}

static void send_later(struct node_link *l)
{
    node_batch_add_last(&l->node->models.batch, &l->flush);
}

/* What a router's client gets of one batch leaves the router in one write: with its last event
 * there.  After an error the answer may go on elsewhere, and what came before must not wait. */
static bool is_awaited(enum wire_type type)
{
    return type != WIRE_ERROR && type != WIRE_LOST && type != WIRE_REFUSED;
}

static void link_on_event(void *ctx, const struct wire_frame *frame)
{
    struct stream *s = ctx;
    struct node_link *l = s->owner;
    if (s->index != 0 && s->last_at >= l->out_from && is_awaited(frame->type) && !l->out.failed)
        wire_event_has_more(&l->out, (size_t)(s->last_at - l->out_from));
    size_t start = wire_event_relay(&l->out, frame, s->number, s->index++);
    if (l->protocol < WIRE_SINCE_ERRORS)
        wire_error_cut(&l->out, start);
    s->last_at = l->out_from + start;
    if (wire_event_is_last(frame->type)) {
        s->request = NULL;
        drop(s);
    }
    send_later(l);
}

void node_links_tick(struct node *node)
{
    for (struct node_link *l = node->links; l != NULL; l = l->next) {
        wire_empty_encode(&l->out, WIRE_PING);
        send_later(l);
    }
}

/* ---- what a router says ---- */

static struct stream *add_stream(struct node_link *l, uint64_t number)
{
    uint32_t index = (uint32_t)number;
    if (index >= l->index_count) {
        uint32_t count = l->index_count != 0 ? l->index_count : 64;
        while (count <= index && count < STREAMS_MAX)
            count *= 2;
        struct stream **grown =
            index < count ? realloc(l->by_index, count * sizeof(struct stream *)) : NULL;
        if (grown == NULL)
            return NULL;
        memset(grown + l->index_count, 0, (count - l->index_count) * sizeof(struct stream *));
        l->by_index = grown;
        l->index_count = count;
    }
    struct stream *s = calloc(1, sizeof(*s));
    if (s == NULL)
        return NULL;
    *s = (struct stream){.owner = l, .number = number};
    LR_LIST_PUSH(&l->streams, s, next, link);
    l->by_index[index] = s;
    return s;
}

static void link_refuse(struct node_link *l, uint64_t number, const struct lr_error *err)
{
    size_t start = l->out.len;
    wire_refused_encode(&l->out, number, err);
    if (l->protocol < WIRE_SINCE_ERRORS)
        wire_error_cut(&l->out, start);
    send_later(l);
}

static lr_code on_submit(struct node_link *l, const struct wire_frame *frame,
                         struct lr_error *err)
{
    struct wire_submit ask;
    struct lr_error why;
    lr_code code = wire_submit_head_decode(frame->body, &ask, err);
    if (code != LR_OK)
        return code;
    struct stream *s = add_stream(l, ask.request);
    if (s == NULL) {
        (void)lr_fail(&why, LR_OUT_OF_RAM, "no memory for a request");
        link_refuse(l, ask.request, &why);
        return LR_OK;
    }
    struct node_model *model = node_need_model(l->node, ask.model, &why);
    struct node_sink sink = {.ctx = s,
                             .on_event = link_on_event,
                             .takes_lost = true,
                             .takes_weights = l->protocol >= WIRE_SINCE_WEIGHTS};
    if (model == NULL ||
        node_generation_take(model, frame->bytes, &ask, sink, &s->request, &why) != LR_OK) {
        drop(s);
        link_refuse(l, ask.request, &why);
    }
    return LR_OK;
}

/* A number that has ended by now is no mistake. */
static lr_code on_cancel(struct node_link *l, struct lr_str body, struct lr_error *err)
{
    uint64_t number;
    lr_code code = wire_u64_decode(body, &number, err);
    uint32_t index = (uint32_t)number;
    struct stream *s = code == LR_OK && index < l->index_count ? l->by_index[index] : NULL;
    if (s == NULL || s->number != number)
        return code;
    link_forget(s); /* the router may give the index to another one now */
    if (s->request != NULL)
        node_generation_stop(s->request);
    return LR_OK;
}

static lr_code link_on_frame(struct node_link *l, const struct wire_frame *frame,
                             struct lr_error *err)
{
    switch (frame->type) {
    case WIRE_SUBMIT:
    case WIRE_SWAP:
        return on_submit(l, frame, err);
    case WIRE_CANCEL:
        return on_cancel(l, frame->body, err);
    default:
        return LR_OK; /* what a later version may say */
    }
}

static void link_on_data(void *arg, struct lr_str bytes)
{
    struct node_link *l = arg;
    struct node_batch *batch = &l->node->models.batch;
    struct wire_frame frame;
    struct lr_error err;
    bool has = true;
    lr_code code = LR_OK;
    node_batch_begin(batch);
    wire_reader_give(&l->in, bytes);
    while (code == LR_OK && has && l->state == LINK_OPEN) {
        code = wire_reader_next(&l->in, &frame, &has, &err);
        if (code == LR_OK && has)
            code = link_on_frame(l, &frame, &err);
    }
    if (code != LR_OK && l->state == LINK_OPEN) {
        lr_log_warn(LR_LOG_OF(&err), "link.broken from=%s reason=%s",
                    net_request_remote(l->req), err.text);
        link_on_gone(l);
    }
    node_batch_end(batch);
}

/* ---- GET /v0/link ---- */

/* The protocol that both sides speak. */
static lr_code agree(struct node *node, struct net_request *req, uint32_t *common,
                     struct lr_error *err)
{
    struct lr_str name;
    uint32_t theirs;
    if (!net_request_wants_upgrade(req, &name) || !wire_link_parse(name, &theirs, NULL))
        return lr_fail_as(err, link_for_routers, WIRE_PROTOCOL);
    *common = wire_protocol_common(theirs);
    if (*common == 0)
        return lr_fail_as(err, link_protocol_differs, theirs, WIRE_PROTOCOL,
                          theirs < WIRE_PROTOCOL ? "router" : "node");
    if (node->models.is_draining)
        return lr_fail_plain(err, node_stops);
    return LR_OK;
}

lr_code node_api_link(struct node *node, struct net_request *req, struct lr_error *err)
{
    uint32_t protocol = 0;
    char name[WIRE_LINK_NAME_MAX];
    lr_code code = agree(node, req, &protocol, err);
    struct node_link *l = code == LR_OK ? calloc(1, sizeof(*l)) : NULL;
    if (code == LR_OK && l == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for a link");
    if (code != LR_OK)
        return code;
    *l = (struct node_link){.node = node,
                            .req = req,
                            .protocol = protocol,
                            .has_sums = protocol >= WIRE_SINCE_SUMS && !net_request_is_tls(req),
                            .flush = {.fn = link_flush, .arg = l}};
    lr_buf_init(&l->out, OUT_BYTES);
    lr_buf_init(&l->sealed, OUT_BYTES);
    wire_reader_init(&l->in, WIRE_BODY_MAX);
    if (l->has_sums)
        wire_reader_expect_seals(&l->in);
    LR_LIST_PUSH(&node->links, l, next, link);
    wire_link_name(protocol, l->has_sums, name);
    net_request_on_gone(req, link_on_gone, l);
    net_stream_on_drain(req, link_flush, l);
    net_request_upgrade(req, name, &(struct net_body_sink){.arg = l, .on_data = link_on_data});
    wire_empty_encode(&l->out, WIRE_PING);
    link_flush(l);
    return LR_OK;
}
