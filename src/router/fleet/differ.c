#include "router/fleet/differ.h"

#include "base/errors.h"

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

static void differ_compare(const struct router_nodes *nodes, const struct router_model *model,
                           struct router_alerts *alerts)
{
    struct kind usual = most_common(nodes, model);
    struct lr_str subject = lr_str_z(model->id);
    const struct router_node *node;
    struct lr_error why;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        const char *weights = weights_on(node, model);
        if (weights == NULL || strcmp(weights, usual.weights) == 0) {
            router_alert_settle(alerts, ROUTER_ALERT_MODEL_DIFFERS, node, subject);
            continue;
        }
        (void)lr_fail_as(&why, model_differs, model->id, node->name, weights, usual.node,
                         usual.count - 1, usual.weights);
        if (!router_alert_is_told(alerts, ROUTER_ALERT_MODEL_DIFFERS, node, subject, &why))
            router_alert_raise(alerts, ROUTER_ALERT_MODEL_DIFFERS, node, subject, &why);
    }
}

void router_watch_weights(const struct router_nodes *nodes,
                          const struct router_registry *registry, struct router_alerts *alerts)
{
    const struct router_model *model;
    for (size_t i = 0; (model = router_registry_at(registry, i)) != NULL; i++)
        differ_compare(nodes, model, alerts);
    router_alerts_settle_gone(alerts, ROUTER_ALERT_MODEL_DIFFERS);
}

/* ---- clocks ---- */

enum { CLOCK_MS = 5000, CLOCK_BACK_MS = 4000 /* of a clock that was wrong before */ };

/* Of the node's clock before ours.  A heartbeat that was long on its way makes the clock look
 * late, never early: the earliest of some is the truest.  False: too few were heard. */
static bool clock_of(const struct router_node *node, int64_t *ahead_ms)
{
    *ahead_ms = node->clock_ahead_ms[0];
    for (size_t i = 1; i < ROUTER_CLOCK_LOOKS; i++)
        if (node->clock_ahead_ms[i] > *ahead_ms)
            *ahead_ms = node->clock_ahead_ms[i];
    return router_node_is_online(node) && node->clock_looks >= ROUTER_CLOCK_LOOKS;
}

static bool is_off(int64_t ahead_ms, bool was_off)
{
    int64_t limit = was_off ? CLOCK_BACK_MS : CLOCK_MS;
    return ahead_ms > limit || ahead_ms < -limit;
}

static const char *side(int64_t ahead_ms)
{
    return ahead_ms > 0 ? "ahead of" : "behind";
}

static double seconds(int64_t ahead_ms)
{
    return (ahead_ms > 0 ? (double)ahead_ms : -(double)ahead_ms) / 1000;
}

static void watch_node(const struct router_node *node, struct router_alerts *alerts)
{
    const struct lr_str nothing = lr_str_z("");
    struct lr_error why;
    char off[32];
    int64_t ahead;
    bool is_told =
        router_alert_is_told(alerts, ROUTER_ALERT_CLOCK_DIFFERS, node, nothing, NULL);
    if (!clock_of(node, &ahead) || !is_off(ahead, is_told)) {
        router_alert_settle(alerts, ROUTER_ALERT_CLOCK_DIFFERS, node, nothing);
        return;
    }
    (void)snprintf(off, sizeof(off), "%.1f", seconds(ahead));
    (void)lr_fail_as(&why, clock_differs, node->name, off, side(ahead), CLOCK_MS / 1000);
    if (!is_told)
        router_alert_raise(alerts, ROUTER_ALERT_CLOCK_DIFFERS, node, nothing, &why);
}

/* Our clock before that of `which`: the subject of the alert. */
static void watch_own(struct router_alerts *alerts, bool is_known, int64_t ahead_ms,
                      const char *what, struct lr_str which)
{
    struct lr_error why;
    char off[32];
    bool is_told = router_alert_is_told(alerts, ROUTER_ALERT_CLOCK_DIFFERS, NULL, which, NULL);
    if (!is_known || !is_off(ahead_ms, is_told)) {
        router_alert_settle(alerts, ROUTER_ALERT_CLOCK_DIFFERS, NULL, which);
        return;
    }
    (void)snprintf(off, sizeof(off), "%.1f", seconds(ahead_ms));
    (void)lr_fail_as(&why, own_clock_differs, off, side(ahead_ms), what, which,
                     CLOCK_MS / 1000);
    if (!is_told)
        router_alert_raise(alerts, ROUTER_ALERT_CLOCK_DIFFERS, NULL, which, &why);
}

static void watch_shared(const struct router_peers *peers, const char *own_url,
                         struct router_alerts *alerts)
{
    watch_own(alerts, peers->has_clock, peers->clock_ahead_ms, "", LR_STR_LIT("database"));
    for (size_t i = 0; i < peers->count; i++) {
        const struct router_peer *peer = &peers->all[i];
        bool is_known = peers->has_clock && peer->has_clock && router_peer_is_alive(peer);
        if (strcmp(peer->url, own_url) != 0)
            watch_own(alerts, is_known, peers->clock_ahead_ms - peer->clock_ahead_ms, "router ",
                      lr_str_z(peer->url));
    }
}

void router_watch_clocks(const struct router_nodes *nodes, const struct router_peers *peers,
                         const char *own_url, struct router_alerts *alerts)
{
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;)
        watch_node(node, alerts);
    watch_shared(peers, own_url, alerts);
}
