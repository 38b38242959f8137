#include "router/fleet/register.h"

#include <stdlib.h>

#include "router/fleet/ask.h"
#include "router/state.h"

struct adding {
    struct router *router;
    struct router_model *model; /* reference */
    int64_t generation;         /* once it is stored */
    router_registered_fn fn;
    void *arg;
};

static lr_code insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct adding *a = arg;
    return router_model_insert(sql, a->model, &a->generation, err);
}

static void announce(struct router *r, const struct router_model *model)
{
    struct lr_json_writer *w = net_bus_begin(&r->events, "model.registered");
    lr_json_member_z(w, "model", model->id);
    net_bus_send(&r->events);
}

static void inserted(void *arg, const struct lr_error *err)
{
    struct adding *a = arg;
    struct router *r = a->router;
    router_lock(r);
    a->model->is_stored = err == NULL;
    a->model->generation = err == NULL ? a->generation : 0;
    if (err == NULL)
        announce(r, a->model);
    else
        router_registry_remove(&r->registry, a->model);
    router_model_unref(a->model);
    router_unlock(r);
    if (err == NULL)
        router_tell_nodes(r);
    if (a->fn != NULL)
        a->fn(a->arg, err);
    free(a);
}

void router_register(struct router *r, const struct router_new_model *model, const char *actor,
                     struct net_loop *loop, router_registered_fn fn, void *arg)
{
    struct lr_error err;
    struct adding *a = calloc(1, sizeof(*a));
    lr_code code =
        a != NULL ? LR_OK : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a registration");
    if (code == LR_OK) {
        *a = (struct adding){.router = r, .fn = fn, .arg = arg};
        router_lock(r);
        code = router_registry_add(&r->registry, model, &a->model, &err);
        if (code == LR_OK)
            (void)router_model_ref(a->model);
        router_unlock(r);
    }
    if (code != LR_OK) {
        free(a);
        if (fn != NULL)
            fn(arg, &err);
        return;
    }
    if (actor == NULL) {
        router_store_submit(r->store, insert, loop, inserted, a);
        return;
    }
    struct router_action action = {actor, "model.register", a->model->id, a->model->source};
    router_store_act(r->store, &action, insert, loop, inserted, a);
}

/* From replica *at on; *at moves behind the one that was found. */
static bool pick_unregistered(struct router *r, const char *node_id, size_t *at,
                              char id[ROUTER_ID_MAX], char format[16])
{
    struct lr_str key;
    void *value;
    const struct router_node *node = router_nodes_find(&r->nodes, lr_str_z(node_id));
    while (node != NULL && lr_strmap_at(&node->replicas, (*at)++, &key, &value)) {
        const struct router_replica *replica = value;
        if (!replica->can_run || router_registry_find(&r->registry, key) != NULL ||
            router_check_model_id(lr_str_z(replica->id), NULL) != LR_OK)
            continue;
        memcpy(id, replica->id, sizeof(replica->id));
        memcpy(format, replica->format, sizeof(replica->format));
        return true;
    }
    return false;
}

void router_adopt_models(struct router *r, const char *node_id)
{
    for (size_t at = 0;;) {
        char id[ROUTER_ID_MAX], format[16];
        router_lock(r);
        bool found = pick_unregistered(r, node_id, &at, id, format);
        router_unlock(r);
        if (!found)
            return;
        struct router_new_model model = {
            .id = lr_str_z(id),
            .source = LR_STR_LIT("local"),
            .format = lr_str_z(format),
            .created_ms = lr_clock_wall_ms(NULL),
        };
        router_register(r, &model, NULL, NULL, NULL, NULL);
    }
}
