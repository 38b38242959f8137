/* node/models/changes.h - modules hear that something about the node's models has changed: a
 * state, a file, a worker that left, an event.
 *
 * Several changes in one turn of the loop are told once, in the next turn and with nothing else
 * on the stack.  A watcher looks by itself at what concerns it.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_CHANGES_H
#define NODE_MODELS_CHANGES_H

struct net_timer;
struct node_models;

/* Part of its owner. */
struct node_watcher {
    struct node_watcher *next, **link; /* see base/list.h */
    void (*fn)(void *arg);
    void *arg;
};

/* Zeroed: nobody watches. */
struct node_changes {
    struct node_watcher *first;
    struct net_timer *timer; /* NULL: nothing is to be told */
};

void node_changes_watch(struct node_models *models, struct node_watcher *watcher);
/* Also inside the watcher's own call.  Fine if it does not watch. */
void node_changes_unwatch(struct node_watcher *watcher);

/* Something has changed. */
void node_changed(struct node_models *models);

/* Nobody watches any more. */
void node_changes_close(struct node_models *models);

#endif
