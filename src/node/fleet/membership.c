#include "node/fleet/membership.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/os/socket.h"
#include "base/random.h"
#include "net/client.h"
#include "net/settings.h"
#include "net/url.h"
#include "node/fetch/storage.h"
#include "node/fleet/peer.h"
#include "node/fleet/report.h"
#include "node/models/models.h"
#include "wire/fleet.h"
#include "wire/reply.h"

enum {
    HEARTBEAT_MS = 1000,
    SPACING_MS = 20, /* between two words to a router: many changes are one heartbeat */
    CALL_MS = 4000,
    JOIN_MS = 10000, /* the router calls back before it answers a join */
    BODY_BYTES = 32 << 20,
    ID_LEN = 20,
    SECRET_LEN = 43,          /* base62: 256 bits */
    ROUTERS_BYTES = 16 << 10, /* of node-routers.json */
    PEERS_MAX = 16, /* twice as many as a fleet names: those that left go when others come */
};

/* Who this node is to its routers: an id, and a secret used in both directions. */
struct identity {
    char id[28];
    char secret[NODE_SECRET_MAX];
};

struct node_membership {
    const struct lr_settings *settings; /* borrowed, as the next three */
    struct node_storage *storage;
    struct node_models *models;
    char *secret;       /* of the node */
    const char *router; /* URL; NULL: none */
    struct net_client *client;
    struct node_registry *registry;
    struct node_watcher watcher; /* of the models: routers hear of a change at once */
    struct net_timer *timer;     /* the next word to a router is due */
    uint16_t port;
    struct identity identity;
    char token[128]; /* "": none was given */
    char name[64];
    struct node_peer peers[PEERS_MAX]; /* the first is the router that the operator named,
                                        * which tells of the others */
    char routers_file[LR_PATH_MAX];    /* DATA-DIR/node-routers.json */
    struct lr_buf body;
    uint64_t epoch; /* of this process; see wire_heartbeat */
};

/* ---- identity ---- */

static lr_code read_identity(struct identity *out, const char *path, struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_str text, id, secret;
    const struct lr_json *obj;
    lr_arena_init(&arena, 64 << 10);
    lr_code code = lr_file_read(&arena, path, 16 << 10, &text, err);
    if (code == LR_OK)
        code = lr_json_parse(&arena, text, NULL, &obj, err);
    if (code == LR_OK && (!lr_json_str(lr_json_get(obj, "node_id"), &id) ||
                          !lr_json_str(lr_json_get(obj, "secret"), &secret) ||
                          id.len >= sizeof(out->id) || secret.len >= sizeof(out->secret)))
        code = lr_fail(err, LR_INVALID_ARGUMENT, "node_id or secret is missing");
    if (code == LR_OK) {
        (void)snprintf(out->id, sizeof(out->id), LR_STR_FMT, LR_STR_ARG(id));
        (void)snprintf(out->secret, sizeof(out->secret), LR_STR_FMT, LR_STR_ARG(secret));
    }
    lr_arena_free(&arena);
    return code == LR_OK ? LR_OK
                         : lr_fail_prefix(err, "%s (delete it to join as a new node)", path);
}

static lr_code make_identity(struct identity *out, const char *path, struct lr_error *err)
{
    char text[256], letters[SECRET_LEN + 1];
    (void)snprintf(out->id, sizeof(out->id), "node-");
    lr_random_base62(out->id + 5, ID_LEN);
    lr_random_base62(letters, SECRET_LEN);
    (void)snprintf(out->secret, sizeof(out->secret), "ln-%s", letters);
    (void)snprintf(text, sizeof(text), "{\"node_id\":\"%s\",\"secret\":\"%s\"}\n", out->id,
                   out->secret);
    return lr_file_write_atomic(path, lr_str_z(text), 0600, err);
}

/* Reads DATA-DIR/node-identity.json, or makes it. */
static lr_code open_identity(struct identity *out, const char *data_dir, struct lr_error *err)
{
    char path[LR_PATH_MAX];
    lr_code code = lr_path_join(path, data_dir, LR_STR_LIT("node-identity.json"), err);
    if (code != LR_OK)
        return code;
    return lr_file_exists(path) ? read_identity(out, path, err) : make_identity(out, path, err);
}

/* ---- life ---- */

/* What is needed to talk to routers. */
static lr_code membership_prepare(struct node_membership *membership, struct lr_error *err)
{
    const struct lr_settings *s = membership->settings;
    const char *data_dir = lr_settings_str(s, "data-dir");
    struct net_url url;
    struct net_tls *tls = NULL;
    lr_code code = net_url_parse(membership->router, &url, err);
    if (code == LR_OK)
        code =
            lr_settings_secret(s, "token", membership->token, sizeof(membership->token), err);
    if (code == LR_OK)
        code = open_identity(&membership->identity, data_dir, err);
    if (code == LR_OK)
        code = lr_path_join(membership->routers_file, data_dir, LR_STR_LIT("node-routers.json"),
                            err);
    if (code == LR_OK)
        code = net_settings_client_tls(s, &tls, err);
    if (code == LR_OK)
        code =
            net_client_create(membership->models->loop, &(struct net_client_config){.tls = tls},
                              &membership->client, err);
    net_tls_destroy(tls);
    if (code == LR_OK)
        membership->registry =
            node_registry_create(membership->storage, membership->client, membership->secret);
    if (code == LR_OK && membership->secret[0] == '\0')
        memcpy(membership->secret, membership->identity.secret, NODE_SECRET_MAX);
    return code;
}

lr_code node_membership_create(struct node_storage *storage, const struct lr_settings *settings,
                               char secret[NODE_SECRET_MAX], struct node_membership **out,
                               struct lr_error *err)
{
    const char *name = lr_settings_str(settings, "node-name");
    struct node_membership *membership = *out = net_alloc(sizeof(*membership));
    membership->settings = settings;
    membership->storage = storage;
    membership->models = storage->models;
    membership->secret = secret;
    membership->epoch = 1 + lr_random_below(UINT64_C(1) << 50);
    membership->router = lr_settings_str(settings, "router");
    lr_buf_init(&membership->body, BODY_BYTES);
    if (name != NULL)
        (void)snprintf(membership->name, sizeof(membership->name), "%s", name);
    else if (!lr_host_name(membership->name, sizeof(membership->name) - 1))
        (void)snprintf(membership->name, sizeof(membership->name), "node");
    return membership->router != NULL ? membership_prepare(membership, err) : LR_OK;
}

void node_membership_destroy(struct node_membership *membership)
{
    if (membership == NULL)
        return;
    node_changes_unwatch(&membership->watcher);
    net_timer_stop(membership->timer);
    node_registry_destroy(membership->registry);
    net_client_destroy(membership->client);
    lr_buf_free(&membership->body);
    free(membership);
}

/* ---- talking ---- */

static bool write_body(struct node_peer *peer)
{
    struct node_membership *membership = peer->membership;
    struct wire_join join = {
        .node_id = lr_str_z(membership->identity.id),
        .name = lr_str_z(membership->name),
        .url = lr_str_z(lr_settings_str(membership->settings, "advertise")),
        .port = membership->port,
        .has_tls = lr_settings_str(membership->settings, "tls-cert") != NULL,
        .secret = lr_str_z(membership->secret),
        .state.epoch = membership->epoch,
    };
    peer->telling_events = peer->told_events;
    return peer->word == NODE_PEER_JOIN
               ? node_report_join(membership->models, &join, &membership->body)
               : node_report_heartbeat(membership->models, membership->epoch, peer->protocol,
                                       &peer->telling_events, &membership->body);
}

static void say_trouble(struct node_peer *peer, const char *what, const char *why)
{
    char text[sizeof(peer->trouble)];
    (void)snprintf(text, sizeof(text), "%s: %s", what, why);
    if (strcmp(text, peer->trouble) == 0)
        return; /* it is tried every second, and said once */
    memcpy(peer->trouble, text, sizeof(text));
    lr_log_warn(NULL, "router.trouble router=%s what=%s reason=%s", peer->router, what, why);
}

/* The router's own words, and what to do about a token. */
static void say_refused(struct node_peer *peer, const struct net_reply *reply)
{
    struct lr_arena arena;
    char text[600];
    lr_arena_init(&arena, 1 << 20);
    struct lr_str said = wire_refusal_message(&arena, reply->body);
    if (said.len == 0)
        said = lr_str_sub(reply->body, 0, 240);
    (void)snprintf(text, sizeof(text), LR_STR_FMT " (status %d)%s",
                   LR_STR_ARG(lr_str_sub(said, 0, 400)), reply->status,
                   reply->status == 401 ? ": llm-router nodes token makes a token, --token or "
                                          "LLM_ROUTER_TOKEN passes it"
                                        : "");
    lr_arena_free(&arena);
    say_trouble(peer, "join", text);
}

/* ---- which routers there are ---- */

/* url "": a free place. */
static struct node_peer *find_peer(struct node_membership *membership, struct lr_str url)
{
    for (size_t i = 0; i < PEERS_MAX; i++)
        if (lr_str_eq_z(url, membership->peers[i].router))
            return &membership->peers[i];
    return NULL;
}

static bool answers(const struct node_peer *peer)
{
    return node_peer_is_joined(peer) && peer->state != NODE_PEER_SILENT;
}

static void forget_peer(struct node_peer *peer)
{
    lr_log_info(NULL, "router.forgotten router=%s", peer->router);
    if (peer->call != NULL)
        net_call_cancel(peer->call);
    node_registry_forget(peer->membership->registry, &peer->source);
    *peer = (struct node_peer){0};
}

/* False: the router is known, its URL is none, or there is no place for it. */
static bool add_peer(struct node_membership *membership, struct lr_str url)
{
    struct net_url parsed;
    char text[300];
    struct node_peer *peer = find_peer(membership, (struct lr_str){0});
    if (peer == NULL || url.len >= sizeof(text) || find_peer(membership, url) != NULL)
        return false;
    (void)snprintf(text, sizeof(text), LR_STR_FMT, LR_STR_ARG(url));
    if (net_url_parse(text, &parsed, NULL) != LR_OK)
        return false;
    *peer = (struct node_peer){.membership = membership};
    memcpy(peer->router, text, sizeof(text));
    peer->source.url = peer->router;
    return true;
}

/* Writes the URL that the operator named, then the routers that it told of.  A node that starts
 * while the named router is away joins the others. */
static void remember_routers(struct node_membership *membership)
{
    struct lr_error err;
    struct lr_buf text;
    struct lr_json_writer w;
    lr_buf_init(&text, ROUTERS_BYTES);
    lr_json_writer_init(&w, &text);
    lr_json_begin_array(&w);
    for (size_t i = 0; i < PEERS_MAX; i++)
        if (membership->peers[i].router[0] != '\0')
            lr_json_put_z(&w, membership->peers[i].router);
    lr_json_end_array(&w);
    lr_code code =
        text.failed
            ? lr_fail(&err, LR_OUT_OF_RAM, "no memory for the list of routers")
            : lr_file_write_atomic(membership->routers_file, lr_buf_str(&text), 0600, &err);
    if (code != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "router.not_remembered reason=%s", err.text);
    lr_buf_free(&text);
}

/* Adds the routers of the last run.  A list of another named router is of another fleet. */
static void recall_routers(struct node_membership *membership)
{
    struct lr_arena arena;
    struct lr_str text, url;
    const struct lr_json *list = NULL;
    lr_arena_init(&arena, 64 << 10);
    if (lr_file_read(&arena, membership->routers_file, ROUTERS_BYTES, &text, NULL) == LR_OK &&
        lr_json_parse(&arena, text, NULL, &list, NULL) == LR_OK &&
        list->type == LR_JSON_ARRAY && list->count != 0 && lr_json_str(&list->items[0], &url) &&
        lr_str_eq_z(url, membership->peers[0].router)) {
        for (uint32_t i = 1; i < list->count; i++)
            if (lr_json_str(&list->items[i], &url))
                (void)add_peer(membership, url);
    }
    lr_arena_free(&arena);
}

static bool membership_is_named(const struct wire_fleet_reply *reply,
                                const struct node_peer *peer)
{
    for (size_t i = 0; i < reply->router_count; i++)
        if (lr_str_eq_z(reply->routers[i], peer->router))
            return true;
    return false;
}

/* A reply names all routers of the fleet that live.  A router that this one does not name may
 * still be there (this one has just begun): it is forgotten only where it does not answer
 * either.  The router that the operator named stays. */
static void learn_routers(struct node_peer *peer, const struct wire_fleet_reply *reply)
{
    struct node_membership *membership = peer->membership;
    bool has_changed = false;
    if (!reply->names_routers)
        return;
    for (size_t i = 1; i < PEERS_MAX; i++) {
        struct node_peer *other = &membership->peers[i];
        if (other->router[0] != '\0' && other != peer && !answers(other) &&
            !membership_is_named(reply, other)) {
            forget_peer(other);
            has_changed = true;
        }
    }
    /* A router alone names itself as it sees itself, which may differ from the address we
     * were given: nothing to learn. */
    for (size_t i = 0; reply->router_count > 1 && i < reply->router_count; i++)
        has_changed = add_peer(membership, reply->routers[i]) || has_changed;
    if (has_changed)
        remember_routers(membership);
}

/* A router of another protocol than before begins with a join, too: it is another process.  A
 * router that names no protocol speaks the first. */
static void agree(struct node_peer *peer, const struct wire_fleet_reply *reply)
{
    uint32_t common = wire_protocol_common(reply->protocol);
    peer->protocol = common != 0 ? common : WIRE_PROTOCOL_FIRST;
    lr_log_info(NULL, "router.joined router=%s node=%s protocol=%u", peer->router,
                peer->membership->identity.id, peer->protocol);
}

static void take_reply(struct node_peer *peer, struct lr_str text)
{
    struct wire_fleet_reply reply;
    struct lr_arena arena;
    lr_arena_init(&arena, 1 << 20);
    if (wire_fleet_reply_parse(&arena, text, &reply, NULL) == LR_OK) {
        if (peer->word == NODE_PEER_JOIN)
            agree(peer, &reply);
        if (reply.must_join)
            node_peer_move(peer, NODE_PEER_OUTDATED);
        node_registry_heard(peer->membership->registry, &peer->source, &reply);
        learn_routers(peer, &reply);
    }
    lr_arena_free(&arena);
}

/* ---- what a router answers ---- */

/* The token opens the door of the router that was named; the secret is known to the others
 * that share its database. */
static bool has_token(const struct node_peer *peer)
{
    return peer == &peer->membership->peers[0] && peer->membership->token[0] != '\0';
}

static void on_accepted(struct node_peer *peer, const struct net_reply *reply)
{
    bool has_joined = peer->word == NODE_PEER_JOIN;
    /* A router that was joined may be new: it gets all events that are kept.  The join has
     * told it the models. */
    peer->told_events = has_joined ? 0 : peer->telling_events;
    if (has_joined)
        peer->told_models = peer->telling_models;
    node_peer_move(peer, NODE_PEER_JOINED);
    peer->trouble[0] = '\0';
    take_reply(peer, reply->body);
}

/* What was joined stays: a router that knows the node goes on hearing from it. */
static void on_join_refused(struct node_peer *peer, const struct net_reply *reply)
{
    bool tries_token = (reply->status == 401 || reply->status == 403) && has_token(peer) &&
                       peer->state != NODE_PEER_TOKEN;
    node_peer_move(peer, node_peer_is_joined(peer) ? NODE_PEER_REFUSED
                         : tries_token             ? NODE_PEER_TOKEN
                                                   : NODE_PEER_STRANGER);
    if (tries_token)
        peer->next_ms = 0; /* at once: a new node is not known by its secret */
    else
        say_refused(peer, reply);
}

static void speak_to_all(struct node_membership *membership);

static void membership_on_reply(void *arg, const struct lr_error *err,
                                const struct net_reply *reply)
{
    struct node_peer *peer = arg;
    struct node_membership *membership = peer->membership;
    peer->call = NULL;
    if (err != NULL) {
        /* Unreachable: the next heartbeat tries again; it may not have noticed we are gone. One
         * heartbeat that is lost is no trouble yet: a router that ends takes its node with it,
         * and a router that restarts answers again.  A node that leaves does not care. */
        if (answers(peer))
            node_peer_move(peer, NODE_PEER_SILENT);
        else if (!membership->models->is_draining)
            say_trouble(peer, peer->word == NODE_PEER_JOIN ? "join" : "heartbeat", err->text);
    } else if (reply->status == 200) {
        on_accepted(peer, reply);
    } else if (peer->word == NODE_PEER_JOIN) {
        on_join_refused(peer, reply);
    } else {
        node_peer_move(peer, NODE_PEER_STRANGER);
        peer->next_ms = 0; /* it does not know us: join at once */
    }
    speak_to_all(membership);
}

static void speak(struct node_peer *peer)
{
    struct node_membership *membership = peer->membership;
    char url[600];
    struct lr_error err;
    bool join = peer->word == NODE_PEER_JOIN;
    if (!write_body(peer))
        return;
    if (join)
        (void)snprintf(url, sizeof(url), "%s/v0/nodes/join", peer->router);
    else
        (void)snprintf(url, sizeof(url), "%s/v0/nodes/%s/heartbeat", peer->router,
                       membership->identity.id);
    struct net_call_config config = {
        .url = url,
        .bearer = peer->state == NODE_PEER_TOKEN ? membership->token : membership->secret,
        .content_type = "application/json",
        .body = lr_buf_str(&membership->body),
        .connect_timeout_ms = CALL_MS,
        .response_timeout_ms = join ? JOIN_MS : CALL_MS,
        .max_response_bytes = 1 << 20,
    };
    if (net_fetch(membership->client, &config, membership_on_reply, peer, &peer->call, &err) !=
        LR_OK)
        say_trouble(peer, "call", err.text);
}

/* Speaks if a word is due; otherwise, when one will be.  UINT64_MAX: the answer that the node
 * waits for decides. */
static uint64_t look_after(struct node_peer *peer, uint64_t now, uint64_t models,
                           uint64_t states)
{
    if (peer->call != NULL)
        return UINT64_MAX;
    bool changed = node_peer_is_joined(peer) && states != peer->told_signature;
    uint64_t due = changed ? 0 : peer->next_ms;
    due = due > peer->spoke_ms + SPACING_MS ? due : peer->spoke_ms + SPACING_MS;
    if (now < due)
        return due;
    peer->word = node_peer_next(peer, models != peer->told_models);
    peer->telling_models = models;
    peer->told_signature = states;
    peer->spoke_ms = now;
    peer->next_ms = now + HEARTBEAT_MS;
    speak(peer);
    return peer->call != NULL ? UINT64_MAX : peer->next_ms;
}

static void membership_on_timer(void *arg)
{
    speak_to_all(arg);
}

static void speak_to_all(struct node_membership *membership)
{
    uint64_t now = node_now(membership->models), next = UINT64_MAX;
    uint64_t models = node_report_signature(membership->models, false),
             states = node_report_signature(membership->models, true);
    for (size_t i = 0; i < PEERS_MAX; i++) {
        if (membership->peers[i].router[0] == '\0')
            continue;
        uint64_t due = look_after(&membership->peers[i], now, models, states);
        next = due < next ? due : next;
    }
    net_timer_stop(membership->timer);
    membership->timer = next == UINT64_MAX
                            ? NULL
                            : net_timer_start(membership->models->loop, next - now, 0,
                                              membership_on_timer, membership);
}

void node_membership_start(struct node_membership *membership, uint16_t port)
{
    membership->port = port;
    if (membership->router == NULL)
        return;
    struct lr_str url = lr_str_z(membership->router);
    while (url.len != 0 && url.ptr[url.len - 1] == '/')
        url.len--;
    (void)add_peer(membership, url);
    recall_routers(membership);
    membership->watcher = (struct node_watcher){.fn = membership_on_timer, .arg = membership};
    node_changes_watch(membership->models, &membership->watcher);
    speak_to_all(membership);
}

bool node_membership_has_told(const struct node_membership *membership)
{
    uint64_t states = node_report_signature(membership->models, true);
    for (size_t i = 0; i < PEERS_MAX; i++) {
        const struct node_peer *peer = &membership->peers[i];
        if (node_peer_is_joined(peer) && (peer->call != NULL || peer->told_signature != states))
            return false;
    }
    return true;
}

bool node_membership_is_joined(const struct node_membership *membership)
{
    bool is_joined = membership->router == NULL;
    for (size_t i = 0; i < PEERS_MAX; i++)
        is_joined = is_joined || answers(&membership->peers[i]);
    return is_joined;
}

void node_membership_put(const struct node_membership *membership, struct lr_json_writer *w)
{
    if (membership->router == NULL)
        return;
    lr_json_member_z(w, "node_id", membership->identity.id);
    lr_json_member_u64(w, "epoch", membership->epoch);
}

void node_membership_hurry(struct node_membership *membership)
{
    for (size_t i = 0; i < PEERS_MAX; i++)
        membership->peers[i].next_ms = 0;
    speak_to_all(membership);
}
