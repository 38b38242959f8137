/* router/relay/call_usage.c - what a request took: tokens as the engines counted them, also
 * where the client left or the answer moved to another node.
 */
#include <stdio.h>

#include "router/relay/call.h"

static void add_tokens(const struct router_call *call, struct router_usage *row)
{
    row->prompt_tokens = row->completion_tokens = row->cached_tokens = 0;
    for (uint32_t i = 0; i < call->leg_count; i++) {
        const struct router_leg *leg = &call->legs[i];
        /* n answers to one prompt: the prompt is computed for each. */
        row->prompt_tokens += leg->prompt_tokens;
        row->completion_tokens +=
            leg->counted_tokens != 0 ? leg->counted_tokens : leg->generated_count;
        row->cached_tokens += leg->cached_tokens;
    }
}

/* The key's limit hears of the tokens before the answer ends, so that the client's next
 * request finds them counted; and once more of what the engine made beyond them. */
static void charge(struct router_call *call)
{
    struct router *r = call->loop->router;
    uint64_t tokens = call->usage.prompt_tokens + call->usage.completion_tokens;
    if (call->key == NULL || call->key->tokens_per_minute == 0 || tokens <= call->charged)
        return;
    router_lock(r);
    router_key_charge(call->key, lr_clock_ms(NULL), tokens - call->charged,
                      atomic_load(&r->routers));
    router_unlock(r);
    call->charged = tokens;
}

void router_call_note(struct router_call *call, int status)
{
    struct router_metrics *metrics = &call->loop->router->metrics;
    struct router_access *access = call->access;
    struct router_usage *row = &call->usage;
    uint64_t now = lr_clock_ns(NULL);
    *row = (struct router_usage){
        .time_ms = lr_clock_wall_ms(NULL),
        .status = (uint32_t)status,
        .wait_ms = call->granted_ns != 0 ? (call->granted_ns - call->begun_ns) / 1000000 : 0,
        .total_ms = (now - call->begun_ns) / 1000000,
    };
    call->key = access->caller.key;
    (void)snprintf(row->key_id, sizeof(row->key_id), "%s",
                   call->key != NULL ? call->key->id : "");
    (void)snprintf(row->model, sizeof(row->model), "%.159s", call->model->id);
    (void)snprintf(row->node, sizeof(row->node), "%s", access->node);
    (void)snprintf(row->request_id, sizeof(row->request_id), "%s", access->request_id);
    add_tokens(call, row);
    access->prompt_tokens = row->prompt_tokens;
    access->completion_tokens = row->completion_tokens;
    if (status == 429 || status >= 500)
        router_count(&metrics->failed, 1);
    router_observe(&metrics->total, now - call->begun_ns);
    if (call->granted_ns != 0)
        router_observe(&metrics->wait, call->granted_ns - call->begun_ns);
    charge(call);
}

/* What the node that served it last did of it. */
static void add_to_tally(const struct router_call *call)
{
    struct router *r = call->loop->router;
    const struct router_usage *row = &call->usage;
    router_lock(r);
    const struct router_node *node = router_nodes_find_any(&r->nodes, lr_str_z(row->node));
    struct router_replica *replica =
        node != NULL ? router_node_replica(node, lr_str_z(call->model->folded)) : NULL;
    if (replica != NULL) {
        struct router_tally *t = &replica->tally;
        t->requests++;
        t->failed += row->status == 429 || row->status >= 500;
        t->cancelled += row->status == (uint32_t)lr_code_http(LR_CANCELLED);
        t->prompt_tokens += row->prompt_tokens;
        t->completion_tokens += row->completion_tokens;
        t->cached_tokens += row->cached_tokens;
        t->first_tokens += call->first_ns != 0;
        t->first_token_us += call->first_ns != 0 ? (call->first_ns - call->begun_ns) / 1000 : 0;
        for (uint32_t i = 0; i < call->leg_count; i++) {
            const struct router_leg *leg = &call->legs[i];
            if (leg->attempt_tokens < 2)
                continue;
            t->inter_tokens += leg->attempt_tokens - 1;
            t->inter_token_us += (leg->last_ns - leg->first_ns) / 1000;
        }
    }
    router_unlock(r);
}

void router_call_book(struct router_call *call)
{
    struct router *r = call->loop->router;
    struct router_usage *row = &call->usage;
    add_tokens(call, row);
    router_store_usage(r->store, row);
    add_to_tally(call);
    router_count(&r->metrics.prompt_tokens, row->prompt_tokens);
    router_count(&r->metrics.completion_tokens, row->completion_tokens);
    router_count(&r->metrics.cached_tokens, row->cached_tokens);
    charge(call);
}
