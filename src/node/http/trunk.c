#include "node/http/trunk.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "node/http/api.h"

enum {
    OUT_BYTES = 64 << 20, /* of a router that has stopped reading, before it is left */
    PIECE_BYTES = 256 << 10,
    ASK_BYTES = 256 << 20, /* a request's arena; the body's limit is what bounds it */
};

/* One generation. */
struct relayed {
    struct relayed *next, **link; /* of the trunk's streams */
    struct node_trunk *trunk;
    uint64_t stream;              /* the router's number */
    struct node_request *request; /* NULL once it has ended */
    struct lr_arena arena;        /* what it was asked for: its HTTP request has ended */
};

struct node_trunk {
    struct node_trunk *next, **link; /* of node->trunks */
    struct node *node;
    struct net_request *req;
    uint64_t id;
    struct relayed *streams;
    struct lr_buf out; /* events of the running batch, or what the socket did not take */
    struct node_flush flush;
};

/* ---- ends ---- */

static void bury_relayed(void *arg)
{
    struct relayed *r = arg;
    lr_arena_free(&r->arena);
    free(r);
}

/* The request may still look at what it was asked for: the memory goes at the turn's end. */
static void drop(struct relayed *r)
{
    *r->link = r->next;
    if (r->next != NULL)
        r->next->link = r->link;
    net_loop_bury(r->trunk->node->loop, bury_relayed, r);
}

static void leave(struct relayed *r)
{
    struct node_request *request = r->request;
    r->request = NULL;
    drop(r);
    if (request != NULL)
        node_request_cancel(request);
}

static void bury_trunk(void *arg)
{
    struct node_trunk *t = arg;
    lr_buf_free(&t->out);
    free(t);
}

/* Everything but the HTTP request, which the caller ends. */
static void close_trunk(struct node_trunk *t)
{
    node_batch_drop(&t->node->batch, &t->flush);
    *t->link = t->next;
    if (t->next != NULL)
        t->next->link = t->link;
    t->req = NULL;
    while (t->streams != NULL)
        leave(t->streams);
    net_loop_bury(t->node->loop, bury_trunk, t);
}

static void on_gone(void *arg)
{
    struct node_trunk *t = arg;
    struct net_request *req = t->req;
    close_trunk(t);
    net_stream_abort(req);
}

void node_trunks_end(struct node *node)
{
    while (node->trunks != NULL) {
        struct net_request *req = node->trunks->req;
        close_trunk(node->trunks);
        net_stream_end(req);
    }
}

/* ---- events ---- */

static void flush(void *arg)
{
    struct node_trunk *t = arg;
    lr_code code = t->out.failed ? LR_TOO_LARGE : LR_OK;
    while (code == LR_OK && t->out.len != 0 && net_stream_queued(t->req) == 0) {
        struct lr_str piece = lr_str_sub(lr_buf_str(&t->out), 0, PIECE_BYTES);
        code = net_stream_write(t->req, piece);
        lr_buf_consume(&t->out, piece.len);
    }
    if (code == LR_TOO_LARGE)
        on_gone(t); /* it does not read: its generations are for nobody */
}

static void on_event(void *ctx, const struct wire_frame *frame)
{
    struct relayed *r = ctx;
    struct node_trunk *t = r->trunk;
    if (frame->type == WIRE_ACCEPTED)
        return; /* the status has said it */
    wire_relayed_encode(&t->out, r->stream, frame->bytes);
    if (wire_event_is_last(frame->type)) {
        r->request = NULL;
        drop(r);
    }
    node_batch_add_last(&t->node->batch, &t->flush);
}

void node_trunks_tick(struct node *node)
{
    for (struct node_trunk *t = node->trunks; t != NULL; t = t->next) {
        wire_tick_encode(&t->out, NULL);
        node_batch_add_last(&node->batch, &t->flush);
    }
}

/* ---- POST /v0/trunk ---- */

void node_api_trunk(struct node *node, struct net_request *req, const struct net_path *path)
{
    struct lr_error err;
    (void)path;
    struct node_trunk *t = node->is_draining ? NULL : calloc(1, sizeof(*t));
    if (t == NULL) {
        (void)lr_fail(&err, LR_UNAVAILABLE, "this node is shutting down or out of memory");
        net_respond_error(req, &err);
        return;
    }
    *t = (struct node_trunk){.node = node,
                             .req = req,
                             .id = lr_random_u64(),
                             .next = node->trunks,
                             .link = &node->trunks,
                             .flush = {.fn = flush, .arg = t}};
    lr_buf_init(&t->out, OUT_BYTES);
    if (t->next != NULL)
        t->next->link = &t->next;
    node->trunks = t;
    net_stream_begin(req, 200, WIRE_EVENTS_TYPE);
    net_request_on_gone(req, on_gone, t);
    net_stream_on_drain(req, flush, t);
    wire_u64_encode(&t->out, WIRE_TRUNK, t->id);
    flush(t);
}

/* ---- generations on it ---- */

static struct node_trunk *find_trunk(struct node *node, struct lr_str text)
{
    uint64_t id;
    struct node_trunk *t = node->trunks;
    if (!lr_str_u64(text, &id))
        return NULL;
    while (t != NULL && t->id != id)
        t = t->next;
    return t;
}

static struct relayed *find_stream(struct node_trunk *t, uint64_t stream)
{
    struct relayed *r = t->streams;
    while (r != NULL && r->stream != stream)
        r = r->next;
    return r;
}

static struct relayed *add_stream(struct node_trunk *t, uint64_t stream)
{
    struct relayed *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return NULL;
    r->trunk = t;
    r->stream = stream;
    r->next = t->streams;
    r->link = &t->streams;
    if (r->next != NULL)
        r->next->link = &r->next;
    t->streams = r;
    lr_arena_init(&r->arena, ASK_BYTES);
    return r;
}

/* False: req has its answer. */
static bool start(struct node *node, struct relayed *r, struct net_request *req)
{
    struct lr_str body = net_request_body(req);
    struct wire_generate ask;
    struct lr_error err;
    const char *copy = lr_arena_copy(&r->arena, body);
    lr_code code = copy != NULL
                       ? wire_generate_parse_json(&r->arena, lr_str(copy, body.len), &ask, &err)
                       : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
    struct node_model *model = code == LR_OK ? node_api_model(node, req, ask.model) : NULL;
    if (code == LR_OK && model == NULL)
        return false;
    struct node_sink sink = {.ctx = r, .on_event = on_event, .takes_lost = true};
    if (code == LR_OK)
        code = node_request_start(node, model, &ask, node_api_instead_of(node, req, model),
                                  sink, &r->request, &err);
    if (code != LR_OK)
        net_respond_error(req, &err);
    return code == LR_OK;
}

void node_trunk_generate(struct node *node, struct net_request *req, struct lr_str header)
{
    struct lr_error err;
    struct lr_str number;
    uint64_t stream;
    (void)lr_str_split(&header, ' ', &number);
    struct node_trunk *t = find_trunk(node, number);
    if (t == NULL || !lr_str_u64(header, &stream)) {
        (void)lr_fail(&err, LR_UNAVAILABLE, "there is no such trunk (any more)");
        net_respond_error(req, &err);
        return;
    }
    struct relayed *r = add_stream(t, stream);
    if (r == NULL) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
        net_respond_error(req, &err);
    } else if (start(node, r, req)) {
        net_respond(req, 202, NULL, lr_str("", 0));
    } else {
        drop(r);
    }
}

/* DELETE /v0/trunk/{trunk}/{stream}: nobody listens any more.  One that has ended by then is
 * no mistake. */
void node_api_trunk_leave(struct node *node, struct net_request *req,
                          const struct net_path *path)
{
    uint64_t stream;
    struct node_trunk *t = find_trunk(node, path->segments[2]);
    struct relayed *r =
        t != NULL && lr_str_u64(path->segments[3], &stream) ? find_stream(t, stream) : NULL;
    if (r != NULL)
        leave(r);
    net_respond(req, 200, "application/json", LR_STR_LIT("{}"));
}
