#include "node/router_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/random.h"
#include "base/strmap.h"
#include "net/client.h"
#include "net/settings.h"
#include "net/url.h"
#include "node/api.h"
#include "node/fetch.h"
#include "node/registry.h"
#include "node/state.h"
#include "wire/fleet.h"

enum {
    BEAT_MS = 1000,
    LOOK_MS = 100, /* a change of state is told this soon */
    CALL_MS = 4000,
    BODY_BYTES = 32 << 20,
    REPORT_BYTES = 4 << 20,
    ID_LEN = 20,
    SECRET_LEN = 43, /* base62: 256 bits */
    MODELS_MAX = WIRE_FLEET_MODELS_MAX,
    PEERS_MAX = 8,
    EVENTS_PER_BEAT = 32,
};

/* One router.  The first is the one that was named; it tells of the others. */
struct peer {
    struct node_router_link *link;
    char router[300];
    struct net_call *call; /* one at a time */
    bool is_joined;
    bool is_joining;         /* the call under way is a join */
    bool was_refused;        /* said once, not once a second */
    uint64_t next_ms;        /* the next word is due */
    uint64_t told_signature; /* of the models and states that were told */
    uint64_t told_models;    /* of the models alone */
    uint64_t told_events;    /* how many of the node's it knows */
    uint64_t telling_events; /* the same once the call under way is answered */
};

struct node_router_link {
    struct node *node;
    const char *router; /* URL; NULL: none */
    struct net_client *client;
    struct node_registry *registry;
    struct net_timer *timer;
    uint16_t port;
    char node_id[8 + ID_LEN];
    char name[64];
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    struct lr_buf body;
    uint64_t epoch; /* of this process; see wire_beat */
};

/* ---- identity ---- */

static lr_code read_identity(struct node_router_link *link, const char *path, char *secret,
                             size_t size, struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_str text, id, value;
    const struct lr_json *obj;
    lr_arena_init(&arena, 64 << 10);
    lr_code code = lr_file_read(&arena, path, 16 << 10, &text, err);
    if (code == LR_OK)
        code = lr_json_parse(&arena, text, NULL, &obj, err);
    if (code == LR_OK && (!lr_json_str(lr_json_get(obj, "node_id"), &id) ||
                          !lr_json_str(lr_json_get(obj, "secret"), &value) ||
                          id.len >= sizeof(link->node_id) || value.len >= size))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "node_id or secret is missing");
    if (code == LR_OK) {
        (void)snprintf(link->node_id, sizeof(link->node_id), LR_STR_FMT, LR_STR_ARG(id));
        (void)snprintf(secret, size, LR_STR_FMT, LR_STR_ARG(value));
    }
    lr_arena_free(&arena);
    return code == LR_OK ? LR_OK
                         : lr_fail_prefix(err, "%s (delete it to join as a new node)", path);
}

static lr_code make_identity(struct node_router_link *link, const char *path, char *secret,
                             size_t size, struct lr_error *err)
{
    char text[256], letters[SECRET_LEN + 1];
    (void)snprintf(link->node_id, sizeof(link->node_id), "node-");
    lr_random_base62(link->node_id + 5, ID_LEN);
    lr_random_base62(letters, SECRET_LEN);
    (void)snprintf(secret, size, "ln-%s", letters);
    (void)snprintf(text, sizeof(text), "{\"node_id\":\"%s\",\"secret\":\"%s\"}\n",
                   link->node_id, secret);
    return lr_file_write_atomic(path, lr_str_z(text), 0600, err);
}

lr_code node_router_link_create(struct node *node, struct node_router_link **out,
                                struct lr_error *err)
{
    char path[LR_PATH_MAX + 32], secret[sizeof(node->secret)];
    const char *name = lr_settings_str(node->settings, "node-name");
    *out = NULL;
    struct node_router_link *link = calloc(1, sizeof(*link));
    if (link == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a router's link");
    link->node = node;
    link->epoch = 1 + lr_random_below(UINT64_C(1) << 50);
    link->router = lr_settings_str(node->settings, "router");
    lr_buf_init(&link->body, BODY_BYTES);
    if (name != NULL)
        (void)snprintf(link->name, sizeof(link->name), "%s", name);
    else if (gethostname(link->name, sizeof(link->name) - 1) != 0)
        (void)snprintf(link->name, sizeof(link->name), "node");
    if (link->router != NULL) {
        struct net_url url;
        (void)snprintf(path, sizeof(path), "%s/node-identity.json", node->data_dir);
        lr_code code = net_url_parse(link->router, &url, err);
        if (code == LR_OK)
            code = lr_file_exists(path)
                       ? read_identity(link, path, secret, sizeof(secret), err)
                       : make_identity(link, path, secret, sizeof(secret), err);
        struct net_tls *tls = NULL;
        if (code == LR_OK)
            code = net_settings_client_tls(node->settings, &tls, err);
        if (code == LR_OK)
            code = net_client_create(node->loop, &(struct net_client_config){.tls = tls},
                                     &link->client, err);
        net_tls_destroy(tls);
        if (code == LR_OK)
            code = node_registry_create(node, link->client, &link->registry, err);
        if (code != LR_OK) {
            node_router_link_destroy(link);
            return code;
        }
        if (node->secret[0] == '\0')
            memcpy(node->secret, secret, sizeof(secret));
    }
    node->link = link;
    *out = link;
    return LR_OK;
}

void node_router_link_destroy(struct node_router_link *link)
{
    if (link == NULL)
        return;
    net_timer_stop(link->timer);
    link->node->link = NULL;
    node_registry_destroy(link->registry);
    net_client_destroy(link->client);
    lr_buf_free(&link->body);
    free(link);
}

/* ---- what is told ---- */

static struct lr_str text_of(const char *text)
{
    return lr_str_z(text);
}

static void describe(const struct node_model *m, struct wire_fleet_model *out)
{
    const struct model_descriptor *d = m->descriptor;
    bool usable = m->engine != NULL && m->state != NODE_MODEL_FAILED &&
                  m->state != NODE_MODEL_ABSENT && m->state != NODE_MODEL_FETCHING &&
                  m->state != NODE_MODEL_VERIFYING;
    *out = (struct wire_fleet_model){
        .id = text_of(m->id),
        .state = text_of(node_model_state_name(m->state)),
        .reason = usable ? lr_str(NULL, 0) : text_of(m->reason),
        .can_run = usable,
        .is_loaded = m->state == NODE_MODEL_READY,
        .is_pinned = m->is_pinned,
        .slots = m->worker != NULL && m->worker->is_ready ? m->worker->need.max_sequences
                 : m->has_need                            ? m->need.max_sequences
                                                          : 0,
        .live = m->worker != NULL ? m->worker->live_count : 0,
        .queued = m->queue_count,
        .load_ms = m->load_ms,
        .prefill_us = m->prefill_us,
        .step_us = m->step_us,
        .engine = m->engine != NULL ? text_of(m->engine->name) : lr_str(NULL, 0),
    };
    if (d == NULL)
        return;
    out->chat_template = text_of(d->chat_template);
    out->is_harmony = m->chat.is_gptoss;
    out->bos_token = m->chat.bos_token;
    out->eos_token = m->chat.eos_token;
    out->unk_token = m->chat.unk_token;
    out->pad_token = m->chat.pad_token;
    out->runtime = text_of(d->runtime);
    out->architecture = text_of(d->architecture);
    out->format = text_of(model_format_name(d->format));
    out->context_tokens = d->context_tokens;
    out->weight_bytes = d->weight_bytes;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x100000001B3); /* FNV-1a's prime */
}

/* Which models there are, and (with states) how they are: a change is told at once. */
static uint64_t signature(const struct node *node, bool with_states)
{
    uint64_t hash = mix(with_states && node->is_draining, with_states ? node->events.count : 0);
    for (const struct node_model *m = node->models; m != NULL; m = m->next) {
        hash = mix(hash, lr_hash(lr_str_z(m->id)));
        hash = mix(hash, m->descriptor != NULL ? 1 : 2);
        hash = mix(hash, m->engine != NULL ? lr_hash(lr_str_z(m->engine->name)) : 3);
        if (with_states)
            hash = mix(hash, (uint64_t)m->state + 16);
    }
    return hash;
}

struct report {
    struct wire_fleet_model *models; /* owned */
    struct wire_fleet_pool pools[NODE_POOLS_MAX];
    const char *events[EVENTS_PER_BEAT];
    struct wire_fleet_download downloads[WIRE_FLEET_DOWNLOADS_MAX];
    struct lr_arena arena; /* texts of downloads */
    struct wire_beat beat;
};

static bool make_report(const struct node *node, struct report *report)
{
    size_t count = 0;
    for (const struct node_model *m = node->models; m != NULL; m = m->next)
        count++;
    count = count < MODELS_MAX ? count : MODELS_MAX;
    report->models = calloc(count + 1, sizeof(*report->models));
    if (report->models == NULL)
        return false;
    size_t i = 0;
    for (const struct node_model *m = node->models; m != NULL && i < count; m = m->next)
        describe(m, &report->models[i++]);
    for (uint32_t p = 0; p < node->pools.count; p++)
        report->pools[p] = (struct wire_fleet_pool){
            .name = text_of(node->pools.pool[p].name),
            .title = text_of(node->pools.pool[p].title),
            .total = node->pools.pool[p].state.total,
            .used = node->pools.pool[p].state.used,
        };
    report->beat = (struct wire_beat){
        .is_draining = node->is_draining,
        .models = report->models,
        .model_count = count,
        .pools = report->pools,
        .pool_count = node->pools.count,
    };
    return true;
}

/* What happened since this router was told last, the newest few if that was much. */
static void report_events(const struct node_router_link *link, struct peer *peer,
                          struct report *report)
{
    const struct node_events *events = &link->node->events;
    uint64_t from = peer->told_events;
    if (from + NODE_EVENTS_KEPT < events->count)
        from = events->count - NODE_EVENTS_KEPT;
    size_t count = 0;
    for (; from + count < events->count && count < EVENTS_PER_BEAT; count++) {
        const char *text = events->kept[(from + count) % NODE_EVENTS_KEPT];
        report->events[count] = text != NULL ? text : "{}";
    }
    peer->telling_events = from + count;
    report->beat.epoch = link->epoch;
    report->beat.event_end = from + count;
    report->beat.event_texts = report->events;
    report->beat.event_count = count;
}

static bool write_body(struct peer *peer, bool join)
{
    struct node_router_link *link = peer->link;
    struct report report;
    if (!make_report(link->node, &report))
        return false;
    lr_arena_init(&report.arena, REPORT_BYTES);
    lr_buf_clear(&link->body);
    if (join) {
        const char *url = lr_settings_str(link->node->settings, "advertise");
        struct wire_join m = {
            .protocol = WIRE_FLEET_PROTOCOL,
            .version = LR_STR_LIT(LR_NODE_VERSION),
            .node_id = lr_str_z(link->node_id),
            .name = lr_str_z(link->name),
            .url = text_of(url),
            .port = link->port,
            .has_tls = lr_settings_str(link->node->settings, "tls-cert") != NULL,
            .device = lr_str_z(link->node->device),
            .secret = lr_str_z(link->node->secret),
            .state = report.beat,
        };
        wire_join_write(&link->body, &m);
    } else {
        report_events(link, peer, &report);
        report.beat.downloads = report.downloads;
        report.beat.download_count = node_fetch_report(
            link->node->fetch, &report.arena, report.downloads, WIRE_FLEET_DOWNLOADS_MAX);
        wire_beat_write(&link->body, &report.beat);
    }
    lr_arena_free(&report.arena);
    free(report.models);
    return !link->body.failed;
}

/* ---- talking ---- */

static void say_trouble(struct peer *peer, const char *what, const char *why)
{
    if (!peer->was_refused)
        lr_log_warn(NULL, "router.trouble router=%s what=%s reason=%s", peer->router, what,
                    why);
    peer->was_refused = true;
}

static void add_peer(struct node_router_link *link, struct lr_str url)
{
    struct net_url parsed;
    char text[300];
    for (size_t i = 0; i < link->peer_count; i++)
        if (lr_str_eq_z(url, link->peers[i].router))
            return;
    (void)snprintf(text, sizeof(text), LR_STR_FMT, LR_STR_ARG(lr_str_sub(url, 0, 299)));
    if (link->peer_count == PEERS_MAX || net_url_parse(text, &parsed, NULL) != LR_OK)
        return;
    struct peer *peer = &link->peers[link->peer_count++];
    *peer = (struct peer){.link = link};
    memcpy(peer->router, text, sizeof(text));
}

/* The reply names all routers of the fleet. */
static void learn_routers(struct peer *peer, struct lr_str reply)
{
    struct node_router_link *link = peer->link;
    struct lr_arena arena;
    const struct lr_json *body;
    struct lr_str url;
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, reply, NULL, &body, NULL) == LR_OK) {
        const struct lr_json *list = lr_json_get(body, "routers");
        /* A router alone names itself as it sees itself, which may differ from the
         * address we were given: nothing to learn. */
        bool several = lr_json_is(list, LR_JSON_ARRAY) && list->count > 1;
        for (uint32_t i = 0; several && i < list->count; i++)
            if (lr_json_str(&list->items[i], &url))
                add_peer(link, url);
    }
    lr_arena_free(&arena);
}

static void on_reply(void *arg, const struct lr_error *err, const struct net_reply *reply)
{
    struct peer *peer = arg;
    bool joining = peer->is_joining;
    peer->call = NULL;
    if (err != NULL) {
        /* Unreachable: the next beat tries again; it may not have noticed we are gone. */
        say_trouble(peer, joining ? "join" : "beat", err->text);
        return;
    }
    if (reply->status == 200) {
        if (joining)
            lr_log_info(NULL, "router.joined router=%s node=%s", peer->router,
                        peer->link->node_id);
        /* One that joined may be new: it gets what is kept, and knows again what it knew. */
        peer->told_events = joining ? 0 : peer->telling_events;
        peer->is_joined = true;
        peer->was_refused = false;
        learn_routers(peer, reply->body);
        node_registry_heard(peer->link->registry, peer->router, reply->body);
        return;
    }
    char text[300];
    (void)snprintf(text, sizeof(text), "status %d: " LR_STR_FMT, reply->status,
                   LR_STR_ARG(lr_str_sub(reply->body, 0, 240)));
    if (joining)
        say_trouble(peer, "join", text);
    else
        peer->next_ms = 0; /* it does not know us: join at once */
    peer->is_joined = false;
}

static void speak(struct peer *peer, bool join)
{
    struct node_router_link *link = peer->link;
    char url[600], bearer[160];
    struct lr_error err;
    const char *token = lr_settings_str(link->node->settings, "token");
    /* The token opens the door of the router that was named; the secret is known to the
     * others that share its database, and to itself from then on. */
    bool by_token = join && token != NULL && peer == &link->peers[0];
    if (!write_body(peer, join))
        return;
    (void)snprintf(bearer, sizeof(bearer), "Bearer %s", by_token ? token : link->node->secret);
    if (join)
        (void)snprintf(url, sizeof(url), "%s/v0/nodes/join", peer->router);
    else
        (void)snprintf(url, sizeof(url), "%s/v0/nodes/%s/beat", peer->router, link->node_id);
    struct net_header header = {LR_STR_LIT("Authorization"), lr_str_z(bearer)};
    struct net_call_config config = {
        .url = url,
        .headers = &header,
        .header_count = 1,
        .content_type = "application/json",
        .body = lr_buf_str(&link->body),
        .connect_timeout_ms = CALL_MS,
        .response_timeout_ms = CALL_MS,
        .max_response_bytes = 1 << 20,
    };
    peer->is_joining = join;
    if (net_fetch(link->client, &config, on_reply, peer, &peer->call, &err) != LR_OK)
        say_trouble(peer, "call", err.text);
}

static void look_after(struct peer *peer, uint64_t now, uint64_t models, uint64_t states)
{
    if (peer->call != NULL)
        return;
    bool changed = peer->is_joined && states != peer->told_signature;
    if (now < peer->next_ms && !changed)
        return;
    bool join = !peer->is_joined || models != peer->told_models;
    peer->told_models = models;
    peer->told_signature = states;
    peer->next_ms = now + BEAT_MS;
    speak(peer, join);
}

static void on_timer(void *arg)
{
    struct node_router_link *link = arg;
    uint64_t now = node_now(link->node);
    uint64_t models = signature(link->node, false), states = signature(link->node, true);
    for (size_t i = 0; i < link->peer_count; i++)
        look_after(&link->peers[i], now, models, states);
}

void node_router_link_start(struct node_router_link *link, uint16_t port)
{
    link->port = port;
    if (link->router == NULL)
        return;
    struct lr_str url = lr_str_z(link->router);
    while (url.len != 0 && url.ptr[url.len - 1] == '/')
        url.len--;
    add_peer(link, url);
    link->timer = net_timer_start(link->node->loop, 1, LOOK_MS, on_timer, link);
}

/* POST /v0/beat: a router has news (a registration came or went) and waits for our word. */
void node_api_beat(struct node *node, struct net_request *req, const struct net_path *path)
{
    (void)path;
    for (size_t i = 0; node->link != NULL && i < node->link->peer_count; i++)
        node->link->peers[i].next_ms = 0;
    if (node->link != NULL)
        on_timer(node->link);
    net_respond(req, 200, "application/json", LR_STR_LIT("{}"));
}
