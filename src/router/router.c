#include "router/router.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "hub/supported.h"
#include "net/guard.h"
#include "net/logs.h"
#include "net/settings.h"
#include "net/url.h"
#include "router/drain.h"
#include "router/fleet/differ.h"
#include "router/http/session_store.h"
#include "router/http/state.h"
#include "router/observe/limits.h"
#include "router/observe/prices.h"
#include "router/store/clock.h"

enum {
    SECOND_MS = 1000,
    WATCH_MS = 250,
    TLS_LOOK_S = 5,   /* between two looks at the files of certificates */
    RETURN_MS = 3000, /* until a draining router has taken its place back */
    BEGIN_MS = 30000, /* until a router that begins offers its place */
};

/* ---- settings ---- */

/* The first listener beyond this machine; the caller knows that there is one. */
static const struct net_listener *find_remote(const struct net_listeners *listeners)
{
    const struct net_listener *l = listeners->all;
    while (net_listener_is_unix(l) || net_is_loopback_bind(l->host))
        l++;
    return l;
}

/* A registration reads the list anew. */
static lr_code check_supported(const struct lr_settings *s, struct lr_error *err)
{
    struct hub_supported *list = NULL;
    struct lr_arena arena;
    lr_arena_init(&arena, 2 * (size_t)HUB_SUPPORTED_BYTES_MAX);
    lr_code code = router_read_supported(s, &arena, &list, err);
    hub_supported_destroy(list);
    lr_arena_free(&arena);
    return code == LR_OK ? LR_OK : (err->code = LR_INVALID_ARGUMENT);
}

static lr_code read_settings(struct router *r, struct lr_error *err)
{
    const struct lr_settings *s = r->settings;
    struct router_sched *sched = &r->dispatch.sched;
    lr_code code = net_settings_listeners(s, &r->listeners, err);
    if (code != LR_OK)
        return code;
    router_takeover_sockets(&r->takeover, &r->listeners);
    r->is_loopback = net_listeners_are_local(&r->listeners);
    r->needs_key = !r->is_loopback || lr_settings_bool(s, "require-key");
    r->allows_cpu_nodes = lr_settings_bool(s, "allow-cpu-nodes");
    sched->preempts = lr_settings_bool(s, "preempt");
    sched->queue_limit = (size_t)lr_settings_int(s, "queue");
    sched->queue_bytes = (size_t)lr_settings_size(s, "queue-bytes");
    sched->queue_wait_ms = lr_settings_ms(s, "queue-wait");
    sched->queue_timeout_ms = lr_settings_ms(s, "queue-timeout");
    sched->promised_ms = lr_settings_ms(s, "keep-alive");
    r->wrong_keys =
        (struct router_tries){.per_minute = ROUTER_WRONG_KEYS_PER_MINUTE, .what = "wrong keys"};
    r->sign_ins = (struct router_tries){.per_minute = ROUTER_SIGN_IN_STEPS_PER_MINUTE,
                                        .what = "requests to sign in"};
    router_sessions_init(&r->sessions, lr_settings_ms(s, "session-idle"),
                         lr_settings_ms(s, "session-life"));
    bool has_tls = lr_settings_str(s, "tls-cert") != NULL;
    if (!r->is_loopback && !has_tls && !lr_settings_bool(s, "insecure-http"))
        return lr_fail(err, LR_PERMISSION_DENIED,
                       "%s is beyond this machine: keys would travel unencrypted; give "
                       "--tls-cert and --tls-key, or say --insecure-http where another "
                       "server in front does TLS",
                       find_remote(&r->listeners)->host);
    code = net_cidrs_read(s, "trusted-proxy", &r->proxies, err);
    if (code == LR_OK)
        code = router_prices_check(s, err);
    if (code == LR_OK)
        code = net_cidrs_read(s, "node-network", &r->node_networks, err);
    if (code == LR_OK)
        code = router_cors_check(s, r->needs_key, err);
    if (code == LR_OK)
        code = check_supported(s, err);
    if (code == LR_OK)
        code = router_oidc_init(&r->oidc, s, r->needs_key, err);
    return code == LR_OK ? router_tracer_init(&r->tracer, s, r->version, err) : code;
}

lr_code router_check_settings(const struct lr_settings *settings, struct lr_error *err)
{
    struct router *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a router");
    r->settings = settings;
    lr_code code = read_settings(r, err);
    free(r);
    return code;
}

/* ---- create ---- */

/* What a router knows it keeps in memory: two on one file would contradict each other. */
static bool take_lock(struct lr_file_lock *from, const char *path, struct lr_file_lock *out)
{
    if (!lr_file_lock_is_of(from, path))
        return false;
    *out = *from;
    from->fd = -1;
    return true;
}

static lr_code lock_file(struct router *r, const char *database, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    if (strstr(database, "://") != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "database: it is neither postgres://... nor a file's path");
    (void)snprintf(path, sizeof(path), "%.4000s.lock", database);
    if (take_lock(&r->takeover.database_lock, path, &r->database_lock))
        return LR_OK;
    lr_code code = lr_file_lock(path, &r->database_lock, err);
    return code != LR_CONFLICT
               ? code
               : lr_fail(err, LR_CONFLICT,
                         "%.300s is in use by another router: one router may use a SQLite "
                         "file, several share a --database postgres://...",
                         database);
}

static lr_code load_sessions(struct router *r, struct router_sql *sql, struct lr_error *err)
{
    struct router_session_row *rows = malloc(ROUTER_SESSIONS_MAX * sizeof(*rows));
    struct lr_strmap map;
    lr_strmap_init(&map);
    lr_code code = rows != NULL ? router_sessions_read(sql, rows, &map, err)
                                : lr_fail(err, LR_OUT_OF_RAM, "no memory for sessions");
    if (code == LR_OK)
        router_sessions_merge(&r->sessions, &r->keys, &map, lr_clock_wall_ms(&router_clock));
    lr_strmap_free(&map);
    free(rows);
    return code;
}

static lr_code open_store(struct router *r, struct lr_error *err)
{
    const char *dir = lr_settings_str(r->settings, "data-dir");
    const char *database = lr_settings_str(r->settings, "database");
    char path[LR_PATH_MAX];
    lr_code code = lr_dir_create(dir, err);
    (void)snprintf(path, sizeof(path), "%s/router.lock", dir);
    if (code == LR_OK && r->data_lock.fd < 0 &&
        !take_lock(&r->takeover.data_lock, path, &r->data_lock))
        code = lr_file_lock(path, &r->data_lock, err);
    if (database == NULL) {
        (void)snprintf(path, sizeof(path), "%s/router.db", dir);
        database = path;
    }
    if (code == LR_OK && !router_store_can_share(database))
        code = lock_file(r, database, err);
    if (code == LR_OK && !router_store_can_share(database))
        code = router_store_check_file(database, dir, err);
    if (code == LR_OK)
        code = router_store_open(database,
                                 (uint32_t)lr_settings_ms(r->settings, "database-timeout"),
                                 &r->store, err);
    if (code != LR_OK)
        return code;
    struct router_sql *sql = router_store_sql(r->store);
    int64_t ahead_ms;
    bool is_sure;
    router_store_journal(r->store, dir);
    if (router_store_is_shared(r->store))
        code = router_clock_read(sql, &ahead_ms, &is_sure, err);
    if (code == LR_OK)
        code = router_keys_load(&r->keys, sql, err);
    if (code == LR_OK)
        code = router_keys_load_month(&r->keys, sql, lr_clock_wall_ms(&router_clock), err);
    if (code == LR_OK)
        code = router_registry_load(&r->registry, sql, err);
    if (code == LR_OK)
        code = router_nodes_load(&r->nodes, sql, err);
    if (code == LR_OK)
        code = router_silences_load(&r->alerts.silences, sql, lr_clock_wall_ms(&router_clock),
                                    err);
    if (code == LR_OK && router_store_is_shared(r->store))
        code = router_fleet_name(sql, r->sessions.fleet, err);
    if (code == LR_OK && router_oidc_is_on(&r->oidc))
        code = router_sign_in_key(sql, r->oidc.cookie_key, err);
    return code == LR_OK ? load_sessions(r, sql, err) : code;
}

static lr_code make_loops(struct router *r, struct lr_error *err)
{
    struct net_tls *tls;
    lr_code code = net_settings_client_tls(r->settings, &tls, err);
    if (code != LR_OK)
        return code;
    unsigned count = net_loops_count(r->loops);
    r->loop_states = calloc(count, sizeof(*r->loop_states));
    if (r->loop_states == NULL)
        code = lr_fail(err, LR_OUT_OF_RAM, "no memory for %u loops", count);
    else
        r->loop_count = count;
    for (unsigned i = 0; code == LR_OK && i < r->loop_count; i++) {
        struct router_loop *loop = &r->loop_states[i];
        struct net_client_config config = {.tls = tls, .max_idle_per_origin = 512};
        loop->router = r;
        loop->net = net_loops_get(r->loops, i);
        code = net_client_create(loop->net, &config, &loop->client, err);
    }
    net_tls_destroy(tls);
    return code;
}

/* Gives each module what it needs. */
static void connect_modules(struct router *r)
{
    r->dispatch.lock = r->reach.lock = r->sync.lock = &r->lock;
    r->dispatch.nodes = r->reach.nodes = r->sync.nodes = &r->nodes;
    r->dispatch.registry = r->sync.registry = &r->registry;
    router_dispatch_init(&r->dispatch);
    r->alerts.events = &r->events;
    r->alerts.registry = &r->registry;
    r->reach.alerts = r->sync.alerts = &r->alerts;
    r->reach.dispatch = r->sync.dispatch = &r->dispatch;
    r->reach.net = r->loop_states[0].net;
    r->reach.client = r->loop_states[0].client;
    r->reach.offline_ms = lr_settings_ms(r->settings, "node-timeout");
    r->sync.keys = &r->keys;
    r->sync.sessions = &r->sessions;
    r->sync.store = r->store;
    r->sync.reach = &r->reach;
    r->sync.version = r->version;
    r->webhook.lock = &r->lock;
    r->webhook.store = r->store;
    r->webhook.alerts = &r->alerts;
    r->webhook.sync = &r->sync;
    r->webhook.net = r->loop_states[0].net;
    r->retention = (struct router_retention){
        .store = r->store,
        .keep_usage_ms = lr_settings_ms(r->settings, "keep-usage"),
        .keep_audit_ms = lr_settings_ms(r->settings, "keep-audit"),
    };
    r->keeper.store = r->store;
    r->keeper.keep_ms = lr_settings_ms(r->settings, "keep-responses");
    r->keeper.max_bytes = lr_settings_size(r->settings, "keep-responses-bytes");
    router_keeper_init(&r->keeper);
    for (unsigned i = 0; i < r->loop_count; i++) {
        struct router_loop *loop = &r->loop_states[i];
        loop->relay = (struct router_relay){
            .dispatch = &r->dispatch,
            .nodes = &r->nodes,
            .keys = &r->keys,
            .store = r->store,
            .metrics = &r->metrics,
            .key_usages = &r->key_usages,
            .history = &r->history,
            .keeper = &r->keeper,
            .journal = &r->journal,
            .tracer = &r->tracer,
            .keep_alive_ms = (uint32_t)lr_settings_ms(r->settings, "keep-alive"),
            .strict_fields = lr_settings_bool(r->settings, "strict-fields"),
            .links = {.lock = &r->lock,
                      .clock = &router_clock,
                      .net = loop->net,
                      .client = loop->client},
        };
        router_links_init(&loop->relay.links);
    }
}

struct router_loop *router_loop_of(struct router *r, const struct net_request *req)
{
    const struct net_loop *loop = net_request_loop(req);
    unsigned i = 0;
    while (r->loop_states[i].net != loop)
        i++;
    return &r->loop_states[i];
}

static void forget_texts(void *arg, const struct router_key *key)
{
    router_journal_forget(&((struct router *)arg)->journal, key->id);
}

/* A router may run with the same data folder.  It gives way where the operator said so, and
 * where it has only taken its place back (docs/adr/0092).  A router that begins, or takes its
 * place back, needs a moment: then the lock is held, and nobody offers the place. */
static lr_code meet_running(struct router *r, bool takes_over, struct lr_error *err)
{
    const char *dir = lr_settings_str(r->settings, "data-dir");
    char lock[LR_PATH_MAX], socket[LR_PATH_MAX];
    struct lr_error locked;
    struct lr_stat stat;
    uint64_t until = lr_clock_ms(NULL) + (takes_over ? BEGIN_MS : RETURN_MS);
    (void)snprintf(lock, sizeof(lock), "%.4000s/router.lock", dir);
    (void)snprintf(socket, sizeof(socket), "%.4000s/router.sock", dir);
    while (lr_dir_exists(dir) && lr_file_lock(lock, &r->data_lock, &locked) == LR_CONFLICT) {
        lr_code code = router_takeover_ask(&r->takeover, dir, r->version, !takes_over, err);
        if (router_takeover_is_preparing(&r->takeover) || (code != LR_OK && takes_over))
            return code;
        bool may_come = takes_over || lr_stat(socket, &stat);
        if (code != LR_OK || lr_clock_ms(NULL) >= until || !may_come) {
            *err = locked;
            return LR_CONFLICT;
        }
        lr_sleep_ms(WATCH_MS / 4);
    }
    return LR_OK; /* another reason why there is no lock is found once more */
}

lr_code router_create(struct net_loops *loops, const struct lr_settings *settings,
                      const char *version, bool takes_over, struct router **out,
                      struct lr_error *err)
{
    *out = NULL;
    struct router *r = calloc(1, sizeof(*r));
    if (r == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a router");
    net_logs_keep();
    r->settings = settings;
    r->loops = loops;
    r->data_lock.fd = r->database_lock.fd = -1;
    router_takeover_init(&r->takeover);
    r->started_ms = lr_clock_ms(NULL);
    (void)snprintf(r->version, sizeof(r->version), "%s", version);
    (void)pthread_mutex_init(&r->lock, NULL);
    router_keys_init(&r->keys);
    r->keys.on_texts_off = forget_texts;
    r->keys.arg = r;
    router_registry_init(&r->registry);
    router_nodes_init(&r->nodes);
    prefix_index_init(&r->dispatch.sched.prefixes);
    router_key_usages_init(&r->key_usages);
    router_history_init(&r->history);
    net_bus_init(&r->events);
    r->events.may_listen = router_may_listen;
    r->events.arg = r;
    lr_code code = meet_running(r, takes_over, err);
    if (code == LR_OK)
        code = read_settings(r, err);
    if (code == LR_OK)
        code = open_store(r, err);
    if (code == LR_OK)
        code = router_journal_init(&r->journal,
                                   (size_t)lr_settings_int(r->settings, "request-log"),
                                   lr_clock_wall_ms(&router_clock), err);
    if (code == LR_OK)
        code = make_loops(r, err);
    if (code == LR_OK) {
        connect_modules(r);
        code = router_webhook_init(&r->webhook, settings, err);
    }
    if (code != LR_OK) {
        router_destroy(r);
        return code;
    }
    *out = r;
    return LR_OK;
}

void router_destroy(struct router *r)
{
    if (r == NULL)
        return;
    for (unsigned i = 0; i < r->loop_count; i++) {
        net_timer_stop(r->loop_states[i].second);
        net_client_destroy(r->loop_states[i].client);
        router_relay_free(&r->loop_states[i].relay);
    }
    router_webhook_stop(&r->webhook);
    router_oidc_free(&r->oidc);
    router_tracer_free(&r->tracer); /* the relays have ended their traces */
    atomic_store(&r->keeper.is_stopping, true);
    atomic_store(&r->retention.is_stopping, true);
    net_timer_stop(r->watch);
    net_timer_stop(r->drain.timer);
    router_handover_stop(&r->handover);
    if (!r->drain.is_leaving)
        net_server_destroy(r->server);
    for (size_t i = 0; i < r->left_count; i++)
        net_server_destroy(r->left[i].server);
    net_listeners_close(&r->listeners);
    router_drop_kept(r);
    router_takeover_free(&r->takeover);
    if (r->store != NULL)
        router_history_store(
            r->store,
            router_history_turn(&r->history, lr_clock_wall_ms(&router_clock) / 1000, true));
    if (!router_store_stop(r->store))
        return; /* its thread still uses what follows; the process ends here anyway */
    net_loops_settle(r->loops); /* the database's last answers use what follows, too */
    (void)router_store_close(r->store);
    free(r->loop_states);
    router_registry_free(&r->registry);
    router_nodes_free(&r->nodes);
    prefix_index_free(&r->dispatch.sched.prefixes);
    router_keys_free(&r->keys);
    router_sessions_free(&r->sessions);
    router_keeper_free(&r->keeper);
    router_journal_free(&r->journal);
    router_webhook_free(&r->webhook);
    router_key_usages_free(&r->key_usages);
    router_history_free(&r->history);
    router_alerts_free(&r->alerts);
    net_bus_free(&r->events);
    if (r->database_lock.fd >= 0)
        lr_file_unlock(&r->database_lock);
    if (r->data_lock.fd >= 0)
        lr_file_unlock(&r->data_lock);
    (void)pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- keys that the program itself makes ---- */

/* Draws the key, stores it unless it is the program's own, and adds it. */
static lr_code make_key(struct router *r, struct router_key *key, char text[64],
                        struct lr_error *err)
{
    router_key_draw(key, lr_clock_wall_ms(&router_clock), text);
    lr_code code =
        key->is_own ? LR_OK : router_key_insert(router_store_sql(r->store), key, err);
    return code == LR_OK ? router_keys_add(&r->keys, key, err) : code;
}

/* Kept in memory only: a new one is made at each start. */
lr_code router_make_token(struct router *r, const char *name, char out[64],
                          struct lr_error *err)
{
    struct router_key key = {.role = ROUTER_NODE, .is_own = true};
    (void)snprintf(key.name, sizeof(key.name), "%s", name);
    return make_key(r, &key, out, err);
}

/* ---- start and stop ---- */

/* The router's own alerts, and its figures for subscribers of events. */
static void take_figures(struct router *r)
{
    struct lr_error trouble, certificate;
    char text[ROUTER_TROUBLE];
    bool fails = router_store_trouble(r->store, text);
    if (fails)
        (void)lr_fail(&trouble, LR_UNAVAILABLE, "%s", text);
    bool ends = net_settings_certificate_ends(r->settings, r->server, &certificate);
    router_lock(r);
    (void)router_alert_watch(&r->alerts, ROUTER_ALERT_DATABASE_FAILED, fails, &trouble);
    if (router_alert_watch(&r->alerts, ROUTER_ALERT_CERTIFICATE_ENDS, ends, &certificate))
        lr_log_warn(NULL, "tls.ends reason=%s", certificate.text);
    router_watch_weights(&r->nodes, &r->registry, &r->alerts);
    router_watch_clocks(&r->nodes, &r->sync.peers, r->sync.own_url, &r->alerts);
    router_watch_budgets(&r->keys, &r->alerts, lr_clock_wall_ms(&router_clock));
    router_history_sample(&r->history, &r->nodes, &r->registry, lr_clock_ms(NULL));
    struct router_history_rows *rows =
        router_history_turn(&r->history, lr_clock_wall_ms(&router_clock) / 1000, false);
    router_stats_tick(&r->stats, &r->metrics, (uint32_t)r->dispatch.sched.waiting,
                      (uint32_t)r->dispatch.sched.held, lr_clock_ms(NULL),
                      lr_clock_wall_ms(&router_clock));
    r->sync.load = (struct router_load){.requests_per_minute = router_stats_minute(&r->stats),
                                        .running = r->dispatch.sched.held,
                                        .queued = r->dispatch.sched.waiting};
    if (r->events.subscriber_count != 0) {
        struct lr_json_writer *w = net_bus_begin(&r->events, "stats");
        router_stats_put_newest(&r->stats, w);
        lr_json_member_u64(w, "request_log_changes", router_journal_changes(&r->journal));
        net_bus_send_live(&r->events);
    }
    router_unlock(r);
    router_history_store(r->store, rows);
}

static void every_second(void *arg)
{
    struct router_loop *loop = arg;
    struct router *r = loop->router;
    router_relay_watch(&loop->relay);
    if (loop != &r->loop_states[0])
        return;
    net_bus_keep_alive(&r->events);
    take_figures(r);
    if (r->seconds++ % TLS_LOOK_S == 0)
        net_tls_look(false);
    router_reach_second(&r->reach);
    router_sync_second(&r->sync);
    router_sessions_second(r);
    router_keeper_second(&r->keeper);
    router_retention_second(&r->retention);
    if (r->drain.timer == NULL) /* its successor sends, or the next start */
        router_webhook_second(&r->webhook);
}

static void on_watch(void *arg)
{
    struct router *r = arg;
    uint64_t now = lr_clock_ms(NULL);
    if (!r->drain.is_leaving) /* heartbeats go to the next router from now on */
        router_reach_watch(&r->reach, now);
    router_handover_look(&r->handover, now);
    if (router_takeover_look(&r->takeover))
        router_store_follow(r->store, false);
    router_dispatch_watch(&r->dispatch, now);
}

/* Timers belong to their loop's thread. */
static void start_loop(void *arg)
{
    struct router_loop *loop = arg;
    loop->second = net_timer_start(loop->net, SECOND_MS, SECOND_MS, every_second, loop);
    if (loop == &loop->router->loop_states[0])
        loop->router->watch =
            net_timer_start(loop->net, WATCH_MS, WATCH_MS, on_watch, loop->router);
}

lr_code router_serve(struct router *r, struct lr_error *err)
{
    struct net_server *server;
    struct net_server_config config = {
        .handler = {.arg = r,
                    .on_head = router_api_head,
                    .on_request = router_api_request,
                    .on_end = router_api_end},
        .proxies = &r->proxies,
        .listeners = &r->listeners,
    };
    lr_code code = net_settings_server(r->settings, &config, err);
    /* A parsed chat takes up to sixteen times its body (chat/codec.h). */
    config.max_request_bytes = 16 * config.max_body_bytes + (1 << 20);
    if (code == LR_OK)
        code = net_server_start(r->loops, &config, &server, err);
    net_tls_destroy(config.tls);
    if (code == LR_OK)
        r->server = server;
    return code;
}

struct router_known_nodes router_known_nodes_of(struct router *r)
{
    return (struct router_known_nodes){.nodes = &r->nodes};
}

/* The last step of a start that takes over: from here on clients are this router's.  Until the
 * router before has ended it may still write into the database. */
static lr_code finish_takeover(struct router *r, const struct router_known_nodes *memory,
                               struct lr_error *err)
{
    lr_code code = router_takeover_finish(&r->takeover, memory, err);
    if (code != LR_OK)
        return code;
    if (!r->takeover.is_shared)
        net_server_own_sockets(r->server);
    lr_file_lock_sign(&r->data_lock);
    if (r->database_lock.fd >= 0)
        lr_file_lock_sign(&r->database_lock);
    router_sync(&r->sync, router_store_sql(r->store));
    router_store_follow(r->store, true);
    return LR_OK;
}

lr_code router_start(struct router *r, char admin_key[64], struct lr_error *err)
{
    struct router_key admin = {.name = "first admin", .role = ROUTER_ADMIN};
    admin_key[0] = '\0';
    /* A start that fails must not keep a key that nobody has seen. */
    lr_code code = router_serve(r, err);
    if (code == LR_OK)
        r->address = *net_listeners_main(net_server_listeners(r->server));
    if (code == LR_OK && r->needs_key &&
        !router_keys_has_admin(&r->keys, lr_clock_wall_ms(&router_clock)))
        code = make_key(r, &admin, admin_key, err);
    if (code != LR_OK)
        return code;
    router_url(r, r->sync.own_url);
    router_url(r, r->sync.urls[0]);
    r->sync.url_count = 1;
    lr_log_info(NULL, "router.listening addr=%s port=%u models=%zu nodes=%zu keys=%zu",
                r->address.host, r->address.port, r->registry.models.count, r->nodes.count,
                r->keys.count);
    router_store_on_change(r->store, router_sync, &r->sync);
    router_store_on_usage(r->store, router_sync_usage, &r->sync);
    struct router_known_nodes memory = router_known_nodes_of(r);
    if (router_takeover_is_preparing(&r->takeover))
        code = finish_takeover(r, &memory, err);
    else
        router_takeover_recall(&memory);
    if (code == LR_OK)
        code = router_store_start(r->store, err);
    if (code == LR_OK)
        code = router_oidc_start(&r->oidc, err);
    if (code == LR_OK)
        code = router_tracer_start(&r->tracer, err);
    for (unsigned i = 0; code == LR_OK && i < r->loop_count; i++)
        net_loop_post(r->loop_states[i].net, start_loop, &r->loop_states[i]);
    return code;
}

void router_url(const struct router *r, char out[300])
{
    const char *advertised = lr_settings_str(r->settings, "advertise");
    bool has_tls = lr_settings_str(r->settings, "tls-cert") != NULL;
    if (advertised != NULL)
        (void)snprintf(out, 300, "%s", advertised);
    else
        net_listener_url(&r->address, has_tls, out, 300);
}
