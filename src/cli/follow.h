/* cli/follow.h - waits until a model can answer, and shows how far its nodes are. */
#ifndef CLI_FOLLOW_H
#define CLI_FOLLOW_H

#include <stdio.h>

#include "base/settings.h"

enum cli_goal {
    CLI_GOAL_FILES, /* a node has the files and can run the model */
    CLI_GOAL_LOADED,
};

/* id: of a registered model; node: the id of the node that counts, "": any.  Fails when no node
 * gets on: none is online, or each says why it cannot.  Progress goes to `out`. */
LR_MUST_USE lr_code cli_follow(const struct lr_settings *s, const char *id, const char *node,
                               enum cli_goal goal, FILE *out, struct lr_error *err);

/* Asks the router to load a model; node "": the router chooses.  PERMISSION_DENIED: the key is
 * not an operator's. */
LR_MUST_USE lr_code cli_load(const struct lr_settings *s, const char *id, const char *node,
                             struct lr_error *err);

#endif
