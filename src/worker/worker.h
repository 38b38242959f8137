/* worker/worker.h - the process that holds one model in one engine plugin.
 *
 * One loop: read frames from the node, hand them to the engine, call step() while
 * there is work, write what comes out.  Nothing else touches the engine, so an engine
 * needs no locks.  A worker is confined before the plugin's code runs, lives exactly
 * as long as its node, and is ended by SIGKILL whenever the node wants its memory.
 * Thread: main.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>
#include <sys/types.h>

#include "llm-router/status.h"

enum {
    WORKER_IN_FD = 0,  /* frames from the node */
    WORKER_OUT_FD = 3, /* frames to the node; 1 and 2 are the plugin's, and go to the log */
};

struct worker_config {
    pid_t parent;        /* the node; 0: whoever started us */
    bool is_probe;       /* answer one WIRE_PROBE and leave */
    const char *scratch; /* where the engine may write once it is confined; NULL: it is not */
};

/* Returns the process's exit status. */
int worker_run(const struct worker_config *config);

#endif
