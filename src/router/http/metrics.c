/* router/http/metrics.c - GET /metrics: what is told of the router, per node, per model, and
 * per model on a node.
 *
 * Nodes go by their names, models by their ids: what a person reads on a chart.  Each metric is
 * a row of a table: name, type, help, and the place or the expression that gives its number.
 */
#include "router/http/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>

#include "router/state.h"

enum { METRICS_BYTES = 16 << 20 };

void router_observe(struct router_histogram *h, uint64_t ns)
{
    uint64_t half_ms = ns / 500000;
    size_t i = 0;
    while (i + 1 < ROUTER_BUCKETS && half_ms >= (uint64_t)1 << i)
        i++;
    router_count(&h->counts[i], 1);
    router_count(&h->sum_us, ns / 1000);
    router_count(&h->count, 1);
}

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

/* type NULL: the number belongs to the metric before. */
static void head(struct lr_buf *out, const char *name, const char *type, const char *help)
{
    if (type == NULL)
        return;
    lr_buf_addf(out, "# HELP llm_router_%s %s\n# TYPE llm_router_%s %s\n", name, help, name,
                type);
}

static void histogram(struct lr_buf *out, const char *name, const char *help,
                      const struct router_histogram *h)
{
    uint64_t total = 0;
    head(out, name, "histogram", help);
    for (size_t i = 0; i < ROUTER_BUCKETS; i++) {
        total += get(&h->counts[i]);
        if (i + 1 < ROUTER_BUCKETS)
            lr_buf_addf(out, "llm_router_%s_bucket{le=\"%g\"} %" PRIu64 "\n", name,
                        (double)((uint64_t)1 << i) / 2000.0, total);
    }
    lr_buf_addf(out, "llm_router_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, total);
    lr_buf_addf(out, "llm_router_%s_sum %g\nllm_router_%s_count %" PRIu64 "\n", name,
                (double)get(&h->sum_us) / 1e6, name, get(&h->count));
}

#define AT(member) offsetof(struct router_metrics, member)
static const struct {
    const char *name, *help;
    size_t offset; /* of an _Atomic uint64_t */
} counters[] = {
    {"generations_total", "Generations sent to nodes", AT(generations)},
    {"prompt_tokens_total", "Prompt tokens, as engines count", AT(prompt_tokens)},
    {"completion_tokens_total", "Generated tokens", AT(completion_tokens)},
    {"cached_tokens_total", "Prompt tokens found in a cache", AT(cached_tokens)},
    {"cancelled_total", "Requests whose client left", AT(cancelled)},
    {"failed_total", "Requests that ended with 429 or 5xx, also in mid-stream", AT(failed)},
    {"retries_total", "Requests moved to another node before their first token", AT(retries)},
    {"continuations_total", "Requests moved to another node after it", AT(continuations)},
    {"busy_total", "Times a node had no slot after all", AT(busy)},
    {"preempted_total", "Times an answer left its slot so that a key with less could begin",
     AT(preempted)},
    {"queue_full_total", "Requests refused because the queue was full", AT(queue_full)},
    {"rate_limited_total", "Requests refused by a key's limits", AT(rate_limited)},
};

static const struct {
    const char *name, *help;
    size_t offset; /* of a struct router_histogram */
} histograms[] = {
    {"first_token_seconds", "From the request to its first token", AT(first_token)},
    {"inter_token_seconds", "Between two tokens", AT(inter_token)},
    {"wait_seconds", "In the queue", AT(wait)},
    {"request_seconds", "From the request to the end of its answer", AT(total)},
};
#undef AT

/* A metric of one number. */
static void number(struct lr_buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    head(out, name, type, help);
    lr_buf_addf(out, "llm_router_%s %" PRIu64 "\n", name, value);
}

/* ---- nodes and models: the router's lock is held ---- */

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

/* llm_router_<metric>{<name>="<value>"[,<second>="..."]} <number> */
static void series(struct lr_buf *out, const char *metric, const char *name, const char *value,
                   const char *second, const char *second_value, double number)
{
    lr_buf_addf(out, "llm_router_%s{", metric);
    label(out, name, value);
    if (second != NULL) {
        lr_buf_add_char(out, ',');
        label(out, second, second_value);
    }
    /* Whole numbers without a fraction. */
    lr_buf_addf(out, number == floor(number) ? "} %.0f\n" : "} %.6f\n", number);
}

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
    X("expected_wait_seconds", "gauge", "How long a request would wait now, per model",        \
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

static void write_node(const struct router *r, const struct router_node *node, size_t which,
                       struct lr_buf *out)
{
    const struct router_replica *replica;
    uint64_t downloads = 0, rate = 0;
    (void)r;
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++) {
        downloads += replica->fetch_bytes != 0;
        rate += replica->fetch_rate;
    }
    const double values[] = {OF_NODE(VALUE)};
    series(out, of_node[which].name, "node", node->name, NULL, NULL, values[which]);
}

static void write_pools(const struct router *r, const struct router_node *node, size_t which,
                        struct lr_buf *out)
{
    (void)r;
    for (uint32_t pool = 0; pool < node->pool_count; pool++) {
        const double values[] = {OF_POOL(VALUE)};
        series(out, of_pool[which].name, "node", node->name, "pool", node->pools[pool].name,
               values[which]);
    }
}

static void write_replicas(const struct router *r, const struct router_node *node, size_t which,
                           struct lr_buf *out)
{
    const struct router_replica *replica;
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++) {
        const struct router_tally *t = &replica->tally;
        const double values[] = {OF_REPLICA(VALUE)};
        bool is_told = t->requests != 0 || replica->inflight != 0 ||
                       router_registry_find(&r->registry, lr_str_z(replica->id)) != NULL;
        if (values[which] >= 0 && is_told)
            series(out, of_replica[which].name, "node", node->name, "model", replica->id,
                   values[which]);
    }
}

/* Metric `which` of a table, for one node. */
typedef void (*write_fn)(const struct router *r, const struct router_node *node, size_t which,
                         struct lr_buf *out);

static void write_table(const struct router *r, const struct metric *table, size_t count,
                        write_fn write, struct lr_buf *out)
{
    const struct router_node *node;
    for (size_t k = 0; k < count; k++) {
        head(out, table[k].name, table[k].type, table[k].help);
        for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;)
            write(r, node, k, out);
    }
}

static void write_nodes(const struct router *r, struct lr_buf *out)
{
    const struct router_model *model;
    write_table(r, of_node, COUNT(of_node), write_node, out);
    write_table(r, of_pool, COUNT(of_pool), write_pools, out);
    write_table(r, of_replica, COUNT(of_replica), write_replicas, out);
    for (size_t k = 0; k < COUNT(of_model); k++) {
        head(out, of_model[k].name, of_model[k].type, of_model[k].help);
        for (size_t i = 0; (model = router_registry_at(&r->registry, i)) != NULL; i++) {
            const double values[] = {OF_MODEL(VALUE)};
            series(out, of_model[k].name, "model", model->id, NULL, NULL, values[k]);
        }
    }
}

/* ---- the whole ---- */

/* The Prometheus text form. */
static void write_all(struct router *r, struct lr_buf *out)
{
    const char *m = (const char *)&r->metrics;
    struct net_server_stats server;
    struct router_store_stats store;
    struct net_tls_validity validity;
    net_server_get_stats(r->server, &server);
    router_store_get_stats(r->store, &store);
    head(out, "answers_total", "counter", "Answers, by class of status");
    for (int i = 1; i < 6; i++)
        lr_buf_addf(out, "llm_router_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i,
                    get(&r->metrics.answers[i]));
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        number(out, counters[i].name, "counter", counters[i].help,
               get((const void *)(m + counters[i].offset)));
    for (size_t i = 0; i < sizeof(histograms) / sizeof(histograms[0]); i++)
        histogram(out, histograms[i].name, histograms[i].help,
                  (const void *)(m + histograms[i].offset));
    number(out, "connections", "gauge", "Open client connections", server.connections);
    number(out, "active_requests", "gauge", "Requests that are being answered", server.active);
    number(out, "usage_rows_written", "gauge", "Usage rows in the database since the start",
           store.usage_written);
    number(out, "usage_rows_waiting", "gauge",
           "Usage rows in memory that wait for the database", store.usage_waiting);
    number(out, "usage_rows_lost", "gauge", "Usage rows that could not be written",
           store.usage_dropped);
    if (net_server_get_validity(r->server, &validity)) {
        head(out, "tls_certificate_expiry_days", "gauge",
             "Days until the certificate of tls-cert ends");
        lr_buf_addf(out, "llm_router_tls_certificate_expiry_days %.2f\n",
                    (double)(validity.until_s - lr_clock_wall_ms(NULL) / 1000) / 86400);
    }
    router_lock(r);
    number(out, "ticket_defects_total", "counter",
           "Moves of tickets that the scheduler does not know: defects",
           r->dispatch.sched.illegal_moves);
    write_nodes(r, out);
    router_unlock(r);
}

lr_code router_api_metrics(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_buf body;
    (void)err;
    lr_buf_init(&body, METRICS_BYTES);
    write_all(r, &body);
    net_respond(req, 200, "text/plain; version=0.0.4", lr_buf_str(&body));
    lr_buf_free(&body);
    return LR_OK;
}
