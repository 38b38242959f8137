/* node/workers/counter.h - the process that counts tokens for a model: one for all questions.
 *
 * The engine in it reads the model's tokenizer and no weights; the model need not be loaded,
 * and a loaded one is not disturbed.  The process starts with the first question, takes one
 * after the other, and ends a minute after the last one.  It is replaced where the model was
 * described anew or its engine changed.
 *
 *   NONE --a question--> ASKED --its answer--> READY --the next question--> ASKED
 *
 * Moves of a counter:
 *   none -> asked
 *   asked -> ready, ending, none
 *   ready -> asked, ending, none
 *   ending -> none
 *
 * A counter is ending when the node has killed its process, and has none once that is gone.
 * Thread: the node's loop.
 */
#ifndef NODE_WORKERS_COUNTER_H
#define NODE_WORKERS_COUNTER_H

#include "llm-router/engine.h"
#include "net/request.h"

struct node_model;

/* A prompt whose tokens are counted: `req` is answered, then or later.  The segments are in its
 * memory.  UNAVAILABLE: too many wait.  An error: `req` is the caller's. */
LR_MUST_USE lr_code node_counter_ask(struct node_model *model, struct net_request *req,
                                     const struct lr_segment *segments, size_t count,
                                     struct lr_error *err);
/* Ends the process; questions fail. */
void node_counter_end(struct node_model *model);
/* The model is about to be freed: as above, and nothing refers to it any more. */
void node_counter_leave(struct node_model *model);

/* The model's files are open. */
bool node_counter_has_process(const struct node_model *model);

#endif
