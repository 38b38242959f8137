#include "node/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/sandbox.h"
#include "base/subprocess.h"
#include "net/guard.h"
#include "net/server.h"
#include "net/settings.h"
#include "net/url.h"
#include "node/fetch/fetch.h"
#include "node/fetch/storage.h"
#include "node/fleet/router_link.h"
#include "node/http/api.h"
#include "node/state.h"
#include "node/workers/reload.h"

enum {
    SECOND_MS = 1000,
    CLOSE_MS = 10000,
    SAY_GOODBYE_MS = 1000,
    TLS_LOOK_S = 5,       /* between two looks at the files of certificates */
    TLS_TELL_MS = 3600000 /* a router that was restarted has to hear of it, too */
};

/* ---- settings ---- */

static void read_limits(struct node *node)
{
    const struct lr_settings *s = node->settings;
    node->limits = (struct node_limits){
        .step_ms = lr_settings_ms(s, "step-timeout"),
        .load_ms = lr_settings_ms(s, "load-timeout"),
        .idle_unload_ms = lr_settings_ms(s, "idle-unload"),
        .drain_ms = lr_settings_ms(s, "drain-timeout"),
        .close_ms = CLOSE_MS,
        .min_resident_ms = lr_settings_ms(s, "min-resident"),
        .queue = (uint32_t)lr_settings_int(s, "node-queue"),
        .alert_percent = (uint32_t)lr_settings_int(s, "memory-threshold"),
        .overuse_percent = (uint32_t)lr_settings_int(s, "overuse-percent"),
        .kills = (uint32_t)lr_settings_int(s, "watchdog-kills"),
    };
    if (node->limits.step_ms < CLOSE_MS) /* no engine hangs longer in one place than another */
        node->limits.close_ms = node->limits.step_ms;
    node->options = (struct lr_engine_options){
        .size = sizeof(node->options),
        .max_sequences = (uint32_t)lr_settings_int(s, "max-sequences"),
        .max_context = (uint32_t)lr_settings_int(s, "max-context"),
        .max_tokens = (uint64_t)lr_settings_int(s, "max-tokens"),
        .prefill_chunk = (uint32_t)lr_settings_int(s, "prefill-chunk"),
        .threads = (uint32_t)lr_settings_int(s, "engine-threads"),
        .extra_json = lr_settings_str(s, "engine-options"),
    };
}

/* Installed: bin/llm-router and lib/llm-router/engines; built: bin/ and engines/. */
static void find_engines_dir(struct node *node)
{
    const char *set = lr_settings_str(node->settings, "engines-dir");
    if (set != NULL) {
        (void)snprintf(node->engines_dir, sizeof(node->engines_dir), "%s", set);
        return;
    }
    char base[LR_PATH_MAX];
    (void)snprintf(base, sizeof(base), "%s", node->executable);
    for (int i = 0; i < 2; i++) {
        char *slash = strrchr(base, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    (void)snprintf(node->engines_dir, sizeof(node->engines_dir), "%.4000s/engines", base);
    if (!lr_dir_exists(node->engines_dir))
        (void)snprintf(node->engines_dir, sizeof(node->engines_dir),
                       "%.4000s/lib/llm-router/engines", base);
}

/* The CPU is never chosen by itself (docs/promises.md: cpu-by-word). */
static lr_code choose_device(struct node *node, struct lr_error *err)
{
    const char *wanted = lr_settings_str(node->settings, "device");
    bool has_gpu = node->pools.count > 1;
    if (strcmp(wanted, "auto") != 0 && (has_gpu || strcmp(wanted, "cuda") != 0)) {
        (void)snprintf(node->device, sizeof(node->device), "%s", wanted);
        return LR_OK;
    }
    if (!has_gpu)
        return lr_fail(err, LR_UNSUPPORTED,
                       "no NVIDIA GPU was found (libnvidia-ml.so.1 is missing or lists none): "
                       "start on a machine with one, or pass --device cpu for development");
    (void)snprintf(node->device, sizeof(node->device), "cuda");
    return LR_OK;
}

static lr_code own_data_dir(struct node *node, struct lr_error *err)
{
    char lock[LR_PATH_MAX + 16];
    (void)snprintf(node->data_dir, sizeof(node->data_dir), "%s",
                   lr_settings_str(node->settings, "data-dir"));
    lr_code code = lr_dir_create(node->data_dir, err);
    (void)snprintf(lock, sizeof(lock), "%s/node.lock", node->data_dir);
    if (code == LR_OK)
        code = lr_file_lock(lock, &node->lock, err);
    (void)snprintf(node->engines.cache_dir, sizeof(node->engines.cache_dir),
                   "%.4000s/engine-cache", node->data_dir);
    return code;
}

const char *node_scratch_of(struct node *node, const struct node_library *library,
                            char out[LR_PATH_MAX])
{
    struct lr_error err;
    if (!lr_settings_bool(node->settings, "confine-workers"))
        return NULL;
    (void)snprintf(out, LR_PATH_MAX, "%.3900s/engine-scratch/%.64s", node->data_dir,
                   library->engine_id);
    if (lr_dir_create(out, &err) != LR_OK) /* the engine is confined all the same */
        lr_log_warn(NULL, "engine.no_scratch folder=%s reason=%s", out, err.text);
    return out;
}

static void tell_confinement(const struct node *node)
{
    struct lr_sandbox_facts facts = lr_sandbox_look();
    char lacks[LR_SANDBOX_TEXT];
    if (!lr_settings_bool(node->settings, "confine-workers"))
        lr_log_warn(NULL,
                    "node.confinement workers=free reason=--no-confine-workers was given");
    else if (lr_sandbox_lacks(&facts, lacks)[0] != '\0')
        lr_log_warn(NULL, "node.confinement workers=partly reason=%s", lacks);
    else
        lr_log_info(NULL, "node.confinement workers=confined landlock=%d", facts.landlock);
}

lr_code node_create(struct net_loop *loop, const struct lr_settings *settings,
                    struct node **out, struct lr_error *err)
{
    *out = NULL;
    struct node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a node");
    node_logs_keep();
    node->loop = loop;
    node->settings = settings;
    node->lock.fd = -1;
    node->started_ms = node_now(node);
    lr_buf_init(&node->scratch, WIRE_BODY_MAX + WIRE_HEADER_LEN);
    net_bus_init(&node->events);
    read_limits(node);
    const char *nvml = lr_settings_str(settings, "nvml-library");
    uint64_t cap =
        lr_settings_has(settings, "ram-limit") ? lr_settings_size(settings, "ram-limit") : 0;
    node_pools_init(&node->pools, nvml, cap, node->limits.alert_percent,
                    lr_settings_str(settings, "proc-root"));
    lr_code code = lr_self_path(node->executable, sizeof(node->executable), err);
    if (code == LR_OK)
        code = lr_settings_secret(settings, "node-secret", node->secret, sizeof(node->secret),
                                  err);
    if (code == LR_OK)
        code = choose_device(node, err);
    if (code == LR_OK)
        code = own_data_dir(node, err);
    if (code == LR_OK)
        code = node_fetch_create(node, &node->fetch, err);
    if (code != LR_OK) {
        node_destroy(node);
        return code;
    }
    tell_confinement(node);
    find_engines_dir(node);
    node_engines_scan(&node->engines, node->engines_dir);
    node_reload_tell_refused(node);
    node_storage_recover(node);
    node_storage_scan(node);
    *out = node;
    return LR_OK;
}

/* ---- life ---- */

static void finish_drain(struct node *node)
{
    net_loop_fn fn = node->drained;
    node->drained = NULL;
    node_links_end(node);
    if (fn != NULL)
        fn(node->drained_arg);
}

static bool has_workers(const struct node *node)
{
    for (const struct node_model *m = node->models; m != NULL; m = m->next)
        if (m->workers != NULL || m->probe != NULL || m->is_purging)
            return true;
    return false;
}

static void drain_step(struct node *node)
{
    if (!node->is_draining || node->generations.used != 0)
        return;
    for (struct node_model *m = node->models; m != NULL; m = m->next)
        node_model_unload(m, "the node is shutting down");
    bool may_leave = node_router_link_has_told(node->link) ||
                     node_now(node) - node->drain_began_ms >= SAY_GOODBYE_MS;
    if (!has_workers(node) && may_leave && node->drained != NULL)
        finish_drain(node);
}

/* The routers raise an alert. */
static void watch_certificate(struct node *node)
{
    char text[NET_CERTIFICATE_TEXT];
    bool ends = net_settings_certificate_ends(node->settings, node->server, text);
    bool was_told = node->certificate_told_ms != 0;
    if (ends ? was_told && node_now(node) - node->certificate_told_ms < TLS_TELL_MS : !was_told)
        return;
    node->certificate_told_ms = ends ? node_now(node) : 0;
    struct lr_json_writer *j =
        net_bus_begin(&node->events, ends ? "certificate_ends" : "certificate_renewed");
    if (ends) {
        lr_log_warn(NULL, "tls.ends reason=%s", text);
        lr_json_member_z(j, "reason", text);
    }
    net_bus_send(&node->events);
}

static void every_second(void *arg)
{
    struct node *node = arg;
    uint64_t now = node_now(node);
    node_batch_begin(&node->batch); /* a link's ticks in one write */
    node_generations_tick(node, now);
    node_links_tick(node);
    node_batch_end(&node->batch);
    node_idle_watch(node, now);
    net_bus_keep_alive(&node->events);
    node_reload_watch(node);
    node_recovery_look(node);
    if (node->seconds++ % TLS_LOOK_S == 0)
        net_tls_look(false);
    watch_certificate(node);
}

static void on_memory(void *arg)
{
    struct node *node = arg;
    node_memory_watch(node, node_now(node));
    node_admit_waiting(node);
}

static void on_watch(void *arg)
{
    struct node *node = arg;
    node_workers_watch(node, node_now(node));
    node_recovery_watch(node);
    drain_step(node);
}

static void preload(struct node *node)
{
    const char *engine = lr_settings_str(node->settings, "engine");
    bool named = lr_settings_list_count(node->settings, "model") != 0 || engine != NULL;
    if (named && lr_settings_bool(node->settings, "preload") && node->models != NULL)
        node_model_load(node->models);
}

static lr_code check_listen(struct node *node, const char *host, bool has_tls,
                            struct lr_error *err)
{
    const char *router = lr_settings_str(node->settings, "router");
    struct net_url url;
    node->is_loopback = net_is_loopback_bind(host);
    if (!node->is_loopback && node->secret[0] == '\0')
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "listening on %s, beyond this machine, needs a node-secret or a router "
                       "to join",
                       host);
    if (!node->is_loopback && !has_tls && !lr_settings_bool(node->settings, "insecure-http"))
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "%s is beyond this machine: secrets and prompts would travel "
                       "unencrypted; give --tls-cert and --tls-key, or say --insecure-http in "
                       "a network that you trust",
                       host);
    if (router == NULL)
        return LR_OK;
    lr_code code = net_settings_check_url(node->settings, "the router", router, err);
    if (code == LR_OK)
        code = net_url_parse(router, &url, err);
    if (code == LR_OK && node->is_loopback && !net_is_loopback_bind(url.host) &&
        lr_settings_str(node->settings, "advertise") == NULL)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "the router at %s cannot reach a node that listens on %s: pass "
                       "--listen 0.0.0.0:11681 (with --tls-cert and --tls-key), or "
                       "--advertise URL where something in front passes it on",
                       url.origin, host);
    return code;
}

lr_code node_start(struct node *node, struct net_loops *loops, const char *listen,
                   uint16_t *port, struct lr_error *err)
{
    char host[NET_HOST_MAX];
    uint16_t number = 0;
    struct net_tls *tls = NULL;
    lr_code code = net_listen_parse(listen, host, &number, err);
    if (code == LR_OK)
        code = net_settings_server_tls(node->settings, &tls, err);
    if (code == LR_OK)
        code = check_listen(node, host, tls != NULL, err);
    if (code != LR_OK) {
        net_tls_destroy(tls);
        return code;
    }
    struct net_server_config config = {
        .host = host,
        .port = number,
        .tls = tls,
        .handler = {.arg = node, .on_head = node_api_head, .on_request = node_api_request},
        .max_connections = (uint32_t)lr_settings_int(node->settings, "max-connections"),
        .max_per_address = (uint32_t)lr_settings_int(node->settings, "connections-per-address"),
        .max_body_bytes = lr_settings_size(node->settings, "max-body-bytes"),
        .header_timeout_ms = (uint32_t)lr_settings_ms(node->settings, "header-timeout"),
        .body_timeout_ms = (uint32_t)lr_settings_ms(node->settings, "body-timeout"),
        .idle_timeout_ms = (uint32_t)lr_settings_ms(node->settings, "idle-timeout"),
    };
    code = net_server_start(loops, &config, &node->server, err);
    net_tls_destroy(tls);
    if (code != LR_OK)
        return code;
    *port = net_server_port(node->server);
    uint64_t shortest = node->limits.step_ms < node->limits.load_ms ? node->limits.step_ms
                                                                    : node->limits.load_ms;
    uint64_t look = shortest / 10 < 10 ? 10 : shortest / 10 > 250 ? 250 : shortest / 10;
    uint64_t memory = lr_settings_ms(node->settings, "memory-interval");
    node->second = net_timer_start(node->loop, SECOND_MS, SECOND_MS, every_second, node);
    node->watch = net_timer_start(node->loop, look, look, on_watch, node);
    node->memory = net_timer_start(node->loop, memory, memory, on_memory, node);
    lr_log_info(NULL, "node.listening addr=%s port=%u device=%s", host, *port, node->device);
    preload(node);
    return LR_OK;
}

static void end_now(struct node *node)
{
    struct lr_error err;
    node->drain_began_ms = 0; /* nobody is told any more */
    (void)lr_fail(&err, LR_UNAVAILABLE, "this node was stopped");
    for (uint32_t i = 0; i < node->generations.count; i++) {
        struct node_generation *request = node->generations.all[i].item;
        if (request != NULL && request->state != NODE_GENERATION_PROVING)
            node_generation_fail(request, &err, true);
    }
    for (struct node_model *m = node->models; m != NULL; m = m->next)
        for (struct node_worker *w = m->workers; w != NULL; w = w->next)
            node_worker_end(w);
}

static void on_drain_late(void *arg)
{
    struct node *node = arg;
    lr_log_warn(NULL, "node.drain_late requests=%u", node->generations.used);
    end_now(node);
}

void node_drain(struct node *node, net_loop_fn done, void *arg)
{
    if (node->is_draining) {
        end_now(node);
        return;
    }
    node->is_draining = true;
    node->drain_began_ms = node_now(node);
    node->drained = done;
    node->drained_arg = arg;
    lr_log_info(NULL, "node.drain requests=%u", node->generations.used);
    if (node->limits.drain_ms != 0)
        node->late = net_timer_start(node->loop, node->limits.drain_ms, 0, on_drain_late, node);
    /* Requests for models that are not loaded yet are served, too: they were taken. */
}

void node_reload_all(struct node *node)
{
    struct lr_error err;
    node_storage_scan(node);
    for (struct node_model *m = node->models; m != NULL; m = m->next) {
        if (m->state == NODE_MODEL_FAILED)
            node_storage_look(m);
        node_model_retry(m); /* an operator has acted: perhaps the cause is gone */
        node_model_pump(m);
    }
    for (struct node_engine *e = node->engines.first; e != NULL; e = e->next) {
        /* Reading an unchanged library would keep every stream waiting for its hash. */
        bool is_same = e->library != NULL && node_folder_signature(e->folder) == e->signature;
        if (!is_same && node_reload(node, e, false, NULL, NULL, &err) != LR_OK)
            lr_log_warn(NULL, "engine.reload_refused engine=%s reason=%s", e->name, err.text);
    }
}

void node_destroy(struct node *node)
{
    if (node == NULL)
        return;
    net_timer_stop(node->second);
    net_timer_stop(node->watch);
    net_timer_stop(node->memory);
    net_timer_stop(node->late);
    net_server_destroy(node->server);
    net_bus_free(&node->events);
    node_fetch_destroy(node->fetch);
    node_storage_free(node);
    node_engines_free(&node->engines);
    node_pools_free(&node->pools);
    if (node->lock.fd >= 0)
        lr_file_unlock(&node->lock);
    lr_buf_free(&node->scratch);
    lr_slots_free(&node->generations);
    free(node);
}
