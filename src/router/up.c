/* router/up.c - what `llm-router up` asks of its router. */
#include "router/http/state.h"
#include "router/router.h"
#include "router/store/clock.h"

void router_on_node(struct router *r, router_node_fn fn, void *arg)
{
    r->on_node = fn;
    r->on_node_arg = arg;
}

void router_allow_cpu_nodes(struct router *r)
{
    r->allows_cpu_nodes = true;
}

/* Which replica tells most about the state of `up`. */
static int rank(const struct router_replica *replica, bool is_registered)
{
    if (!is_registered)
        return replica->can_run ? 2 : 0;
    return replica->is_loaded ? 4 : replica->can_run ? 3 : 1;
}

bool router_best_model(struct router *r, struct router_best_model *out)
{
    const struct router_node *node;
    const struct router_replica *replica;
    int best = -1;
    bool found = false;
    *out = (struct router_best_model){0};
    router_lock(r);
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        if (!router_node_serves(node, NULL))
            continue;
        for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++) {
            const struct router_model *model =
                router_registry_find(&r->registry, lr_str_z(replica->id));
            bool is_known = model != NULL && model->is_stored;
            if (rank(replica, is_known) <= best)
                continue;
            best = rank(replica, is_known);
            found = is_known;
            LR_COPY(out->model, lr_str_z(replica->id));
            LR_COPY(out->state, lr_str_z(replica->state));
            LR_COPY(out->reason, lr_str_z(replica->reason.text));
            out->can_run = replica->can_run;
            out->is_loaded = replica->is_loaded;
        }
    }
    router_unlock(r);
    return found;
}

/* From replica *at on; *at moves behind the one that was found. */
static bool pick_unregistered(struct router *r, const char *node_id, size_t *at,
                              char id[ROUTER_ID_MAX], char format[16], bool *can_run)
{
    const struct router_replica *replica;
    const struct router_node *node = router_nodes_find(&r->nodes, lr_str_z(node_id));
    while (node != NULL && (replica = router_node_replica_at(node, (*at)++)) != NULL) {
        struct lr_str model = lr_str_z(replica->id);
        if (router_registry_resolve(&r->registry, model) != NULL ||
            router_check_model_id(model, NULL) != LR_OK)
            continue;
        memcpy(id, replica->id, sizeof(replica->id));
        memcpy(format, replica->format, sizeof(replica->format));
        *can_run = replica->can_run;
        return true;
    }
    return false;
}

void router_adopt_models(struct router *r, const char *node_id, router_wants_fn wants,
                         void *arg)
{
    for (size_t at = 0;;) {
        char id[ROUTER_ID_MAX], format[16];
        bool can_run = false;
        router_lock(r);
        bool found = pick_unregistered(r, node_id, &at, id, format, &can_run);
        router_unlock(r);
        if (!found)
            return;
        if (!can_run && !wants(arg, id))
            continue;
        struct router_new_model model = {
            .id = lr_str_z(id),
            .source = LR_STR_LIT("local"),
            .format = lr_str_z(format),
            .created_ms = lr_clock_wall_ms(&router_clock),
        };
        router_register(&r->sync, &model, NULL, NULL, NULL, NULL);
    }
}
