#include "router/trace/tracer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/os/cpu.h"
#include "base/random.h"
#include "net/url.h"

enum {
    WAITING_DEFAULT = 2048, /* traces: about 20 MB */
    WAITING_MOST = 65536,
    BATCH = 128,     /* traces in one request */
    FLUSH_MS = 1000, /* a trace waits no longer than this for others */
    BODY_BYTES = 32 << 20,
    ANSWER_BYTES = 64 << 10,
    FIRST_PAUSE_MS = 1000,
    LONGEST_PAUSE_MS = 60000,
    LAST_MS = 2000, /* for the traces that wait when the router ends */
};

/* ---- settings and variables ---- */

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_true(const char *name)
{
    const char *value = variable(name);
    return value != NULL && lr_str_eq_nocase(lr_str_z(value), LR_STR_LIT("true"));
}

/* The setting, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT as it is, or OTEL_EXPORTER_OTLP_ENDPOINT with
 * /v1/traces. */
static lr_code find_url(struct router_tracer *t, const struct lr_settings *s,
                        struct lr_error *err)
{
    const char *base = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
    const char *whole = variable("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
    const char *own = lr_settings_str(s, "trace-endpoint");
    struct net_url url;
    if (own != NULL || whole != NULL) {
        (void)snprintf(t->url, sizeof(t->url), "%s", own != NULL ? own : whole);
    } else if (base != NULL) {
        struct lr_str text = lr_str_z(base);
        if (lr_str_ends(text, "/"))
            text.len--;
        (void)snprintf(t->url, sizeof(t->url), LR_STR_FMT "/v1/traces", LR_STR_ARG(text));
    }
    if (t->url[0] != '\0' && net_url_parse(t->url, &url, err) != LR_OK)
        return lr_fail_prefix(err, "%s",
                              own != NULL     ? "setting trace-endpoint"
                              : whole != NULL ? "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
                                              : "OTEL_EXPORTER_OTLP_ENDPOINT");
    return LR_OK;
}

static lr_code find_ratio(struct router_tracer *t, const char *text, const char *what,
                          struct lr_error *err)
{
    char *end;
    double ratio = text != NULL ? strtod(text, &end) : 1;
    if (text != NULL && (end == text || *end != '\0' || !(ratio >= 0 && ratio <= 1)))
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s must be a number from 0 to 1, not \"%s\"",
                       what, text);
    t->sampler = ratio >= 1   ? ROUTER_SAMPLE_ALWAYS
                 : ratio <= 0 ? ROUTER_SAMPLE_NEVER
                              : ROUTER_SAMPLE_RATIO;
    t->threshold = ratio < 1 ? (uint64_t)(ratio * 9223372036854775808.0) : 0;
    return LR_OK;
}

static lr_code find_sampler(struct router_tracer *t, const struct lr_settings *s,
                            struct lr_error *err)
{
    const char *name = variable("OTEL_TRACES_SAMPLER"), *rest;
    if (lr_settings_has(s, "trace-sample")) {
        t->follows_parent = true;
        return find_ratio(t, lr_settings_str(s, "trace-sample"), "setting trace-sample", err);
    }
    name = name != NULL ? name : "parentbased_always_on";
    rest = strncmp(name, "parentbased_", 12) == 0 ? name + 12 : name;
    t->follows_parent = rest != name;
    if (strcmp(rest, "traceidratio") == 0)
        return find_ratio(t, variable("OTEL_TRACES_SAMPLER_ARG"), "OTEL_TRACES_SAMPLER_ARG",
                          err);
    if (strcmp(rest, "always_on") != 0 && strcmp(rest, "always_off") != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "OTEL_TRACES_SAMPLER is \"%.60s\"; always_on, always_off, traceidratio "
                       "and the same after parentbased_ are supported",
                       name);
    t->sampler = strcmp(rest, "always_on") == 0 ? ROUTER_SAMPLE_ALWAYS : ROUTER_SAMPLE_NEVER;
    return LR_OK;
}

static lr_code find_limits(struct router_tracer *t, struct lr_error *err)
{
    const char *text = variable("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT");
    const char *most = variable("OTEL_BSP_MAX_QUEUE_SIZE");
    uint64_t ms = 10000, traces = WAITING_DEFAULT;
    if (most != NULL &&
        (!lr_str_u64(lr_str_z(most), &traces) || traces < 1 || traces > WAITING_MOST))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "OTEL_BSP_MAX_QUEUE_SIZE must be 1 to %d requests, not \"%.60s\"",
                       WAITING_MOST, most);
    t->most = (size_t)traces;
    if (text == NULL)
        text = variable("OTEL_EXPORTER_OTLP_TIMEOUT");
    if (text != NULL && (!lr_str_u64(lr_str_z(text), &ms) || ms < 1 || ms > 600000))
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "OTEL_EXPORTER_OTLP_TIMEOUT must be 1 to 600000 milliseconds, not "
                       "\"%.60s\"",
                       text);
    t->timeout_ms = (uint32_t)ms;
    return LR_OK;
}

static lr_code find_service(struct router_tracer *t, struct lr_error *err)
{
    const char *service = variable("OTEL_SERVICE_NAME");
    lr_code code = router_otlp_pairs_read("OTEL_RESOURCE_ATTRIBUTES",
                                          lr_str_z(variable("OTEL_RESOURCE_ATTRIBUTES")),
                                          &t->resource, err);
    for (size_t i = 0; service == NULL && i < t->resource.count; i++)
        if (strcmp(t->resource.all[i].name, "service.name") == 0)
            service = t->resource.all[i].value;
    (void)snprintf(t->service, sizeof(t->service), "%.255s",
                   service != NULL ? service : "llm-router");
    return code;
}

lr_code router_tracer_init(struct router_tracer *t, const struct lr_settings *s,
                           const char *version, struct lr_error *err)
{
    const char *protocol = variable("OTEL_EXPORTER_OTLP_PROTOCOL");
    const char *exporter = variable("OTEL_TRACES_EXPORTER");
    const char *headers = variable("OTEL_EXPORTER_OTLP_TRACES_HEADERS");
    lr_code code = find_url(t, s, err);
    if (code != LR_OK || t->url[0] == '\0' || is_true("OTEL_SDK_DISABLED") ||
        (exporter != NULL && strcmp(exporter, "none") == 0))
        return code;
    if (protocol != NULL && strcmp(protocol, "http/json") != 0)
        lr_log_warn(NULL,
                    "trace.protocol reason=OTEL_EXPORTER_OTLP_PROTOCOL is %.40s, and this "
                    "router sends http/json",
                    protocol);
    if (headers == NULL)
        headers = variable("OTEL_EXPORTER_OTLP_HEADERS");
    code = router_otlp_pairs_read("OTEL_EXPORTER_OTLP_HEADERS", lr_str_z(headers), &t->headers,
                                  err);
    if (code == LR_OK)
        code = find_sampler(t, s, err);
    if (code == LR_OK)
        code = find_limits(t, err);
    if (code == LR_OK)
        code = find_service(t, err);
    if (code != LR_OK)
        return code;
    (void)snprintf(t->version, sizeof(t->version), "%s", version);
    t->is_on = true;
    return LR_OK;
}

/* ---- a trace begins and ends ---- */

static bool decide(const struct router_tracer *t, bool has_parent, bool parent_sampled,
                   const unsigned char id[16])
{
    uint64_t low = 0;
    if (t->follows_parent && has_parent)
        return parent_sampled;
    if (t->sampler != ROUTER_SAMPLE_RATIO)
        return t->sampler == ROUTER_SAMPLE_ALWAYS;
    for (size_t i = 8; i < 16; i++)
        low = low << 8 | id[i];
    return (low >> 1) < t->threshold;
}

struct router_trace *router_trace_begin(struct router_tracer *t, struct lr_str parent,
                                        struct lr_str state, char context[ROUTER_TRACE_PARENT])
{
    struct router_trace *trace = NULL;
    unsigned char id[16];
    uint64_t root = lr_random_u64() | 1, above = 0;
    bool parent_sampled = false;
    bool has_parent = router_trace_parent_read(parent, id, &above, &parent_sampled);
    if (!has_parent)
        lr_random_bytes(id, sizeof(id));
    if (decide(t, has_parent, parent_sampled, id) && (trace = malloc(sizeof(*trace))) != NULL) {
        *trace = (struct router_trace){
            .root = root, .parent = has_parent ? above : 0, .operation = "chat"};
        memcpy(trace->id, id, sizeof(id));
        if (has_parent && state.len < sizeof(trace->state))
            LR_COPY(trace->state, state);
        trace->begun_ns = lr_clock_ns(NULL);
        trace->offset_ns = (uint64_t)lr_clock_wall_ms(NULL) * 1000000 - trace->begun_ns;
    }
    router_trace_parent_write(id, root, trace != NULL, context);
    return trace;
}

void router_trace_end(struct router_tracer *t, struct router_trace *trace)
{
    trace->next = NULL;
    (void)pthread_mutex_lock(&t->lock);
    bool is_kept = t->waiting < t->most && !t->is_stopping;
    if (is_kept) {
        *t->last = trace;
        t->last = &trace->next;
        if (++t->waiting == BATCH)
            (void)pthread_cond_signal(&t->wake);
    }
    (void)pthread_mutex_unlock(&t->lock);
    if (is_kept)
        return;
    atomic_fetch_add(&t->dropped, trace->span_count + 1);
    free(trace);
}

/* ---- the thread ---- */

static uint64_t free_batch(struct router_trace *batch)
{
    uint64_t spans = 0;
    for (struct router_trace *next; batch != NULL; batch = next) {
        next = batch->next;
        spans += batch->span_count + 1;
        free(batch);
    }
    return spans;
}

/* Lock held. */
static struct router_trace *take_batch(struct router_tracer *t)
{
    struct router_trace *batch = t->first, **end = &t->first;
    for (size_t i = 0; i < BATCH && *end != NULL; i++) {
        end = &(*end)->next;
        t->waiting--;
    }
    t->first = *end;
    if (t->first == NULL)
        t->last = &t->first;
    if (batch != NULL)
        *end = NULL;
    return batch;
}

/* 0: the collector has the batch, or will never take it; else the pause before the next try. */
static uint64_t send_batch(struct router_tracer *t, struct hub_outbound *http,
                           const struct lr_buf *body, unsigned failures, uint32_t timeout_ms,
                           bool *is_taken)
{
    char lines[ROUTER_OTLP_ATTRIBUTES][1200];
    const char *headers[ROUTER_OTLP_ATTRIBUTES + 1] = {"Content-Type: application/json"};
    struct hub_outbound_reply reply = {0};
    struct lr_error err;
    for (size_t i = 0; i < t->headers.count; i++) {
        (void)snprintf(lines[i], sizeof(lines[i]), "%s: %s", t->headers.all[i].name,
                       t->headers.all[i].value);
        headers[i + 1] = lines[i];
    }
    struct hub_outbound_call call = {.url = t->url,
                                     .headers = headers,
                                     .header_count = t->headers.count + 1,
                                     .body = lr_buf_str(body),
                                     .timeout_ms = timeout_ms,
                                     .max_bytes = ANSWER_BYTES,
                                     .cancel = &t->is_cancelled};
    lr_code code = http->easy == NULL ? hub_outbound_open(http, &err) : LR_OK;
    if (code == LR_OK)
        code = hub_outbound_send(http, &call, &reply, &err);
    hub_outbound_reply_free(&reply);
    *is_taken = code == LR_OK && reply.status >= 200 && reply.status < 300;
    bool may_repeat = code != LR_OK || reply.status == 429 || reply.status == 502 ||
                      reply.status == 503 || reply.status == 504;
    if (*is_taken)
        return 0;
    if (code == LR_OK)
        (void)lr_fail(&err, LR_UPSTREAM, "the collector answered %d", reply.status);
    if (failures == 0 || !may_repeat)
        lr_log_warn(LR_LOG_OF(&err), "trace.not_sent repeats=%d reason=%s", may_repeat,
                    err.text);
    if (!may_repeat)
        return 0;
    uint64_t pause = FIRST_PAUSE_MS;
    for (unsigned i = 0; i < failures && pause < LONGEST_PAUSE_MS; i++)
        pause *= 2;
    if (reply.retry_after_s != 0)
        pause = 1000ULL * reply.retry_after_s;
    return pause < LONGEST_PAUSE_MS ? pause : LONGEST_PAUSE_MS;
}

/* Lock not held.  Waits for the time, for `enough` traces, or for the router's end; true: the
 * router ends. */
static bool wait_ms(struct router_tracer *t, uint64_t ms, size_t enough)
{
    uint64_t until = lr_clock_ns(NULL) + ms * 1000000;
    (void)pthread_mutex_lock(&t->lock);
    while (!t->is_stopping && t->waiting < enough &&
           lr_cond_wait_until(&t->wake, &t->lock, until) == 0)
        continue;
    bool ends = t->is_stopping;
    (void)pthread_mutex_unlock(&t->lock);
    return ends;
}

static void tracer_deliver(struct router_tracer *t, struct hub_outbound *http,
                           struct router_trace *batch)
{
    struct lr_buf body;
    bool is_taken = false, ends = false;
    lr_buf_init(&body, BODY_BYTES);
    router_otlp_write(batch, t->service, &t->resource, t->version, &body);
    uint64_t spans = free_batch(batch);
    for (unsigned failures = 0; !body.failed; failures++) {
        uint32_t timeout = ends && t->timeout_ms > LAST_MS ? LAST_MS : t->timeout_ms;
        uint64_t pause = send_batch(t, http, &body, failures, timeout, &is_taken);
        if (pause == 0 || ends)
            break;
        ends = wait_ms(t, pause, SIZE_MAX); /* then one last try */
    }
    atomic_fetch_add(is_taken ? &t->sent : &t->refused, spans);
    lr_buf_free(&body);
}

static void *tracer_run(void *arg)
{
    struct router_tracer *t = arg;
    struct hub_outbound http = {0};
    uint64_t stopped_ns = 0;
    for (;;) {
        bool ends = wait_ms(t, FLUSH_MS, BATCH);
        if (ends && stopped_ns == 0)
            stopped_ns = lr_clock_ns(NULL);
        (void)pthread_mutex_lock(&t->lock);
        struct router_trace *batch = take_batch(t);
        (void)pthread_mutex_unlock(&t->lock);
        bool is_late = ends && lr_clock_ns(NULL) - stopped_ns > (uint64_t)LAST_MS * 1000000;
        if (batch != NULL && is_late)
            atomic_fetch_add(&t->dropped, free_batch(batch));
        else if (batch != NULL)
            tracer_deliver(t, &http, batch);
        else if (ends)
            break;
    }
    hub_outbound_close(&http);
    return NULL;
}

lr_code router_tracer_start(struct router_tracer *t, struct lr_error *err)
{
    if (!t->is_on)
        return LR_OK;
    t->last = &t->first;
    (void)pthread_mutex_init(&t->lock, NULL);
    lr_cond_init(&t->wake);
    if (pthread_create(&t->thread, NULL, tracer_run, t) != 0)
        return lr_fail(err, LR_OUT_OF_RAM, "cannot start the thread for traces");
    t->is_running = true;
    return LR_OK;
}

void router_tracer_free(struct router_tracer *t)
{
    if (!t->is_running)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->is_stopping = true;
    (void)pthread_cond_signal(&t->wake);
    (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_join(t->thread, NULL);
    (void)pthread_mutex_destroy(&t->lock);
    (void)pthread_cond_destroy(&t->wake);
    t->is_running = false;
}
