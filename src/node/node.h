/* node/node.h - the node process: models on this machine, and the workers that run them.
 *
 * One loop thread owns everything; workers are processes.
 */
#ifndef NODE_NODE_H
#define NODE_NODE_H

#include "base/settings.h"

/* `llm-router node` (the rows of `node` in cli/settings_table.c): runs until SIGTERM or
 * SIGINT, on the thread that lives longest, because workers die with that thread. */
LR_MUST_USE lr_code node_run(const struct lr_settings *settings, struct lr_error *err);

/* Before a start, and for `llm-router config check`: whether settings of `node` or `up` have
 * values that a node can use.  The message names the setting.  Nothing is created. */
LR_MUST_USE lr_code node_check_settings(const struct lr_settings *settings,
                                        struct lr_error *err);

#endif
