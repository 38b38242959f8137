#include "router/relay/progress.h"

#include <inttypes.h>
#include <stdio.h>

bool router_progress_is_wanted(const struct net_request *req)
{
    struct lr_str value;
    return net_request_header(req, "X-LLM-Router-Progress", &value) && lr_str_eq_z(value, "1");
}

/* False: the ticket does not wait any more. */
static bool put_queued(const struct router_call *call, const struct router_ticket *ticket,
                       char *text, size_t size)
{
    const struct router_dispatch *dispatch = call->relay->dispatch;
    router_dispatch_lock(dispatch);
    bool is_queued = ticket->state == ROUTER_TICKET_QUEUED;
    if (is_queued)
        (void)snprintf(text, size,
                       "progress {\"state\":\"queued\",\"ahead\":%zu,\"wait_ms\":%" PRIu64 "}",
                       router_queue_ahead(router_ticket_queue(ticket), &ticket->waiter),
                       router_schedule_wait_ms(ticket->schedule));
    router_dispatch_unlock(dispatch);
    return is_queued;
}

static void put_attempt(const struct router_call *call, const struct router_attempt *a,
                        char *text, size_t size)
{
    bool is_prefill = a->prefill_total != 0, is_load = !is_prefill && a->load_total != 0;
    uint64_t done = is_prefill ? a->prefill_done : a->load_done;
    uint64_t total = is_prefill ? a->prefill_total : a->load_total;
    const char *state = is_prefill ? "prefill" : is_load ? "loading" : "sent";
    /* An id of a node has letters, digits and dashes: it needs no escaping. */
    bool has_node = call->access->caller.role == ROUTER_ADMIN && call->access->node[0] != '\0';
    int n = snprintf(text, size, "progress {\"state\":\"%s\"", state);
    if (is_prefill || is_load)
        n += snprintf(text + n, size - (size_t)n, ",\"done\":%" PRIu64 ",\"total\":%" PRIu64,
                      done, total);
    (void)snprintf(text + n, size - (size_t)n, "%s%s%s}", has_node ? ",\"node\":\"" : "",
                   has_node ? call->access->node : "", has_node ? "\"" : "");
}

void router_call_tell_progress(struct router_call *call)
{
    char text[256];
    if (!call->tells_progress || call->first_ns != 0 || call->generation_count == 0 ||
        chat_turn_is_over(&call->turn))
        return;
    const struct router_generation *g = &call->generations[0];
    switch (g->state) {
    case ROUTER_GENERATION_QUEUED:
        if (!put_queued(call, &g->ticket, text, sizeof(text)))
            return;
        break;
    case ROUTER_GENERATION_SENT:
    case ROUTER_GENERATION_RUNNING:
        put_attempt(call, &g->attempt, text, sizeof(text));
        break;
    default:
        return; /* between two attempts, or ended */
    }
    chat_turn_comment(&call->turn, text);
}
