#include "router/fleet/refusal.h"

#include "base/errors.h"

/* ---- for ever ---- */

static bool lacks_engine(const struct router_replica *replica)
{
    static const enum lr_error_id ids[] = {LR_ERROR_no_engine, LR_ERROR_no_engine_here,
                                           LR_ERROR_engine_no_format,
                                           LR_ERROR_engine_no_architecture};
    for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
        if (lr_error_is(&replica->reason, ids[i]))
            return strcmp(replica->state, "absent") == 0;
    return false;
}

/* Why no node will ever run the model; NULL: one may. */
static const char *final_word(const struct router_nodes *nodes, struct lr_str folded)
{
    const struct router_node *node;
    const char *word = NULL;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        const struct router_replica *replica = router_node_replica(node, folded);
        if (replica == NULL || replica->can_run)
            return NULL;
        if (strcmp(replica->state, "failed") == 0)
            word = "its files are damaged, or no engine can read them";
        else if (!lacks_engine(replica))
            return NULL;
        else if (word == NULL)
            word = "no node has an engine for it";
    }
    return word;
}

/* ---- now ---- */

/* "node-a: offline; node-b: ..." */
static void explain_nobody(const struct router_nodes *nodes, struct lr_str folded,
                           struct lr_buf *out)
{
    const struct router_node *node;
    bool any = false;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        const struct router_replica *replica = router_node_replica(node, folded);
        struct lr_error away;
        const char *why_not = away.text;
        if (router_node_serves(node, &away))
            why_not = replica == NULL                   ? "does not have it"
                      : replica->can_run                ? "can run it"
                      : replica->reason.text[0] != '\0' ? replica->reason.text
                                                        : replica->state;
        lr_buf_addf(out, "%s%s: %s", any ? "; " : "", node->name, why_not);
        any = true;
    }
    if (!any)
        lr_buf_add_z(out, "no node has joined (llm-router node --router URL --token TOKEN)");
}

lr_code router_refusal_nobody(const struct router_nodes *nodes,
                              const struct router_model *model, struct lr_error *err)
{
    struct lr_buf why;
    struct lr_str folded = lr_str_z(model->folded);
    const char *never = model->is_deleted ? NULL : final_word(nodes, folded);
    if (never != NULL) /* clients read this, so it names no node */
        return lr_fail_as(err, never, model->id, never);
    lr_buf_init(&why, 380); /* a list that does not fit is cut where it stops fitting */
    explain_nobody(nodes, folded, &why);
    if (model->is_deleted)
        (void)lr_fail_as(err, nobody_of_deleted, model->id, lr_buf_z(&why));
    else
        (void)lr_fail_as(err, nobody, model->id, lr_buf_z(&why));
    lr_buf_free(&why);
    return LR_UNAVAILABLE;
}

/* ---- a pause ---- */

uint32_t router_refusal_pause(const struct lr_error *err)
{
    struct lr_str seconds;
    uint64_t value;
    bool has_pause = err->code == LR_UNAVAILABLE && lr_error_is(err, LR_ERROR_cannot_load) &&
                     lr_error_hole(err, "seconds", &seconds) && lr_str_u64(seconds, &value) &&
                     value <= UINT32_MAX;
    return has_pause ? (uint32_t)value : 0;
}
