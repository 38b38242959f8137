#include "router/relay/usage.h"

#include "router/access/key_limits.h"
#include "router/relay/call.h"

/* Tokens as the engines counted them. */
static void add_tokens(const struct router_call *call, struct router_usage *row)
{
    row->prompt_tokens = row->completion_tokens = row->cached_tokens = 0;
    for (uint32_t i = 0; i < call->generation_count; i++) {
        const struct router_generation *g = &call->generations[i];
        /* n answers to one prompt: the prompt is computed for each. */
        row->prompt_tokens += g->usage.prompt_tokens;
        row->completion_tokens += g->usage.completion_tokens != 0 ? g->usage.completion_tokens
                                                                  : router_generation_tokens(g);
        row->cached_tokens += g->usage.cached_tokens;
    }
}

/* Counts the tokens against the key's limit before the answer ends, so that the client's next
 * request finds them counted, and once more those that the engine made after that. */
static void charge(struct router_call *call)
{
    uint64_t tokens = call->usage.prompt_tokens + call->usage.completion_tokens;
    if (call->key == NULL || tokens == call->charged)
        return;
    router_dispatch_lock(call->relay->dispatch);
    router_budget_count(&call->key->month, call->usage.time_ms,
                        (int64_t)(tokens - call->charged));
    if (tokens > call->charged)
        router_key_charge(call->key, lr_clock_ms(call->relay->links.clock),
                          tokens - call->charged, call->relay->keys->routers);
    router_dispatch_unlock(call->relay->dispatch);
    call->charged = tokens;
}

/* The call is no running request of its key any more. */
static void leave_key(struct router_call *call)
{
    if (call->entered == NULL)
        return;
    router_dispatch_lock(call->relay->dispatch);
    router_key_leave(call->entered);
    router_dispatch_unlock(call->relay->dispatch);
    call->entered = NULL;
}

/* Adds the call to the counts of the replica that served it last. */
static void add_to_tally(const struct router_call *call, struct router_tally *t)
{
    const struct router_usage *row = &call->usage;
    t->requests++;
    t->failed += row->status == 429 || row->status >= 500;
    t->cancelled += row->status == (uint32_t)lr_code_http(LR_CANCELLED);
    t->prompt_tokens += row->prompt_tokens;
    t->completion_tokens += row->completion_tokens;
    t->cached_tokens += row->cached_tokens;
    t->first_tokens += call->first_ns != 0;
    t->first_token_us += call->first_ns != 0 ? (call->first_ns - call->begun_ns) / 1000 : 0;
    for (uint32_t i = 0; i < call->generation_count; i++) {
        const struct router_attempt *a = &call->generations[i].attempt;
        if (a->tokens < 2)
            continue;
        t->inter_tokens += a->tokens - 1;
        t->inter_token_us += (a->last_ns - a->first_ns) / 1000;
    }
}

/* Stores the usage record, with the tokens that the engines counted. */
static void record_usage(struct router_call *call)
{
    const struct router_relay *relay = call->relay;
    struct router_usage *row = &call->usage;
    if (call->is_recorded)
        return;
    call->is_recorded = true;
    add_tokens(call, row);
    router_store_usage(relay->store, row);
    router_tell(&(struct router_fact){.kind = ROUTER_FACT_COUNTED, .call = call});
    router_dispatch_lock(relay->dispatch);
    router_key_usages_add(relay->key_usages, call->key, row);
    const struct router_node *node = router_nodes_find_any(relay->nodes, lr_str_z(row->node));
    struct router_replica *replica =
        node != NULL ? router_node_replica(node, lr_str_z(call->model->folded)) : NULL;
    if (replica != NULL)
        add_to_tally(call, &replica->tally);
    router_dispatch_unlock(relay->dispatch);
    charge(call);
}

/* No node will say more about the call's usage. */
static bool is_counted(const struct router_call *call)
{
    uint32_t i = 0;
    while (i < call->generation_count &&
           (call->generations[i].state == ROUTER_GENERATION_OVER ||
            call->generations[i].state == ROUTER_GENERATION_IDLE ||
            call->generations[i].state == ROUTER_GENERATION_PAUSED))
        i++;
    return i == call->generation_count;
}

/* Fills the usage record with what is known, and gives the access log its tokens. */
void router_usage_ended(const struct router_fact *f)
{
    struct router_call *call = f->call;
    struct router_access *access = call->access;
    struct router_usage *row = &call->usage;
    leave_key(call);
    if (call->link == NULL)
        return;
    *row = (struct router_usage){
        .time_ms = lr_clock_wall_ms(call->relay->links.clock),
        .status = (uint32_t)f->status,
        .wait_ms = call->granted_ns != 0 ? (call->granted_ns - call->begun_ns) / 1000000 : 0,
        .total_ms = (f->at_ns - call->begun_ns) / 1000000,
    };
    call->key = access->caller.key;
    LR_COPY(row->key_id, lr_str_z(call->key != NULL ? call->key->id : ""));
    LR_COPY(row->model, lr_str_z(call->model->id));
    LR_COPY(row->node, lr_str_z(access->node));
    LR_COPY(row->request_id, lr_str_z(access->request_id));
    add_tokens(call, row);
    access->prompt_tokens = row->prompt_tokens;
    access->completion_tokens = row->completion_tokens;
    charge(call);
    if (is_counted(call))
        record_usage(call);
}

void router_usage_freed(const struct router_fact *f)
{
    leave_key(f->call);
    if (f->call->link != NULL)
        record_usage(f->call);
}
