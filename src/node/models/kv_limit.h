/* node/models/kv_limit.h - how much KV memory each worker may hold.
 *
 * A worker starts with the KV memory that its engine stated.  Where the engine can change the
 * size (lr_engine_need.kv_most), the node raises the limit while the worker uses most of it and
 * memory is free below the threshold, and lowers it when another model or another program needs
 * the memory.  The ledger counts the limit as reserved, and the part that the worker could give
 * back as reclaimable: admission counts that part as free.
 *
 *   raised:   reserved at once, then told to the worker
 *   lowered:  told to the worker; the worker answers (WIRE_LIMITED) how much it could give
 * back, and only that is free in the ledger.  What live requests hold follows when they end:
 * the ticks of the worker say so.
 *
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_KV_LIMIT_H
#define NODE_MODELS_KV_LIMIT_H

#include <stdbool.h>
#include <stdint.h>

struct node_models;
struct node_room;
struct node_worker;

/* The worker has opened its model. */
void node_kv_limit_begin(struct node_worker *worker);
/* What the worker could give back. */
uint64_t node_kv_limit_reclaimable(const struct node_worker *worker);
/* The worker's figures are new; `answered`: it has obeyed the limit that it was sent last. */
void node_kv_limit_settle(struct node_worker *worker, bool answered);
/* Asks for what a plan says that workers give back.  True: an answer is awaited. */
bool node_kv_limit_reclaim(const struct node_room *room);
/* Raises the limit of workers that use most of theirs, and lowers limits where others use more
 * than is left for us.  Once a second.  True: memory is on its way back. */
bool node_kv_limit_watch(struct node_models *models, uint32_t pool);

#endif
