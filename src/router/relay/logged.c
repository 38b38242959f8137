#include "router/relay/logged.h"

#include "base/errors.h"
#include "router/relay/call.h"

void router_log_arrived(const struct router_fact *f)
{
    struct router_call *call = f->call;
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

void router_log_named(const struct router_fact *f)
{
    const struct router_call *call = f->call;
    const struct router_key *key = call->access->caller.key;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    LR_COPY(record->model, call->model != NULL ? lr_str_z(call->model->id) : f->name);
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

void router_log_valid(const struct router_fact *f)
{
    struct router_call *call = f->call;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    record->choices = call->generation_count;
    record->is_stream = call->turn.request->stream;
    router_journal_leave(call->relay->journal);
    if (call->keeps_texts)
        keep_prompt(call);
}

void router_log_text(void *owner, uint32_t choice, const struct chat_delta *delta)
{
    const struct router_call *call = owner;
    if (call->answer != NULL)
        router_kept_answer_add(call->answer, choice, delta);
}

/* An error about the request itself may quote the request: the log has its code only. */
static bool may_quote(lr_code code)
{
    int status = lr_code_http(code);
    return status == 400 || status == 413;
}

static void add_step(const struct router_fact *f, enum router_step_kind kind, uint64_t at_ns)
{
    const struct router_generation *g = f->generation;
    const struct router_node *node = g->ticket.node;
    struct router_journal *journal = f->call->relay->journal;
    struct router_record *record = router_journal_enter(journal, f->call->record);
    if (record == NULL)
        return;
    struct router_step *step = router_journal_step(record);
    step->kind = kind;
    step->choice = g->index;
    step->tokens = (uint32_t)router_generation_tokens(g);
    step->at_ns = at_ns;
    LR_COPY(step->node, node != NULL ? lr_str_z(node->name) : LR_STR_LIT(""));
    step->reason[0] = '\0';
    if (f->why != NULL && !may_quote(f->why->code))
        lr_error_copy_text(step->reason, sizeof(step->reason), f->why->text,
                           sizeof(f->why->text));
    router_journal_leave(journal);
}

void router_log_queued(const struct router_fact *f)
{
    add_step(f, ROUTER_STEP_QUEUED, f->at_ns);
}

/* The record's node is that of the first choice. */
static void set_node(const struct router_fact *f)
{
    const struct router_ticket *ticket = &f->generation->ticket;
    struct router_journal *journal = f->call->relay->journal;
    struct router_record *record = router_journal_enter(journal, f->call->record);
    if (record == NULL)
        return;
    LR_COPY(record->node, lr_str_z(ticket->node->id));
    LR_COPY(record->node_name, lr_str_z(ticket->node->name));
    LR_COPY(record->why, lr_str_z(ticket->why));
    record->chosen = ticket->chosen;
    if (record->granted_ns == 0)
        record->granted_ns = f->at_ns;
    router_journal_leave(journal);
}

void router_log_sent(const struct router_fact *f)
{
    if (f->generation->index == 0)
        set_node(f);
    add_step(f, ROUTER_STEP_SENT, f->at_ns);
}

void router_log_heard(const struct router_fact *f)
{
    const struct router_attempt *a = &f->generation->attempt;
    uint32_t type = f->event->type;
    struct wire_prefill m;
    if (type == WIRE_ACCEPTED && f->generation->state == ROUTER_GENERATION_SENT)
        add_step(f, ROUTER_STEP_ACCEPTED, f->at_ns);
    else if (type == WIRE_PREFILL && a->prefill_total == 0 &&
             wire_prefill_decode(f->event->body, &m, NULL) == LR_OK)
        add_step(f, ROUTER_STEP_PREFILL, f->at_ns);
    else if (type == WIRE_LOADING && a->loaded_ns == 0)
        add_step(f, ROUTER_STEP_LOADING, f->at_ns);
}

void router_log_first_token(const struct router_fact *f)
{
    const struct router_attempt *a = &f->generation->attempt;
    if (a->loaded_ns != 0)
        add_step(f, ROUTER_STEP_LOADED, a->loaded_ns);
    add_step(f, ROUTER_STEP_FIRST_TOKEN, f->at_ns);
}

void router_log_left(const struct router_fact *f)
{
    static const enum router_step_kind steps[] = {
        [ROUTER_ENDED] = ROUTER_STEP_CHOICE_DONE,   [ROUTER_BUSY] = ROUTER_STEP_BUSY,
        [ROUTER_PREEMPTED] = ROUTER_STEP_PREEMPTED, [ROUTER_RECALLED] = ROUTER_STEP_RECALLED,
        [ROUTER_PAUSED] = ROUTER_STEP_PAUSED,       [ROUTER_LOST] = ROUTER_STEP_WORKER_LOST,
        [ROUTER_FAILED] = ROUTER_STEP_FAILED_OVER,
    };
    /* The end of a single choice, or of one that failed, is the end of the record. */
    if (f->outcome != ROUTER_ENDED || (f->why == NULL && f->call->generation_count > 1))
        add_step(f, steps[f->outcome], f->at_ns);
}

static void set_tokens(struct router_record *record, const struct router_usage *row)
{
    record->prompt_tokens = row->prompt_tokens;
    record->completion_tokens = row->completion_tokens;
    record->cached_tokens = row->cached_tokens;
}

void router_log_ended(const struct router_fact *f)
{
    struct router_call *call = f->call;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    record->status = (uint32_t)f->status;
    record->first_ns = call->first_ns;
    record->ended_ns = f->at_ns;
    set_tokens(record, &call->usage);
    if (f->why != NULL) {
        record->code = f->why->code;
        if (!may_quote(f->why->code))
            lr_error_copy_text(record->error, sizeof(record->error), f->why->text,
                               sizeof(f->why->text));
    } else if (f->status >= 400) {
        record->code = LR_CANCELLED;
    }
    if (call->keeps_texts)
        (void)router_record_move_texts(record, ROUTER_TEXTS_NONE);
    router_journal_leave(call->relay->journal);
    if (call->answer != NULL)
        keep_answer(call);
}

void router_log_counted(const struct router_fact *f)
{
    const struct router_call *call = f->call;
    struct router_record *record = router_journal_enter(call->relay->journal, call->record);
    if (record == NULL)
        return;
    set_tokens(record, &call->usage);
    router_journal_leave(call->relay->journal);
}
