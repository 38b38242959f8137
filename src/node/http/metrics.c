/* node/http/metrics.c - GET /metrics in the Prometheus text format. */
#include <inttypes.h>

#include "net/server.h"
#include "node/http/api.h"

/* Label values: backslash, quote and line break are escaped. */
static void put_label(struct lr_buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text == '\\' || *text == '"')
            lr_buf_add_char(out, '\\');
        if (*text == '\n')
            lr_buf_add_z(out, "\\n");
        else
            lr_buf_add_char(out, *text);
    }
}

static void head(struct lr_buf *out, const char *name, const char *type, const char *help)
{
    lr_buf_addf(out, "# HELP llm_router_node_%s %s\n# TYPE llm_router_node_%s %s\n", name, help,
                name, type);
}

static void put_value(struct lr_buf *out, const char *name, const char *key, const char *label,
                      uint64_t value)
{
    lr_buf_addf(out, "llm_router_node_%s{%s=\"", name, key);
    put_label(out, label);
    lr_buf_addf(out, "\"} %" PRIu64 "\n", value);
}

static void put_models(struct lr_buf *out, const struct node_models *models)
{
    const struct node_model *m;
    head(out, "model_ready", "gauge", "1 while a worker serves the model");
    for (m = models->first; m != NULL; m = m->next)
        put_value(out, "model_ready", "model", m->id, m->state == NODE_MODEL_READY);
    head(out, "model_queued", "gauge", "requests that wait for the model");
    for (m = models->first; m != NULL; m = m->next)
        put_value(out, "model_queued", "model", m->id, m->queue_count);
    head(out, "model_live", "gauge", "requests in the model's worker");
    for (m = models->first; m != NULL; m = m->next)
        put_value(out, "model_live", "model", m->id, node_model_live(m));
    head(out, "model_kv_bytes_in_use", "gauge", "KV cache held by live requests");
    for (m = models->first; m != NULL; m = m->next) {
        const struct node_worker *w = node_model_worker(m);
        put_value(out, "model_kv_bytes_in_use", "model", m->id,
                  w != NULL ? w->stats.kv_bytes_in_use : 0);
    }
    head(out, "model_tokens_total", "counter", "tokens generated");
    for (m = models->first; m != NULL; m = m->next)
        put_value(out, "model_tokens_total", "model", m->id, m->tokens_out);
}

static void put_memory(struct lr_buf *out, const struct node_pools *p)
{
    head(out, "memory_total_bytes", "gauge", "memory of the pool");
    for (uint32_t i = 0; i < p->count; i++)
        put_value(out, "memory_total_bytes", "pool", p->pool[i].name, p->pool[i].state.total);
    head(out, "memory_used_bytes", "gauge", "memory of the pool in use by everybody");
    for (uint32_t i = 0; i < p->count; i++)
        put_value(out, "memory_used_bytes", "pool", p->pool[i].name, p->pool[i].state.used);
    head(out, "memory_over_threshold", "gauge", "1 while the pool is over its threshold");
    for (uint32_t i = 0; i < p->count; i++)
        put_value(out, "memory_over_threshold", "pool", p->pool[i].name, p->pool[i].is_over);
}

lr_code node_api_metrics(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct node_models *models = &node->models;
    const struct {
        const char *name, *help;
        uint64_t value;
    } counters[] = {
        {"requests_total", "generations taken in", models->count.requests},
        {"tokens_total", "tokens generated", models->count.tokens},
        {"errors_total", "generations that ended with an error", models->count.errors},
        {"cancelled_total", "generations whose client left", models->count.cancelled},
        {"worker_starts_total", "worker processes started", models->count.worker_starts},
        {"worker_deaths_total", "worker processes that died unasked",
         models->count.worker_deaths},
        {"watchdog_kills_total", "workers killed for lack of progress",
         models->count.watchdog_kills},
        {"evictions_total", "models unloaded to make room", models->count.evictions},
        {"reloads_total", "models moved to a new engine version", models->count.reloads},
        {"memory_alerts_total", "times a pool went over its threshold", models->count.alerts},
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
    if (net_server_get_validity(node->server, &validity)) {
        head(&out, "tls_certificate_expiry_days", "gauge",
             "days until the certificate of tls-cert ends");
        lr_buf_addf(&out, "llm_router_node_tls_certificate_expiry_days %.2f\n",
                    (double)(validity.until_s - lr_clock_wall_ms(NULL) / 1000) / 86400);
    }
    put_models(&out, models);
    put_memory(&out, &models->pools);
    net_respond(req, 200, "text/plain; version=0.0.4", lr_buf_str(&out));
    lr_buf_free(&out);
    return LR_OK;
}
