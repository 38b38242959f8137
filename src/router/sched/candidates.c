/* router/sched/candidates.c - which nodes could serve a ticket, as the scheduler sees them, and
 * why the others cannot.
 */
#include <stddef.h>

#include "router/sched/dispatch.h"

/* NULL: the node cannot run the model. */
static struct router_replica *replica_on(const struct router_node *node,
                                         const struct router_model *model)
{
    const char *why_not;
    struct router_replica *replica = router_node_serves(node, &why_not)
                                         ? router_node_replica(node, lr_str_z(model->folded))
                                         : NULL;
    return replica != NULL && replica->can_run ? replica : NULL;
}

/* A node that could not load the model lately gets no ticket that another node can serve. */
static size_t drop_waiting(struct router_candidate *all, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!all[i].replica->is_waiting)
            all[kept++] = all[i];
    return kept != 0 ? kept : count;
}

/* Another model has the name by now: what nodes have by that name is not this model. */
static bool is_replaced(const struct router *r, const struct router_model *model)
{
    const struct router_model *other =
        model->is_deleted ? router_registry_find(&r->registry, lr_str_z(model->folded)) : NULL;
    return other != NULL && (strcmp(other->manifest_sha256, model->manifest_sha256) != 0 ||
                             strcmp(other->path, model->path) != 0);
}

size_t router_replicas(void *arg, const struct router_schedule *schedule,
                       const struct router_ticket *t, struct router_candidate *out,
                       size_t capacity)
{
    const struct router *r = arg;
    const struct router_model *model =
        (const void *)((const char *)schedule - offsetof(struct router_model, schedule));
    size_t count = 0;
    const struct router_replica *bound =
        t != NULL && t->bound != NULL ? replica_on(t->bound, model) : NULL;
    bool is_bound = bound != NULL && !bound->is_waiting;
    if (is_replaced(r, model))
        return 0;
    for (size_t i = 0; i < r->nodes.count && count < capacity; i++) {
        struct router_node *node = r->nodes.all[i];
        struct router_replica *replica = replica_on(node, model);
        if (replica != NULL && (!is_bound || node == t->bound))
            out[count++] = (struct router_candidate){.node = node, .replica = replica};
    }
    return drop_waiting(out, count);
}

bool router_has_another(struct router_ticket *t)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    struct router *r = t->router;
    router_lock(r);
    bool found = t->node->is_draining; /* it is leaving, and its successor may come */
    size_t count = router_replicas(r, t->schedule, t, all, ROUTER_CANDIDATES_MAX);
    for (size_t i = 0; i < count; i++)
        found |= all[i].node != t->node && !router_ticket_has_failed(t, all[i].node);
    router_unlock(r);
    return found;
}

/* "node-a: offline; node-b: ..." */
static void explain_nobody(const struct router *r, const struct router_model *model,
                           struct lr_buf *out)
{
    struct lr_str folded = lr_str_z(model->folded);
    bool any = false;
    for (size_t i = 0; i < r->nodes.count; i++) {
        const struct router_node *node = r->nodes.all[i];
        const struct router_replica *replica = router_node_replica(node, folded);
        const char *why_not;
        if (router_node_is_removed(node))
            continue;
        if (router_node_serves(node, &why_not))
            why_not = replica == NULL              ? "does not have it"
                      : replica->can_run           ? "can run it"
                      : replica->reason[0] != '\0' ? replica->reason
                                                   : replica->state;
        lr_buf_addf(out, "%s%s: %s", any ? "; " : "", node->name, why_not);
        any = true;
    }
    if (!any)
        lr_buf_add_z(out, "no node has joined (llm-router node --router URL --token TOKEN)");
}

lr_code router_refuse_nobody(const struct router *r, const struct router_model *model,
                             struct lr_error *err)
{
    struct lr_buf why;
    lr_buf_init(&why, 380); /* a list that does not fit is cut where it stops fitting */
    if (is_replaced(r, model))
        lr_buf_add_z(&why, "another model was registered by this name: send the request again");
    else
        explain_nobody(r, model, &why);
    (void)lr_fail(err, LR_UNAVAILABLE, "no node can serve %smodel \"%.100s\": %.*s",
                  model->is_deleted ? "deleted " : "", model->id, (int)why.len,
                  why.data != NULL ? why.data : "");
    lr_buf_free(&why);
    return LR_UNAVAILABLE;
}
