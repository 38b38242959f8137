/* router/http/metrics_nodes.c - GET /metrics: what is told per node, per model, and per model
 * on a node.
 *
 * Nodes go by their names, models by their ids: what a person reads on a chart.  Each metric is
 * a row of a table: name, type, help, and the expression that gives its number. Thread: the
 * router's lock is held.
 */
#include <math.h>

#include "router/fleet/registry.h"
#include "router/http/metrics.h"

/* Values are ids and names that joined nodes chose: quotes and line ends escaped. */
static void label(struct lr_buf *out, const char *name, const char *value)
{
    lr_buf_addf(out, "%s=\"", name);
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\')
            lr_buf_add_char(out, '\\');
        lr_buf_add_char(out, *value == '\n' ? ' ' : *value);
    }
    lr_buf_add_char(out, '"');
}

/* llm_router_<metric>{node="...",<second>="..."} ; the value follows.  second NULL: none. */
static void begin(struct lr_buf *out, const char *metric, const struct router_node *node,
                  const char *second, const char *value)
{
    lr_buf_addf(out, "llm_router_%s{", metric);
    label(out, "node", node->name);
    if (second != NULL) {
        lr_buf_add_char(out, ',');
        label(out, second, value);
    }
    lr_buf_add_z(out, "} ");
}

/* Whole numbers without a fraction. */
static void add_number(struct lr_buf *out, double value)
{
    lr_buf_addf(out, value == floor(value) ? "%.0f\n" : "%.6f\n", value);
}

/* ---- the metrics: name, type, help, value ---- */

/* clang-format off */
#define OF_NODE(X)                                                                             \
    X("node_up", "gauge", "1 while a node's heartbeats arrive", router_node_is_online(node))   \
    X("node_failures_total", "counter", "Requests a node failed or lost",                      \
      node->health.failures)                                                                   \
    X("node_downloads", "gauge", "Models that a node is fetching", downloads)                  \
    X("node_download_bytes_per_second", "gauge", "How fast it fetches them", rate)

#define OF_POOL(X)                                                                             \
    X("node_memory_total_bytes", "gauge", "Memory there is, per pool of a node",               \
      node->pools[pool].total)                                                                 \
    X("node_memory_used_bytes", "gauge", "Memory in use, per pool of a node",                  \
      node->pools[pool].used)

/* A negative value is left out.  type NULL: it belongs to the metric before. */
#define OF_REPLICA(X)                                                                            \
    X("inflight", "gauge", "Requests on a node, per model", replica->inflight)           \
    X("model_loaded", "gauge", "1 while a model is loaded on a node",                          \
      replica->is_loaded && router_node_is_online(node))                                         \
    X("model_requests_total", "counter", "Requests that ended", t->requests)                   \
    X("model_failed_total", "counter", "Those that ended with 429 or 5xx", t->failed)          \
    X("model_cancelled_total", "counter", "Those whose client left", t->cancelled)             \
    X("model_prompt_tokens_total", "counter", "Prompt tokens", t->prompt_tokens)               \
    X("model_completion_tokens_total", "counter", "Generated tokens", t->completion_tokens)    \
    X("model_cached_tokens_total", "counter", "Prompt tokens found in a cache",                \
      t->cached_tokens)                                                                        \
    X("model_first_token_seconds", "summary", "From the request to its first token", -1)       \
    X("model_first_token_seconds_sum", NULL, NULL, (double)t->first_token_us / 1e6)            \
    X("model_first_token_seconds_count", NULL, NULL, t->first_tokens)                          \
    X("model_inter_token_seconds", "summary", "Between two tokens", -1)                        \
    X("model_inter_token_seconds_sum", NULL, NULL, (double)t->inter_token_us / 1e6)            \
    X("model_inter_token_seconds_count", NULL, NULL, t->inter_tokens)                          \
    X("model_fetched_bytes", "gauge", "Bytes fetched, of a download under way",                \
      replica->fetch_bytes != 0 ? (double)replica->fetched_bytes : -1)                             \
    X("model_fetch_size_bytes", "gauge", "Bytes to fetch, of a download under way",            \
      replica->fetch_bytes != 0 ? (double)replica->fetch_bytes : -1)

#define OF_MODEL(X)                                                                            \
    X("queued", "gauge", "Requests that wait, per model",                                      \
      router_schedule_waiting(&model->schedule))                                               \
    X("expected_wait_seconds", "gauge", "How long who comes now would wait, per model",        \
      (double)router_schedule_wait_ms(&model->schedule) / 1000)                                \
    X("overloaded", "gauge", "1 while more requests come for a model than it can serve",       \
      model->schedule.pressure.state == ROUTER_OVER)
/* clang-format on */

#define HEAD(name, type, help, value)  {name, type, help},
#define VALUE(name, type, help, value) (double)(value),

struct metric {
    const char *name, *type, *help;
};
static const struct metric of_node[] = {OF_NODE(HEAD)}, of_pool[] = {OF_POOL(HEAD)},
                           of_replica[] = {OF_REPLICA(HEAD)}, of_model[] = {OF_MODEL(HEAD)};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static double node_value(const struct router_node *node, size_t which)
{
    struct lr_str key;
    void *replica;
    uint64_t downloads = 0, rate = 0;
    for (size_t i = 0; lr_strmap_at(&node->replicas, i, &key, &replica); i++) {
        downloads += ((const struct router_replica *)replica)->fetch_bytes != 0;
        rate += ((const struct router_replica *)replica)->fetch_rate;
    }
    const double values[] = {OF_NODE(VALUE)};
    return values[which];
}

static double pool_value(const struct router_node *node, uint32_t pool, size_t which)
{
    const double values[] = {OF_POOL(VALUE)};
    return values[which];
}

static double replica_value(const struct router_node *node,
                            const struct router_replica *replica, size_t which)
{
    const struct router_tally *t = &replica->tally;
    const double values[] = {OF_REPLICA(VALUE)};
    return values[which];
}

static double model_value(const struct router_model *model, size_t which)
{
    const double values[] = {OF_MODEL(VALUE)};
    return values[which];
}

/* ---- the text ---- */

static void head(struct lr_buf *out, const struct metric *metric)
{
    if (metric->type != NULL)
        router_metrics_head(out, metric->name, metric->type, metric->help);
}

static bool is_told(const struct router_registry *registry,
                    const struct router_replica *replica)
{
    return replica->tally.requests != 0 || replica->inflight != 0 ||
           router_registry_find(registry, lr_str_z(replica->id)) != NULL;
}

static void write_replicas(const struct router_registry *registry,
                           const struct router_node *node, size_t which, struct lr_buf *out)
{
    struct lr_str key;
    void *replica;
    for (size_t i = 0; lr_strmap_at(&node->replicas, i, &key, &replica); i++) {
        double value = replica_value(node, replica, which);
        if (value < 0 || !is_told(registry, replica))
            continue;
        begin(out, of_replica[which].name, node, "model",
              ((const struct router_replica *)replica)->id);
        add_number(out, value);
    }
}

/* Metric `which` of a table, for one node. */
typedef void (*write_fn)(const struct router_registry *registry, const struct router_node *node,
                         size_t which, struct lr_buf *out);

static void write_node(const struct router_registry *registry, const struct router_node *node,
                       size_t which, struct lr_buf *out)
{
    (void)registry;
    begin(out, of_node[which].name, node, NULL, NULL);
    add_number(out, node_value(node, which));
}

static void write_pools(const struct router_registry *registry, const struct router_node *node,
                        size_t which, struct lr_buf *out)
{
    (void)registry;
    for (uint32_t i = 0; i < node->pool_count; i++) {
        begin(out, of_pool[which].name, node, "pool", node->pools[i].name);
        add_number(out, pool_value(node, i, which));
    }
}

static void write_table(const struct router_nodes *nodes,
                        const struct router_registry *registry, const struct metric *table,
                        size_t count, write_fn write, struct lr_buf *out)
{
    for (size_t k = 0; k < count; k++) {
        head(out, &table[k]);
        for (size_t i = 0; i < nodes->count; i++)
            if (!router_node_is_removed(nodes->all[i]))
                write(registry, nodes->all[i], k, out);
    }
}

void router_metrics_write_nodes(const struct router_nodes *nodes,
                                const struct router_registry *registry, struct lr_buf *out)
{
    struct lr_str key;
    void *model;
    write_table(nodes, registry, of_node, COUNT(of_node), write_node, out);
    write_table(nodes, registry, of_pool, COUNT(of_pool), write_pools, out);
    write_table(nodes, registry, of_replica, COUNT(of_replica), write_replicas, out);
    for (size_t k = 0; k < COUNT(of_model); k++) {
        head(out, &of_model[k]);
        for (size_t i = 0; lr_strmap_at(&registry->models, i, &key, &model); i++) {
            lr_buf_addf(out, "llm_router_%s{", of_model[k].name);
            label(out, "model", ((const struct router_model *)model)->id);
            lr_buf_add_z(out, "} ");
            add_number(out, model_value(model, k));
        }
    }
}
