#include "router/relay/keep.h"

#include <stdlib.h>

#include "base/log.h"
#include "router/relay/call.h"
#include "router/store/clock.h"

enum {
    BATCH_JOBS = 64,
    BATCH_BYTES = 8 << 20,    /* written in one transaction */
    WAITING_BYTES = 64 << 20, /* of all jobs; an answer over this is not stored */
    WAIT_MS = 2000,           /* that an answer waits for the database */
    SWEEP_S = 2,              /* between two sweeps while nothing is stored */
};

struct router_keep_job {
    struct router_keep_job *next;
    struct router_keeper *keeper;
    struct router_call *call; /* held; NULL: it was freed */
    struct net_loop *loop;    /* the call's */
    char id[ROUTER_RESPONSE_ID], previous[ROUTER_RESPONSE_ID], key[64];
    struct chat_record record; /* owned */
    size_t bytes;
    size_t old_bytes;         /* of the row that JOB_END replaces */
    uint64_t begun_ms;        /* of the loop's clock */
    _Atomic bool is_given_up; /* the client was told that it is not stored */
    bool is_kept;
    enum { JOB_ANSWER, JOB_BEGIN, JOB_END } kind; /* the last two: of a background request */
    router_stored_fn done;                        /* of JOB_BEGIN */
    bool is_idle;  /* JOB_END that failed: the call's watch tries again */
    char why[200]; /* it is not */
};

void router_keeper_init(struct router_keeper *keeper)
{
    keeper->last = &keeper->first;
    router_running_init(&keeper->running);
    (void)pthread_mutex_init(&keeper->lock, NULL);
}

void router_keeper_free(struct router_keeper *keeper)
{
    router_running_free(&keeper->running);
    (void)pthread_mutex_destroy(&keeper->lock);
}

bool router_keeper_can(struct router_keeper *keeper)
{
    char trouble[ROUTER_TROUBLE];
    return keeper->keep_ms != 0 && keeper->max_bytes != 0 &&
           !router_store_trouble(keeper->store, trouble);
}

struct router_responses_view router_keeper_view(const struct router_keeper *keeper,
                                                struct lr_str key)
{
    int64_t now = lr_clock_wall_ms(&router_clock);
    return (struct router_responses_view){
        .key = key, .now_ms = now, .since_ms = now - (int64_t)keeper->keep_ms};
}

/* ---- writing.  Thread: the database's ---- */

static lr_code write_job(struct router_sql *sql, struct router_keep_job *job, int64_t now_ms,
                         struct lr_error *err)
{
    struct router_response row = {
        .id = lr_str_z(job->id),
        .key = lr_str_z(job->key),
        .previous = lr_str_z(job->previous),
        .input = lr_buf_str(&job->record.input),
        .output = lr_buf_str(&job->record.output),
        .answer = lr_buf_str(&job->record.answer),
        .output_at = job->record.output_at,
        .is_running = job->kind == JOB_BEGIN,
    };
    if (atomic_load(&job->is_given_up))
        return LR_OK;
    lr_code code = job->kind == JOB_END
                       ? router_response_end(sql, &row, job->old_bytes, now_ms, err)
                       : router_response_insert(sql, &row, now_ms, err);
    job->is_kept = code == LR_OK;
    return code;
}

static void take_jobs(struct router_keeper *keeper)
{
    struct router_keep_job **end = &keeper->writing;
    size_t bytes = 0;
    (void)pthread_mutex_lock(&keeper->lock);
    for (size_t i = 0; i < BATCH_JOBS && keeper->first != NULL && bytes < BATCH_BYTES; i++) {
        *end = keeper->first;
        end = &(*end)->next;
        bytes += keeper->first->bytes;
        keeper->first = keeper->first->next;
    }
    *end = NULL;
    if (keeper->first == NULL)
        keeper->last = &keeper->first;
    (void)pthread_mutex_unlock(&keeper->lock);
}

static lr_code write_jobs(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct router_keeper *keeper = arg;
    int64_t now_ms = lr_clock_wall_ms(&router_clock);
    lr_code code = LR_OK;
    take_jobs(keeper);
    for (struct router_keep_job *job = keeper->writing; code == LR_OK && job != NULL;
         job = job->next)
        code = write_job(sql, job, now_ms, err);
    return code;
}

static void on_kept(void *arg);

static void wrote_jobs(void *arg, const struct lr_error *err)
{
    struct router_keeper *keeper = arg;
    size_t bytes = 0;
    if (keeper->writing == NULL)
        take_jobs(keeper); /* the transaction did not begin */
    struct router_keep_job *jobs = keeper->writing;
    keeper->writing = NULL;
    for (struct router_keep_job *job = jobs, *next; job != NULL; job = next) {
        next = job->next;
        bytes += job->bytes;
        job->is_kept = job->is_kept && err == NULL;
        LR_COPY(job->why, lr_str_z(err != NULL ? err->text : "the database took too long"));
        net_loop_post(job->loop, on_kept, job);
    }
    (void)pthread_mutex_lock(&keeper->lock);
    keeper->bytes -= bytes;
    atomic_store(&keeper->has_written, true);
    keeper->is_busy = keeper->first != NULL;
    bool goes_on = keeper->is_busy;
    (void)pthread_mutex_unlock(&keeper->lock);
    if (goes_on)
        router_store_quietly(keeper->store, write_jobs, NULL, wrote_jobs, keeper);
}

/* False: very much waits already. */
static bool add_job(struct router_keeper *keeper, struct router_keep_job *job)
{
    (void)pthread_mutex_lock(&keeper->lock);
    bool fits = keeper->bytes + job->bytes <= WAITING_BYTES;
    bool begins = fits && !keeper->is_busy;
    if (fits) {
        keeper->bytes += job->bytes;
        keeper->is_busy = true;
        job->next = NULL;
        *keeper->last = job;
        keeper->last = &job->next;
    }
    (void)pthread_mutex_unlock(&keeper->lock);
    if (begins)
        router_store_quietly(keeper->store, write_jobs, NULL, wrote_jobs, keeper);
    return fits;
}

/* ---- a call's answer ---- */

static void free_job(struct router_keep_job *job)
{
    chat_record_free(&job->record);
    free(job);
}

/* Ends the turn; the caller holds the call. */
static void end_turn(struct router_call *call, bool is_kept, const char *why)
{
    struct lr_log_ctx log = {.request_id = call->access->request_id};
    if (call->turn.state != CHAT_TURN_KEEPING)
        return;
    if (!is_kept)
        lr_log_warn(&log, "response.not_stored id=%s reason=%s", call->turn.id, why);
    chat_turn_kept(&call->turn, is_kept);
}

static void on_kept(void *arg)
{
    struct router_keep_job *job = arg;
    struct router_call *call = job->call;
    if (call != NULL && job->kind == JOB_END && !job->is_kept) {
        job->is_idle = true;
        return;
    }
    if (call != NULL) {
        call->job = NULL;
        if (job->kind == JOB_BEGIN)
            job->done(call, job->is_kept, lr_buf_str(&job->record.answer));
        else
            end_turn(call, job->is_kept, job->why);
        router_call_drop(call);
    }
    free_job(job);
}

static struct router_keep_job *make_job(struct router_call *call, struct chat_record *record)
{
    struct router_keeper *keeper = call->relay->keeper;
    struct router_keep_job *job = calloc(1, sizeof(*job));
    size_t bytes = record->input.len + record->output.len + record->answer.len;
    if (job == NULL || bytes > keeper->max_bytes) {
        chat_record_free(record);
        free(job);
        return NULL;
    }
    *job = (struct router_keep_job){.keeper = keeper,
                                    .call = call,
                                    .loop = call->relay->links.net,
                                    .record = *record,
                                    .bytes = bytes + sizeof(*job),
                                    .begun_ms = net_loop_now_ms(call->relay->links.net)};
    LR_COPY(job->id, lr_str_z(call->turn.id));
    LR_COPY(job->previous, call->turn.request->previous);
    LR_COPY(job->key, lr_str_z(router_caller_id(&call->access->caller)));
    return job;
}

static bool begin_job(struct router_call *call, struct router_keep_job *job)
{
    if (job == NULL || !add_job(call->relay->keeper, job)) {
        if (job != NULL)
            free_job(job);
        return false;
    }
    call->job = job;
    router_call_hold(call);
    return true;
}

bool router_call_keep(void *owner, struct chat_record *record)
{
    struct router_call *call = owner;
    struct router_keep_job *job = make_job(call, record);
    if (job != NULL && call->background != NULL) {
        job->kind = JOB_END;
        job->old_bytes = call->background->bytes;
    }
    return begin_job(call, job);
}

bool router_call_store(struct router_call *call, struct chat_record *record,
                       router_stored_fn done)
{
    struct router_keep_job *job = make_job(call, record);
    if (job != NULL) {
        job->kind = JOB_BEGIN;
        job->done = done;
    }
    return begin_job(call, job);
}

void router_call_watch_keep(struct router_call *call, uint64_t now_ms)
{
    struct router_keep_job *job = call->job;
    if (job != NULL && job->is_idle)
        job->is_idle = !add_job(call->relay->keeper, job);
    if (job == NULL || job->kind != JOB_ANSWER || now_ms - job->begun_ms < WAIT_MS ||
        atomic_load(&job->is_given_up))
        return;
    atomic_store(&job->is_given_up, true);
    end_turn(call, false, "the database took too long");
}

void router_call_leave_keep(struct router_call *call)
{
    struct router_keep_job *job = call->job;
    call->job = NULL;
    if (job != NULL && job->is_idle)
        free_job(job);
    else if (job != NULL)
        job->call = NULL;
}

/* ---- what a request refers to ---- */

struct router_load {
    struct router_call *call; /* held while it runs */
    void (*go_on)(struct router_call *call);
    struct router_responses_view view;
    char key[64], missing[ROUTER_RESPONSE_ID];
    struct chat_wanted wanted;
    struct lr_buf earlier, items;
    struct chat_stored stored;
};

void router_load_free(struct router_load *load)
{
    if (load == NULL)
        return;
    lr_buf_free(&load->earlier);
    lr_buf_free(&load->items);
    free(load);
}

static lr_code read_stored(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct router_load *load = arg;
    lr_code code = LR_OK;
    if (load->wanted.previous.len != 0)
        code = router_responses_chain(sql, &load->view, load->wanted.previous, &load->earlier,
                                      load->missing, err);
    if (code == LR_OK && load->missing[0] == '\0')
        code = router_responses_items(sql, &load->view, load->wanted.answers,
                                      load->wanted.answer_count, &load->items, err);
    return code;
}

static void on_read(void *arg, const struct lr_error *err)
{
    struct router_load *load = arg;
    struct router_call *call = load->call;
    load->stored = (struct chat_stored){.earlier = lr_buf_str(&load->earlier),
                                        .missing = lr_str_z(load->missing),
                                        .items = lr_buf_str(&load->items)};
    if (err == NULL) {
        call->turn.terms.stored = &load->stored;
        load->go_on(call);
    } else {
        chat_turn_fail(&call->turn, err);
    }
    router_call_drop(call);
}

void router_call_load(struct router_call *call, void (*go_on)(struct router_call *call))
{
    static const struct chat_stored nothing; /* nothing is wanted */
    struct router_keeper *keeper = call->relay->keeper;
    struct chat_terms *terms = &call->turn.terms;
    struct chat_wanted wanted;
    struct lr_error err;
    bool is_off = keeper == NULL || keeper->keep_ms == 0 || keeper->max_bytes == 0;
    if (call->turn.codec->find_stored == NULL || is_off) {
        go_on(call);
        return;
    }
    terms->can_keep = router_keeper_can(keeper);
    terms->stored = &nothing;
    if (!chat_turn_find_stored(&call->turn, &wanted))
        return;
    if (wanted.previous.len == 0 && wanted.answer_count == 0) {
        go_on(call);
        return;
    }
    struct router_load *load = call->load = calloc(1, sizeof(*load));
    if (load == NULL) {
        (void)lr_fail(&err, LR_OUT_OF_RAM, "no memory for a request");
        chat_turn_fail(&call->turn, &err);
        return;
    }
    load->call = call;
    load->go_on = go_on;
    load->wanted = wanted;
    LR_COPY(load->key, lr_str_z(router_caller_id(&call->access->caller)));
    load->view = router_keeper_view(keeper, lr_str_z(load->key));
    lr_buf_init(&load->earlier, ROUTER_LOAD_BYTES);
    lr_buf_init(&load->items, ROUTER_LOAD_BYTES);
    router_call_hold(call);
    router_store_quietly(keeper->store, read_stored, call->relay->links.net, on_read, load);
}

/* ---- the sweep.  Thread: the database's ---- */

/* While the clock is in doubt only those go that a key was told to forget: their time is 0. */
static lr_code sweep(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct router_keeper *keeper = arg;
    int64_t wall_ms = lr_clock_wall_ms(&router_clock);
    bool more_lost, more_old = false;
    lr_code code =
        router_running_look(&keeper->running, sql, lr_clock_ms(NULL), wall_ms, &more_lost, err);
    int64_t since_ms = router_clock_is_steady() ? wall_ms - (int64_t)keeper->keep_ms : 0;
    if (code == LR_OK)
        code = router_responses_sweep(sql, since_ms, keeper->max_bytes, &more_old, err);
    keeper->has_more = more_lost || more_old;
    return code;
}

static void swept(void *arg, const struct lr_error *err);

static void start_sweep(struct router_keeper *keeper)
{
    atomic_store(&keeper->is_sweeping, true);
    atomic_store(&keeper->has_written, false);
    router_store_quietly(keeper->store, sweep, NULL, swept, keeper);
}

/* One transaction after the other, so that other work of the database comes between them. */
static void swept(void *arg, const struct lr_error *err)
{
    struct router_keeper *keeper = arg;
    if (err == NULL && keeper->has_more && !atomic_load(&keeper->is_stopping))
        start_sweep(keeper);
    else
        atomic_store(&keeper->is_sweeping, false);
}

void router_keeper_second(struct router_keeper *keeper)
{
    char trouble[ROUTER_TROUBLE];
    bool is_due = keeper->seconds++ % SWEEP_S == 0 || atomic_load(&keeper->has_written);
    if (is_due && !atomic_load(&keeper->is_sweeping) &&
        !router_store_trouble(keeper->store, trouble))
        start_sweep(keeper);
}
