#include "net/logs.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "base/log.h"
#include "net/json.h"

enum {
    KEPT = 2000,
    TEXT_BYTES = 1024,
    BODY_BYTES = KEPT * TEXT_BYTES * 4,
    DEFAULT_LINES = 200,
    MARK_LEN = 48,
};

struct kept {
    int64_t wall_ms;
    enum lr_log_level level;
    char *text; /* owned */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept ring[KEPT]; /* guarded by lock, as is the count */
static uint64_t count_all;
static int64_t begun_ms; /* tells this process from the one before it; set before threads */

static void tap(enum lr_log_level level, int64_t wall_ms, struct lr_str text)
{
    char *copy = strndup(text.ptr, text.len < TEXT_BYTES ? text.len : TEXT_BYTES);
    if (copy == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    struct kept *slot = &ring[count_all++ % KEPT];
    char *oldest = slot->text;
    *slot = (struct kept){.wall_ms = wall_ms, .level = level, .text = copy};
    (void)pthread_mutex_unlock(&lock);
    free(oldest);
}

void net_logs_keep(void)
{
    if (begun_ms == 0)
        begun_ms = lr_clock_wall_ms(NULL);
    lr_log_set_tap(tap);
}

/* Lines before it are left out.  A mark is "TIME-COUNT". */
static uint64_t read_mark(struct lr_str mark)
{
    struct lr_str begun;
    int64_t time;
    uint64_t count;
    bool is_ours = lr_str_split(&mark, '-', &begun) && lr_str_i64(begun, &time) &&
                   time == begun_ms && lr_str_u64(mark, &count);
    return is_ours ? count : 0;
}

/* Adds the newest `count` lines from number `first` on to an open array, oldest first.  The
 * number of the line that comes next. */
static uint64_t put_lines(struct lr_json_writer *w, uint64_t count, uint64_t first)
{
    char time[LR_TIME_TEXT_LEN + 1];
    (void)pthread_mutex_lock(&lock);
    uint64_t next = count_all, have = count_all < KEPT ? count_all : KEPT;
    uint64_t from = next - (count < have ? count : have);
    for (uint64_t i = first > from && first <= next ? first : from; i < next; i++) {
        const struct kept *k = &ring[i % KEPT];
        lr_time_format(k->wall_ms, time);
        LR_JSON_ITEM(w, LR_TEXT("time", time), LR_TEXT("level", lr_log_level_name(k->level)),
                     LR_TEXT("text", k->text));
    }
    (void)pthread_mutex_unlock(&lock);
    return next;
}

lr_code net_logs_answer(struct net_request *req, struct lr_error *err)
{
    uint64_t lines = DEFAULT_LINES, first = 0;
    struct lr_str asked;
    struct net_json json;
    char mark[MARK_LEN];
    if (net_request_query_get(req, "lines", &asked) &&
        (!lr_str_u64(asked, &lines) || lines == 0 || lines > KEPT))
        return lr_fail_as(err, logs_lines, KEPT);
    if (net_request_query_get(req, "after", &asked))
        first = read_mark(asked);
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_array(w, "lines");
    uint64_t next = put_lines(w, lines, first);
    lr_json_end_array(w);
    (void)snprintf(mark, sizeof(mark), "%lld-%llu", (long long)begun_ms,
                   (unsigned long long)next);
    lr_json_member_z(w, "next", mark);
    return net_json_send(&json, req, 200, err);
}
