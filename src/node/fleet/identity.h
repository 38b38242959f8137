/* node/fleet/identity.h - who this node is to its routers: an id, and a secret used in both
 * directions.  Made at the first start and kept in the data folder, so that a node comes back
 * as itself.
 */
#ifndef NODE_FLEET_IDENTITY_H
#define NODE_FLEET_IDENTITY_H

#include "base/fail.h"

enum { NODE_ID_MAX = 28, NODE_SECRET_MAX = 96 };

struct node_identity {
    char id[NODE_ID_MAX];
    char secret[NODE_SECRET_MAX];
};

/* Reads DATA-DIR/node-identity.json, or makes it. */
LR_MUST_USE lr_code node_identity_open(struct node_identity *out, const char *data_dir,
                                       struct lr_error *err);

#endif
