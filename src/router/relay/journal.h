/* router/relay/journal.h - the request log: the last requests to generate, in memory.
 *
 * A record begins when a request arrives and is updated while the request runs: which key and
 * model, which node and why, the steps of its way with their times, and how it ended.  Only
 * where the key has keep_texts a record also has the prompt and the answer (texts.h).  Texts of
 * all records have ROUTER_TEXTS_MAX bytes together: the oldest leave first.  They also leave
 * with their record, and when the key keeps texts no longer.
 *
 * The records are a ring with a fixed number of places (setting request-log), allocated once.
 * A request refers to its record by number; where newer requests have taken the place, an
 * update does nothing.  A request is updated a few times, never for each token; each update
 * holds the lock for the time of a copy.
 * Thread: any.
 */
#ifndef ROUTER_RELAY_JOURNAL_H
#define ROUTER_RELAY_JOURNAL_H

#include <pthread.h>

#include "base/fail.h"
#include "base/json.h"
#include "base/str.h"
#include "router/sched/ticket.h"

enum {
    ROUTER_STEPS_MAX = 16,     /* of a record; later steps take the place of the last */
    ROUTER_JOURNAL_PAGE = 500, /* records of one answer, at most */
    ROUTER_TEXTS_MAX = 64 << 20,
};

/*    name          in JSON */
#define ROUTER_STEP_MAP(X)                                                                     \
    X(QUEUED, "queued")                                                                        \
    X(SENT, "sent")                                                                            \
    X(ACCEPTED, "accepted")                                                                    \
    X(LOADING, "loading")                                                                      \
    X(LOADED, "loaded")                                                                        \
    X(PREFILL, "prefill")                                                                      \
    X(FIRST_TOKEN, "first_token")                                                              \
    X(BUSY, "busy")                                                                            \
    X(PREEMPTED, "preempted")                                                                  \
    X(RECALLED, "recalled")                                                                    \
    X(PAUSED, "paused")                                                                        \
    X(WORKER_LOST, "worker_lost")                                                              \
    X(FAILED_OVER, "failed_over")                                                              \
    X(CHOICE_DONE, "choice_done")

enum router_step_kind {
#define X(name, text) ROUTER_STEP_##name,
    ROUTER_STEP_MAP(X)
#undef X
};

struct router_step {
    enum router_step_kind kind;
    uint32_t choice;
    uint32_t tokens;  /* that the client had */
    uint64_t at_ns;   /* monotonic */
    char node[64];    /* its name; "": none */
    char reason[200]; /* with its identity: lr_error_copy_text */
};

/*    name          in JSON */
#define ROUTER_TEXTS_MAP(X)                                                                    \
    X(OFF, "off")   /* the key does not keep texts */                                          \
    X(NONE, "none") /* the request was refused before it had a prompt */                       \
    X(KEPT, "kept")                                                                            \
    X(REMOVED, "removed") /* newer texts needed the room, or the key keeps texts no longer */

/*    OFF ----> NONE          at the end of a request without a prompt
 *     |
 *     +----> KEPT ----> REMOVED */
enum router_texts {
#define X(name, text) ROUTER_TEXTS_##name,
    ROUTER_TEXTS_MAP(X)
#undef X
};

struct router_record {
    uint64_t number; /* 0: free */
    char request_id[72];
    char key[24], key_name[64]; /* "": without a key */
    char model[160];            /* as the client named it, then the model's id */
    char node[48], node_name[64];
    char api[40]; /* the path of the request */
    char why[96]; /* X-LLM-Router-Reason */
    struct router_chosen chosen;
    int64_t begun_wall_ms;
    uint64_t begun_ns, granted_ns, first_ns, ended_ns; /* monotonic; 0: not yet */
    uint32_t status;                                   /* 0: it runs */
    lr_code code;                                      /* why it failed */
    char error[256];
    uint64_t prompt_tokens, completion_tokens, cached_tokens;
    uint32_t choices;
    bool is_stream;
    enum router_texts texts;
    struct lr_buf prompt, answer; /* owned, JSON (texts.h); empty unless texts is KEPT */
    uint32_t step_count; /* that came; the record has the first ones and the last.  What lies
                          * behind them in `steps` is left from an older record. */
    struct router_step steps[ROUTER_STEPS_MAX];
};

struct router_journal {
    pthread_mutex_t lock;
    struct router_record *ring; /* owned; NULL: nothing is logged */
    size_t capacity;
    uint64_t first; /* number of the first record: another one after each start */
    uint64_t count; /* records since the start */
    uint64_t changes;
    size_t text_bytes;    /* of all records */
    size_t text_limit;    /* ROUTER_TEXTS_MAX; tests take less */
    uint64_t text_oldest; /* no record before this number has texts */
};

/* capacity 0: no request is logged. */
LR_MUST_USE lr_code router_journal_init(struct router_journal *j, size_t capacity,
                                        int64_t wall_ms, struct lr_error *err);
void router_journal_free(struct router_journal *j);

/* ---- a request's way ---- */

/* A new record, empty but for its number, until router_journal_leave, which the caller owes if
 * it is not NULL; NULL: nothing is logged. */
struct router_record *router_journal_begin(struct router_journal *j);
/* The record with this number until router_journal_leave, which the caller owes if it is not
 * NULL; NULL: newer records took its place. */
struct router_record *router_journal_enter(struct router_journal *j, uint64_t number);
void router_journal_leave(struct router_journal *j);
/* The record's next step, for the caller to fill; the record was entered. */
struct router_step *router_journal_step(struct router_record *record);

/* The prompt, then the answer of a record; takes the buffer and leaves an empty one.  The
 * answer is dropped unless the prompt is kept. */
void router_journal_keep_prompt(struct router_journal *j, uint64_t number, struct lr_buf *json);
void router_journal_keep_answer(struct router_journal *j, uint64_t number, struct lr_buf *json);
/* The only function that changes record->texts.  False: there is no such move, and nothing
 * happened.  The lock is held. */
bool router_record_move_texts(struct router_record *record, enum router_texts to);
/* Removes the texts of all records of this key, also those of requests that run. */
void router_journal_forget(struct router_journal *j, const char *key);

/* Changes since the start: a page reads again only what has changed. */
uint64_t router_journal_changes(struct router_journal *j);

/* ---- questions ---- */

struct router_journal_filter {
    struct lr_str key, model, node; /* empty: any; key and node by id or name */
    struct lr_str text;   /* found in id, key, model, node, API or error, in any case */
    struct lr_str status; /* "", "running", "ok", "failed", or a number */
    uint64_t before;      /* number; 0: from the newest */
    size_t limit;
};

/* LR_OK, or why "status" is not one. */
LR_MUST_USE lr_code router_journal_check(const struct router_journal_filter *filter,
                                         struct lr_error *err);
/* Members "requests", newest first, "more", "kept" and "capacity", into an open object. */
void router_journal_write(struct router_journal *j, const struct router_journal_filter *filter,
                          uint64_t now_ns, struct lr_json_writer *w);
/* The members of one record with its steps, by number or by the newest with this request id.
 * shows_texts: the caller may read prompts and answers.  False: there is none. */
bool router_journal_write_one(struct router_journal *j, struct lr_str id, uint64_t now_ns,
                              bool shows_texts, struct lr_json_writer *w);

#endif
