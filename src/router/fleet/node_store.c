/* router/fleet/node_store.c - what the database keeps of a node, written behind the loops. */
#include <stdlib.h>

#include "router/state.h"

/* A copy of what the database keeps, for its thread. */
struct saving {
    struct router *router;
    struct router_node copy;
};

lr_code router_node_write(struct router_sql *sql, const struct router_node *node,
                          struct lr_error *err)
{
    if (!router_node_is_removed(node))
        return router_node_save(sql, node, err);
    return ROUTER_SQL(sql, "DELETE FROM nodes WHERE id = $1", NULL, NULL, err,
                      ROUTER_Z(node->id));
}

static lr_code save_node(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_node_write(sql, &((struct saving *)arg)->copy, err);
}

/* A failure was logged where it happened. */
static void saved(void *arg, const struct lr_error *err)
{
    struct saving *saving = arg;
    struct router *r = saving->router;
    router_lock(r);
    struct router_node *node = router_nodes_find_any(&r->nodes, lr_str_z(saving->copy.id));
    if (node != NULL) {
        router_node_end_write(node);
        node->is_unsaved = err != NULL;
    }
    router_unlock(r);
    free(saving);
}

void router_node_store(struct router *r, struct router_node *node)
{
    struct saving *saving = malloc(sizeof(*saving));
    if (saving == NULL) {
        node->is_unsaved = true;
        return;
    }
    *saving = (struct saving){.router = r, .copy = *node};
    lr_strmap_init(&saving->copy.replicas);
    router_node_begin_write(node);
    router_store_submit(r->store, save_node, NULL, saved, saving);
}

void router_nodes_store_again(struct router *r)
{
    char trouble[ROUTER_TROUBLE];
    bool is_in_trouble = router_store_trouble(r->store, trouble);
    for (size_t i = 0; i < r->nodes.count; i++) {
        struct router_node *node = r->nodes.all[i];
        if (!node->is_unsaved || node->writes != 0)
            continue;
        router_node_store(r, node);
        if (is_in_trouble)
            return;
    }
}
