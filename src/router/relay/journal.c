#include "router/relay/journal.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errors.h"
#include "router/fleet/reasons.h"

enum { AT_ONCE = 64 }; /* records that are looked at while the lock is held */

static const char *const step_names[] = {
#define X(name, text) text,
    ROUTER_STEP_MAP(X)
#undef X
};
static const char *const texts_names[] = {
#define X(name, text) text,
    ROUTER_TEXTS_MAP(X)
#undef X
};

lr_code router_journal_init(struct router_journal *j, size_t capacity, int64_t wall_ms,
                            struct lr_error *err)
{
    /* Three digits for the records that begin within a millisecond: numbers of this process are
     * larger than those of the process before, and JavaScript's numbers hold them. */
    *j = (struct router_journal){
        .capacity = capacity,
        .first = (uint64_t)wall_ms * 1000,
        .text_limit = ROUTER_TEXTS_MAX,
    };
    (void)pthread_mutex_init(&j->lock, NULL);
    if (capacity != 0)
        j->ring = calloc(capacity, sizeof(*j->ring));
    return capacity == 0 || j->ring != NULL
               ? LR_OK
               : lr_fail(err, LR_OUT_OF_RAM,
                         "no memory for a log of %zu requests (setting request-log)", capacity);
}

static void drop_texts(struct router_journal *j, struct router_record *r)
{
    j->text_bytes -= r->prompt.len + r->answer.len;
    lr_buf_free(&r->prompt);
    lr_buf_free(&r->answer);
}

void router_journal_free(struct router_journal *j)
{
    for (size_t i = 0; j->ring != NULL && i < j->capacity; i++)
        drop_texts(j, &j->ring[i]);
    free(j->ring);
    j->ring = NULL;
    j->capacity = 0;
}

/* ---- a request's way ---- */

static struct router_record *place(const struct router_journal *j, uint64_t number)
{
    return &j->ring[(number - j->first) % j->capacity];
}

struct router_record *router_journal_begin(struct router_journal *j)
{
    if (j->ring == NULL)
        return NULL;
    (void)pthread_mutex_lock(&j->lock);
    uint64_t number = j->first + j->count++;
    struct router_record *record = place(j, number);
    drop_texts(j, record);
    memset(record, 0, offsetof(struct router_record, steps)); /* most of it is steps */
    record->number = number;
    j->changes++;
    return record;
}

struct router_record *router_journal_enter(struct router_journal *j, uint64_t number)
{
    if (number == 0)
        return NULL;
    (void)pthread_mutex_lock(&j->lock);
    struct router_record *record = place(j, number);
    if (record->number == number) {
        j->changes++;
        return record;
    }
    (void)pthread_mutex_unlock(&j->lock);
    return NULL;
}

void router_journal_leave(struct router_journal *j)
{
    (void)pthread_mutex_unlock(&j->lock);
}

struct router_step *router_journal_step(struct router_record *record)
{
    uint32_t at = record->step_count++;
    return &record->steps[at < ROUTER_STEPS_MAX ? at : ROUTER_STEPS_MAX - 1];
}

/* ---- texts ---- */

bool router_record_move_texts(struct router_record *r, enum router_texts to)
{
    enum router_texts from = to == ROUTER_TEXTS_REMOVED ? ROUTER_TEXTS_KEPT : ROUTER_TEXTS_OFF;
    if (r->texts != from)
        return false;
    r->texts = to;
    return true;
}

static void remove_texts(struct router_journal *j, struct router_record *r)
{
    if (router_record_move_texts(r, ROUTER_TEXTS_REMOVED))
        drop_texts(j, r);
}

/* The oldest texts leave until `number`, which is the newest, has room. */
static void make_room(struct router_journal *j, uint64_t number)
{
    uint64_t kept = j->count < j->capacity ? j->count : j->capacity;
    uint64_t oldest = j->first + j->count - kept;
    if (j->text_oldest < oldest)
        j->text_oldest = oldest;
    for (; j->text_bytes > j->text_limit && j->text_oldest <= number; j->text_oldest++)
        remove_texts(j, place(j, j->text_oldest));
}

static void take_text(struct router_journal *j, struct router_record *r, struct lr_buf *to,
                      struct lr_buf *json)
{
    *to = *json;
    lr_buf_init(json, 0);
    j->text_bytes += to->len;
    make_room(j, r->number);
}

void router_journal_keep_prompt(struct router_journal *j, uint64_t number, struct lr_buf *json)
{
    struct router_record *r = json->failed ? NULL : router_journal_enter(j, number);
    if (r == NULL)
        return;
    if (router_record_move_texts(r, ROUTER_TEXTS_KEPT))
        take_text(j, r, &r->prompt, json);
    router_journal_leave(j);
}

void router_journal_keep_answer(struct router_journal *j, uint64_t number, struct lr_buf *json)
{
    struct router_record *r = json->failed ? NULL : router_journal_enter(j, number);
    if (r == NULL)
        return;
    if (r->texts == ROUTER_TEXTS_KEPT)
        take_text(j, r, &r->answer, json);
    router_journal_leave(j);
}

void router_journal_forget(struct router_journal *j, const char *key)
{
    (void)pthread_mutex_lock(&j->lock);
    for (size_t i = 0; i < j->capacity; i++)
        if (strcmp(j->ring[i].key, key) == 0)
            remove_texts(j, &j->ring[i]);
    j->changes++;
    (void)pthread_mutex_unlock(&j->lock);
}

uint64_t router_journal_changes(struct router_journal *j)
{
    (void)pthread_mutex_lock(&j->lock);
    uint64_t changes = j->changes;
    (void)pthread_mutex_unlock(&j->lock);
    return changes;
}

/* ---- filters ---- */

lr_code router_journal_check(const struct router_journal_filter *f, struct lr_error *err)
{
    uint64_t number;
    bool is_known = f->status.len == 0 || lr_str_eq_z(f->status, "running") ||
                    lr_str_eq_z(f->status, "ok") || lr_str_eq_z(f->status, "failed") ||
                    (lr_str_u64(f->status, &number) && number >= 100 && number <= 599);
    return is_known ? LR_OK : lr_fail_plain(err, requests_status);
}

static bool has_status(const struct router_record *r, struct lr_str wanted)
{
    uint64_t number;
    if (wanted.len == 0)
        return true;
    if (lr_str_eq_z(wanted, "running"))
        return r->status == 0;
    if (lr_str_eq_z(wanted, "ok"))
        return r->status != 0 && r->status < 400;
    if (lr_str_eq_z(wanted, "failed"))
        return r->status >= 400;
    return lr_str_u64(wanted, &number) && number == r->status;
}

static bool is_one_of(struct lr_str wanted, const char *a, const char *b)
{
    return wanted.len == 0 || lr_str_eq_nocase(wanted, lr_str_z(a)) ||
           lr_str_eq_nocase(wanted, lr_str_z(b));
}

static bool contains(const char *text, struct lr_str part)
{
    size_t len = strlen(text);
    for (size_t i = 0; i + part.len <= len; i++)
        if (lr_str_eq_nocase((struct lr_str){text + i, part.len}, part))
            return true;
    return false;
}

static bool has_text(const struct router_record *r, struct lr_str part)
{
    const char *const texts[] = {r->request_id, r->key,       r->key_name, r->model,
                                 r->node,       r->node_name, r->api,      r->error};
    bool found = part.len == 0;
    for (size_t i = 0; !found && i < sizeof(texts) / sizeof(texts[0]); i++)
        found = contains(texts[i], part);
    return found;
}

static bool matches(const struct router_record *r, const struct router_journal_filter *f)
{
    return has_status(r, f->status) && is_one_of(f->key, r->key, r->key_name) &&
           is_one_of(f->model, r->model, r->model) &&
           is_one_of(f->node, r->node, r->node_name) && has_text(r, f->text);
}

/* ---- answers ---- */

static double ms_between(uint64_t from, uint64_t to)
{
    return to > from ? (double)((to - from) / 1000) / 1000 : 0;
}

/* What the request does now; "done" after its end. */
static const char *phase_of(const struct router_record *r)
{
    if (r->status != 0)
        return "done";
    if (r->step_count == 0)
        return "arrived";
    uint32_t last = (r->step_count < ROUTER_STEPS_MAX ? r->step_count : ROUTER_STEPS_MAX) - 1;
    return step_names[r->steps[last].kind];
}

static void put_chosen(struct lr_json_writer *w, const struct router_chosen *c)
{
    if (c->nodes == 0)
        return;
    lr_json_member_object(w, "chosen");
    LR_JSON_MEMBERS(w, LR_REAL("cost_ms", c->cost_ms), LR_FLAG("loaded", c->is_loaded),
                    LR_UINT("active", c->active), LR_UINT("nodes", c->nodes),
                    LR_REAL("cached", c->cached));
    lr_json_end_object(w);
}

static void put_times(struct lr_json_writer *w, const struct router_record *r, uint64_t now_ns)
{
    uint64_t end_ns = r->ended_ns != 0 ? r->ended_ns : now_ns;
    if (r->granted_ns != 0)
        lr_json_member_double(w, "wait_ms", ms_between(r->begun_ns, r->granted_ns));
    if (r->first_ns != 0)
        lr_json_member_double(w, "first_token_ms", ms_between(r->begun_ns, r->first_ns));
    lr_json_member_double(w, "total_ms", ms_between(r->begun_ns, end_ns));
    double decode_ms = r->first_ns != 0 ? ms_between(r->first_ns, end_ns) : 0;
    if (r->completion_tokens > 1 && decode_ms >= 1) /* less says nothing of the speed */
        lr_json_member_double(w, "tokens_per_second",
                              (double)(r->completion_tokens - 1) * 1000 / decode_ms);
}

static void put_record(struct lr_json_writer *w, const struct router_record *r, uint64_t now_ns)
{
    LR_JSON_MEMBERS(w, LR_UINT("id", r->number), LR_TEXT("request_id", r->request_id),
                    LR_INT("time_ms", r->begun_wall_ms), LR_TEXT("key", r->key),
                    LR_TEXT("key_name", r->key_name), LR_TEXT("model", r->model),
                    LR_TEXT("node", r->node), LR_TEXT("node_name", r->node_name),
                    LR_TEXT("api", r->api), LR_UINT("status", r->status),
                    LR_TEXT("phase", phase_of(r)), LR_FLAG("stream", r->is_stream),
                    LR_UINT("choices", r->choices), LR_UINT("prompt_tokens", r->prompt_tokens),
                    LR_UINT("completion_tokens", r->completion_tokens),
                    LR_UINT("cached_tokens", r->cached_tokens));
    put_times(w, r, now_ns);
    if (r->why[0] != '\0')
        lr_json_member_z(w, "reason", r->why);
    put_chosen(w, &r->chosen);
    if (r->status >= 400) {
        char word[LR_CODE_WORD];
        LR_JSON_MEMBERS(w, LR_TEXT("error_code", lr_code_word(r->code, word)),
                        LR_TEXT("error", r->error));
    }
}

void router_journal_write(struct router_journal *j, const struct router_journal_filter *f,
                          uint64_t now_ns, struct lr_json_writer *w)
{
    size_t written = 0;
    bool has_more = false;
    lr_json_member_array(w, "requests");
    (void)pthread_mutex_lock(&j->lock);
    uint64_t end = j->first + j->count;
    uint64_t kept = j->count < j->capacity ? j->count : j->capacity;
    uint64_t at = f->before != 0 && f->before < end ? f->before : end;
    for (uint64_t seen = 1; !has_more && at > end - kept && at > j->first; seen++) {
        const struct router_record *r = place(j, --at);
        if (r->number == at && matches(r, f)) {
            has_more = written == f->limit;
            if (!has_more) {
                lr_json_begin_object(w);
                put_record(w, r, now_ns);
                lr_json_end_object(w);
                written++;
            }
        }
        if (seen % AT_ONCE == 0) { /* requests that run get the lock in between */
            (void)pthread_mutex_unlock(&j->lock);
            (void)pthread_mutex_lock(&j->lock);
        }
    }
    (void)pthread_mutex_unlock(&j->lock);
    lr_json_end_array(w);
    LR_JSON_MEMBERS(w, LR_FLAG("more", has_more), LR_UINT("kept", kept),
                    LR_UINT("capacity", j->capacity));
}

static void put_steps(struct lr_json_writer *w, const struct router_record *r)
{
    uint32_t count = r->step_count < ROUTER_STEPS_MAX ? r->step_count : ROUTER_STEPS_MAX;
    lr_json_member_array(w, "steps");
    for (uint32_t i = 0; i < count; i++) {
        const struct router_step *s = &r->steps[i];
        lr_json_begin_object(w);
        LR_JSON_MEMBERS(w, LR_TEXT("step", step_names[s->kind]),
                        LR_REAL("at_ms", ms_between(r->begun_ns, s->at_ns)),
                        LR_UINT("choice", s->choice), LR_UINT("tokens", s->tokens));
        if (s->node[0] != '\0')
            lr_json_member_z(w, "node", s->node);
        if (s->reason[0] != '\0')
            lr_json_member_z(w, "reason", s->reason);
        router_reason_put_text(w, "reason", s->reason, sizeof(s->reason));
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    lr_json_member_u64(w, "steps_left_out", r->step_count - count);
}

static void put_texts(struct lr_json_writer *w, const struct router_record *r, bool shows_texts)
{
    bool is_hidden = r->texts == ROUTER_TEXTS_KEPT && !shows_texts;
    lr_json_member_z(w, "texts", is_hidden ? "hidden" : texts_names[r->texts]);
    if (r->texts != ROUTER_TEXTS_KEPT || is_hidden)
        return;
    lr_json_key(w, "prompt");
    lr_json_put_raw(w, lr_buf_str(&r->prompt));
    if (r->answer.len == 0)
        return;
    lr_json_key(w, "answers");
    lr_json_put_raw(w, lr_buf_str(&r->answer));
}

/* By number, else the newest with this request id.  Lock held. */
static const struct router_record *find(const struct router_journal *j, struct lr_str id)
{
    uint64_t number, end = j->first + j->count;
    uint64_t kept = j->count < j->capacity ? j->count : j->capacity;
    if (lr_str_u64(id, &number) && number >= end - kept && number < end)
        return place(j, number);
    for (uint64_t at = end; at > end - kept; at--)
        if (lr_str_eq_z(id, place(j, at - 1)->request_id))
            return place(j, at - 1);
    return NULL;
}

bool router_journal_write_one(struct router_journal *j, struct lr_str id, uint64_t now_ns,
                              bool shows_texts, struct lr_json_writer *w)
{
    (void)pthread_mutex_lock(&j->lock);
    const struct router_record *r = find(j, id);
    if (r != NULL) {
        put_record(w, r, now_ns);
        if (r->status >= 400)
            router_reason_put_text(w, "error_reason", r->error, sizeof(r->error));
        put_steps(w, r);
        put_texts(w, r, shows_texts);
    }
    (void)pthread_mutex_unlock(&j->lock);
    return r != NULL;
}
