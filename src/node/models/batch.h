/* node/models/batch.h - one write for all that one client gets of one read.
 *
 * A worker that is ahead of the node gives several tokens of one client in one read.
 * They are sent together, when the last of them has been dealt with: nothing ever waits for
 * something that is still to come, nor for what the read brought for others.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_BATCH_H
#define NODE_MODELS_BATCH_H

#include <stdbool.h>
#include <stddef.h>

/* What an answer in progress embeds. */
struct node_flush {
    struct node_flush *next, **link; /* link NULL: nothing is due */
    void (*fn)(void *arg);
    void *arg;
};

struct node_batch {
    struct node_flush *due,
        **last; /* in order of addition; last is valid while due is not NULL */
    unsigned depth;
    bool more_comes; /* the read has more for the client whose event is being told */
};

void node_batch_begin(struct node_batch *batch);
void node_batch_end(struct node_batch *batch); /* runs what is due */

/* flush->fn when this client has had its last event of the running batch; at once outside of
 * one. */
void node_batch_add(struct node_batch *batch, struct node_flush *flush);
/* The same for what carries many clients' events: when the batch has been dealt with. */
void node_batch_add_last(struct node_batch *batch, struct node_flush *flush);
/* The answer has ended: its flush does not run any more. */
void node_batch_drop(struct node_batch *batch, struct node_flush *flush);

#endif
