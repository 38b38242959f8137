#include "router/fleet/differ.h"

#include <stdio.h>

/* ---- one name, two models ---- */

enum { KINDS_MAX = 8 /* of weights under one name; further ones count as the last */ };

struct kind {
    const char *weights; /* borrowed from a replica */
    const char *node;    /* name of the first node that has them */
    size_t count;        /* of nodes that have them */
};

/* NULL: the node serves nothing now, or says nothing of its weights. */
static const char *weights_on(const struct router_node *node, const struct router_model *model)
{
    const struct router_replica *replica =
        router_node_serves(node, NULL) ? router_node_replica(node, lr_str_z(model->folded))
                                       : NULL;
    return replica != NULL && replica->weights[0] != '\0' ? replica->weights : NULL;
}

/* The weights that most nodes have; the first of those that equally many have. */
static struct kind most_common(const struct router_nodes *nodes,
                               const struct router_model *model)
{
    struct kind kinds[KINDS_MAX];
    const struct router_node *node;
    size_t count = 0, best = 0;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        const char *weights = weights_on(node, model);
        size_t i = 0;
        while (weights != NULL && i < count && strcmp(kinds[i].weights, weights) != 0)
            i++;
        if (weights == NULL || i == KINDS_MAX)
            continue;
        if (i == count)
            kinds[count++] = (struct kind){.weights = weights, .node = node->name};
        kinds[i].count++;
        best = kinds[i].count > kinds[best].count ? i : best;
    }
    return count != 0 ? kinds[best] : (struct kind){0};
}

static void compare(const struct router_nodes *nodes, const struct router_model *model,
                    struct router_alerts *alerts)
{
    struct kind usual = most_common(nodes, model);
    struct lr_str subject = lr_str_z(model->id);
    const struct router_node *node;
    char message[ROUTER_REASON_MAX];
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        const char *weights = weights_on(node, model);
        if (weights == NULL || strcmp(weights, usual.weights) == 0) {
            router_alert_settle(alerts, ROUTER_ALERT_MODEL_DIFFERS, node, subject);
            continue;
        }
        (void)snprintf(message, sizeof(message),
                       "one name, two models: the files of \"%.100s\" on node %.64s have "
                       "fingerprint %.8s, on node %.64s (and %zu more) %.8s",
                       model->id, node->name, weights, usual.node, usual.count - 1,
                       usual.weights);
        if (!router_alert_is_told(alerts, ROUTER_ALERT_MODEL_DIFFERS, node, subject,
                                  lr_str_z(message)))
            router_alert_raise(alerts, ROUTER_ALERT_MODEL_DIFFERS, node, subject,
                               lr_str_z(message));
    }
}

void router_watch_weights(const struct router_nodes *nodes,
                          const struct router_registry *registry, struct router_alerts *alerts)
{
    const struct router_model *model;
    for (size_t i = 0; (model = router_registry_at(registry, i)) != NULL; i++)
        compare(nodes, model, alerts);
    router_alerts_settle_gone(alerts, ROUTER_ALERT_MODEL_DIFFERS);
}
