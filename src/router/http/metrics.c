#include "router/http/metrics.h"

#include <inttypes.h>

#include "router/state.h"

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

void router_metrics_head(struct lr_buf *out, const char *name, const char *type,
                         const char *help)
{
    lr_buf_addf(out, "# HELP llm_router_%s %s\n# TYPE llm_router_%s %s\n", name, help, name,
                type);
}

static void counter(struct lr_buf *out, const char *name, const char *help,
                    const _Atomic uint64_t *value)
{
    router_metrics_head(out, name, "counter", help);
    lr_buf_addf(out, "llm_router_%s %" PRIu64 "\n", name, get(value));
}

static void gauge(struct lr_buf *out, const char *name, const char *help, uint64_t value)
{
    router_metrics_head(out, name, "gauge", help);
    lr_buf_addf(out, "llm_router_%s %" PRIu64 "\n", name, value);
}

static void histogram(struct lr_buf *out, const char *name, const char *help,
                      const struct router_histogram *h)
{
    uint64_t total = 0;
    router_metrics_head(out, name, "histogram", help);
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

void router_metrics_write(struct router *r, struct lr_buf *out)
{
    const struct router_metrics *m = &r->metrics;
    struct net_server_stats server;
    struct router_store_stats store;
    struct net_tls_validity validity;
    net_server_get_stats(r->server, &server);
    router_store_get_stats(r->store, &store);
    router_metrics_head(out, "answers_total", "counter", "Answers, by class of status");
    for (int i = 1; i < 6; i++)
        lr_buf_addf(out, "llm_router_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i,
                    get(&m->answers[i]));
    counter(out, "generations_total", "Generations sent to nodes", &m->generations);
    counter(out, "prompt_tokens_total", "Prompt tokens, as engines count", &m->prompt_tokens);
    counter(out, "completion_tokens_total", "Generated tokens", &m->completion_tokens);
    counter(out, "cached_tokens_total", "Prompt tokens found in a cache", &m->cached_tokens);
    counter(out, "cancelled_total", "Requests whose client left", &m->cancelled);
    counter(out, "failed_total", "Requests that ended with 429 or 5xx, also in mid-stream",
            &m->failed);
    counter(out, "retries_total", "Requests moved to another node before their first token",
            &m->retries);
    counter(out, "continuations_total", "Requests moved to another node after it",
            &m->continuations);
    counter(out, "busy_total", "Times a node had no slot after all", &m->busy);
    counter(out, "preempted_total",
            "Times an answer left its slot so that a key with less could begin", &m->preempted);
    counter(out, "queue_full_total", "Requests refused because the queue was full",
            &m->queue_full);
    counter(out, "rate_limited_total", "Requests refused by a key's limits", &m->rate_limited);
    histogram(out, "first_token_seconds", "From the request to its first token",
              &m->first_token);
    histogram(out, "inter_token_seconds", "Between two tokens", &m->inter_token);
    histogram(out, "wait_seconds", "In the queue", &m->wait);
    histogram(out, "request_seconds", "From the request to the end of its answer", &m->total);
    gauge(out, "connections", "Open client connections", server.connections);
    gauge(out, "active_requests", "Requests that are being answered", server.active);
    gauge(out, "usage_rows_written", "Usage rows in the database since the start",
          store.usage_written);
    gauge(out, "usage_rows_waiting", "Usage rows in memory that wait for the database",
          store.usage_waiting);
    gauge(out, "usage_rows_lost", "Usage rows that could not be written", store.usage_dropped);
    if (net_server_get_validity(r->server, &validity)) {
        router_metrics_head(out, "tls_certificate_expiry_days", "gauge",
                            "Days until the certificate of tls-cert ends");
        lr_buf_addf(out, "llm_router_tls_certificate_expiry_days %.2f\n",
                    (double)(validity.until_s - lr_clock_wall_ms(NULL) / 1000) / 86400);
    }
    router_lock(r);
    router_metrics_head(out, "ticket_defects_total", "counter",
                        "Moves of tickets that the scheduler does not know: defects");
    lr_buf_addf(out, "llm_router_ticket_defects_total %" PRIu64 "\n", r->sched.illegal_moves);
    router_metrics_write_nodes(r, out);
    router_unlock(r);
}
