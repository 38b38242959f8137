/* router/http/metrics_nodes.c - GET /metrics: what is told per node, and per model on a node.
 *
 * Nodes go by their names, models by their ids: what a person reads on a chart.
 * Thread: the router's lock is held.
 */
#include <inttypes.h>

#include "router/state.h"

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

static void add_count(struct lr_buf *out, uint64_t value)
{
    lr_buf_addf(out, "%" PRIu64 "\n", value);
}

/* ---- per node ---- */

static uint64_t is_up(const struct router_node *node)
{
    return router_node_is_online(node);
}

static uint64_t failures(const struct router_node *node)
{
    return node->health.failures;
}

static uint64_t downloads(const struct router_node *node)
{
    struct lr_str key;
    void *value;
    uint64_t count = 0;
    for (size_t i = 0; lr_strmap_at(&node->replicas, i, &key, &value); i++)
        count += ((const struct router_replica *)value)->fetch_bytes != 0;
    return count;
}

static uint64_t download_rate(const struct router_node *node)
{
    struct lr_str key;
    void *value;
    uint64_t sum = 0;
    for (size_t i = 0; lr_strmap_at(&node->replicas, i, &key, &value); i++)
        sum += ((const struct router_replica *)value)->fetch_rate;
    return sum;
}

static const struct {
    const char *name, *type, *help;
    uint64_t (*get)(const struct router_node *node);
} of_node[] = {
    {"node_up", "gauge", "1 while a node's heartbeats arrive", is_up},
    {"node_failures_total", "counter", "Requests a node failed or lost", failures},
    {"node_downloads", "gauge", "Models that a node is fetching", downloads},
    {"node_download_bytes_per_second", "gauge", "How fast it fetches them", download_rate},
};

static void write_pools(const struct router *r, struct lr_buf *out, bool total)
{
    const char *name = total ? "node_memory_total_bytes" : "node_memory_used_bytes";
    router_metrics_head(out, name, "gauge",
                        total ? "Memory there is, per pool of a node"
                              : "Memory in use, per pool of a node");
    for (size_t i = 0; i < r->nodes.count; i++) {
        const struct router_node *node = r->nodes.all[i];
        for (uint32_t p = 0; !router_node_is_removed(node) && p < node->pool_count; p++) {
            begin(out, name, node, "pool", node->pools[p].name);
            add_count(out, total ? node->pools[p].total : node->pools[p].used);
        }
    }
}

/* ---- per model on a node ---- */

enum kind { COUNT, BYTES, SECONDS }; /* SECONDS: kept in microseconds */

#define TALLY(member) offsetof(struct router_replica, tally.member)
static const struct {
    const char *name, *type, *help; /* help NULL: belongs to the one before */
    size_t offset;                  /* of a uint64_t in struct router_replica */
    enum kind kind;
} of_replica[] = {
    {"model_requests_total", "counter", "Requests that ended", TALLY(requests), COUNT},
    {"model_failed_total", "counter", "Those that ended with 429 or 5xx", TALLY(failed), COUNT},
    {"model_cancelled_total", "counter", "Those whose client left", TALLY(cancelled), COUNT},
    {"model_prompt_tokens_total", "counter", "Prompt tokens", TALLY(prompt_tokens), COUNT},
    {"model_completion_tokens_total", "counter", "Generated tokens", TALLY(completion_tokens),
     COUNT},
    {"model_cached_tokens_total", "counter", "Prompt tokens found in a cache",
     TALLY(cached_tokens), COUNT},
    {"model_first_token_seconds", "summary", "From the request to its first token", 0, COUNT},
    {"model_first_token_seconds_sum", NULL, NULL, TALLY(first_token_us), SECONDS},
    {"model_first_token_seconds_count", NULL, NULL, TALLY(first_tokens), COUNT},
    {"model_inter_token_seconds", "summary", "Between two tokens", 0, COUNT},
    {"model_inter_token_seconds_sum", NULL, NULL, TALLY(inter_token_us), SECONDS},
    {"model_inter_token_seconds_count", NULL, NULL, TALLY(inter_tokens), COUNT},
    {"model_fetched_bytes", "gauge", "Bytes fetched, of a download under way",
     offsetof(struct router_replica, fetched_bytes), BYTES},
    {"model_fetch_size_bytes", "gauge", "Bytes to fetch, of a download under way",
     offsetof(struct router_replica, fetch_bytes), BYTES},
};
#undef TALLY

static bool is_told(const struct router *r, const struct router_replica *replica)
{
    return replica->tally.requests != 0 || replica->inflight != 0 ||
           router_registry_find(&r->registry, lr_str_z(replica->id)) != NULL;
}

static void write_places(const struct router *r, struct lr_buf *out, size_t which)
{
    const char *name = of_replica[which].name;
    bool has_rows = of_replica[which].offset != 0;
    if (of_replica[which].help != NULL)
        router_metrics_head(out, name, of_replica[which].type, of_replica[which].help);
    for (size_t i = 0; has_rows && i < r->nodes.count; i++) {
        const struct router_node *node = r->nodes.all[i];
        struct lr_str key;
        void *value;
        for (size_t j = 0; lr_strmap_at(&node->replicas, j, &key, &value); j++) {
            const struct router_replica *replica = value;
            uint64_t number;
            memcpy(&number, (const char *)value + of_replica[which].offset, sizeof(number));
            bool is_idle = of_replica[which].kind == BYTES && replica->fetch_bytes == 0;
            if (router_node_is_removed(node) || is_idle || !is_told(r, replica))
                continue;
            begin(out, name, node, "model", replica->id);
            if (of_replica[which].kind == SECONDS)
                lr_buf_addf(out, "%.6f\n", (double)number / 1e6);
            else
                add_count(out, number);
        }
    }
}

/* ---- per model ---- */

static double queued(const struct router_model *model)
{
    return (double)router_schedule_waiting(&model->schedule);
}

static double expected_wait(const struct router_model *model)
{
    return (double)router_schedule_wait_ms(&model->schedule) / 1000;
}

static double is_overloaded(const struct router_model *model)
{
    return model->schedule.pressure.state == ROUTER_OVER;
}

static const struct {
    const char *name, *help;
    double (*get)(const struct router_model *model);
} of_queue[] = {
    {"queued", "Requests that wait, per model", queued},
    {"expected_wait_seconds", "How long who comes now would wait, per model", expected_wait},
    {"overloaded", "1 while more requests come for a model than it can serve", is_overloaded},
};

static void write_state(const struct router *r, struct lr_buf *out)
{
    struct lr_str key;
    void *value;
    router_metrics_head(out, "inflight", "gauge", "Requests on a node, per model");
    for (size_t i = 0; i < r->nodes.count; i++)
        for (size_t j = 0; lr_strmap_at(&r->nodes.all[i]->replicas, j, &key, &value); j++) {
            const struct router_replica *replica = value;
            if (router_node_is_removed(r->nodes.all[i]) || !is_told(r, replica))
                continue;
            begin(out, "inflight", r->nodes.all[i], "model", replica->id);
            add_count(out, replica->inflight);
        }
    router_metrics_head(out, "model_loaded", "gauge", "1 while a model is loaded on a node");
    for (size_t i = 0; i < r->nodes.count; i++)
        for (size_t j = 0; lr_strmap_at(&r->nodes.all[i]->replicas, j, &key, &value); j++) {
            const struct router_replica *replica = value;
            if (router_node_is_removed(r->nodes.all[i]) || !is_told(r, replica))
                continue;
            begin(out, "model_loaded", r->nodes.all[i], "model", replica->id);
            add_count(out, replica->is_loaded && router_node_is_online(r->nodes.all[i]));
        }
    for (size_t k = 0; k < sizeof(of_queue) / sizeof(of_queue[0]); k++) {
        router_metrics_head(out, of_queue[k].name, "gauge", of_queue[k].help);
        for (size_t i = 0; lr_strmap_at(&r->registry.models, i, &key, &value); i++) {
            const struct router_model *model = value;
            lr_buf_addf(out, "llm_router_%s{", of_queue[k].name);
            label(out, "model", model->id);
            lr_buf_addf(out, "} %g\n", of_queue[k].get(model));
        }
    }
}

void router_metrics_write_nodes(const struct router *r, struct lr_buf *out)
{
    for (size_t k = 0; k < sizeof(of_node) / sizeof(of_node[0]); k++) {
        router_metrics_head(out, of_node[k].name, of_node[k].type, of_node[k].help);
        for (size_t i = 0; i < r->nodes.count; i++) {
            if (router_node_is_removed(r->nodes.all[i]))
                continue;
            begin(out, of_node[k].name, r->nodes.all[i], NULL, NULL);
            add_count(out, of_node[k].get(r->nodes.all[i]));
        }
    }
    write_pools(r, out, true);
    write_pools(r, out, false);
    for (size_t k = 0; k < sizeof(of_replica) / sizeof(of_replica[0]); k++)
        write_places(r, out, k);
    write_state(r, out);
}
