/* node/run.c - `llm-router node`: one node, one process, from its start until a signal ends it.
 *
 *   running --SIGTERM--> draining --nothing runs any more--> stopping --last connection--> end
 *
 * A node that drains finishes what runs and refuses new work.  A second signal, or the end of
 * drain-timeout, ends what still runs.
 */
#include <stdio.h>

#include "base/log.h"
#include "base/os/process.h"
#include "net/guard.h"
#include "net/server.h"
#include "net/service.h"
#include "net/settings.h"
#include "net/url.h"
#include "node/host/reload.h"
#include "node/http/api.h"
#include "node/node.h"
#include "node/workers/counter.h"
#include "wire/fleet.h"

enum {
    SECOND_MS = 1000,
    SAY_GOODBYE_MS = 1000,
    STOP_MS = 2000,       /* for answers that are made but not yet read */
    TLS_LOOK_S = 5,       /* between two looks at the files of certificates */
    TLS_TELL_MS = 3600000 /* a router that was restarted has to hear of it, too */
};

struct run {
    struct net_loops *loops;
    struct node *node;
    struct net_signals signals;
    struct net_timer *second, *watch, *memory, *late, *watchdog;
    uint64_t seconds;             /* that the loop has counted */
    uint64_t certificate_told_ms; /* that it ends soon; 0: it does not */
    uint64_t drain_began_ms;
    enum { RUNNING, DRAINING, STOPPING } state;
};

/* ---- the end ---- */

static void on_stopped(void *arg)
{
    struct run *run = arg;
    net_signals_stop(&run->signals);
    net_loops_stop(run->loops);
}

static bool has_workers(const struct node_models *models)
{
    for (const struct node_model *m = models->first; m != NULL; m = m->next)
        if (m->workers != NULL || m->probe != NULL || m->is_purging ||
            node_counter_has_process(m))
            return true;
    return false;
}

static void drain_step(struct run *run)
{
    struct node *node = run->node;
    struct node_models *models = &node->models;
    if (run->state != DRAINING || models->generations.used != 0)
        return;
    for (struct node_model *m = models->first; m != NULL; m = m->next) {
        node_model_unload(m, "the node is shutting down");
        node_counter_end(m);
    }
    bool may_leave = node_membership_has_told(node->membership) ||
                     node_now(models) - run->drain_began_ms >= SAY_GOODBYE_MS;
    if (has_workers(models) || !may_leave)
        return;
    run->state = STOPPING;
    node_links_end(node);
    net_bus_end_all(&node->events); /* streams that would keep the server */
    net_server_stop(node->server, STOP_MS, on_stopped, run);
}

static void end_now(struct run *run)
{
    struct node_models *models = &run->node->models;
    struct lr_error err;
    run->drain_began_ms = 0; /* nobody is told any more */
    (void)lr_fail(&err, LR_UNAVAILABLE, "this node was stopped");
    for (uint32_t i = 0; i < models->generations.count; i++) {
        struct node_generation *request = models->generations.all[i].item;
        if (request != NULL && request->state != NODE_GENERATION_PROVING)
            node_generation_fail(request, &err, true);
    }
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        for (struct node_worker *w = m->workers; w != NULL; w = w->next)
            node_worker_end(w);
}

static void on_drain_late(void *arg)
{
    struct run *run = arg;
    lr_log_warn(NULL, "node.drain_late requests=%u", run->node->models.generations.used);
    end_now(run);
}

/* Requests for models that are not loaded yet are served, too: they were taken. */
static void on_stop_signal(void *arg)
{
    struct run *run = arg;
    struct node_models *models = &run->node->models;
    uint64_t limit_ms = lr_settings_ms(run->node->settings, "drain-timeout"); /* 0: for ever */
    if (run->state != RUNNING) {
        end_now(run);
        return;
    }
    run->state = DRAINING;
    net_service_stopping();
    models->is_draining = true;
    node_changed(models);
    run->drain_began_ms = node_now(models);
    lr_log_info(NULL, "node.drain requests=%u", models->generations.used);
    if (limit_ms != 0)
        run->late = net_timer_start(models->loop, limit_ms, 0, on_drain_late, run);
}

/* ---- while it runs ---- */

/* An operator has acted: models are looked for again, changed engines reloaded. */
static void look_again(struct node *node)
{
    struct lr_error err;
    node_storage_scan(&node->storage);
    for (struct node_model *m = node->models.first; m != NULL; m = m->next) {
        if (m->state == NODE_MODEL_FAILED)
            node_storage_look(m);
        node_model_retry(m); /* an operator has acted: perhaps the cause is gone */
        node_model_pump(m);
    }
    for (struct node_engine *e = node->engines.first; e != NULL; e = e->next) {
        /* Reading an unchanged library would keep every stream waiting for its hash. */
        bool is_same = e->library != NULL && node_folder_signature(e->folder) == e->signature;
        if (!is_same && node_reload(&node->models, e, false, NULL, NULL, &err) != LR_OK)
            lr_log_warn(LR_LOG_OF(&err), "engine.reload_refused engine=%s reason=%s", e->name,
                        err.text);
    }
}

static void run_on_hup(void *arg)
{
    net_settings_reload();
    look_again(((struct run *)arg)->node);
}

/* The routers raise an alert. */
static void watch_certificate(struct run *run)
{
    struct node *node = run->node;
    uint64_t now = node_now(&node->models);
    struct lr_error why;
    bool ends = net_settings_certificate_ends(node->settings, node->server, &why);
    bool was_told = run->certificate_told_ms != 0;
    if (ends ? was_told && now - run->certificate_told_ms < TLS_TELL_MS : !was_told)
        return;
    run->certificate_told_ms = ends ? now : 0;
    struct lr_json_writer *j =
        net_bus_begin(&node->events, ends ? "certificate_ends" : "certificate_renewed");
    if (ends) {
        lr_log_warn(LR_LOG_OF(&why), "tls.ends reason=%s", why.text);
        wire_event_put_error(j, &why);
    }
    net_bus_send(&node->events);
}

static void every_second(void *arg)
{
    struct run *run = arg;
    struct node *node = run->node;
    uint64_t now = node_now(&node->models);
    node_batch_begin(&node->models.batch); /* a link's ticks in one write */
    node_generations_tick(&node->models, now);
    node_links_tick(node);
    node_batch_end(&node->models.batch);
    node_idle_watch(&node->models, now);
    net_bus_keep_alive(&node->events);
    node_reload_watch(&node->models);
    node_storage_watch(&node->storage);
    if (run->seconds++ % TLS_LOOK_S == 0)
        net_tls_look(false);
    watch_certificate(run);
}

static void on_memory(void *arg)
{
    struct node_models *models = &((struct run *)arg)->node->models;
    node_health_watch(models);
    node_memory_watch(models, node_now(models));
    node_admit_waiting(models);
}

static void on_watch(void *arg)
{
    struct run *run = arg;
    struct node_models *models = &run->node->models;
    node_workers_watch(models, node_now(models));
    node_recovery_watch(models);
    node_replicas_watch(models, node_now(models));
    drain_step(run);
}

/* ---- the start ---- */

/* Every model that --model names, in that order; with --engine alone the first model. */
static void preload(struct node *node)
{
    const struct lr_settings *s = node->settings;
    size_t named = lr_settings_list_count(s, "model");
    struct node_model *first = node->models.first;
    if (!lr_settings_bool(s, "preload"))
        return;
    for (size_t i = 0; i < named; i++) {
        struct node_model *m =
            node_storage_named(&node->storage, lr_settings_list_item(s, "model", i));
        if (m != NULL)
            node_model_load(m);
    }
    if (named == 0 && lr_settings_str(s, "engine") != NULL && first != NULL)
        node_model_load(first);
}

static lr_code run_check_listen(struct node *node, const struct net_listeners *listeners,
                                bool has_tls, struct lr_error *err)
{
    const char *router = lr_settings_str(node->settings, "router");
    const char *host = net_listeners_main(listeners)->host;
    struct net_url url;
    node->is_loopback = net_listeners_are_local(listeners);
    node->strict_fields = lr_settings_bool(node->settings, "strict-fields");
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
    bool is_near = node->is_loopback && (!net_is_loopback_bind(url.host) ||
                                         net_listener_is_unix(net_listeners_main(listeners)));
    if (code == LR_OK && is_near && lr_settings_str(node->settings, "advertise") == NULL)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "the router at %s cannot reach a node that listens on %s: pass "
                       "--listen :11681 (with --tls-cert and --tls-key), or "
                       "--advertise URL where something in front passes it on",
                       url.origin, host);
    return code;
}

static lr_code start_server(struct run *run, uint16_t *port, struct lr_error *err)
{
    struct node *node = run->node;
    struct net_listeners listeners;
    struct net_server_config config = {
        .listeners = &listeners,
        .handler = {.arg = node, .on_head = node_api_head, .on_request = node_api_request},
    };
    lr_code code = net_settings_listeners(node->settings, &listeners, err);
    if (code == LR_OK)
        code = net_settings_server(node->settings, &config, err);
    if (code == LR_OK)
        code = run_check_listen(node, &listeners, config.tls != NULL, err);
    if (code == LR_OK)
        code = net_server_start(run->loops, &config, &node->server, err);
    net_tls_destroy(config.tls);
    if (code != LR_OK)
        return code;
    *port = net_server_port(node->server);
    lr_log_info(NULL, "node.listening addr=%s port=%u device=%s",
                net_listeners_main(net_server_listeners(node->server))->host, *port,
                node->models.devices.name);
    return LR_OK;
}

static void start_timers(struct run *run)
{
    const struct node *node = run->node;
    uint64_t step = node->models.limits.step_ms, load = node->models.limits.load_ms;
    uint64_t look = (step < load ? step : load) / 10;
    look = look < 10 ? 10 : look > 250 ? 250 : look;
    uint64_t memory = lr_settings_ms(node->settings, "memory-interval");
    run->second = net_timer_start(node->models.loop, SECOND_MS, SECOND_MS, every_second, run);
    run->watch = net_timer_start(node->models.loop, look, look, on_watch, run);
    run->memory = net_timer_start(node->models.loop, memory, memory, on_memory, run);
}

lr_code node_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct run run = {0};
    uint16_t port;
    lr_ignore_broken_pipes();
    lr_code code = net_loops_create(1, &run.loops, err);
    if (code != LR_OK)
        return code;
    struct net_loop *loop = net_loops_get(run.loops, 0);
    code = node_create(loop, settings, &run.node, err);
    if (code == LR_OK)
        code = net_loop_share_sends(loop, err);
    if (code == LR_OK)
        code = start_server(&run, &port, err);
    if (code == LR_OK)
        code = net_signals_start(loop, on_stop_signal, run_on_hup, &run, &run.signals, err);
    if (code == LR_OK) {
        start_timers(&run);
        preload(run.node);
        node_membership_start(run.node->membership, port);
        (void)printf("listening on port %u\n", port);
        (void)fflush(stdout);
        net_service_ready(loop, &run.watchdog);
        code = net_loops_run(run.loops, err);
    }
    net_timer_stop(run.second);
    net_timer_stop(run.watch);
    net_timer_stop(run.memory);
    net_timer_stop(run.late);
    net_timer_stop(run.watchdog);
    node_destroy(run.node);
    net_loops_destroy(run.loops);
    return code;
}
