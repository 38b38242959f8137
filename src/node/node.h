/* node/node.h - the node process: models on this machine, and the workers that run them.
 *
 * One loop thread owns everything; workers are processes.  `node_run` is the whole
 * life of `llm-router node`; `up` uses create/start/destroy to run a node inside
 * another process's loop.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/settings.h"
#include "net/loop.h"

struct node;

/* Reads settings (the rows of `node` and `up` in cli/settings_table.c), scans engines and
 * models, starts nothing.  `loop` is borrowed and outlives the node.  Whoever creates a node
 * runs `loop` on the thread that lives longest: workers die with that thread. */
LR_MUST_USE lr_code node_create(struct net_loop *loop, const struct lr_settings *settings,
                                struct node **out, struct lr_error *err);

/* Binds the HTTP server on the group's loops (loop 0 must be the node's) and begins to
 * load what was asked for at start.  *port gets the bound port. */
LR_MUST_USE lr_code node_start(struct node *node, struct net_loops *loops, const char *listen,
                               uint16_t *port, struct lr_error *err);

/* Finishes what runs, refuses new work, then calls done(arg) on the loop.
 * A second call ends everything at once. */
void node_drain(struct node *node, net_loop_fn done, void *arg);

/* SIGHUP: rescans models and reloads changed engines. */
void node_reload_all(struct node *node);

/* After `done`.  NULL is fine. */
void node_destroy(struct node *node);

/* `llm-router node`: runs until SIGTERM or SIGINT. */
LR_MUST_USE lr_code node_run(const struct lr_settings *settings, struct lr_error *err);

#endif
