/* node/http/logs.c - see node/http/logs.h. */
#include "node/http/logs.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/json.h"
#include "base/log.h"
#include "node/http/api.h"

enum { BODY_BYTES = NODE_LOGS_KEPT * NODE_LOGS_TEXT * 4, DEFAULT_LINES = 200 };

struct kept {
    int64_t wall_ms;
    enum lr_log_level level;
    char *text; /* owned */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct kept ring[NODE_LOGS_KEPT]; /* guarded by lock, as is the count */
static uint64_t count_all;

static void tap(enum lr_log_level level, int64_t wall_ms, struct lr_str text)
{
    char *copy = strndup(text.ptr, text.len < NODE_LOGS_TEXT ? text.len : NODE_LOGS_TEXT);
    if (copy == NULL)
        return;
    (void)pthread_mutex_lock(&lock);
    struct kept *slot = &ring[count_all++ % NODE_LOGS_KEPT];
    char *oldest = slot->text;
    *slot = (struct kept){.wall_ms = wall_ms, .level = level, .text = copy};
    (void)pthread_mutex_unlock(&lock);
    free(oldest);
}

void node_logs_keep(void)
{
    lr_log_set_tap(tap);
}

void node_logs_put(struct lr_json_writer *w, uint64_t count)
{
    char time[LR_TIME_TEXT_LEN + 1];
    (void)pthread_mutex_lock(&lock);
    uint64_t have = count_all < NODE_LOGS_KEPT ? count_all : NODE_LOGS_KEPT;
    for (uint64_t i = count_all - (count < have ? count : have); i < count_all; i++) {
        const struct kept *k = &ring[i % NODE_LOGS_KEPT];
        lr_time_format(k->wall_ms, time);
        lr_json_begin_object(w);
        lr_json_member_z(w, "time", time);
        lr_json_member_z(w, "level", lr_log_level_name(k->level));
        lr_json_member_z(w, "text", k->text);
        lr_json_end_object(w);
    }
    (void)pthread_mutex_unlock(&lock);
}

void node_api_logs(struct node *node, struct net_request *req)
{
    uint64_t lines = DEFAULT_LINES;
    struct lr_str asked;
    struct lr_buf body;
    struct lr_json_writer w;
    (void)node;
    if (net_request_query_get(req, "lines", &asked) &&
        (!lr_str_u64(asked, &lines) || lines == 0 || lines > NODE_LOGS_KEPT)) {
        struct lr_error err;
        (void)lr_fail(&err, LR_INVALID_ARGUMENT, "lines is a number from 1 to %d",
                      NODE_LOGS_KEPT);
        net_respond_error(req, &err);
        return;
    }
    lr_buf_init(&body, BODY_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_key(&w, "lines");
    lr_json_begin_array(&w);
    node_logs_put(&w, lines);
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    node_api_json(req, 200, &body);
}
