/* router/relay/leg_ask.c - what a node is asked for. */
#include <stdio.h>

#include "router/fleet/ask.h"
#include "router/relay/call.h"

/* What is left of the wait its client is asked for: a node that loads the model first drops it
 * then.  0: any wait. */
static uint64_t time_to_begin(const struct router_call *call)
{
    uint64_t limit = call->loop->router->sched.queue_timeout_ms;
    uint64_t waited = (lr_clock_ns(NULL) - call->begun_ns) / 1000000;
    if (limit == 0)
        return 0;
    /* A continuation may have begun long ago. */
    return call->first_ns != 0 ? limit : waited < limit ? limit - waited : 1;
}

static struct wire_generate describe(const struct router_leg *leg)
{
    const struct router_call *call = leg->call;
    struct wire_generate ask;
    chat_turn_ask(&call->turn, leg->index, &ask);
    ask.request_id = lr_str_z(leg->job.name);
    ask.model = lr_str_z(leg->job.replica->id);
    ask.trace = lr_str_z(call->trace);
    ask.leaves = lr_str_z(leg->job.swap);
    ask.cache_scope = lr_str_z(router_caller_name(&call->access->caller));
    ask.generated = leg->generated;
    ask.generated_count = leg->generated_count;
    ask.no_queue = true;
    ask.entry = leg->entry;
    ask.cohort = leg->cohort;
    ask.deadline_ms = time_to_begin(call);
    return ask;
}

lr_code router_leg_send(struct router_leg *leg, struct lr_error *err)
{
    struct wire_generate ask = describe(leg);
    struct router_target to;
    /* A node may join again from elsewhere at any moment, hence the lock. */
    router_lock(leg->job.router);
    router_target_set(&to, leg->job.node);
    router_unlock(leg->job.router);
    struct router_peer peer = {leg->job.node, to.url, to.secret};
    return router_link_submit(leg->call->loop, &peer, &ask, &leg->stream, err);
}
