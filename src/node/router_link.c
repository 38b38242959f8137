#include "node/router_link.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/json.h"
#include "base/random.h"
#include "net/client.h"
#include "net/settings.h"
#include "net/url.h"
#include "node/api.h"
#include "node/identity.h"
#include "node/registry.h"
#include "node/report.h"
#include "node/state.h"

enum {
    BEAT_MS = 1000,
    LOOK_MS = 100, /* a change of state is told this soon */
    CALL_MS = 4000,
    BODY_BYTES = 32 << 20,
    PEERS_MAX = 8,
};

/* One router.  The first is the one that was named; it tells of the others. */
struct peer {
    struct node_router_link *link;
    char router[300];
    struct net_call *call; /* one at a time */
    bool is_joined;
    bool is_joining;         /* the call under way is a join */
    bool has_missed;         /* the last word got no answer */
    char trouble[200];       /* what was said last about it; "": none */
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
    struct node_identity identity;
    char name[64];
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    struct lr_buf body;
    uint64_t epoch; /* of this process; see wire_beat */
};

/* ---- life ---- */

lr_code node_router_link_create(struct node *node, struct node_router_link **out,
                                struct lr_error *err)
{
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
        struct net_tls *tls = NULL;
        lr_code code = net_url_parse(link->router, &url, err);
        if (code == LR_OK)
            code = node_identity_open(&link->identity, node->data_dir, err);
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
            memcpy(node->secret, link->identity.secret, sizeof(node->secret));
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

/* ---- talking ---- */

static bool write_body(struct peer *peer, bool join)
{
    struct node_router_link *link = peer->link;
    struct node_joiner who = {.id = link->identity.id, .name = link->name, .port = link->port};
    peer->telling_events = peer->told_events;
    return join ? node_report_join(link->node, &who, &link->body)
                : node_report_beat(link->node, link->epoch, &peer->telling_events, &link->body);
}

static void say_trouble(struct peer *peer, const char *what, const char *why)
{
    char text[sizeof(peer->trouble)];
    (void)snprintf(text, sizeof(text), "%s: %s", what, why);
    if (strcmp(text, peer->trouble) == 0)
        return; /* it is tried every second, and said once */
    memcpy(peer->trouble, text, sizeof(text));
    lr_log_warn(NULL, "router.trouble router=%s what=%s reason=%s", peer->router, what, why);
}

/* The router's own words, and what to do about a token. */
static void say_refused(struct peer *peer, const struct net_reply *reply)
{
    struct lr_arena arena;
    const struct lr_json *json = NULL;
    struct lr_str said = lr_str_sub(reply->body, 0, 240);
    char text[600];
    lr_arena_init(&arena, 1 << 20);
    if (lr_json_parse(&arena, reply->body, NULL, &json, NULL) == LR_OK)
        (void)lr_json_str(lr_json_get(lr_json_get(json, "error"), "message"), &said);
    (void)snprintf(text, sizeof(text), LR_STR_FMT " (status %d)%s",
                   LR_STR_ARG(lr_str_sub(said, 0, 400)), reply->status,
                   reply->status == 401 ? ": llm-router nodes token makes a token, --token or "
                                          "LLM_ROUTER_TOKEN passes it"
                                        : "");
    lr_arena_free(&arena);
    say_trouble(peer, "join", text);
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
        /* Unreachable: the next beat tries again; it may not have noticed we are gone.  One
         * beat that is lost is no trouble yet: a router that ends takes its node with it, and
         * one that is started anew is back.  Who leaves misses nobody. */
        bool is_new = peer->is_joined && !peer->has_missed;
        peer->has_missed = true;
        if (!is_new && !peer->link->node->is_draining)
            say_trouble(peer, joining ? "join" : "beat", err->text);
        return;
    }
    peer->has_missed = false;
    if (reply->status == 200) {
        if (joining)
            lr_log_info(NULL, "router.joined router=%s node=%s", peer->router,
                        peer->link->identity.id);
        /* One that joined may be new: it gets what is kept, and knows again what it knew. */
        peer->told_events = joining ? 0 : peer->telling_events;
        peer->is_joined = true;
        peer->trouble[0] = '\0';
        learn_routers(peer, reply->body);
        node_registry_heard(peer->link->registry, peer->router, reply->body);
        return;
    }
    if (joining)
        say_refused(peer, reply);
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
        (void)snprintf(url, sizeof(url), "%s/v0/nodes/%s/beat", peer->router,
                       link->identity.id);
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
    uint64_t models = node_report_signature(link->node, false),
             states = node_report_signature(link->node, true);
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

bool node_router_link_has_told(const struct node_router_link *link)
{
    uint64_t states = link != NULL ? node_report_signature(link->node, true) : 0;
    for (size_t i = 0; link != NULL && i < link->peer_count; i++) {
        const struct peer *peer = &link->peers[i];
        if (peer->is_joined && (peer->call != NULL || peer->told_signature != states))
            return false;
    }
    return true;
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
