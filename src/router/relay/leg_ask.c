/* router/relay/leg_ask.c - what a node is told: generate this, stop that. */
#include <stdio.h>

#include "router/relay/call.h"
#include "wire/event.h"
#include "wire/generate.h"

enum { CONNECT_MS = 2000 };

struct address {
    char base[300]; /* http://host:port */
    char url[420];
    char bearer[128];
};

/* A node may join again from elsewhere at any moment, hence the lock. */
static void find_node(struct router_leg *leg, const char *path, const char *name,
                      struct address *out)
{
    struct router *r = leg->job.router;
    router_lock(r);
    (void)snprintf(out->base, sizeof(out->base), "%s", leg->job.node->url);
    (void)snprintf(out->url, sizeof(out->url), "%s%s%s", out->base, path, name);
    (void)snprintf(out->bearer, sizeof(out->bearer), "Bearer %s", leg->job.node->secret);
    router_unlock(r);
}

/* What is left of the wait its client is asked for: a node that loads the model first drops it
 * then.  0: any wait. */
static uint64_t time_to_begin(const struct router_call *call)
{
    uint64_t limit = call->home->router->queue_timeout_ms;
    uint64_t waited = (lr_clock_ns(NULL) - call->begun_ns) / 1000000;
    if (limit == 0)
        return 0;
    /* A continuation may have begun long ago. */
    return call->first_ns != 0 ? limit : waited < limit ? limit - waited : 1;
}

static void write_ask(const struct router_leg *leg, struct lr_buf *out)
{
    const struct router_call *call = leg->call;
    const struct chat_request *chat = call->chat;
    const struct chat_prompt *prompt = &call->prompts[leg->index / chat->n];
    struct wire_generate ask;
    wire_generate_defaults(&ask);
    ask.request_id = lr_str_z(leg->job.name);
    ask.model = lr_str_z(leg->job.place->id);
    ask.cache_scope = lr_str_z(router_caller_name(&call->access->caller));
    ask.segments = prompt->segments;
    ask.segment_count = prompt->segment_count;
    ask.prompt_ids = prompt->ids;
    ask.prompt_id_count = prompt->id_count;
    ask.generated = leg->generated;
    ask.generated_count = leg->generated_count;
    ask.sampling = chat->sampling;
    ask.sampling.seed = chat_request_seed(call->seed, leg->index);
    ask.max_tokens = chat->max_tokens;
    ask.ignore_stop = chat->ignore_stop;
    ask.constraint = call->constraint;
    ask.no_queue = true;
    ask.entry = leg->entry;
    ask.cohort = leg->cohort;
    ask.deadline_ms = time_to_begin(call);
    lr_buf_clear(out);
    wire_generate_write_json(out, &ask);
}

lr_code router_leg_send(struct router_leg *leg, const struct net_call_callbacks *callbacks,
                        struct lr_error *err)
{
    const struct router_call *call = leg->call;
    struct router_home *home = call->home;
    struct address to;
    find_node(leg, "/v0/generate", "", &to);
    write_ask(leg, &home->scratch);
    struct net_header headers[4] = {
        {LR_STR_LIT("Accept"), LR_STR_LIT(WIRE_EVENTS_TYPE)},
        {LR_STR_LIT("Authorization"), lr_str_z(to.bearer)},
    };
    size_t count = 2;
    if (call->trace[0] != '\0')
        headers[count++] =
            (struct net_header){LR_STR_LIT("traceparent"), lr_str_z(call->trace)};
    if (leg->job.instead_of[0] != '\0')
        headers[count++] =
            (struct net_header){LR_STR_LIT(WIRE_INSTEAD_HEADER), lr_str_z(leg->job.instead_of)};
    struct net_call_config config = {
        .url = to.url,
        .headers = headers,
        .header_count = count,
        .content_type = "application/json",
        .body = lr_buf_str(&home->scratch),
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = ROUTER_SILENCE_MS,
        .idle_timeout_ms = ROUTER_SILENCE_MS,
        .callbacks = *callbacks,
    };
    struct router_peer peer = {leg->job.node, to.base, to.bearer};
    return router_upstream_start(home, &peer, &config, &leg->upstream, err);
}

bool router_leg_send_stop(struct router_leg *leg, net_fetch_fn fn)
{
    struct address to;
    find_node(leg, "/v0/generate/", leg->job.name, &to);
    struct net_header header = {LR_STR_LIT("Authorization"), lr_str_z(to.bearer)};
    struct net_call_config config = {
        .method = "DELETE",
        .url = to.url,
        .headers = &header,
        .header_count = 1,
        .connect_timeout_ms = CONNECT_MS,
        .response_timeout_ms = CONNECT_MS,
    };
    return net_fetch(leg->call->home->client, &config, fn, leg, NULL, NULL) == LR_OK;
}
