#include "node/models/batch.h"

#include "base/list.h"

void node_batch_drop(struct node_batch *batch, struct node_flush *flush)
{
    if (flush->link == NULL)
        return;
    if (flush->next == NULL)
        batch->last = flush->link;
    LR_LIST_REMOVE(flush, next, link);
}

void node_batch_add_last(struct node_batch *batch, struct node_flush *flush)
{
    if (batch->depth == 0) {
        flush->fn(flush->arg);
        return;
    }
    if (flush->link != NULL)
        return;
    flush->next = NULL;
    flush->link = batch->due != NULL ? batch->last : &batch->due;
    *flush->link = flush;
    batch->last = &flush->next;
}

void node_batch_add(struct node_batch *batch, struct node_flush *flush)
{
    if (batch->more_comes) {
        node_batch_add_last(batch, flush);
        return;
    }
    node_batch_drop(batch, flush);
    flush->fn(flush->arg);
}

void node_batch_begin(struct node_batch *batch)
{
    batch->depth++;
}

void node_batch_end(struct node_batch *batch)
{
    /* A flush may end its own answer, or another one and drop that flush. */
    while (batch->depth == 1 && batch->due != NULL) {
        struct node_flush *flush = batch->due;
        node_batch_drop(batch, flush);
        flush->fn(flush->arg);
    }
    batch->depth--;
}
