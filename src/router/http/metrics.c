#include "router/http/metrics.h"

#include <inttypes.h>
#include <stddef.h>

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
    router_metrics_head(out, name, type, help);
    lr_buf_addf(out, "llm_router_%s %" PRIu64 "\n", name, value);
}

void router_metrics_write(struct router *r, struct lr_buf *out)
{
    const char *m = (const char *)&r->metrics;
    struct net_server_stats server;
    struct router_store_stats store;
    struct net_tls_validity validity;
    net_server_get_stats(r->server, &server);
    router_store_get_stats(r->store, &store);
    router_metrics_head(out, "answers_total", "counter", "Answers, by class of status");
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
        router_metrics_head(out, "tls_certificate_expiry_days", "gauge",
                            "Days until the certificate of tls-cert ends");
        lr_buf_addf(out, "llm_router_tls_certificate_expiry_days %.2f\n",
                    (double)(validity.until_s - lr_clock_wall_ms(NULL) / 1000) / 86400);
    }
    router_lock(r);
    number(out, "ticket_defects_total", "counter",
           "Moves of tickets that the scheduler does not know: defects",
           r->dispatch.sched.illegal_moves);
    router_metrics_write_nodes(&r->nodes, &r->registry, out);
    router_unlock(r);
}
