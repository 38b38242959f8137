/* node/http/api_generate.c - POST /v0/generate: segments in, token events out, for curl and
 * other people; DELETE /v0/generate/{request_id} ends one early.  Routers ask over their link
 * (link.c).
 */
#include "base/errors.h"
#include "base/log.h"
#include "node/http/api.h"

enum { OUT_BYTES = 4 << 20, EVENT_BYTES = 4096 };

struct call {
    struct net_request *req;
    struct node *node;
    struct node_generation *request; /* NULL once it has ended */
    struct lr_buf out;               /* events of the running batch */
    struct node_flush flush;
    bool as_frames;
    bool is_last; /* the last event is in `out` */
};

static void close_call(struct call *call)
{
    node_batch_drop(&call->node->models.batch, &call->flush);
    lr_buf_free(&call->out);
    if (call->request != NULL)
        node_generation_cancel(call->request);
    call->request = NULL;
}

static void put_event(struct call *call, const struct wire_frame *frame)
{
    if (call->as_frames)
        lr_buf_add_str(&call->out, frame->bytes);
    else
        (void)wire_event_json(&call->out, frame);
}

/* A client that does not read pays for itself, not for the others: its last event says so. */
static void api_generate_give_up(struct call *call)
{
    struct wire_error m = {.retryable = false};
    struct wire_frame frame;
    struct lr_buf event;
    bool has;
    (void)lr_fail_as(&m.error, reader_slow, net_stream_queued(call->req) + call->out.len);
    lr_log_warn(LR_LOG_OF(&m.error), "request.unread bytes=%zu reason=%s",
                net_stream_queued(call->req), m.error.text);
    lr_buf_init(&event, EVENT_BYTES);
    wire_error_encode(&event, WIRE_ERROR, &m);
    struct lr_str bytes = lr_buf_str(&event);
    if (wire_frame_next(&bytes, &frame, &has, NULL) == LR_OK && has)
        put_event(call, &frame);
    lr_buf_free(&event);
    if (call->out.failed)
        net_stream_abort(call->req);
    else
        (void)net_stream_finish(call->req, lr_buf_str(&call->out));
    close_call(call);
}

static void api_generate_flush(void *arg)
{
    struct call *call = arg;
    struct net_request *req = call->req;
    if (!net_response_begun(req))
        net_stream_begin(req, 200, call->as_frames ? WIRE_EVENTS_TYPE : "application/x-ndjson");
    if (call->is_last && !call->out.failed) {
        /* The generation has ended, whether the client takes its end or not. */
        (void)!net_stream_finish(req, lr_buf_str(&call->out));
        close_call(call);
        return;
    }
    lr_code code =
        call->out.failed ? LR_TOO_LARGE : net_stream_write(req, lr_buf_str(&call->out));
    if (code == LR_TOO_LARGE)
        api_generate_give_up(call);
    else
        lr_buf_clear(&call->out);
}

static void api_generate_on_event(void *ctx, const struct wire_frame *frame)
{
    struct call *call = ctx;
    put_event(call, frame);
    if (wire_event_is_last(frame->type)) {
        call->is_last = true;
        call->request = NULL;
    }
    node_batch_add(&call->node->models.batch, &call->flush);
}

static void api_generate_on_gone(void *arg)
{
    struct call *call = arg;
    close_call(call);
    net_stream_abort(call->req);
}

lr_code node_api_generate(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct lr_arena *arena = net_request_arena(req);
    struct wire_generate ask;
    struct call *call = lr_arena_zalloc(arena, sizeof(*call));
    lr_code code = call != NULL
                       ? wire_generate_parse_json(arena, net_request_body(req), &ask, err)
                       : lr_fail(err, LR_OUT_OF_RAM, "no memory for a request");
    struct node_model *model = code == LR_OK ? node_need_model(node, ask.model, err) : NULL;
    if (model == NULL)
        return err->code;
    *call = (struct call){
        .req = req, .node = node, .flush = {.fn = api_generate_flush, .arg = call}};
    lr_buf_init(&call->out, OUT_BYTES);
    call->as_frames =
        net_headers_has_token(net_request_headers(req), "Accept", WIRE_EVENTS_TYPE);
    struct node_sink sink = {.ctx = call,
                             .on_event = api_generate_on_event,
                             .has_connection = true,
                             .takes_lost = call->as_frames};
    code = node_generation_start(model, &ask, sink, &call->request, err);
    if (code != LR_OK)
        lr_buf_free(&call->out);
    else if (call->request != NULL)
        net_request_on_gone(req, api_generate_on_gone, call);
    return code;
}

/* The generation's own stream stays open and ends with WIRE_DONE as ever, so that the caller
 * learns the usage; closing that stream instead ends the work just as soon, but nobody is told
 * what it took. */
lr_code node_api_generate_stop(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct lr_str id = node_api_segment(req, 2);
    bool found = false;
    for (uint32_t i = 0; i < node->models.generations.count; i++) {
        struct node_generation *r = node->models.generations.all[i].item;
        if (r == NULL || !node_generation_is_served(r) || !lr_str_eq(r->ask.request_id, id))
            continue;
        node_generation_stop(r);
        found = true;
    }
    if (!found)
        return lr_fail_plain(err, no_generation);
    net_respond(req, 200, "application/json", LR_STR_LIT("{\"stopped\":true}"));
    return LR_OK;
}
