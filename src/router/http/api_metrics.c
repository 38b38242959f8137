/* router/http/api_metrics.c - GET /metrics: what is told of the router, per node, per model,
 * and per model on a node.
 *
 * Nodes go by their names, models by their ids: what a person reads on a chart.  Each metric is
 * a row of a table: name, type, help, and the place or the expression that gives its number.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/metrics.h"
#include "router/http/api.h"
#include "router/http/state.h"

enum { METRICS_BYTES = 16 << 20 };

static uint64_t api_metrics_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void head(struct lr_buf *out, const char *name, const char *type, const char *help)
{
    lr_metric_head(out, "llm_router_", name, type, help);
}

/* The samples of a histogram.  metric: with its prefix; label and value "": none. */
static void buckets(struct lr_buf *out, const char *metric, const char *label,
                    const char *value, const struct router_histogram *h)
{
    struct lr_buf own; /* the label as it stands in every line */
    uint64_t total = 0;
    lr_buf_init(&own, 1 << 10);
    if (label[0] != '\0')
        lr_metric_label(&own, label, value);
    const char *text = lr_buf_z(&own), *comma = label[0] != '\0' ? "," : "";
    const char *open = label[0] != '\0' ? "{" : "", *close = label[0] != '\0' ? "}" : "";
    for (size_t i = 0; i < ROUTER_BUCKETS; i++) {
        total += api_metrics_get(&h->counts[i]);
        if (i + 1 < ROUTER_BUCKETS)
            lr_buf_addf(out, "%s_bucket{%s%sle=\"%g\"} %" PRIu64 "\n", metric, text, comma,
                        (double)((uint64_t)1 << i) / 2000.0, total);
    }
    lr_buf_addf(out, "%s_bucket{%s%sle=\"+Inf\"} %" PRIu64 "\n", metric, text, comma, total);
    lr_buf_addf(out, "%s_sum%s%s%s %g\n%s_count%s%s%s %" PRIu64 "\n", metric, open, text, close,
                (double)api_metrics_get(&h->sum_us) / 1e6, metric, open, text, close, total);
    lr_buf_free(&own);
}

static const struct {
    const char *name, *help;
    size_t offset; /* of an _Atomic uint64_t */
} counters[] = {
#define ROUTER_COUNTER(member, name, help)                                                     \
    {name, help, offsetof(struct router_metrics, member)},
#include "router/figures/figures.def"
};

static const struct {
    const char *name, *by_model, *vllm, *help;
    size_t offset, model_offset; /* of a struct router_histogram */
} histograms[] = {
#define ROUTER_HISTOGRAM(member, name, by_model, vllm, help)                                   \
    {name,                                                                                     \
     by_model,                                                                                 \
     vllm,                                                                                     \
     help,                                                                                     \
     offsetof(struct router_metrics, member),                                                  \
     offsetof(struct router_model_metrics, member)},
#include "router/figures/figures.def"
};

/* A metric of one number. */
static void number(struct lr_buf *out, const char *name, const char *type, const char *help,
                   uint64_t value)
{
    head(out, name, type, help);
    lr_buf_addf(out, "llm_router_%s %" PRIu64 "\n", name, value);
}

/* ---- nodes and models: the router's lock is held ---- */

/* llm_router_<metric>{<name>="<value>"[,<second>="..."]} <number> */
static void series(struct lr_buf *out, const char *metric, const char *name, const char *value,
                   const char *second, const char *second_value, double number)
{
    lr_buf_addf(out, "llm_router_%s{", metric);
    lr_metric_label(out, name, value);
    if (second != NULL) {
        lr_buf_add_char(out, ',');
        lr_metric_label(out, second, second_value);
    }
    lr_buf_add_char(out, '}');
    lr_metric_value(out, number);
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
    X("model_kv_used_bytes", "gauge", "KV memory that requests hold, per model on a node",     \
      replica->kv_used)                                                                        \
    X("model_kv_bytes", "gauge", "KV memory that there is, per model on a node",               \
      replica->kv_total)                                                                       \
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
    X("queued", "gauge", "Requests that wait, per model", waiting)                             \
    X("running", "gauge", "Requests of this router that nodes compute, per model",             \
      load.running)                                                                            \
    X("kv_cache_usage_ratio", "gauge",                                                         \
      "Part of the KV memory that requests of all routers hold, per model", load.kv_ratio)     \
    X("expected_wait_seconds", "gauge", "How long a request would wait now, per model",        \
      (double)router_schedule_wait_ms(&model->schedule) / 1000)                                \
    X("overloaded", "gauge", "1 while more requests come for a model than it can serve",       \
      model->schedule.pressure.state == ROUTER_OVER)

/* The names under which dashboards and endpoint pickers for vLLM look for the same figures. */
#define AS_VLLM(X)                                                                             \
    X("num_requests_waiting", "gauge", "Requests that wait", waiting)                          \
    X("num_requests_running", "gauge", "Requests that are computed", load.running)             \
    X("kv_cache_usage_perc", "gauge", "Part of the KV cache in use, 0 to 1", load.kv_ratio)    \
    X("gpu_cache_usage_perc", "gauge", "Part of the KV cache in use, 0 to 1 (the older name)", \
      load.kv_ratio)                                                                           \
    X("request_success_total", "counter", "Requests that succeeded", api_metrics_get(&m->succeeded))       \
    X("prompt_tokens_total", "counter", "Prompt tokens", api_metrics_get(&m->prompt_tokens))               \
    X("generation_tokens_total", "counter", "Tokens generated", api_metrics_get(&m->completion_tokens))    \
    X("prefix_cache_queries_total", "counter", "Prompt tokens looked up in a prefix cache",    \
      api_metrics_get(&m->prompt_tokens))                                                                  \
    X("prefix_cache_hits_total", "counter", "Prompt tokens found in a prefix cache",           \
      api_metrics_get(&m->cached_tokens))
/* clang-format on */

#define HEAD(name, type, help, value)  {name, type, help},
#define VALUE(name, type, help, value) (double)(value),

struct metric {
    const char *name, *type, *help;
};
static const struct metric of_node[] = {OF_NODE(HEAD)}, of_pool[] = {OF_POOL(HEAD)},
                           of_replica[] = {OF_REPLICA(HEAD)}, of_model[] = {OF_MODEL(HEAD)},
                           as_vllm[] = {AS_VLLM(HEAD)};
#define COUNT(table) (sizeof(table) / sizeof((table)[0]))

static void api_metrics_write_node(const struct router *r, const struct router_node *node,
                                   size_t which, struct lr_buf *out)
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

static void write_gpus(const struct router *r, struct lr_buf *out)
{
    const struct router_node *node;
    char name[64];
    for (uint32_t k = 0; k <= WIRE_GPU_FIGURE_COUNT; k++) {
        bool is_figure = k < WIRE_GPU_FIGURE_COUNT;
        (void)snprintf(name, sizeof(name), "node_gpu_%s",
                       is_figure ? wire_gpu_rows[k].name : "faulty");
        head(out, name, is_figure ? wire_gpu_rows[k].type : "gauge",
             is_figure ? wire_gpu_rows[k].help
                       : "1 while a node does not use a GPU because of an error");
        for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;)
            for (uint32_t pool = 0; pool < node->pool_count; pool++) {
                const struct wire_gpu *gpu = &node->pools[pool].gpu;
                bool is_told = is_figure ? (gpu->reported >> k & 1) != 0 : gpu->reported != 0;
                if (is_told || (!is_figure && gpu->is_faulty))
                    series(out, name, "node", node->name, "pool", node->pools[pool].name,
                           is_figure ? (double)gpu->figures[k] : gpu->is_faulty);
            }
    }
}

/* A model on all nodes. */
struct model_load {
    uint64_t running;
    double kv_ratio;
};

static struct model_load load_of(const struct router *r, const struct router_model *model)
{
    const struct router_node *node;
    uint64_t running = 0, used = 0, total = 0;
    for (size_t at = 0; (node = router_nodes_next(&r->nodes, &at)) != NULL;) {
        const struct router_replica *replica =
            router_node_replica(node, lr_str_z(model->folded));
        if (replica == NULL)
            continue;
        running += replica->inflight;
        used += router_node_is_online(node) ? replica->kv_used : 0;
        total += router_node_is_online(node) ? replica->kv_total : 0;
    }
    return (struct model_load){running, total != 0 ? (double)used / (double)total : 0};
}

static void write_models(const struct router *r, struct lr_buf *out)
{
    const struct router_model *model;
    for (size_t k = 0; k < COUNT(of_model); k++) {
        head(out, of_model[k].name, of_model[k].type, of_model[k].help);
        for (size_t i = 0; (model = router_registry_at(&r->registry, i)) != NULL; i++) {
            size_t waiting = router_schedule_waiting(&model->schedule);
            const struct model_load load = load_of(r, model);
            const double values[] = {OF_MODEL(VALUE)};
            series(out, of_model[k].name, "model", model->id, NULL, NULL, values[k]);
        }
    }
}

/* One histogram of each model. */
static void write_histogram(const struct router *r, size_t which, const char *prefix,
                            const char *name, const char *label, struct lr_buf *out)
{
    const struct router_model *model;
    char metric[96];
    (void)snprintf(metric, sizeof(metric), "%s%s", prefix, name);
    lr_metric_head(out, prefix, name, "histogram", histograms[which].help);
    for (size_t i = 0; (model = router_registry_at(&r->registry, i)) != NULL; i++)
        buckets(out, metric, label, model->id,
                (const void *)((const char *)&model->metrics + histograms[which].model_offset));
}

static void write_vllm(const struct router *r, struct lr_buf *out)
{
    const struct router_model *model;
    for (size_t k = 0; k < COUNT(as_vllm); k++) {
        lr_metric_head(out, "vllm:", as_vllm[k].name, as_vllm[k].type, as_vllm[k].help);
        for (size_t i = 0; (model = router_registry_at(&r->registry, i)) != NULL; i++) {
            const struct router_model_metrics *m = &model->metrics;
            size_t waiting = router_schedule_waiting(&model->schedule);
            const struct model_load load = load_of(r, model);
            const double values[] = {AS_VLLM(VALUE)};
            lr_buf_addf(out, "vllm:%s{", as_vllm[k].name);
            lr_metric_label(out, "model_name", model->id);
            lr_buf_add_char(out, '}');
            lr_metric_value(out, values[k]);
        }
    }
    for (size_t k = 0; k < COUNT(histograms); k++)
        write_histogram(r, k, "vllm:", histograms[k].vllm, "model_name", out);
}

static void write_nodes(const struct router *r, struct lr_buf *out)
{
    write_table(r, of_node, COUNT(of_node), api_metrics_write_node, out);
    write_table(r, of_pool, COUNT(of_pool), write_pools, out);
    write_gpus(r, out);
    write_table(r, of_replica, COUNT(of_replica), write_replicas, out);
    write_models(r, out);
    for (size_t k = 0; k < COUNT(histograms); k++)
        write_histogram(r, k, "llm_router_", histograms[k].by_model, "model", out);
    if (lr_settings_bool(r->settings, "vllm-metrics"))
        write_vllm(r, out);
}

/* ---- the whole ---- */

/* What models wrote wrongly and readers put right; a series for each that has come. */
static void write_repairs(const struct router *r, struct lr_buf *out)
{
    head(out, "calls_repaired_total", "counter",
         "Malformed calls that were put right or became content, by dialect and kind");
    for (uint32_t f = 0; f < GRAMMAR_FORMAT_COUNT; f++)
        for (uint32_t k = 0; k < CHAT_REPAIR_COUNT; k++) {
            uint64_t n = api_metrics_get(&r->metrics.repaired[f][k]);
            if (n != 0)
                series(out, "calls_repaired_total", "dialect",
                       grammar_format_name((enum grammar_format)f), "kind",
                       chat_repair_kind_name((enum chat_repair_kind)k), (double)n);
        }
}

/* The Prometheus text form. */
static void api_metrics_write_all(struct router *r, struct lr_buf *out)
{
    const char *m = (const char *)&r->metrics;
    struct net_server_stats server;
    struct router_store_stats store;
    struct net_tls_validity validity;
    size_t row_count = 0;
    bool shows_keys = !lr_settings_bool(r->settings, "public-metrics");
    net_server_get_stats(r->server, &server);
    router_store_get_stats(r->store, &store);
    head(out, "answers_total", "counter", "Answers, by class of status");
    for (int i = 1; i < 6; i++)
        lr_buf_addf(out, "llm_router_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i,
                    api_metrics_get(&r->metrics.answers[i]));
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        number(out, counters[i].name, "counter", counters[i].help,
               api_metrics_get((const void *)(m + counters[i].offset)));
    write_repairs(r, out);
    for (size_t i = 0; i < COUNT(histograms); i++) {
        char metric[96];
        (void)snprintf(metric, sizeof(metric), "llm_router_%s", histograms[i].name);
        head(out, histograms[i].name, "histogram", histograms[i].help);
        buckets(out, metric, "", "", (const void *)(m + histograms[i].offset));
    }
    number(out, "connections", "gauge", "Open client connections", server.connections);
    number(out, "active_requests", "gauge", "Requests that are being answered", server.active);
    number(out, "usage_rows_written", "gauge", "Usage rows in the database since the start",
           store.usage_written);
    number(out, "usage_rows_waiting", "gauge",
           "Usage rows in memory that wait for the database", store.usage_waiting);
    number(out, "usage_rows_lost", "gauge", "Usage rows that could not be written",
           store.usage_dropped);
    head(out, "tls_certificate_expiry_timestamp_seconds", "gauge",
         "End of the certificate of tls-cert, in seconds since 1970");
    if (net_server_get_validity(r->server, &validity))
        lr_buf_addf(out, "llm_router_tls_certificate_expiry_timestamp_seconds %lld\n",
                    (long long)validity.until_s);
    number(out, "trace_spans_sent_total", "counter", "Spans that the collector has taken",
           api_metrics_get(&r->tracer.sent));
    number(out, "trace_spans_dropped_total", "counter",
           "Spans that found the buffer full and were dropped",
           api_metrics_get(&r->tracer.dropped));
    number(out, "trace_spans_refused_total", "counter", "Spans that the collector did not take",
           api_metrics_get(&r->tracer.refused));
    number(out, "webhook_delivered_total", "counter",
           "Messages about alerts that the webhook has taken",
           api_metrics_get(&r->webhook.delivered));
    number(out, "webhook_failures_total", "counter", "Tries that the webhook did not take",
           api_metrics_get(&r->webhook.failed));
    number(out, "webhook_waiting", "gauge", "Messages that wait for the webhook",
           api_metrics_get(&r->webhook.waiting));
    lr_metrics_process(out, "llm_router_", r->version);
    router_lock(r);
    number(out, "ticket_defects_total", "counter",
           "Moves of tickets that the scheduler does not know: defects",
           r->dispatch.sched.illegal_moves);
    write_nodes(r, out);
    router_alerts_metrics(&r->alerts, out);
    struct router_key_usage_row *rows =
        shows_keys ? router_key_usages_copy(&r->key_usages, &row_count) : NULL;
    router_unlock(r);
    router_key_usages_write(out, rows, rows != NULL ? row_count : 0);
    free(rows);
}

lr_code router_api_metrics(struct router *r, struct net_request *req, struct lr_error *err)
{
    struct lr_buf body;
    (void)err;
    lr_buf_init(&body, METRICS_BYTES);
    api_metrics_write_all(r, &body);
    net_respond(req, 200, "text/plain; version=0.0.4", lr_buf_str(&body));
    lr_buf_free(&body);
    return LR_OK;
}
