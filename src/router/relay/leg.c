/* router/relay/leg.c - one generation on a node, and on the next one when that node is lost.
 *
 * The router keeps every token id the client has.  A node that dies, falls silent for
 * five seconds or says "retryable" is replaced: the next one gets the prompt and those
 * ids, and goes on where the answer stopped.  A generation whose engine died goes on at once
 * where it can begin first, the same node included; with two deaths to its blame it is tried
 * nowhere else (wire/lost.h).
 */
#include <stdio.h>
#include <stdlib.h>

#include "router/relay/call.h"

enum {
    MEASURED_TOKENS =
        64, /* of a prompt that is partly cached: fewer tell nothing of the rate */
    ATTEMPTS_MAX = 5,
};

void router_leg_free(struct router_leg *leg)
{
    router_ticket_forget(&leg->job);
    free(leg->generated);
}

/* ---- leaving a node ---- */

/* What this attempt tells about the node's speed. */
static struct router_measure measure(const struct router_leg *leg)
{
    struct router_measure m = {0};
    uint64_t tokens = leg->prompt_tokens + leg->sent_count;
    uint64_t begun_ns = leg->loaded_ns != 0 ? leg->loaded_ns : leg->sent_ns;
    if (leg->first_ns == 0)
        return m;
    if (leg->loaded_ns != 0)
        m.load_ms = (double)(leg->loaded_ns - leg->sent_ns) / 1e6;
    uint64_t computed = tokens > leg->cached_tokens ? tokens - leg->cached_tokens : 0;
    m.found_cached = leg->cached_tokens != 0;
    if (computed >= (m.found_cached ? MEASURED_TOKENS : 1)) {
        m.prefill_tokens = (double)computed;
        m.prefill_ms = (double)(leg->first_ns - begun_ns) / 1e6 / m.prefill_tokens;
    }
    if (leg->attempt_tokens > 1)
        m.step_ms = (double)(leg->last_ns - leg->first_ns) / 1e6 / (leg->attempt_tokens - 1);
    return m;
}

static void give_slot_back(struct router_leg *leg, enum router_outcome outcome)
{
    struct router_measure m = {0};
    if (outcome == ROUTER_ENDED)
        m = measure(leg);
    router_release(&leg->job, outcome, &m);
}

/* This attempt's node is of no more use.  The caller holds the call. */
static void leave_node(struct router_leg *leg)
{
    if (leg->stream.link == NULL)
        return;
    router_link_leave(&leg->stream);
    router_call_drop(leg->call);
}

void router_leg_done(struct router_leg *leg)
{
    leg->is_over = true;
    leg->is_leaving = false;
    give_slot_back(leg, ROUTER_ENDED);
}

void router_leg_fail(struct router_leg *leg, const struct lr_error *err)
{
    leg->is_over = true;
    leave_node(leg);
    give_slot_back(leg, ROUTER_ENDED);
    router_call_fail(leg->call, err);
}

void router_leg_give_up(struct router_leg *leg)
{
    leg->is_leaving = false;
    leave_node(leg);
    give_slot_back(leg, ROUTER_ENDED);
}

/* ---- an attempt ---- */

static void on_event(void *arg, const struct wire_frame *event)
{
    struct router_leg *leg = arg;
    struct router_call *call = leg->call;
    call->holds++;
    router_leg_hear(leg, event);
    if (wire_event_is_last(event->type))
        router_call_drop(call); /* for the attempt that has ended */
    router_call_drop(call);
}

static void on_lost(void *arg, const struct lr_error *err)
{
    struct router_leg *leg = arg;
    struct router_call *call = leg->call;
    struct lr_log_ctx log = {.request_id = call->access->request_id};
    struct lr_error cut;
    if (leg->is_leaving)
        router_leg_give_up(leg);
    if (!leg->is_over) {
        /* The transport's words name the node's address: for the log, not for the client. */
        lr_log_warn(&log, "request.cut node=%s reason=%s", leg->job.node->name, err->text);
        (void)lr_fail(&cut, err->code, "the connection to the node failed");
        router_leg_move(leg, ROUTER_FAILED, &cut);
    }
    router_call_drop(call);
}

/* Says which node it is, for the client's headers and the books. */
static void note_node(struct router_leg *leg)
{
    struct router_call *call = leg->call;
    if (call->granted_ns == 0)
        call->granted_ns = leg->sent_ns;
    if (leg->index != 0)
        return;
    (void)snprintf(call->access->node, sizeof(call->access->node), "%s", leg->job.node->id);
    (void)snprintf(call->why, sizeof(call->why), "%s", leg->job.why);
}

/* The job holds a slot on job->node. */
static void run(struct router_leg *leg)
{
    struct router_call *call = leg->call;
    struct lr_error err;
    leg->stream = (struct router_stream){.arg = leg, .on_event = on_event, .on_lost = on_lost};
    leg->is_taken = false;
    leg->sent_ns = lr_clock_ns(NULL);
    leg->loaded_ns = leg->first_ns = leg->last_ns = 0;
    leg->attempt_tokens = 0;
    leg->sent_count = leg->generated_count;
    leg->heard_ms = net_loop_now_ms(call->loop->net);
    note_node(leg);
    router_count(&call->loop->router->metrics.generations, 1);
    lr_code code = router_leg_send(leg, &err);
    if (code == LR_OK)
        call->holds++;
    else if (code == LR_TOO_LARGE)
        router_leg_fail(leg, &err);
    else
        router_leg_move(leg, ROUTER_FAILED, &err);
}

static void count_move(struct router_leg *leg, enum router_outcome outcome, const char *why)
{
    struct router_call *call = leg->call;
    struct router_metrics *metrics = &call->loop->router->metrics;
    struct lr_log_ctx log = {.request_id = call->access->request_id};
    if (outcome == ROUTER_BUSY) {
        router_count(&metrics->busy, 1);
        return;
    }
    if (outcome == ROUTER_PREEMPTED) {
        router_count(&metrics->preempted, 1);
        return;
    }
    router_count(leg->generated_count != 0 ? &metrics->continuations : &metrics->retries, 1);
    /* A death that is not blamed on this generation is no failed attempt of it. */
    leg->attempts += outcome != ROUTER_LOST;
    lr_log_warn(&log, "request.moved node=%s tokens=%zu attempt=%u reason=%s",
                leg->job.node->name, leg->generated_count, leg->attempts, why);
}

void router_leg_move(struct router_leg *leg, enum router_outcome outcome,
                     const struct lr_error *why)
{
    struct lr_error err;
    if (leg->is_over)
        return;
    count_move(leg, outcome, why->text);
    leave_node(leg);
    give_slot_back(leg, outcome);
    if (leg->attempts >= ATTEMPTS_MAX) {
        (void)lr_fail(&err, LR_UPSTREAM, "%d attempts in a row failed; the last: %s",
                      ATTEMPTS_MAX, why->text);
        router_leg_fail(leg, &err);
        return;
    }
    enum router_admission admission = router_admit(&leg->job, true, &err);
    if (admission == ROUTER_REFUSED)
        router_leg_fail(leg, &err);
    else if (admission == ROUTER_GRANTED)
        run(leg);
    else
        leg->call->holds++;
}

void router_leg_poison(struct router_leg *leg, const struct lr_error *err)
{
    struct lr_log_ctx log = {.request_id = leg->call->access->request_id};
    lr_log_error(&log, "request.poison node=%s model=%s strikes=%u reason=%s",
                 leg->job.node->name, leg->call->model->id, leg->strikes, err->text);
    router_leg_fail(leg, err);
}

void router_leg_preempt(struct router_leg *leg)
{
    struct lr_error why;
    (void)lr_fail(&why, LR_RATE_LIMITED, "its key holds more of the model than others");
    router_leg_move(leg, ROUTER_PREEMPTED, &why);
}

void router_leg_watch(struct router_leg *leg, uint64_t now_ms)
{
    struct lr_error err;
    uint64_t since = leg->heard_ms > leg->stream.sent_ms ? leg->heard_ms : leg->stream.sent_ms;
    if (leg->stream.link == NULL || leg->stream.sent_ms == 0 ||
        now_ms - since < ROUTER_SILENCE_MS)
        return;
    if (leg->is_leaving) {
        router_leg_give_up(leg);
    } else if (!leg->is_over) {
        /* Bytes may still trickle in: the transport sees no silence. */
        (void)lr_fail(&err, LR_TIMEOUT, "no event of the node in %d ms", ROUTER_SILENCE_MS);
        router_leg_move(leg, ROUTER_FAILED, &err);
    }
}

/* ---- the beginning ---- */

static void refuse(struct router_leg *leg, const struct lr_error *err)
{
    char seconds[16];
    if (leg->job.retry_s != 0 && !net_response_begun(leg->call->req)) {
        (void)snprintf(seconds, sizeof(seconds), "%u", leg->job.retry_s);
        net_response_header(leg->call->req, "Retry-After", lr_str_z(seconds));
    }
    if (err->code == LR_RATE_LIMITED)
        router_count(&leg->call->loop->router->metrics.queue_full, 1);
    router_leg_fail(leg, err);
}

static void on_ready(struct router_ticket *job, const struct lr_error *err)
{
    struct router_leg *leg = (struct router_leg *)(void *)job;
    struct router_call *call = leg->call;
    if (leg->is_over || chat_turn_is_over(&call->turn)) {
        leg->is_over = true;
        router_release(job, ROUTER_ENDED, NULL);
    } else if (err != NULL) {
        refuse(leg, err);
    } else {
        run(leg);
    }
    router_call_drop(call);
}

/* Another key holds less of the model: this answer waits a moment and goes on.  The slot is
 * given back when the node has confirmed, so that it is never sent more than it takes; what it
 * makes until then is not lost. */
static void on_preempt(struct router_ticket *job)
{
    struct router_leg *leg = (struct router_leg *)(void *)job;
    struct router_call *call = leg->call;
    if (leg->is_over || leg->stream.link == NULL)
        return;
    if (leg->is_taken) {
        router_link_cancel(&leg->stream); /* its last event goes on */
        return;
    }
    call->holds++;
    router_leg_preempt(leg); /* it has not begun */
    router_call_drop(call);
}

void router_leg_start(struct router_leg *leg)
{
    struct lr_error err;
    leg->job.on_ready = on_ready;
    leg->job.on_preempt = on_preempt;
    enum router_admission admission = router_admit(&leg->job, false, &err);
    if (admission == ROUTER_REFUSED)
        refuse(leg, &err);
    else if (admission == ROUTER_GRANTED)
        run(leg);
    else
        leg->call->holds++;
}

/* ---- the client leaves ---- */

void router_leg_cancel(struct router_leg *leg)
{
    if (leg->is_over)
        return; /* its answer is complete */
    leg->is_over = true;
    if (leg->stream.link != NULL && leg->is_taken) {
        router_link_cancel(&leg->stream);
        leg->is_leaving = true;
        return;
    }
    if (router_withdraw(&leg->job))
        router_call_drop(leg->call); /* on_ready will not come */
    leave_node(leg);
}
