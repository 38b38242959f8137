#include "router/relay/logged.h"

#include "router/relay/call.h"

void router_log_arrival(struct router_call *call)
{
    struct router_journal *journal = call->relay->journal;
    const struct router_access *access = call->access;
    struct router_record *record = journal != NULL ? router_journal_begin(journal) : NULL;
    if (record == NULL)
        return;
    record->begun_ns = lr_clock_ns(call->relay->links.clock);
    record->begun_wall_ms = lr_clock_wall_ms(call->relay->links.clock);
    LR_COPY(record->request_id, lr_str_z(access->request_id));
    if (access->caller.key != NULL)
        LR_COPY(record->key, lr_str_z(access->caller.key->id));
    LR_COPY(record->api, net_request_path(call->req));
    call->record = record->number;
    router_journal_leave(journal);
}

void router_log_model(struct router_call *call, struct lr_str name)
{
    const struct router_key *key = call->access->caller.key;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    if (call->model != NULL)
        name = lr_str_z(call->model->id);
    LR_COPY(record->model, name);
    if (key != NULL)
        LR_COPY(record->key_name, lr_str_z(key->name));
    router_journal_leave(call->relay->journal);
}

static void keep_prompt(struct router_call *call)
{
    struct lr_buf json;
    lr_buf_init(&json, ROUTER_TEXT_JSON);
    router_texts_prompt(&call->turn, &json);
    router_journal_keep_prompt(call->relay->journal, call->record, &json);
    lr_buf_free(&json);
    if (call->turn.codec->kind == LR_REQUEST_GENERATE) /* vectors are no text */
        call->answer = router_kept_answer_new(call->generation_count);
}

static void keep_answer(struct router_call *call)
{
    struct lr_buf json;
    lr_buf_init(&json, ROUTER_TEXT_JSON);
    router_kept_answer_write(call->answer, &json);
    router_journal_keep_answer(call->relay->journal, call->record, &json);
    lr_buf_free(&json);
    router_kept_answer_free(call->answer);
    call->answer = NULL;
}

void router_log_valid(struct router_call *call)
{
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    record->choices = call->generation_count;
    record->is_stream = call->turn.request->stream;
    router_journal_leave(call->relay->journal);
    if (call->keeps_texts)
        keep_prompt(call);
}

void router_log_text(struct router_call *call, uint32_t choice, const struct chat_delta *delta)
{
    if (call->answer != NULL)
        router_kept_answer_add(call->answer, choice, delta);
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
    const struct router_node *node = g->ticket.node;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    struct router_step *step = router_journal_step(record);
    step->kind = kind;
    step->choice = g->index;
    step->tokens = (uint32_t)router_generation_tokens(g);
    step->at_ns = at_ns;
    LR_COPY(step->node, node != NULL ? lr_str_z(node->name) : LR_STR_LIT(""));
    LR_COPY(step->reason,
            why != NULL && !may_quote(why->code) ? lr_str_z(why->text) : LR_STR_LIT(""));
    router_journal_leave(call->relay->journal);
}

void router_log_node(const struct router_generation *g)
{
    const struct router_call *call = g->call;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    LR_COPY(record->node, lr_str_z(g->ticket.node->id));
    LR_COPY(record->node_name, lr_str_z(g->ticket.node->name));
    LR_COPY(record->why, lr_str_z(g->ticket.why));
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
            LR_COPY(record->error, lr_str_z(err->text));
    } else if (status >= 400) {
        record->code = LR_CANCELLED;
    }
    if (call->keeps_texts)
        (void)router_record_move_texts(record, ROUTER_TEXTS_NONE);
    router_journal_leave(call->relay->journal);
    if (call->answer != NULL)
        keep_answer(call);
}

void router_log_usage(struct router_call *call)
{
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    set_tokens(record, &call->usage);
    router_journal_leave(call->relay->journal);
}
