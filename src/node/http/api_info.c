/* node/http/api_info.c - what the node knows: models, engines, events. */
#include <inttypes.h>

#include "base/errors.h"
#include "net/logs.h"
#include "node/fetch/fetch.h"
#include "node/host/reload.h"
#include "node/http/api.h"
#include "wire/fleet.h"

enum { BODY_BYTES = 4 << 20 };

lr_code node_api_v1_models(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_z(w, "object", "list");
    lr_json_member_array(w, "data");
    for (const struct node_model *m = node->models.first; m != NULL; m = m->next) {
        if (m->engine == NULL || m->state == NODE_MODEL_FAILED || m->state == NODE_MODEL_ABSENT)
            continue;
        bool is_ready = m->state >= NODE_MODEL_PRESENT && m->state != NODE_MODEL_WAITING;
        uint64_t context = node_model_max_context(m);
        lr_json_begin_object(w);
        LR_JSON_MEMBERS(w, LR_TEXT("id", m->id), LR_TEXT("object", "model"),
                        LR_INT("created", m->created), LR_TEXT("owned_by", "llm-router"),
                        LR_FLAG("ready", is_ready),
                        LR_TEXT("state", node_model_state_name(m->state)));
        if (context != 0)
            LR_JSON_MEMBERS(w, LR_UINT("max_model_len", context),
                            LR_UINT("context_length", context));
        wire_abilities_write(w, node_model_requests(m));
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
    return net_json_send(&json, req, 200, err);
}

static void put_need(struct lr_json_writer *w, const struct lr_engine_need *n)
{
    lr_json_member_object(w, "need");
    LR_JSON_MEMBERS(w, LR_UINT("total", n->total), LR_UINT("weights", n->weights),
                    LR_UINT("kv", n->kv), LR_UINT("workspace", n->workspace),
                    LR_UINT("fixed", n->fixed), LR_FLAG("on_device", n->on_device != 0));
    lr_json_end_object(w);
}

static void put_worker(struct lr_json_writer *w, const struct node_worker *k, const char *role)
{
    const struct node_library *library = k->library;
    const struct lr_engine_stats *stats = &k->stats;
    lr_json_begin_object(w);
    LR_JSON_MEMBERS(
        w, LR_TEXT("role", role), LR_INT("pid", k->proc != NULL ? node_proc_pid(k->proc) : 0),
        LR_TEXT("pool", k->models->pools.pool[k->pool].name),
        LR_TEXT("engine", library->engine_id), LR_TEXT("version", library->version),
        LR_TEXT("sha256", library->sha256), LR_FLAG("ready", node_worker_has_opened(k)),
        LR_UINT("live", k->live_count), LR_UINT("slots", k->need.max_sequences),
        LR_UINT("max_context", k->need.max_context), LR_UINT("reserved_bytes", k->reserved),
        LR_UINT("measured_bytes", k->measured),
        LR_UINT("silent_ms", node_now(k->models) - k->progress_ms));
    if (!node_worker_has_opened(k))
        LR_JSON_MEMBERS(w, LR_TEXT("phase", k->load_phase), LR_UINT("load_done", k->load_done),
                        LR_UINT("load_total", k->load_total));
    lr_json_member_object(w, "stats");
    LR_JSON_MEMBERS(
        w, LR_UINT("sequences", stats->sequences),
        LR_UINT("weights_bytes", stats->weights_bytes), LR_UINT("kv_bytes", stats->kv_bytes),
        LR_UINT("kv_bytes_in_use", stats->kv_bytes_in_use),
        LR_UINT("pages_total", stats->pages_total),
        LR_UINT("pages_in_use", stats->pages_in_use), LR_UINT("steps", stats->steps),
        LR_UINT("prompt_tokens", stats->prompt_tokens),
        LR_UINT("generated_tokens", stats->generated_tokens));
    lr_json_end_object(w);
    lr_json_end_object(w);
}

/* Members of an open object. */
static void put_model(struct lr_json_writer *w, const struct node_model *m)
{
    const struct model_descriptor *d = m->descriptor;
    LR_JSON_MEMBERS(w, LR_TEXT("id", m->id), LR_TEXT("state", node_model_state_name(m->state)),
                    LR_TEXT("reason", m->reason.text[0] != '\0' ? m->reason.text : NULL),
                    LR_TEXT("engine", m->engine != NULL ? m->engine->name : NULL),
                    LR_TEXT("backend", m->engine == NULL ? NULL
                                       : m->is_by_vulkan ? "vulkan"
                                                         : m->models->devices.kind));
    if (d != NULL)
        LR_JSON_MEMBERS(
            w, LR_TEXT("format", model_format_name(d->format)), LR_TEXT("runtime", d->runtime),
            LR_TEXT("architecture", d->architecture), LR_TEXT("dir", d->model_dir),
            LR_UINT("weight_bytes", d->weight_bytes), LR_UINT("context", d->context_tokens),
            LR_UINT("kv_bytes", d->kv_bytes));
    wire_abilities_write(w, node_model_requests(m));
    lr_json_member_object(w, "sampling");
    wire_sampling_write(w, &m->chat.sampling);
    lr_json_end_object(w);
    node_fetch_put(w, m);
    lr_json_member_u64(w, "failures", m->breaker.failures);
    if (m->breaker.due_ms != 0)
        lr_json_member_u64(w, "next_try_ms",
                           node_breaker_wait_ms(&m->breaker, node_now(m->models)));
    uint32_t replicas = m->has_own_replicas ? m->own_replicas : m->models->replicas;
    LR_JSON_MEMBERS(w, LR_FLAG("pinned", m->is_pinned), LR_UINT("queued", m->queue_count),
                    LR_UINT("leases", node_model_leases(m)),
                    LR_UINT("replicas", node_replicas_ready(m)));
    if (replicas == NODE_REPLICAS_AUTO)
        lr_json_member_z(w, "replicas_wanted", "auto");
    else
        lr_json_member_u64(w, "replicas_wanted", replicas);
    if (m->replicas_reason[0] != '\0')
        lr_json_member_z(w, "replicas_reason", m->replicas_reason);
    if (m->has_need)
        put_need(w, &m->need);
    lr_json_member_array(w, "workers");
    for (const struct node_replica *r = m->replicas; r < m->replicas + NODE_REPLICAS; r++) {
        if (r->worker != NULL)
            put_worker(w, r->worker, "serving");
        if (r->candidate != NULL)
            put_worker(w, r->candidate, "candidate");
    }
    for (const struct node_worker *k = m->workers; k != NULL; k = k->next)
        if (k != k->replica->worker && k != k->replica->candidate)
            put_worker(w, k, "leaving");
    lr_json_end_array(w);
}

lr_code node_api_models(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_array(w, "models");
    for (const struct node_model *m = node->models.first; m != NULL; m = m->next) {
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

/* POST /v0/models/{id}/replicas?count=auto|N */
static lr_code set_replicas(struct node_model *m, struct net_request *req, struct lr_error *err)
{
    struct lr_str count = {0};
    (void)net_request_query_get(req, "count", &count);
    uint32_t number;
    lr_code code = node_replicas_parse(count, &number, err);
    if (code == LR_OK)
        code = node_counts_set(&m->models->counts, m, number, err);
    if (code == LR_OK) /* the answer says what does not come, and why */
        node_replicas_watch(m->models, node_now(m->models));
    return code;
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
    } else if (lr_str_eq_z(action, "replicas")) {
        if (set_replicas(m, req, err) != LR_OK)
            return err->code;
    } else {
        return lr_fail_as(err, model_action, action);
    }
    return node_api_put_model(req, m, err);
}

/* POST /v0/models/inspect {"path", "name"?, "format"?} */
lr_code node_api_inspect(struct node *node, struct net_request *req, struct lr_error *err)
{
    static const char *const keys[] = {"path", "name", "format"};
    struct lr_str texts[3] = {0};
    const struct lr_json *body;
    struct node_model *m = NULL;
    lr_code code =
        lr_json_parse(net_request_arena(req), net_request_body(req), NULL, &body, err);
    for (size_t i = 0; code == LR_OK && i < 3; i++) {
        const struct lr_json *v = lr_json_get(body, keys[i]);
        if (v != NULL && !lr_json_str(v, &texts[i]))
            code = lr_fail_as(err, text_wanted, keys[i]);
    }
    if (code == LR_OK)
        code = node_storage_inspect(&node->storage, texts[0], texts[1], texts[2], &m, err);
    return code == LR_OK ? node_api_put_model(req, m, err) : code;
}

/* DELETE /v0/models/{id}?purge=true */
lr_code node_api_model_delete(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct node_model *m = node_need_model(node, node_api_segment(req, 2), err);
    struct lr_str purge;
    if (m == NULL)
        return err->code;
    if (!net_request_query_get(req, "purge", &purge) || !lr_str_eq_z(purge, "true"))
        return lr_fail_plain(err, node_purge);
    return node_storage_purge(m, req, err);
}

/* POST /v0/heartbeat */
lr_code node_api_heartbeat(struct node *node, struct net_request *req, struct lr_error *err)
{
    (void)err;
    node_membership_hurry(node->membership);
    net_respond(req, 200, "application/json", LR_STR_LIT("{}"));
    return LR_OK;
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
        LR_JSON_MEMBERS(w, LR_TEXT("id", e->name), LR_FLAG("usable", e->library != NULL),
                        LR_TEXT("reason", e->refusal.text[0] != '\0' ? e->refusal.text : NULL),
                        LR_TEXT("folder", e->folder));
        if (e->library != NULL) {
            LR_JSON_MEMBERS(w, LR_TEXT("version", e->library->version),
                            LR_TEXT("sha256", e->library->sha256),
                            LR_UINT("abi_version", e->library->abi),
                            LR_TEXT("license", e->manifest.license));
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
    struct node_engine *engine = node_engines_find(&node->engines, id);
    bool forced = net_request_query_get(req, "force", &force) && lr_str_eq_z(force, "true");
    if (engine == NULL)
        return lr_fail_as(err, no_such_engine, id);
    return node_reload(&node->models, engine, forced, on_reloaded, req, err);
}

lr_code node_api_logs(struct node *node, struct net_request *req, struct lr_error *err)
{
    (void)node;
    return net_logs_answer(req, err);
}

lr_code node_api_events(struct node *node, struct net_request *req, struct lr_error *err)
{
    (void)err;
    net_bus_subscribe(&node->events, req);
    return LR_OK;
}
