/* node/http/api_info.c - what the node knows: models, engines, memory, health. */
#include <inttypes.h>

#include "node/fetch/fetch.h"
#include "node/fleet/router_link.h"
#include "node/http/api.h"
#include "node/workers/reload.h"

enum { BODY_BYTES = 4 << 20 };

lr_code node_api_v1_models(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_z(w, "object", "list");
    lr_json_member_array(w, "data");
    for (const struct node_model *m = node->models; m != NULL; m = m->next) {
        if (m->engine == NULL || m->state == NODE_MODEL_FAILED || m->state == NODE_MODEL_ABSENT)
            continue;
        lr_json_begin_object(w);
        lr_json_member_z(w, "id", m->id);
        lr_json_member_z(w, "object", "model");
        lr_json_member_i64(w, "created", m->created);
        lr_json_member_z(w, "owned_by", "llm-router");
        lr_json_member_bool(w, "ready",
                            m->state >= NODE_MODEL_PRESENT && m->state != NODE_MODEL_WAITING);
        lr_json_member_z(w, "state", node_model_state_name(m->state));
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    return net_json_send(&json, req, 200, err);
}

static void put_need(struct lr_json_writer *w, const struct lr_engine_need *n)
{
    lr_json_member_object(w, "need");
    lr_json_member_u64(w, "total", n->total);
    lr_json_member_u64(w, "weights", n->weights);
    lr_json_member_u64(w, "kv", n->kv);
    lr_json_member_u64(w, "workspace", n->workspace);
    lr_json_member_u64(w, "fixed", n->fixed);
    lr_json_member_bool(w, "on_device", n->on_device != 0);
    lr_json_end_object(w);
}

static void put_worker(struct lr_json_writer *w, const struct node_worker *k, const char *role)
{
    lr_json_begin_object(w);
    lr_json_member_z(w, "role", role);
    lr_json_member_i64(w, "pid", k->proc != NULL ? node_proc_pid(k->proc) : 0);
    lr_json_member_z(w, "engine", k->library->engine_id);
    lr_json_member_z(w, "version", k->library->version);
    lr_json_member_z(w, "sha256", k->library->sha256);
    lr_json_member_bool(w, "ready", node_worker_has_opened(k));
    lr_json_member_u64(w, "live", k->live_count);
    lr_json_member_u64(w, "slots", k->need.max_sequences);
    lr_json_member_u64(w, "max_context", k->need.max_context);
    lr_json_member_u64(w, "reserved_bytes", k->reserved);
    lr_json_member_u64(w, "measured_bytes", k->measured);
    lr_json_member_u64(w, "silent_ms", node_now(k->node) - k->progress_ms);
    if (!node_worker_has_opened(k)) {
        lr_json_member_z(w, "phase", k->load_phase);
        lr_json_member_u64(w, "load_done", k->load_done);
        lr_json_member_u64(w, "load_total", k->load_total);
    }
    lr_json_member_object(w, "stats");
    lr_json_member_u64(w, "sequences", k->stats.sequences);
    lr_json_member_u64(w, "weights_bytes", k->stats.weights_bytes);
    lr_json_member_u64(w, "kv_bytes", k->stats.kv_bytes);
    lr_json_member_u64(w, "kv_bytes_in_use", k->stats.kv_bytes_in_use);
    lr_json_member_u64(w, "pages_total", k->stats.pages_total);
    lr_json_member_u64(w, "pages_in_use", k->stats.pages_in_use);
    lr_json_member_u64(w, "steps", k->stats.steps);
    lr_json_member_u64(w, "prompt_tokens", k->stats.prompt_tokens);
    lr_json_member_u64(w, "generated_tokens", k->stats.generated_tokens);
    lr_json_end_object(w);
    lr_json_end_object(w);
}

static const char *role_of(const struct node_worker *k)
{
    return k == k->replica->worker      ? "serving"
           : k == k->replica->candidate ? "candidate"
                                        : "leaving";
}

/* Members of an open object. */
static void put_model(struct lr_json_writer *w, const struct node_model *m)
{
    static const char *const roles[] = {"serving", "candidate", "leaving"};
    lr_json_member_z(w, "id", m->id);
    lr_json_member_z(w, "state", node_model_state_name(m->state));
    lr_json_member_z(w, "reason", m->reason[0] != '\0' ? m->reason : NULL);
    lr_json_member_z(w, "engine", m->engine != NULL ? m->engine->name : NULL);
    if (m->descriptor != NULL) {
        lr_json_member_z(w, "format", model_format_name(m->descriptor->format));
        lr_json_member_z(w, "runtime", m->descriptor->runtime);
        lr_json_member_z(w, "architecture", m->descriptor->architecture);
        lr_json_member_z(w, "dir", m->descriptor->model_dir);
        lr_json_member_u64(w, "weight_bytes", m->descriptor->weight_bytes);
        lr_json_member_u64(w, "context", m->descriptor->context_tokens);
        lr_json_member_u64(w, "kv_bytes", m->descriptor->kv_bytes);
    }
    node_fetch_put(w, m);
    lr_json_member_u64(w, "failures", m->breaker.failures);
    if (m->breaker.due_ms != 0)
        lr_json_member_u64(w, "next_try_ms",
                           node_breaker_wait_ms(&m->breaker, node_now(m->node)));
    lr_json_member_bool(w, "pinned", m->is_pinned);
    lr_json_member_u64(w, "queued", m->queue_count);
    lr_json_member_u64(w, "leases", node_model_leases(m));
    if (m->has_need)
        put_need(w, &m->need);
    lr_json_member_array(w, "workers");
    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++)
        for (const struct node_worker *k = m->workers; k != NULL; k = k->next)
            if (strcmp(role_of(k), roles[i]) == 0)
                put_worker(w, k, roles[i]);
    lr_json_end_array(w);
}

lr_code node_api_models(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_array(w, "models");
    for (const struct node_model *m = node->models; m != NULL; m = m->next) {
        lr_json_begin_object(w);
        put_model(w, m);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    return net_json_send(&json, req, 200, err);
}

lr_code node_api_put_model(struct net_request *req, const struct node_model *m,
                           struct lr_error *err)
{
    struct net_json json;
    put_model(net_json_begin(&json, BODY_BYTES), m);
    return net_json_send(&json, req, 200, err);
}

lr_code node_api_model_info(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct node_model *m = node_need_model(node, node_api_segment(req, 2), err);
    return m != NULL ? node_api_put_model(req, m, err) : err->code;
}

lr_code node_api_model_action(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct lr_str action = node_api_segment(req, 3);
    struct node_model *m = node_need_model(node, node_api_segment(req, 2), err);
    if (m == NULL)
        return err->code;
    if (lr_str_eq_z(action, "load")) {
        node_model_load(m);
    } else if (lr_str_eq_z(action, "unload")) {
        node_model_unload(m, "an operator asked for it");
    } else if (lr_str_eq_z(action, "pin") || lr_str_eq_z(action, "unpin")) {
        m->is_pinned = lr_str_eq_z(action, "pin");
    } else {
        return lr_fail(err, LR_NOT_FOUND,
                       "a model can be asked to load, unload, pin or unpin, not to "
                       "\"" LR_STR_FMT "\"",
                       LR_STR_ARG(lr_str_sub(action, 0, 64)));
    }
    return node_api_put_model(req, m, err);
}

static void put_list(struct lr_json_writer *w, const char *key, const char *const *list)
{
    lr_json_member_array(w, key);
    for (; list != NULL && *list != NULL; list++)
        lr_json_put_z(w, *list);
    lr_json_end_array(w);
}

lr_code node_api_engines(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_array(w, "engines");
    for (const struct node_engine *e = node->engines.first; e != NULL; e = e->next) {
        lr_json_begin_object(w);
        lr_json_member_z(w, "id", e->name);
        lr_json_member_bool(w, "usable", e->library != NULL);
        lr_json_member_z(w, "reason", e->reason[0] != '\0' ? e->reason : NULL);
        lr_json_member_z(w, "folder", e->folder);
        if (e->library != NULL) {
            lr_json_member_z(w, "version", e->library->version);
            lr_json_member_z(w, "sha256", e->library->sha256);
            lr_json_member_u64(w, "abi_version", e->library->abi);
            lr_json_member_z(w, "license", e->manifest.license);
            put_list(w, "runtimes", e->manifest.runtimes);
            put_list(w, "formats", e->manifest.formats);
            put_list(w, "architectures", e->manifest.architectures);
            put_list(w, "backends", e->manifest.backends);
        }
        lr_json_member_bool(w, "reloading", e->reload != NULL);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    return net_json_send(&json, req, 200, err);
}

/* A reload answers when the new library was found good or refused.  The client may
 * leave meanwhile: net keeps the request until we end it. */
static void on_reloaded(void *arg, const struct lr_error *err, bool changed)
{
    struct net_request *req = arg;
    if (err != NULL)
        net_respond_error(req, err);
    else
        net_respond(req, 200, "application/json",
                    changed ? LR_STR_LIT("{\"changed\":true}")
                            : LR_STR_LIT("{\"changed\":false}"));
}

lr_code node_api_engine_reload(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct lr_str id = node_api_segment(req, 2);
    struct lr_str force;
    struct node_engine *engine = node->engines.first;
    while (engine != NULL && !lr_str_eq_z(id, engine->name))
        engine = engine->next;
    bool forced = net_request_query_get(req, "force", &force) && lr_str_eq_z(force, "true");
    if (engine == NULL)
        return lr_fail(err, LR_NOT_FOUND, "there is no engine \"" LR_STR_FMT "\"",
                       LR_STR_ARG(lr_str_sub(id, 0, 64)));
    return node_reload(node, engine, forced, on_reloaded, req, err);
}

lr_code node_api_events(struct node *node, struct net_request *req, struct lr_error *err)
{
    (void)err;
    net_bus_subscribe(&node->events, req);
    return LR_OK;
}

lr_code node_api_health(struct node *node, struct net_request *req, struct lr_error *err)
{
    const struct node_model *stalled = NULL;
    uint32_t ready = 0;
    /* Half the watchdog's time without progress: no longer well, not yet killed. */
    for (const struct node_model *m = node->models; m != NULL; m = m->next) {
        const struct node_worker *k = node_model_worker(m);
        ready += m->state == NODE_MODEL_READY;
        if (k != NULL && node_worker_has_opened(k) && k->live_count != 0 &&
            node_now(node) - k->progress_ms > node->limits.step_ms / 2)
            stalled = m;
    }
    bool well = stalled == NULL && !node->is_draining;
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_z(w, "status", node->is_draining ? "draining" : well ? "ok" : "stalled");
    if (stalled != NULL)
        lr_json_member_z(w, "model", stalled->id);
    lr_json_member_z(w, "device", node->device);
    node_router_link_put(node->link, w);
    lr_json_member_u64(w, "models_ready", ready);
    lr_json_member_u64(w, "requests", node->generations.used);
    lr_json_member_u64(w, "uptime_ms", node_now(node) - node->started_ms);
    return net_json_send(&json, req, well ? 200 : 503, err);
}
