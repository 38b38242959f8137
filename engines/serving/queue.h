/* engines/serving/queue.h - the sequences of a model: being read, queued and running.
 *
 * All lists have the same order: higher priority first, then earlier arrival.  The scheduler
 * decides what a sequence needs to run (slots, pages, cells).  Thread: the engine's caller.
 */
#ifndef ENGINES_SERVING_QUEUE_H
#define ENGINES_SERVING_QUEUE_H

#include "engines/serving/sequence.h"

struct engine_queue {
    struct engine_sequence *reading;
    struct engine_sequence *queued;
    struct engine_sequence *running;
    uint32_t live; /* in all lists */
    uint64_t arrivals;
};

void engine_queue_deinit(struct engine_queue *q); /* destroys the sequences */

/* Takes ownership of a new sequence. */
void engine_queue_add(struct engine_queue *q, struct engine_sequence *seq);
/* The same for a sequence whose prompt is being tokenized; then reading -> queued.  The place
 * in the order is that of the first call. */
void engine_queue_read(struct engine_queue *q, struct engine_sequence *seq);
void engine_queue_was_read(struct engine_queue *q, struct engine_sequence *seq);
struct engine_sequence *engine_queue_find(const struct engine_queue *q, uint64_t id);
struct engine_sequence *engine_queue_last_running(const struct engine_queue *q);

/* queued -> running, running -> queued. */
void engine_queue_run(struct engine_queue *q, struct engine_sequence *seq);
void engine_queue_suspend(struct engine_queue *q, struct engine_sequence *seq);
/* Either -> ended; the caller owns the sequence again. */
void engine_queue_end(struct engine_queue *q, struct engine_sequence *seq);

/* Sets `take` of every running sequence: 1 for each that decodes; prompts share what is left of
 * `chunk`, in order.  Returns the sum. */
uint32_t engine_queue_share(struct engine_queue *q, uint32_t chunk);

#endif
