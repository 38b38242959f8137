/* router/sched/candidates.c - which nodes could serve a request, as the picker sees them, and
 * why the others cannot.
 */
#include "router/sched/dispatch.h"

bool router_has_failed(const struct router_job *job, const struct router_node *node)
{
    for (uint32_t i = 0; job != NULL && i < job->failed_count; i++)
        if (job->failed[i] == node)
            return true;
    return false;
}

/* A node that failed somebody is left alone for a while, and then tried with one request
 * until that has brought a token: the others do not wait for it to fail them, too. */
static bool is_doubtful(const struct router_node *node, const struct router_place *place,
                        uint64_t now)
{
    return now < node->avoided_until_ms ||
           (atomic_load(&node->failures_in_row) != 0 && place->inflight != 0);
}

static struct router_candidate describe(const struct router_job *job, struct router_node *node,
                                        struct router_place *place, uint64_t now)
{
    uint32_t reported = place->live + place->queued;
    bool failed = router_has_failed(job, node);
    uint32_t inflight = place->inflight - (node->takes_instead ? place->replaced : 0);
    return (struct router_candidate){
        .node = node,
        .place = place,
        .is_loaded = place->is_loaded,
        .is_avoided = failed || is_doubtful(node, place, now),
        .is_barred = place->is_full || (failed && now < node->avoided_until_ms),
        .slots = place->slots,
        .active = place->inflight > reported ? place->inflight : reported,
        .inflight = inflight,
        .load_ms = place->load_ms,
        .prefill_ms = place->prefill_ms,
        .step_ms = place->step_ms,
        .weight_bytes = place->weight_bytes,
        .cached = place->is_caching && job != NULL && job->marks != NULL
                      ? router_beginnings_share(&job->router->beginnings, node, job->marks)
                      : 0,
    };
}

/* NULL: the node cannot run the model. */
static struct router_place *place_on(const struct router_node *node,
                                     const struct router_model *model)
{
    const char *why_not;
    struct router_place *place = router_node_serves(node, &why_not)
                                     ? router_node_place(node, lr_str_z(model->folded))
                                     : NULL;
    return place != NULL && place->can_run ? place : NULL;
}

/* Where the model could not be loaded lately nobody is sent who can be served elsewhere. */
static size_t drop_waiting(struct router_candidate *all, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (!all[i].place->is_waiting)
            all[kept++] = all[i];
    return kept != 0 ? kept : count;
}

/* Another model has the name by now: nodes' places with that name are no places of this one. */
static bool is_replaced(const struct router *r, const struct router_model *model)
{
    const struct router_model *other =
        model->is_deleted ? router_registry_find(&r->registry, lr_str_z(model->folded)) : NULL;
    return other != NULL && (strcmp(other->manifest_sha256, model->manifest_sha256) != 0 ||
                             strcmp(other->path, model->path) != 0);
}

size_t router_candidates(struct router *r, const struct router_model *model,
                         const struct router_job *job, uint64_t now,
                         struct router_candidate *out, size_t capacity)
{
    size_t count = 0;
    const struct router_place *bound =
        job != NULL && job->bound != NULL ? place_on(job->bound, model) : NULL;
    bool is_bound = bound != NULL && !bound->is_waiting;
    if (is_replaced(r, model))
        return 0;
    for (size_t i = 0; i < r->nodes.count && count < capacity; i++) {
        struct router_node *node = r->nodes.all[i];
        struct router_place *place = place_on(node, model);
        if (place != NULL && (!is_bound || node == job->bound))
            out[count++] = describe(job, node, place, now);
    }
    return drop_waiting(out, count);
}

bool router_has_another(struct router_job *job)
{
    struct router_candidate all[ROUTER_CANDIDATES_MAX];
    bool found = false;
    router_lock(job->router);
    if (job->node->is_draining)
        found = true; /* it is leaving, and its successor may come */
    size_t count = router_candidates(job->router, job->model, job, lr_clock_ms(NULL), all,
                                     ROUTER_CANDIDATES_MAX);
    for (size_t i = 0; i < count; i++)
        found |= all[i].node != job->node && !router_has_failed(job, all[i].node);
    router_unlock(job->router);
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
        const struct router_place *place = router_node_place(node, folded);
        const char *why_not;
        if (router_node_is_removed(node))
            continue;
        if (router_node_serves(node, &why_not))
            why_not = place == NULL              ? "does not have it"
                      : place->can_run           ? "can run it"
                      : place->reason[0] != '\0' ? place->reason
                                                 : place->state;
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
