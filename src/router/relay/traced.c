#include "router/relay/traced.h"

#include "router/relay/call.h"

/* Without a tracer the client's own context goes on to the nodes. */
void router_trace_arrived(const struct router_fact *f)
{
    struct router_call *call = f->call;
    struct router_tracer *tracer = call->relay->tracer;
    struct lr_str parent = {0}, state = {0}, path = net_request_path(call->req);
    unsigned char id[16];
    uint64_t span;
    bool is_sampled;
    (void)net_request_header(call->req, "traceparent", &parent);
    (void)net_request_header(call->req, "tracestate", &state);
    if (tracer == NULL || !tracer->is_on) {
        if (router_trace_parent_read(parent, id, &span, &is_sampled))
            LR_COPY(call->trace, parent);
        return;
    }
    call->spans = router_trace_begin(tracer, parent, state, call->trace);
    net_response_header(call->req, "traceparent", lr_str_z(call->trace));
    if (parent.len != 0 && state.len != 0 && state.len < ROUTER_TRACE_STATE)
        net_response_header(call->req, "tracestate", state);
    if (call->spans == NULL)
        return;
    uint64_t read_ns = net_request_elapsed_ms(call->req) * 1000000;
    call->spans->begun_ns -= read_ns; /* the request's first byte */
    call->spans->operation = call->turn.codec->operation;
    LR_COPY(call->spans->path, path);
    LR_COPY(call->spans->request_id, lr_str_z(call->access->request_id));
    LR_COPY(call->spans->key, lr_str_z(router_caller_id(&call->access->caller)));
}

/* The generation waited for a slot until now. */
void router_trace_sent(const struct router_fact *f)
{
    struct router_span span = {.kind = ROUTER_SPAN_QUEUE,
                               .begun_ns = f->generation->asked_ns,
                               .ended_ns = f->at_ns,
                               .choice = f->generation->index};
    if (f->call->spans != NULL)
        (void)router_trace_add(f->call->spans, &span);
}

/* The attempt's span, and those of prefill and decode. */
void router_trace_left(const struct router_fact *f)
{
    static const char *const fates[] = {
        [ROUTER_BUSY] = "busy",         [ROUTER_PREEMPTED] = "preempted",
        [ROUTER_RECALLED] = "recalled", [ROUTER_PAUSED] = "paused",
        [ROUTER_LOST] = "worker_lost",  [ROUTER_FAILED] = "failed"};
    const struct router_generation *g = f->generation;
    struct router_trace *trace = f->call->spans;
    const struct router_attempt *a = &g->attempt;
    if (trace == NULL || a->sent_ns == 0 || a->has_left)
        return;
    struct router_span span = {.kind = ROUTER_SPAN_ATTEMPT,
                               .begun_ns = a->sent_ns,
                               .ended_ns = f->at_ns,
                               .choice = g->index,
                               .fate = fates[f->outcome]};
    if (g->ticket.node != NULL)
        LR_COPY(span.node, lr_str_z(g->ticket.node->id));
    span.parent = router_trace_add(trace, &span);
    span.fate = NULL;
    span.node[0] = '\0';
    span.kind = ROUTER_SPAN_PREFILL;
    span.begun_ns = a->loaded_ns != 0 ? a->loaded_ns : a->sent_ns;
    span.ended_ns = a->first_ns;
    if (a->first_ns == 0)
        return;
    (void)router_trace_add(trace, &span);
    span.kind = ROUTER_SPAN_DECODE;
    span.begun_ns = a->first_ns;
    span.ended_ns = a->last_ns;
    span.tokens = a->tokens;
    (void)router_trace_add(trace, &span);
}

void router_trace_ended(const struct router_fact *f)
{
    const struct router_call *call = f->call;
    struct router_trace *t = call->spans;
    if (t == NULL)
        return;
    t->ended_ns = f->at_ns;
    t->first_ns = call->first_ns;
    t->status = lr_code_http(f->code); /* a stream that fails has begun with 200 */
    t->error = f->code;
    t->choices = call->generation_count;
    t->is_stream = call->turn.request != NULL && call->turn.request->stream;
    LR_COPY(t->asked_model, lr_str_z(call->access->model));
    if (call->model != NULL)
        LR_COPY(t->model, lr_str_z(call->model->id));
}

/* The nodes have told the usage. */
void router_trace_freed(const struct router_fact *f)
{
    struct router_trace *t = f->call->spans;
    if (t == NULL)
        return;
    t->prompt_tokens = f->call->usage.prompt_tokens;
    t->completion_tokens = f->call->usage.completion_tokens;
    t->cached_tokens = f->call->usage.cached_tokens;
    router_trace_end(f->call->relay->tracer, t);
}

static bool is_tool(const struct chat_request *request, struct lr_str name)
{
    const struct lr_json *tools = request->tools;
    struct lr_str known;
    for (uint32_t i = 0; lr_json_is(tools, LR_JSON_ARRAY) && i < tools->count; i++)
        if (lr_json_str(lr_json_get(lr_json_get(&tools->items[i], "function"), "name"),
                        &known) &&
            lr_str_eq(known, name))
            return true;
    return false;
}

/* A name that the model made up is text of the answer, and no trace has that. */
void router_trace_tool(void *owner, struct lr_str name)
{
    struct router_call *call = owner;
    struct router_trace *t = call->spans;
    if (t == NULL || t->call_count == ROUTER_TRACE_CALLS)
        return;
    router_trace_call(t, is_tool(call->turn.request, name) ? name : LR_STR_LIT("_other"),
                      lr_clock_ns(call->relay->links.clock));
}
