/* node/models/counts.h - the numbers of replicas that operators asked for, model by model.
 *
 * They are kept in DATA-DIR/replicas.json, {"MODEL": "auto" or "N"}, so that a restart of the
 * node changes nothing.  A model that is not on this node (any more) keeps its number.
 * Thread: the node's loop.
 */
#ifndef NODE_MODELS_COUNTS_H
#define NODE_MODELS_COUNTS_H

#include "base/file.h"

struct node_model;
struct node_count;

struct node_counts {
    char file[LR_PATH_MAX];   /* "": nothing is kept */
    struct node_count *first; /* owned */
};

/* Reads the file.  A file that cannot be read is logged and changes nothing. */
void node_counts_open(struct node_counts *counts, const char *data_dir);
void node_counts_close(struct node_counts *counts);

/* Gives a model that has just got its name the number that was asked for, if there is one. */
void node_counts_recall(const struct node_counts *counts, struct node_model *model);

/* An operator asks for a number (NODE_REPLICAS_AUTO: as many as traffic needs).  INTERNAL: it
 * could not be written; nothing has changed. */
LR_MUST_USE lr_code node_counts_set(struct node_counts *counts, struct node_model *model,
                                    uint32_t count, struct lr_error *err);

#endif
