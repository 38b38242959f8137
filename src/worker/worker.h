/* worker/worker.h - the process that holds one model in one engine plugin.
 *
 * One loop reads frames from the node, passes them to the engine, calls step() while there is
 * work, and writes the results.  Nothing else calls the engine, so an engine needs no locks.  A
 * worker is confined before the plugin's code runs, lives exactly as long as its node, and is
 * ended by SIGKILL when the node wants its memory back.  Thread: main.
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <stdbool.h>

#include "llm-router/status.h"

enum {
    WORKER_IN_FD = 0,  /* frames from the node */
    WORKER_OUT_FD = 3, /* frames to the node; 1 and 2 are for the plugin and go to the log */
};

struct worker_config {
    int parent;          /* the node; 0: not checked */
    bool is_probe;       /* answer one WIRE_PROBE and leave */
    const char *scratch; /* folder that a confined engine may write to; NULL: not confined */
};

/* Returns the process's exit status. */
int worker_run(const struct worker_config *config);

#endif
