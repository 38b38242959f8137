/* router/trace/tracer.h - which requests are traced, and how their traces reach the collector.
 *
 * A finished trace goes into a bounded buffer; a thread takes traces from there and sends them
 * by libcurl.  So no request waits for the collector.  While the collector is away or says 429,
 * the thread repeats the batch after pauses, and traces that find the buffer full are dropped
 * and counted.  Thread: any, unless a comment says otherwise.
 */
#ifndef ROUTER_TRACE_TRACER_H
#define ROUTER_TRACE_TRACER_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/settings.h"
#include "hub/outbound.h"
#include "router/trace/otlp.h"

enum router_sampler { ROUTER_SAMPLE_ALWAYS, ROUTER_SAMPLE_NEVER, ROUTER_SAMPLE_RATIO };

struct router_tracer {
    /* Set once. */
    bool is_on;
    char url[1024];
    struct router_otlp_pairs headers, resource;
    char service[256];
    char version[32];
    uint32_t timeout_ms;
    size_t most; /* traces that may wait */
    enum router_sampler sampler;
    bool follows_parent; /* the caller's decision counts, where the caller made one */
    uint64_t threshold;  /* of RATIO: of 2^63 */

    pthread_t thread;
    bool is_running;
    _Atomic bool is_cancelled;
    _Atomic uint64_t sent, dropped, refused; /* spans, for metrics */
    pthread_mutex_t lock;                    /* guards what follows */
    pthread_cond_t wake;
    struct router_trace *first, **last;
    size_t waiting; /* traces */
    bool is_stopping;
};

/* Reads the settings and the OTEL_* variables. */
LR_MUST_USE lr_code router_tracer_init(struct router_tracer *t,
                                       const struct lr_settings *settings, const char *version,
                                       struct lr_error *err);
LR_MUST_USE lr_code router_tracer_start(struct router_tracer *t, struct lr_error *err);
/* Sends what waits, for two seconds at most, and ends the thread. */
void router_tracer_free(struct router_tracer *t);

/* A request begins.  parent, state: headers of the client; empty: none.  context: the
 * traceparent for whom the router asks, and for the answer.  NULL: the request is not sampled.
 */
struct router_trace *router_trace_begin(struct router_tracer *t, struct lr_str parent,
                                        struct lr_str state, char context[ROUTER_TRACE_PARENT]);
/* The trace is complete; the tracer owns it from now on. */
void router_trace_end(struct router_tracer *t, struct router_trace *trace);

#endif
