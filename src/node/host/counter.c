#include "node/workers/counter.h"

#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/machine.h"
#include "net/json.h"
#include "node/models/models.h"
#include "node/workers/worker.h"
#include "wire/event.h"
#include "wire/open.h"

enum {
    WAITING_MAX = 32, /* the router lets a few through at a time */
    IDLE_MS = 60000,  /* a tokenizer takes some ten MB */
    ANSWER_BYTES = 256,
};

enum node_counter_state {
    NODE_COUNTER_NONE,
    NODE_COUNTER_ASKED,
    NODE_COUNTER_READY,
    NODE_COUNTER_ENDING,
};

#define TO(name) LR_STATE(NODE_COUNTER_##name)
static const struct lr_machine machine = {
    "counter",
    {
        [NODE_COUNTER_NONE] = {"none", TO(ASKED)},
        [NODE_COUNTER_ASKED] = {"asked", TO(READY) | TO(ENDING) | TO(NONE)},
        [NODE_COUNTER_READY] = {"ready", TO(ASKED) | TO(ENDING) | TO(NONE)},
        [NODE_COUNTER_ENDING] = {"ending", TO(NONE)},
    },
};

struct question {
    struct question *next;
    struct node_counter *counter;      /* borrowed */
    struct net_request *req;           /* NULL: the client has left while it was asked */
    const struct lr_segment *segments; /* in the request's memory */
    size_t count;
    bool has_start; /* a process was started for it */
};

struct node_counter {
    struct node_model *model;     /* borrowed; NULL: it is gone, or is about to be */
    struct node_library *library; /* reference, while there is a process */
    uint64_t described;           /* of the model, likewise */
    struct node_proc *proc;       /* NULL: NONE */
    struct net_timer *timer;      /* ends the process: nobody asks, or no answer comes */
    enum node_counter_state state;
    struct question *first, **last; /* owned; the first one is asked in state ASKED */
    uint32_t waiting;
};

static void pump(struct node_counter *c);

static void counter_move(struct node_counter *c, enum node_counter_state state)
{
    const char *id = c->model != NULL ? c->model->id : "";
    if (lr_machine_allows(&machine, id, c->state, state))
        c->state = state;
}

static void end_process(struct node_counter *c)
{
    if (c->state != NODE_COUNTER_ASKED && c->state != NODE_COUNTER_READY)
        return;
    counter_move(c, NODE_COUNTER_ENDING);
    node_proc_kill(c->proc);
}

/* ---- questions ---- */

static void remove_question(struct node_counter *c, struct question *q)
{
    struct question **link = &c->first;
    while (*link != q)
        link = &(*link)->next;
    *link = q->next;
    if (q->next == NULL)
        c->last = link;
    c->waiting--;
    free(q);
}

/* The first question has its answer: err NULL, the tokens. */
static void counter_finish(struct node_counter *c, uint64_t tokens, const struct lr_error *err)
{
    struct net_request *req = c->first->req;
    struct net_json json;
    struct lr_error failure;
    remove_question(c, c->first);
    if (req == NULL)
        return;
    if (err == NULL) {
        lr_json_member_u64(net_json_begin(&json, ANSWER_BYTES), "tokens", tokens);
        if (net_json_send(&json, req, 200, &failure) != LR_OK)
            net_respond_error(req, &failure);
    } else {
        net_respond_error(req, err);
    }
}

/* No answer came in time, or nobody asked for a while. */
static void on_late(void *arg)
{
    struct node_counter *c = arg;
    struct lr_error err;
    bool is_asked = c->state == NODE_COUNTER_ASKED;
    end_process(c);
    if (!is_asked)
        return;
    (void)lr_fail_as(&err, count_slow, c->model->models->launcher->probe_ms);
    counter_finish(c, 0, &err);
}

static void set_timer(struct node_counter *c, uint64_t ms)
{
    net_timer_stop(c->timer);
    c->timer = net_timer_start(c->model->models->loop, ms, 0, on_late, c);
}

static void counter_on_gone(void *arg)
{
    struct question *q = arg;
    net_stream_abort(q->req);
    q->req = NULL;
    if (q != q->counter->first || q->counter->state != NODE_COUNTER_ASKED)
        remove_question(q->counter, q);
}

/* ---- the process ---- */

static lr_code on_frames(void *arg, struct wire_reader *frames, struct lr_error *err)
{
    struct node_counter *c = arg;
    struct wire_frame frame;
    struct wire_error failed;
    uint64_t tokens;
    bool has;
    lr_code code;
    while ((code = wire_reader_next(frames, &frame, &has, err)) == LR_OK && has) {
        if (c->state != NODE_COUNTER_ASKED)
            continue;
        if (frame.type == WIRE_COUNTED && wire_u64_decode(frame.body, &tokens, NULL) == LR_OK) {
            counter_move(c, NODE_COUNTER_READY);
            counter_finish(c, tokens, NULL);
        } else if (frame.type == WIRE_FAILED &&
                   wire_error_decode(frame.body, &failed, NULL) == LR_OK) {
            if (wire_is_refusal(failed.error.code))
                counter_move(c, NODE_COUNTER_READY);
            else
                end_process(c); /* its engine may be in any state */
            counter_finish(c, 0, &failed.error);
        }
    }
    if (code == LR_OK)
        pump(c);
    return code;
}

static void fail_all(struct node_counter *c, const struct lr_error *err)
{
    while (c->first != NULL)
        counter_finish(c, 0, err);
}

static void on_exit_of_process(void *arg, const char *how)
{
    struct node_counter *c = arg;
    struct lr_error err;
    bool was_asked = c->state == NODE_COUNTER_ASKED && c->first != NULL;
    c->proc = NULL;
    net_timer_stop(c->timer);
    c->timer = NULL;
    node_library_unref(c->library);
    c->library = NULL;
    counter_move(c, NODE_COUNTER_NONE);
    if (c->model == NULL) {
        free(c);
        return;
    }
    node_changed(c->model->models);
    (void)lr_fail_as(&err, engine_died_counting, how);
    if (was_asked && (c->first->has_start || c->first->req == NULL))
        counter_finish(c, 0, &err);
    pump(c);
}

static lr_code counter_start(struct node_counter *c, const struct wire_open *open,
                             struct lr_error *err)
{
    const struct node_launcher *launcher = c->model->models->launcher;
    struct node_library *library = c->model->engine->library;
    const struct node_proc_callbacks callbacks = {
        .arg = c, .on_frames = on_frames, .on_exit = on_exit_of_process};
    lr_code code = node_engine_run(launcher, library, c->model->id, WIRE_COUNT, open,
                                   &callbacks, &c->proc, err);
    if (code != LR_OK)
        return code;
    c->library = node_library_ref(library);
    c->described = c->model->described;
    c->first->has_start = true;
    lr_log_info(NULL, "counter.start model=%s pid=%d engine=%s", c->model->id,
                (int)node_proc_pid(c->proc), library->engine_id);
    return LR_OK;
}

static void send(struct node_counter *c, const struct wire_open *open)
{
    struct lr_buf frame;
    lr_buf_init(&frame, WIRE_BODY_MAX);
    wire_open_encode(&frame, WIRE_COUNT, open);
    (void)node_proc_send(c->proc, lr_buf_str(&frame)); /* broken: the end follows */
    lr_buf_free(&frame);
}

static bool can_count(const struct node_model *m)
{
    return m->engine != NULL && m->engine->library != NULL && m->state >= NODE_MODEL_PRESENT &&
           m->state != NODE_MODEL_FAILED && !m->is_purging;
}

static void ask_first(struct node_counter *c)
{
    const struct node_model *m = c->model;
    struct wire_open open;
    struct lr_error err;
    node_describe_open(m, m->engine->library, NODE_POOL_RAM, 0, &open);
    open.segments = c->first->segments;
    open.segment_count = c->first->count;
    open.stays = true;
    if (c->state == NODE_COUNTER_READY)
        send(c, &open);
    else if (counter_start(c, &open, &err) != LR_OK) {
        counter_finish(c, 0, &err);
        return;
    }
    counter_move(c, NODE_COUNTER_ASKED);
    set_timer(c, m->models->launcher->probe_ms);
}

/* Does what the state allows. */
static void pump(struct node_counter *c)
{
    struct lr_error err;
    while (c->model != NULL && c->first != NULL &&
           (c->state == NODE_COUNTER_NONE || c->state == NODE_COUNTER_READY)) {
        if (!can_count(c->model)) {
            (void)lr_fail_as(&err, files_not_ready, c->model->id);
            fail_all(c, &err);
        } else if (c->state == NODE_COUNTER_READY && (c->library != c->model->engine->library ||
                                                      c->described != c->model->described)) {
            end_process(c); /* for another one */
        } else {
            ask_first(c);
        }
    }
    if (c->model != NULL && c->state == NODE_COUNTER_READY)
        set_timer(c, IDLE_MS);
}

/* ---- for the node ---- */

static struct node_counter *counter_of(struct node_model *model)
{
    if (model->counter == NULL &&
        (model->counter = calloc(1, sizeof(*model->counter))) != NULL) {
        model->counter->model = model;
        model->counter->last = &model->counter->first;
    }
    return model->counter;
}

lr_code node_counter_ask(struct node_model *model, struct net_request *req,
                         const struct lr_segment *segments, size_t count, struct lr_error *err)
{
    if (!can_count(model) || model->models->is_draining)
        return lr_fail_as(err, files_not_ready, model->id);
    struct node_counter *c = counter_of(model);
    if (c != NULL && c->waiting >= WAITING_MAX)
        return lr_fail_as(err, counts_waiting, WAITING_MAX, model->id);
    struct question *q = calloc(1, sizeof(*q));
    if (c == NULL || q == NULL) {
        free(q);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory to count tokens");
    }
    *q = (struct question){.counter = c, .req = req, .segments = segments, .count = count};
    *c->last = q;
    c->last = &q->next;
    c->waiting++;
    net_request_on_gone(req, counter_on_gone, q);
    pump(c);
    return LR_OK;
}

void node_counter_end(struct node_model *model)
{
    struct node_counter *c = model->counter;
    struct lr_error err;
    if (c == NULL)
        return;
    (void)lr_fail_as(&err, files_not_ready, model->id);
    fail_all(c, &err);
    end_process(c);
}

void node_counter_leave(struct node_model *model)
{
    struct node_counter *c = model->counter;
    if (c == NULL)
        return;
    node_counter_end(model);
    net_timer_stop(c->timer);
    c->timer = NULL;
    c->model = NULL;
    model->counter = NULL;
    if (c->proc == NULL)
        free(c);
}

bool node_counter_has_process(const struct node_model *model)
{
    return model->counter != NULL && model->counter->proc != NULL;
}
