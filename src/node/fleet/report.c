/* node/fleet/report.c - see node/fleet/report.h. */
#include "node/fleet/report.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/strmap.h"
#include "node/fetch/fetch.h"
#include "node/fetch/storage.h"
#include "node/models/models.h"
#include "wire/fleet.h"

enum { REPORT_BYTES = 4 << 20, EVENTS_PER_HEARTBEAT = 64 };

/* *fault gets why the GPUs of the node cannot be used, and outlives *out. */
static bool has_stop(const struct model_descriptor *d, const char *text)
{
    for (size_t i = 0; i < d->stop_count; i++)
        if (strcmp(d->stops[i], text) == 0)
            return true;
    return false;
}

static void report_describe(const struct node_model *m, struct lr_error *fault,
                            struct wire_fleet_model *out)
{
    const struct model_descriptor *d = m->descriptor;
    const struct node_worker *w = node_model_worker(m);
    bool usable = m->engine != NULL && m->state != NODE_MODEL_FAILED &&
                  m->state != NODE_MODEL_ABSENT && m->state != NODE_MODEL_FETCHING &&
                  m->state != NODE_MODEL_VERIFYING;
    bool has_device = node_gpus_check(m, fault) == LR_OK;
    bool is_well = usable && has_device && m->state != NODE_MODEL_WAITING;
    const struct lr_error *why = usable && !has_device ? fault : &m->reason;
    *out = (struct wire_fleet_model){
        .id = lr_str_z(m->id),
        .state = lr_str_z(node_model_state_name(m->state)),
        .reason = is_well ? (struct lr_str){0} : lr_str_z(why->text),
        .reason_id = is_well ? (struct lr_str){0} : lr_error_identity_of(why),
        .can_run = usable && has_device,
        .is_loaded = m->state == NODE_MODEL_READY,
        .is_pinned = m->is_pinned,
        .slots = m->state == NODE_MODEL_READY             ? node_replicas_slots(m)
                 : w != NULL && node_worker_has_opened(w) ? w->need.max_sequences
                 : m->has_need                            ? m->need.max_sequences
                                                          : 0,
        .replicas = node_replicas_ready(m),
        .max_context = node_model_max_context(m),
        .requests = node_model_requests(m),
        .live = node_model_live(m),
        .queued = m->queue_count,
        .failures = m->breaker.failures,
        .next_try_ms = node_breaker_wait_ms(&m->breaker, node_now(m->models)),
        .load_ms = m->load_ms,
        .prefill_us = m->prefill_us,
        .step_us = m->step_us,
        .weights = lr_str_z(m->weights),
        .engine = m->engine != NULL ? lr_str_z(m->engine->name) : lr_str(NULL, 0),
    };
    node_model_kv(m, &out->kv_used, &out->kv_total);
    if (d == NULL)
        return;
    out->chat_template = m->chat.source;
    out->dialect = m->chat.lacks_template         ? LR_STR_LIT(WIRE_DIALECT_NONE)
                   : m->chat.dialect.name != NULL ? lr_str_z(m->chat.dialect.name)
                                                  : (struct lr_str){0};
    for (size_t i = 0; i < d->stop_count; i++)
        out->stops[out->stop_count++] = lr_str_z(d->stops[i]);
    if (m->stop != NULL && !has_stop(d, m->stop->text))
        out->stops[out->stop_count++] = lr_str_z(m->stop->text);
    out->bos_token = m->chat.bos_token;
    out->eos_token = m->chat.eos_token;
    out->unk_token = m->chat.unk_token;
    out->pad_token = m->chat.pad_token;
    out->sampling = m->chat.sampling;
    out->runtime = lr_str_z(d->runtime);
    out->architecture = lr_str_z(d->architecture);
    out->format = lr_str_z(model_format_name(d->format));
    out->context_tokens = d->context_tokens;
    out->weight_bytes = d->weight_bytes;
    out->kv_bytes = d->kv_bytes;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001B3); /* FNV-1a's prime */
}

uint64_t node_report_signature(const struct node_models *models, bool with_states)
{
    uint64_t hash =
        mix(with_states && models->is_draining, with_states ? models->events->count : 0);
    for (const struct node_model *m = models->first; m != NULL; m = m->next) {
        hash = mix(hash, lr_hash(lr_str_z(m->id)));
        hash = mix(hash, m->descriptor != NULL ? 4 + m->described : 2);
        hash = mix(hash, m->engine != NULL ? lr_hash(lr_str_z(m->engine->name)) : 3);
        if (with_states)
            hash = mix(hash, (uint64_t)m->state + 16 + 32 * (uint64_t)node_replicas_ready(m));
    }
    return hash;
}

struct report {
    struct wire_fleet_model *models; /* owned */
    struct wire_fleet_pool pools[NODE_POOLS_MAX];
    const char *events[EVENTS_PER_HEARTBEAT];
    struct wire_fleet_download downloads[WIRE_FLEET_DOWNLOADS_MAX];
    struct lr_error fault; /* of the GPUs */
    struct wire_heartbeat heartbeat;
};

static bool make_report(const struct node_models *models, uint64_t epoch, struct report *report)
{
    size_t count = 0;
    for (const struct node_model *m = models->first; m != NULL; m = m->next)
        count++;
    count = count < WIRE_FLEET_MODELS_MAX ? count : WIRE_FLEET_MODELS_MAX;
    report->models = calloc(count + 1, sizeof(*report->models));
    if (report->models == NULL)
        return false;
    size_t i = 0;
    for (const struct node_model *m = models->first; m != NULL && i < count; m = m->next)
        report_describe(m, &report->fault, &report->models[i++]);
    for (uint32_t p = 0; p < models->pools.count; p++)
        report->pools[p] = (struct wire_fleet_pool){
            .name = lr_str_z(models->pools.pool[p].name),
            .title = lr_str_z(models->pools.pool[p].title),
            .total = models->pools.pool[p].state.total,
            .used = models->pools.pool[p].state.used,
            .gpu = models->pools.pool[p].health.gpu,
            .fault = lr_str_z(models->pools.pool[p].health.reason),
        };
    report->heartbeat = (struct wire_heartbeat){
        .epoch = epoch,
        .is_draining = models->is_draining,
        .models = report->models,
        .model_count = count,
        .pools = report->pools,
        .pool_count = models->pools.count,
    };
    return true;
}

bool node_report_join(const struct node_models *models, struct wire_join *join,
                      struct lr_buf *out)
{
    struct report report;
    if (!make_report(models, join->state.epoch, &report))
        return false;
    join->protocol = WIRE_PROTOCOL;
    join->version = LR_STR_LIT(LR_NODE_VERSION);
    join->device = lr_str_z(models->devices.is_cpu ? "cpu" : models->devices.kind);
    join->state = report.heartbeat;
    lr_buf_clear(out);
    wire_join_write(out, join);
    free(report.models);
    return !out->failed;
}

/* What happened since, the newest few if that was much. */
static void add_events(const struct node_models *models, uint64_t *known, struct report *report)
{
    const struct net_bus *events = models->events;
    uint64_t from = *known;
    if (from + NET_BUS_KEPT < events->count)
        from = events->count - NET_BUS_KEPT;
    size_t count = 0;
    for (; from + count < events->count && count < EVENTS_PER_HEARTBEAT; count++) {
        const char *text = net_bus_kept(events, from + count);
        report->events[count] = text != NULL ? text : "{}";
    }
    *known = from + count;
    report->heartbeat.event_end = from + count;
    report->heartbeat.event_texts = report->events;
    report->heartbeat.event_count = count;
}

bool node_report_heartbeat(const struct node_models *models, uint64_t epoch, uint32_t protocol,
                           uint64_t *events, struct lr_buf *out)
{
    struct report report;
    struct lr_arena arena; /* texts of downloads */
    if (!make_report(models, epoch, &report))
        return false;
    lr_arena_init(&arena, REPORT_BYTES);
    int64_t wall_ms = lr_clock_wall_ms(NULL);
    report.heartbeat.protocol = protocol;
    report.heartbeat.clock_ms = wall_ms > 0 ? (uint64_t)wall_ms : 0;
    add_events(models, events, &report);
    report.heartbeat.downloads = report.downloads;
    report.heartbeat.download_count = node_fetch_report(
        models->storage->fetch, &arena, report.downloads, WIRE_FLEET_DOWNLOADS_MAX);
    lr_buf_clear(out);
    wire_heartbeat_write(out, &report.heartbeat);
    lr_arena_free(&arena);
    free(report.models);
    return !out->failed;
}
