#include "router/relay/logged.h"

#include <stdio.h>

#include "router/relay/call.h"

void router_log_arrival(struct router_call *call)
{
    struct router_journal *journal = call->relay->journal;
    const struct router_access *access = call->access;
    struct router_record record = {
        .begun_ns = lr_clock_ns(call->relay->links.clock),
        .begun_wall_ms = lr_clock_wall_ms(call->relay->links.clock),
    };
    if (journal == NULL || journal->ring == NULL)
        return;
    (void)snprintf(record.request_id, sizeof(record.request_id), "%s", access->request_id);
    if (access->caller.key != NULL)
        (void)snprintf(record.key, sizeof(record.key), "%s", access->caller.key->id);
    LR_COPY(record.api, lr_str_sub(net_request_path(call->req), 0, sizeof(record.api) - 1));
    call->record = router_journal_begin(journal, &record);
}

void router_log_model(struct router_call *call, struct lr_str name)
{
    const struct router_key *key = call->access->caller.key;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    if (call->model != NULL)
        name = lr_str_z(call->model->id);
    LR_COPY(record->model, lr_str_sub(name, 0, sizeof(record->model) - 1));
    if (key != NULL)
        (void)snprintf(record->key_name, sizeof(record->key_name), "%s", key->name);
    router_journal_leave(call->relay->journal);
}

void router_log_valid(struct router_call *call)
{
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    record->choices = call->generation_count;
    record->is_stream = call->turn.request->stream;
    router_journal_leave(call->relay->journal);
}

/* An error about the request itself may quote the request: the log has its code only. */
static bool may_quote(lr_code code)
{
    int status = lr_code_http(code);
    return status == 400 || status == 413;
}

void router_log_step(const struct router_generation *g, enum router_step_kind kind,
                     uint64_t at_ns, const struct lr_error *why)
{
    const struct router_call *call = g->call;
    struct router_step step = {
        .kind = kind,
        .choice = g->index,
        .tokens = (uint32_t)router_generation_tokens(g),
        .at_ns = at_ns,
    };
    if (call->record == 0)
        return;
    if (g->ticket.node != NULL)
        (void)snprintf(step.node, sizeof(step.node), "%s", g->ticket.node->name);
    if (why != NULL && !may_quote(why->code))
        (void)snprintf(step.reason, sizeof(step.reason), "%.119s", why->text);
    router_journal_step(call->relay->journal, call->record, &step);
}

void router_log_node(const struct router_generation *g)
{
    const struct router_call *call = g->call;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    (void)snprintf(record->node, sizeof(record->node), "%s", g->ticket.node->id);
    (void)snprintf(record->node_name, sizeof(record->node_name), "%s", g->ticket.node->name);
    (void)snprintf(record->why, sizeof(record->why), "%s", g->ticket.why);
    record->chosen = g->ticket.chosen;
    if (record->granted_ns == 0)
        record->granted_ns = g->attempt.sent_ns;
    router_journal_leave(call->relay->journal);
}

static void set_tokens(struct router_record *record, const struct router_usage *row)
{
    record->prompt_tokens = row->prompt_tokens;
    record->completion_tokens = row->completion_tokens;
    record->cached_tokens = row->cached_tokens;
}

void router_log_end(struct router_call *call, int status, const struct lr_error *err)
{
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    record->status = (uint32_t)status;
    record->first_ns = call->first_ns;
    record->ended_ns = lr_clock_ns(call->relay->links.clock);
    set_tokens(record, &call->usage);
    if (err != NULL) {
        record->code = err->code;
        if (!may_quote(err->code))
            (void)snprintf(record->error, sizeof(record->error), "%.159s", err->text);
    } else if (status >= 400) {
        record->code = LR_CANCELLED;
    }
    router_journal_leave(call->relay->journal);
}

void router_log_usage(struct router_call *call)
{
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    set_tokens(record, &call->usage);
    router_journal_leave(call->relay->journal);
}
