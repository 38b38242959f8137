/* node/api_generate.c - POST /v0/generate: segments in, token events out (design.md 3).
 *
 * The hot path: a token frame from the worker becomes one write to the client, as it
 * is.  Clients that ask for nothing special get the same events as lines of JSON.
 */
#include "node/api.h"

struct call {
    struct net_request *req;
    struct node *node;
    struct node_request *request; /* NULL once it has ended */
    bool as_frames;
};

static void on_event(void *ctx, const struct wire_frame *frame)
{
    struct call *call = ctx;
    struct lr_str bytes = frame->bytes;
    bool last = frame->type == WIRE_DONE || frame->type == WIRE_ERROR;
    if (!call->as_frames) {
        lr_buf_clear(&call->node->line);
        (void)wire_event_json(&call->node->line, frame);
        bytes = lr_buf_str(&call->node->line);
    }
    if (!net_response_begun(call->req))
        net_stream_begin(call->req, 200,
                         call->as_frames ? WIRE_EVENTS_TYPE : "application/x-ndjson");
    lr_code code = net_stream_write(call->req, bytes);
    if (last) {
        call->request = NULL;
        if (code == LR_TOO_LARGE)
            net_stream_abort(call->req);
        else
            net_stream_end(call->req);
    } else if (code == LR_TOO_LARGE) {
        /* A client that does not read pays for itself, not for the others. */
        struct node_request *request = call->request;
        call->request = NULL;
        net_stream_abort(call->req);
        node_request_cancel(request);
    }
}

static void on_gone(void *arg)
{
    struct call *call = arg;
    if (call->request != NULL)
        node_request_cancel(call->request);
    call->request = NULL;
    net_stream_abort(call->req);
}

void node_api_generate(struct node *node, struct net_request *req, const struct net_path *path)
{
    struct lr_arena *arena = net_request_arena(req);
    struct wire_generate ask;
    struct lr_error err;
    (void)path;
    struct call *call = lr_arena_zalloc(arena, sizeof(*call));
    lr_code code = call != NULL
                       ? wire_generate_parse_json(arena, net_request_body(req), &ask, &err)
                       : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    struct node_model *model = node_api_model(node, req, ask.model);
    if (model == NULL)
        return;
    *call = (struct call){.req = req, .node = node};
    call->as_frames =
        net_headers_has_token(net_request_headers(req), "Accept", WIRE_EVENTS_TYPE);
    struct node_sink sink = {.ctx = call, .on_event = on_event};
    code = node_request_start(node, model, &ask, sink, &call->request, &err);
    if (code != LR_OK) {
        net_respond_error(req, &err);
        return;
    }
    if (call->request != NULL)
        net_request_on_gone(req, on_gone, call);
}
