#include "router/fleet/nodes.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/machine.h"
#include "router/store/secrets.h"
#include "wire/error.h"

#define TO(name) LR_STATE(ROUTER_NODE_##name)
static const struct lr_machine machine = {
    "node",
    {
        [ROUTER_NODE_OFFLINE] = {"offline", TO(ONLINE) | TO(REMOVED)},
        [ROUTER_NODE_ONLINE] = {"online", TO(OFFLINE) | TO(UNREACHABLE) | TO(REMOVED)},
        [ROUTER_NODE_UNREACHABLE] = {"unreachable", TO(OFFLINE) | TO(ONLINE) | TO(REMOVED)},
        [ROUTER_NODE_REMOVED] = {"removed", TO(OFFLINE) | TO(ONLINE)},
    },
};

void router_node_move(struct router_node *node, enum router_node_state state)
{
    bool is_legal = lr_machine_allows(&machine, node->id, node->state, state);
    node->state = is_legal ? state : ROUTER_NODE_OFFLINE;
}

void router_nodes_init(struct router_nodes *nodes)
{
    *nodes = (struct router_nodes){0};
}

static void free_node(struct router_nodes *nodes, struct router_node *node)
{
    struct router_replica *replica;
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++) {
        router_prompt_info_unref(&nodes->infos, replica->info);
        free(replica);
    }
    lr_strmap_free(&node->replicas);
    free(node->probe);
    free(node);
}

void router_nodes_free(struct router_nodes *nodes)
{
    for (size_t i = 0; i < nodes->count; i++)
        free_node(nodes, nodes->all[i]);
    free(nodes->all);
    router_prompt_infos_free(&nodes->infos);
}

struct lr_str router_fold(struct lr_str id, char out[ROUTER_ID_MAX])
{
    size_t len = id.len < ROUTER_ID_MAX - 1 ? id.len : ROUTER_ID_MAX - 1;
    for (size_t i = 0; i < len; i++)
        out[i] = id.ptr[i] >= 'A' && id.ptr[i] <= 'Z' ? (char)(id.ptr[i] + 32) : id.ptr[i];
    out[len] = '\0';
    return lr_str(out, len);
}

struct router_node *router_nodes_find_any(const struct router_nodes *nodes, struct lr_str id)
{
    for (size_t i = 0; i < nodes->count; i++)
        if (lr_str_eq_z(id, nodes->all[i]->id))
            return nodes->all[i];
    return NULL;
}

struct router_node *router_nodes_find(const struct router_nodes *nodes, struct lr_str id)
{
    struct router_node *node = router_nodes_find_any(nodes, id);
    return node != NULL && !router_node_is_removed(node) ? node : NULL;
}

/* Secrets are random and long, or as long as an operator made them; see SECRET_LEAST. */
static bool has_hash(const struct router_node *node, const char *hash)
{
    return node->secret_hash[0] != '\0' &&
           lr_str_eq_secret(lr_str_z(node->secret_hash), lr_str_z(hash));
}

bool router_node_has_secret(const struct router_node *node, struct lr_str secret)
{
    char hash[LR_SHA256_HEX_LEN + 1];
    router_secret_hash(secret, hash);
    return has_hash(node, hash);
}

struct router_node *router_nodes_by_secret(const struct router_nodes *nodes,
                                           struct lr_str secret)
{
    struct router_node *found = NULL;
    char hash[LR_SHA256_HEX_LEN + 1];
    router_secret_hash(secret, hash);
    for (size_t i = 0; i < nodes->count; i++)
        if (!router_node_is_removed(nodes->all[i]) && has_hash(nodes->all[i], hash)) {
            found = nodes->all[i];
            LR_COPY(found->secret, secret);
        }
    return found;
}

static struct router_node *nodes_add_node(struct router_nodes *nodes, struct lr_str id)
{
    if (nodes->count == nodes->capacity) {
        size_t capacity = nodes->capacity != 0 ? 2 * nodes->capacity : 8;
        struct router_node **grown =
            realloc(nodes->all, capacity * sizeof(struct router_node *));
        if (grown == NULL)
            return NULL;
        nodes->all = grown;
        nodes->capacity = capacity;
    }
    struct router_node *node = calloc(1, sizeof(*node));
    if (node == NULL)
        return NULL;
    LR_COPY(node->id, id);
    lr_strmap_init(&node->replicas);
    nodes->all[nodes->count++] = node;
    return node;
}

struct router_node *router_nodes_know(struct router_nodes *nodes,
                                      const struct router_node *node)
{
    struct router_node *known = router_nodes_find_any(nodes, lr_str_z(node->id));
    if (known != NULL && router_node_is_removed(known) && known->writes != 0)
        return NULL; /* what was read is older than its removal */
    if (known != NULL && router_node_is_online(known))
        return known;
    if (known == NULL)
        known = nodes_add_node(nodes, lr_str_z(node->id));
    if (known == NULL)
        return NULL;
    if (router_node_is_removed(known))
        router_node_move(known, ROUTER_NODE_OFFLINE);
    memcpy(known->name, node->name, sizeof(known->name));
    memcpy(known->url, node->url, sizeof(known->url));
    if (strcmp(known->secret_hash, node->secret_hash) != 0)
        known->secret[0] = '\0';
    memcpy(known->secret_hash, node->secret_hash, sizeof(known->secret_hash));
    memcpy(known->device, node->device, sizeof(known->device));
    known->joined_ms = node->joined_ms;
    return known;
}

void router_node_remove(struct router_node *node)
{
    if (!router_node_is_removed(node))
        router_node_move(node, ROUTER_NODE_REMOVED);
    node->is_stored = false;
    node->secret[0] = node->secret_hash[0] = '\0';
}

struct router_replica *router_node_replica_at(const struct router_node *node, size_t index)
{
    struct lr_str key;
    void *value;
    return lr_strmap_at(&node->replicas, index, &key, &value) ? value : NULL;
}

struct router_replica *router_node_replica(const struct router_node *node, struct lr_str folded)
{
    return lr_strmap_get(&node->replicas, folded);
}

static struct router_replica *need_replica(struct router_node *node, struct lr_str id)
{
    char folded[ROUTER_ID_MAX];
    struct lr_str key = router_fold(id, folded);
    struct router_replica *replica = lr_strmap_get(&node->replicas, key);
    if (replica != NULL)
        return replica;
    replica = calloc(1, sizeof(*replica));
    if (replica == NULL || !lr_strmap_put(&node->replicas, key, replica, NULL)) {
        free(replica);
        return NULL;
    }
    LR_COPY(replica->id, id);
    replica->health = &node->health;
    return replica;
}

static void take_load(struct router_replica *replica, const struct wire_fleet_model *m)
{
    LR_COPY(replica->state, m->state);
    wire_error_heard(&replica->reason, LR_UNAVAILABLE, m->reason, m->reason_id);
    LR_COPY(replica->weights, m->weights);
    replica->can_run = m->can_run;
    replica->is_loaded = m->is_loaded;
    replica->is_pinned = m->is_pinned;
    replica->is_waiting = lr_str_eq_z(m->state, "waiting");
    replica->failures = m->failures;
    replica->next_try_ms = m->next_try_ms;
    replica->workers = m->replicas;
    if (m->slots != 0)
        replica->slots = m->slots;
    if (m->max_context != 0)
        replica->max_context = m->max_context;
    replica->requests = m->requests;
    replica->live = m->live;
    replica->queued = m->queued;
    replica->kv_used = m->kv_used;
    replica->kv_total = m->kv_total;
    replica->is_full = false;
    /* Our own measures see the network, too; the node's are for the time before them. */
    if (replica->load_ms <= 0)
        replica->load_ms = (double)m->load_ms;
    if (replica->prefill_ms <= 0)
        replica->prefill_ms = (double)m->prefill_us / 1000;
    if (replica->step_ms <= 0)
        replica->step_ms = (double)m->step_us / 1000;
}

/* As many as fit. */
static void take_stops(struct router_replica *replica, const struct wire_fleet_model *m)
{
    struct lr_buf list;
    lr_buf_init(&list, sizeof(replica->stops) - 2);
    for (size_t i = 0; i < m->stop_count; i++) {
        size_t len = list.len;
        lr_buf_add_char(&list, i == 0 ? '[' : ',');
        lr_json_quote(&list, m->stops[i]);
        if (list.failed)
            list.len = len;
    }
    (void)snprintf(replica->stops, sizeof(replica->stops), "%.*s%s", (int)list.len,
                   list.data != NULL ? (const char *)list.data : "", list.len != 0 ? "]" : "");
    lr_buf_free(&list);
}

static lr_code nodes_take_model(struct router_nodes *nodes, struct router_node *node,
                                const struct wire_fleet_model *m, struct lr_error *err)
{
    struct router_prompt_info *info;
    struct lr_error bad;
    struct router_replica *replica = need_replica(node, m->id);
    if (replica == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a node's models");
    take_load(replica, m);
    LR_COPY(replica->engine, m->engine);
    LR_COPY(replica->runtime, m->runtime);
    LR_COPY(replica->architecture, m->architecture);
    LR_COPY(replica->format, m->format);
    take_stops(replica, m);
    replica->context_tokens = m->context_tokens;
    replica->weight_bytes = m->weight_bytes;
    replica->kv_bytes = m->kv_bytes;
    lr_code code = router_prompt_info_get(&nodes->infos, m, (struct lr_str){0}, &info, &bad);
    if (code == LR_OUT_OF_RAM) /* passes: the node joins again */
        return lr_fail(err, code, "%s", bad.text);
    if (code != LR_OK) {
        replica->can_run = false;
        replica->reason = bad;
        lr_log_warn(LR_LOG_OF(&bad), "node.bad_template node=%s model=%s reason=%s", node->name,
                    replica->id, bad.text);
    }
    router_prompt_info_unref(&nodes->infos, replica->info);
    replica->info = info;
    return LR_OK;
}

void router_replica_forget(struct router_replica *replica)
{
    replica->can_run = replica->is_loaded = false;
    LR_COPY(replica->state, LR_STR_LIT("absent"));
    (void)lr_fail_plain(&replica->reason, no_longer_on_node);
    replica->engine[0] = replica->runtime[0] = '\0';
    replica->architecture[0] = replica->format[0] = '\0';
    replica->context_tokens = replica->weight_bytes = replica->kv_bytes = 0;
}

static void take_pools(struct router_node *node, const struct wire_heartbeat *heartbeat)
{
    node->pool_count = 0;
    for (size_t i = 0; i < heartbeat->pool_count && i < ROUTER_POOLS_MAX; i++) {
        LR_COPY(node->pools[i].name, heartbeat->pools[i].name);
        LR_COPY(node->pools[i].title, heartbeat->pools[i].title);
        node->pools[i].total = heartbeat->pools[i].total;
        node->pools[i].used = heartbeat->pools[i].used;
        node->pools[i].gpu = heartbeat->pools[i].gpu;
        node->pool_count++;
    }
}

static void take_downloads(struct router_node *node, const struct wire_heartbeat *heartbeat)
{
    struct router_replica *replica;
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++)
        replica->fetched_bytes = replica->fetch_bytes = replica->fetch_rate = 0;
    for (size_t i = 0; i < heartbeat->download_count; i++) {
        const struct wire_fleet_download *d = &heartbeat->downloads[i];
        char folded[ROUTER_ID_MAX];
        replica = router_node_replica(node, router_fold(d->id, folded));
        if (replica == NULL)
            continue;
        replica->fetched_bytes = d->done_bytes;
        replica->fetch_bytes = d->total_bytes;
        replica->fetch_rate = d->rate;
    }
}

static void nodes_hear(struct router_node *node, const struct wire_heartbeat *heartbeat,
                       uint64_t now_ms)
{
    if (node->state == ROUTER_NODE_OFFLINE) {
        router_node_move(node, ROUTER_NODE_ONLINE);
        node->reached_ms = now_ms; /* what failed while it was away says nothing of now */
    }
    node->is_draining = heartbeat->is_draining;
    node->heartbeat_ms = now_ms;
    if (heartbeat->clock_ms != 0 && heartbeat->clock_ms <= INT64_MAX)
        node->clock_ahead_ms[node->clock_looks++ % ROUTER_CLOCK_LOOKS] =
            (int64_t)heartbeat->clock_ms - lr_clock_wall_ms(NULL);
    if (heartbeat->ignored != NULL && strcmp(heartbeat->ignored, node->ignored) != 0)
        lr_log_warn(NULL,
                    "node.report node=%s ignored=%s reason=it is not what it should be: run "
                    "the same release on router and node, or update the engine",
                    node->name, heartbeat->ignored);
    LR_COPY(node->ignored, lr_str_z(heartbeat->ignored));
}

void router_nodes_expect(struct router_nodes *nodes, uint64_t now_ms)
{
    struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        if (!router_node_is_online(node))
            continue;
        node->heartbeat_ms = node->reached_ms = now_ms;
        node->must_join = true;
    }
}

bool router_node_reached(struct router_node *node, uint64_t now_ms, uint64_t offline_ms)
{
    node->reached_ms = now_ms;
    if (node->state != ROUTER_NODE_UNREACHABLE)
        return false;
    bool is_heard = lr_elapsed(node->heartbeat_ms, now_ms) < offline_ms;
    router_node_move(node, is_heard ? ROUTER_NODE_ONLINE : ROUTER_NODE_OFFLINE);
    return is_heard;
}

lr_code router_nodes_join(struct router_nodes *nodes, const struct wire_join *join,
                          const char *url, uint64_t now_ms, int64_t wall_ms,
                          struct router_node **out, struct lr_error *err)
{
    struct router_replica *replica;
    struct router_node *node = router_nodes_find_any(nodes, join->node_id);
    *out = NULL;
    if (node == NULL)
        node = nodes_add_node(nodes, join->node_id);
    if (node == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a node");
    LR_COPY(node->name, join->name.len != 0 ? join->name : join->node_id);
    LR_COPY(node->url, lr_str_z(url));
    LR_COPY(node->secret, join->secret);
    router_secret_hash(join->secret, node->secret_hash);
    LR_COPY(node->device, join->device);
    LR_COPY(node->version, join->version);
    node->protocol = wire_protocol_common(join->protocol);
    node->epoch = join->state.epoch;
    node->clock_looks = 0;
    node->joined_ms = wall_ms;
    node->must_join = false;
    node->health.avoided_until_ms = 0;
    atomic_store(&node->health.failures_in_row, 0);
    for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++)
        router_replica_forget(replica);
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < join->state.model_count; i++)
        code = nodes_take_model(nodes, node, &join->state.models[i], err);
    take_pools(node, &join->state);
    if (code != LR_OK)
        return code;
    if (!router_node_is_online(node)) /* the router has reached it before it lets it join */
        router_node_move(node, ROUTER_NODE_ONLINE);
    node->reached_ms = now_ms;
    nodes_hear(node, &join->state, now_ms);
    node->health.takes_swaps = false; /* perhaps another release now */
    *out = node;
    return LR_OK;
}

bool router_nodes_heartbeat(struct router_node *node, const struct wire_heartbeat *heartbeat,
                            uint64_t now_ms)
{
    bool knows_all = true;
    for (size_t i = 0; i < heartbeat->model_count; i++) {
        char folded[ROUTER_ID_MAX];
        struct router_replica *replica =
            router_node_replica(node, router_fold(heartbeat->models[i].id, folded));
        if (replica == NULL) {
            knows_all = false;
            continue;
        }
        take_load(replica, &heartbeat->models[i]);
        if (replica->info == NULL)
            replica->can_run = false; /* its template was refused when it joined */
    }
    take_pools(node, heartbeat);
    take_downloads(node, heartbeat);
    nodes_hear(node, heartbeat, now_ms);
    return knows_all;
}

const struct router_replica *router_nodes_listing(const struct router_nodes *nodes,
                                                  struct lr_str id)
{
    char folded[ROUTER_ID_MAX];
    const struct router_node *node;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        const struct router_replica *replica =
            router_node_replica(node, router_fold(id, folded));
        bool has_files = replica != NULL && replica->format[0] != '\0';
        bool needs_none = replica != NULL && replica->engine[0] != '\0';
        if (router_node_is_online(node) && (has_files || needs_none))
            return replica;
    }
    return NULL;
}

bool router_node_serves(const struct router_node *node, struct lr_error *why_not)
{
    static const enum lr_error_id ids[] = {
        [ROUTER_NODE_OFFLINE] = LR_ERROR_offline,
        [ROUTER_NODE_UNREACHABLE] = LR_ERROR_unreachable,
        [ROUTER_NODE_REMOVED] = LR_ERROR_removed,
    };
    enum lr_error_id id = !router_node_is_online(node) ? ids[node->state]
                          : node->is_drained           ? LR_ERROR_out_of_service
                          : node->is_draining          ? LR_ERROR_shutting_down
                                                       : LR_ERROR_NONE;
    if (id != LR_ERROR_NONE)
        (void)lr_fail_holes(why_not, id, NULL, 0);
    return id == LR_ERROR_NONE;
}

struct router_prompt_info *router_nodes_info(const struct router_nodes *nodes,
                                             struct lr_str folded)
{
    for (size_t i = 0; i < nodes->count; i++) {
        const struct router_replica *replica = router_node_replica(nodes->all[i], folded);
        if (replica != NULL && replica->can_run && replica->info != NULL &&
            router_node_serves(nodes->all[i], NULL))
            return replica->info;
    }
    return NULL;
}

uint32_t router_nodes_requests(const struct router_nodes *nodes, struct lr_str folded)
{
    uint32_t requests = 0;
    for (size_t i = 0; i < nodes->count; i++) {
        const struct router_replica *replica = router_node_replica(nodes->all[i], folded);
        if (replica == NULL || !replica->can_run || !router_node_serves(nodes->all[i], NULL))
            continue;
        if (replica->requests == 0)
            return 0;
        requests |= replica->requests;
    }
    return requests;
}

/* ---- the database ---- */

lr_code router_node_save(struct router_sql *sql, const struct router_node *node,
                         struct lr_error *err)
{
    char secret[sizeof(ROUTER_SECRET_MARK) + LR_SHA256_HEX_LEN];
    (void)snprintf(secret, sizeof(secret), ROUTER_SECRET_MARK "%s", node->secret_hash);
    return ROUTER_SQL(sql,
                      "INSERT INTO nodes (id, name, url, secret, device, joined_ms, drained) "
                      "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id) DO UPDATE SET "
                      "name = excluded.name, url = excluded.url, secret = excluded.secret, "
                      "device = excluded.device, joined_ms = excluded.joined_ms, "
                      "drained = excluded.drained",
                      NULL, NULL, err, ROUTER_Z(node->id), ROUTER_Z(node->name),
                      ROUTER_Z(node->url), ROUTER_Z(secret), ROUTER_Z(node->device),
                      ROUTER_INT(node->joined_ms), ROUTER_INT(node->is_drained));
}

static lr_code nodes_load_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct router_nodes *nodes = ctx;
    struct router_node *node = router_nodes_find(nodes, router_row_text(row, 0));
    if (node == NULL)
        node = nodes_add_node(nodes, router_row_text(row, 0));
    if (node == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a node");
    LR_COPY(node->name, router_row_text(row, 1));
    LR_COPY(node->url, router_row_text(row, 2));
    router_secret_read(router_row_text(row, 3), node->secret_hash);
    LR_COPY(node->device, router_row_text(row, 4));
    node->joined_ms = router_row_int(row, 5);
    node->is_drained = router_row_int(row, 6) != 0;
    return LR_OK;
}

lr_code router_nodes_load(struct router_nodes *nodes, struct router_sql *sql,
                          struct lr_error *err)
{
    return router_sql_run(sql,
                          "SELECT id, name, url, secret, device, joined_ms, drained FROM nodes",
                          NULL, 0, nodes_load_row, nodes, err);
}
