/* net/logs.h - the last lines of this process's log, kept in memory and answered over HTTP.
 *
 * One ring for the process, as the log is one; engines' output is in it, since it goes through
 * the log.  Thread: any. */
#ifndef NET_LOGS_H
#define NET_LOGS_H

#include "base/fail.h"
#include "net/request.h"

/* From now on lines of the log are kept. */
void net_logs_keep(void);

/* Answers GET /v0/logs with the newest ?lines=N lines, oldest first, and with a mark "next".
 * ?after=MARK leaves out the lines before that mark; a mark of another process leaves out
 * none.  INVALID_ARGUMENT for a number out of range. */
LR_MUST_USE lr_code net_logs_answer(struct net_request *req, struct lr_error *err);

#endif
