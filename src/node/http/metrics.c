/* node/http/metrics.c - GET /metrics in the Prometheus text format. */
#include <inttypes.h>
#include <stdio.h>

#include "base/metrics.h"
#include "net/server.h"
#include "node/http/api.h"

static void head(struct lr_buf *out, const char *name, const char *type, const char *help)
{
    lr_metric_head(out, "llm_router_node_", name, type, help);
}

static void put_value(struct lr_buf *out, const char *name, const char *key, const char *label,
                      double value)
{
    lr_buf_addf(out, "llm_router_node_%s{", name);
    lr_metric_label(out, key, label);
    lr_buf_add_char(out, '}');
    lr_metric_value(out, value);
}

/* clang-format off */
#define OF_MODEL(X)                                                                            \
    X("model_ready", "gauge", "1 while a worker serves the model", m->state == NODE_MODEL_READY) \
    X("model_replicas", "gauge", "Workers that serve the model", node_replicas_ready(m))       \
    X("model_queued", "gauge", "Requests that wait for the model", m->queue_count)             \
    X("model_live", "gauge", "Requests in the model's worker", node_model_live(m))             \
    X("model_kv_bytes_in_use", "gauge", "KV cache held by live requests", kv_used)             \
    X("model_kv_bytes", "gauge", "KV cache that the model's worker may use", kv_total)         \
    X("model_kv_cache_usage_ratio", "gauge", "Part of the KV cache that live requests hold",   \
      kv_total != 0 ? (double)kv_used / (double)kv_total : 0)                                  \
    X("model_tokens_total", "counter", "Tokens generated", m->tokens_out)

/* The names under which dashboards and endpoint pickers for vLLM look for the same figures. */
#define AS_VLLM(X)                                                                             \
    X("num_requests_waiting", "gauge", "Requests that wait", m->queue_count)                   \
    X("num_requests_running", "gauge", "Requests that are computed", node_model_live(m))       \
    X("kv_cache_usage_perc", "gauge", "Part of the KV cache in use, 0 to 1",                   \
      kv_total != 0 ? (double)kv_used / (double)kv_total : 0)                                  \
    X("gpu_cache_usage_perc", "gauge", "Part of the KV cache in use, 0 to 1 (the older name)", \
      kv_total != 0 ? (double)kv_used / (double)kv_total : 0)                                  \
    X("generation_tokens_total", "counter", "Tokens generated", m->tokens_out)
/* clang-format on */

#define HEAD(name, type, help, value)  {name, type, help},
#define VALUE(name, type, help, value) (double)(value),

static const struct metric {
    const char *name, *type, *help;
} of_model[] = {OF_MODEL(HEAD)}, as_vllm[] = {AS_VLLM(HEAD)};

static void put_models(struct lr_buf *out, const struct node_models *models)
{
    uint64_t kv_used, kv_total;
    for (size_t k = 0; k < sizeof(of_model) / sizeof(of_model[0]); k++) {
        head(out, of_model[k].name, of_model[k].type, of_model[k].help);
        for (const struct node_model *m = models->first; m != NULL; m = m->next) {
            node_model_kv(m, &kv_used, &kv_total);
            const double values[] = {OF_MODEL(VALUE)};
            put_value(out, of_model[k].name, "model", m->id, values[k]);
        }
    }
}

/* Only models that are loaded: an endpoint picker takes these figures for the whole server's.
 */
static void put_vllm(struct lr_buf *out, const struct node_models *models)
{
    uint64_t kv_used, kv_total;
    for (size_t k = 0; k < sizeof(as_vllm) / sizeof(as_vllm[0]); k++) {
        lr_metric_head(out, "vllm:", as_vllm[k].name, as_vllm[k].type, as_vllm[k].help);
        for (const struct node_model *m = models->first; m != NULL; m = m->next) {
            node_model_kv(m, &kv_used, &kv_total);
            const double values[] = {AS_VLLM(VALUE)};
            if (m->state != NODE_MODEL_READY)
                continue;
            lr_buf_addf(out, "vllm:%s{", as_vllm[k].name);
            lr_metric_label(out, "model_name", m->id);
            lr_buf_add_char(out, '}');
            lr_metric_value(out, values[k]);
        }
    }
}

static void put_memory(struct lr_buf *out, const struct node_pools *p)
{
    head(out, "memory_total_bytes", "gauge", "Memory of the pool");
    for (uint32_t i = 0; i < p->count; i++)
        put_value(out, "memory_total_bytes", "pool", p->pool[i].name,
                  (double)p->pool[i].state.total);
    head(out, "memory_used_bytes", "gauge", "Memory of the pool in use by everybody");
    for (uint32_t i = 0; i < p->count; i++)
        put_value(out, "memory_used_bytes", "pool", p->pool[i].name,
                  (double)p->pool[i].state.used);
    head(out, "memory_over_threshold", "gauge", "1 while the pool is over its threshold");
    for (uint32_t i = 0; i < p->count; i++)
        put_value(out, "memory_over_threshold", "pool", p->pool[i].name, p->pool[i].is_over);
}

static void put_gpus(struct lr_buf *out, const struct node_pools *p)
{
    char name[64];
    for (uint32_t k = 0; k < WIRE_GPU_FIGURE_COUNT; k++) {
        (void)snprintf(name, sizeof(name), "gpu_%s", wire_gpu_rows[k].name);
        head(out, name, wire_gpu_rows[k].type, wire_gpu_rows[k].help);
        for (uint32_t i = 1; i < p->count; i++)
            if ((p->pool[i].health.gpu.reported >> k & 1) != 0)
                put_value(out, name, "pool", p->pool[i].name,
                          (double)p->pool[i].health.gpu.figures[k]);
    }
    head(out, "gpu_faulty", "gauge", "1 while the GPU is not used because of an error");
    for (uint32_t i = 1; i < p->count; i++)
        put_value(out, "gpu_faulty", "pool", p->pool[i].name,
                  node_health_is_faulty(&p->pool[i].health));
}

lr_code node_api_metrics(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct node_models *models = &node->models;
    const struct {
        const char *name, *help;
        uint64_t value;
    } counters[] = {
        {"requests_total", "Generations taken in", models->count.requests},
        {"tokens_total", "Tokens generated", models->count.tokens},
        {"errors_total", "Generations that ended with an error", models->count.errors},
        {"cancelled_total", "Generations whose client left", models->count.cancelled},
        {"worker_starts_total", "Worker processes started", models->count.worker_starts},
        {"worker_deaths_total", "Worker processes that died unasked",
         models->count.worker_deaths},
        {"watchdog_kills_total", "Workers killed for lack of progress",
         models->count.watchdog_kills},
        {"evictions_total", "Models unloaded to make room", models->count.evictions},
        {"reloads_total", "Models moved to a new engine version", models->count.reloads},
        {"memory_alerts_total", "Times a pool went over its threshold", models->count.alerts},
    };
    struct lr_buf out;
    struct net_tls_validity validity;
    (void)err;
    lr_buf_init(&out, 8 << 20);
    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++) {
        head(&out, counters[i].name, "counter", counters[i].help);
        lr_buf_addf(&out, "llm_router_node_%s %" PRIu64 "\n", counters[i].name,
                    counters[i].value);
    }
    head(&out, "tls_certificate_expiry_timestamp_seconds", "gauge",
         "End of the certificate of tls-cert, in seconds since 1970");
    if (net_server_get_validity(node->server, &validity))
        lr_buf_addf(&out, "llm_router_node_tls_certificate_expiry_timestamp_seconds %lld\n",
                    (long long)validity.until_s);
    put_models(&out, models);
    put_memory(&out, &models->pools);
    put_gpus(&out, &models->pools);
    lr_metrics_process(&out, "llm_router_node_", LR_NODE_VERSION);
    if (lr_settings_bool(node->settings, "vllm-metrics"))
        put_vllm(&out, models);
    net_respond(req, 200, "text/plain; version=0.0.4", lr_buf_str(&out));
    lr_buf_free(&out);
    return LR_OK;
}
