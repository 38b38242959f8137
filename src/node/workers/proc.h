/* node/workers/proc.h - a worker process as the node holds it: three pipes and an exit.
 *
 * Knows frames, lines of text and process ids; knows no models.  The owner is told of
 * frames, each line the plugin printed, and, last and exactly once, of the end.
 * The end is told only after the last frame was delivered, so that a token a dying
 * worker managed to write is never lost.
 * Thread: the node's loop.
 */
#ifndef NODE_WORKERS_PROC_H
#define NODE_WORKERS_PROC_H

#include <stdbool.h>
#include <sys/types.h>

#include "net/loop.h"
#include "wire/reader.h"

struct node_proc;

struct node_proc_callbacks {
    void *arg;
    /* Takes the frames of one read.  Another code than OK, of wire_reader_next: a process that
     * scribbles over the pipe is killed. */
    lr_code (*on_frames)(void *arg, struct wire_reader *frames, struct lr_error *err);
    void (*on_line)(void *arg, struct lr_str line); /* of stdout or stderr */
    /* `how` is for people: "exited with 1", "killed by SIGSEGV".  The process is freed
     * when this returns. */
    void (*on_exit)(void *arg, const char *how);
};

struct node_proc_config {
    const char *executable; /* ourselves */
    const char *label;      /* shown in `ps`: the model's id */
    const char *scratch;    /* where a confined engine may write; NULL: it is not confined */
    const char *visible;    /* the only GPU that it sees; NULL: those that this process sees */
    bool is_probe;
    uint64_t limit_ms; /* killed when it still runs then; 0: its owner decides */
    struct node_proc_callbacks callbacks;
};

LR_MUST_USE lr_code node_proc_start(struct net_loop *loop,
                                    const struct node_proc_config *config,
                                    struct node_proc **out, struct lr_error *err);

pid_t node_proc_pid(const struct node_proc *proc);
/* Where its frames come from; -1 once that is closed. */
int node_proc_source(const struct node_proc *proc);

/* Sends frames; copies what the pipe does not take at once.  False once the pipe is
 * broken: the end follows. */
bool node_proc_send(struct node_proc *proc, struct lr_str bytes);

/* SIGKILL.  The end is told as always. */
void node_proc_kill(struct node_proc *proc);

#endif
