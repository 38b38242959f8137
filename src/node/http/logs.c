/* node/http/logs.c - GET /v0/logs: the last lines of this process's log.
 *
 * One ring for the process, as the log is one; engines' output is in it, since it goes
 * through the log.  Thread: any.
 */
#include <pthread.h>
#include <stdlib.h>

#include "base/log.h"
#include "node/http/api.h"

enum {
    KEPT = 2000,
    TEXT_BYTES = 1024,
    BODY_BYTES = KEPT * TEXT_BYTES * 4,
    DEFAULT_LINES = 200
};

struct kept {
    int64_t wall_ms;
    enum lr_log_level level;
    char *text; /* owned */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept ring[KEPT]; /* guarded by lock, as is the count */
static uint64_t count_all;

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

void node_logs_keep(void)
{
    lr_log_set_tap(tap);
}

/* Adds the newest `count` lines to an open array, oldest first. */
static void put_lines(struct lr_json_writer *w, uint64_t count)
{
    char time[LR_TIME_TEXT_LEN + 1];
    (void)pthread_mutex_lock(&lock);
    uint64_t have = count_all < KEPT ? count_all : KEPT;
    for (uint64_t i = count_all - (count < have ? count : have); i < count_all; i++) {
        const struct kept *k = &ring[i % KEPT];
        lr_time_format(k->wall_ms, time);
        LR_JSON_ITEM(w, LR_TEXT("time", time), LR_TEXT("level", lr_log_level_name(k->level)),
                     LR_TEXT("text", k->text));
    }
    (void)pthread_mutex_unlock(&lock);
}

lr_code node_api_logs(struct node *node, struct net_request *req, struct lr_error *err)
{
    uint64_t lines = DEFAULT_LINES;
    struct lr_str asked;
    struct net_json json;
    (void)node;
    if (net_request_query_get(req, "lines", &asked) &&
        (!lr_str_u64(asked, &lines) || lines == 0 || lines > KEPT))
        return lr_fail(err, LR_INVALID_ARGUMENT, "lines is a number from 1 to %d", KEPT);
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_array(w, "lines");
    put_lines(w, lines);
    lr_json_end_array(w);
    return net_json_send(&json, req, 200, err);
}
