/* node/http/logs.h - the last lines of this process's log, kept for GET /v0/logs.
 *
 * One ring for the process, as the log is one; engines' output is in it, since it goes
 * through the log.  At most NODE_LOGS_KEPT lines of NODE_LOGS_TEXT bytes.  Thread: any.
 */
#ifndef NODE_HTTP_LOGS_H
#define NODE_HTTP_LOGS_H

#include <stdint.h>

enum { NODE_LOGS_KEPT = 2000, NODE_LOGS_TEXT = 1024 };

struct lr_json_writer;

/* From now on lines are kept. */
void node_logs_keep(void);

/* Adds the newest `count` lines to an open array as {"time", "level", "text"}, oldest first. */
void node_logs_put(struct lr_json_writer *w, uint64_t count);

#endif
