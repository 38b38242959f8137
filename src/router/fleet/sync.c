#include "router/fleet/sync.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "router/access/session.h"
#include "router/store/clock.h"

/* ---- writing nodes ---- */

struct saving {
    struct router_sync *sync;
    struct router_node copy; /* what the database shall keep, for its thread; no replicas */
    const char *change;      /* an operator's, in force once it is written.  NULL: none */
    router_store_done fn;    /* NULL: none */
    void *arg;
};

/* With the lock held.  NULL: no memory. */
static struct saving *sync_prepare(struct router_sync *sync, struct router_node *node)
{
    struct saving *saving = malloc(sizeof(*saving));
    if (saving == NULL)
        return NULL;
    *saving = (struct saving){.sync = sync, .copy = *node};
    lr_strmap_init(&saving->copy.replicas);
    router_node_begin_write(node);
    return saving;
}

static lr_code sync_write_node(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct router_node *node = &((struct saving *)arg)->copy;
    if (!router_node_is_removed(node))
        return router_node_save(sql, node, err);
    return ROUTER_SQL(sql, "DELETE FROM nodes WHERE id = $1", NULL, NULL, err,
                      ROUTER_Z(node->id));
}

static void apply(struct saving *saving, struct router_node *node)
{
    struct router_sync *sync = saving->sync;
    if (router_node_is_removed(&saving->copy)) {
        router_node_remove(node);
        router_alerts_settle_node(sync->alerts, node);
    } else {
        node->is_drained = saving->copy.is_drained;
        router_pump_all(sync->dispatch);
    }
    router_alerts_tell(sync->alerts, node, saving->change);
    /* It has joined meanwhile, and was written down as it was before. */
    if (node->joined_ms != saving->copy.joined_ms)
        router_node_store(sync, node);
}

/* A failure was logged where it happened. */
static void written(void *arg, const struct lr_error *err)
{
    struct saving *saving = arg;
    struct router_sync *sync = saving->sync;
    (void)pthread_mutex_lock(sync->lock);
    struct router_node *node = router_nodes_find_any(sync->nodes, lr_str_z(saving->copy.id));
    router_node_end_write(node);
    if (saving->change == NULL)
        node->is_unsaved = err != NULL;
    else if (err == NULL)
        apply(saving, node);
    (void)pthread_mutex_unlock(sync->lock);
    if (saving->fn != NULL)
        saving->fn(saving->arg, err);
    free(saving);
}

void router_node_store(struct router_sync *sync, struct router_node *node)
{
    struct saving *saving = sync_prepare(sync, node);
    if (saving != NULL)
        router_store_submit(sync->store, sync_write_node, NULL, written, saving);
    else
        node->is_unsaved = true;
}

lr_code router_node_change(struct router_sync *sync, struct lr_str id,
                           enum router_node_change change, const struct router_actor *by,
                           struct net_loop *loop, router_store_done fn, void *arg,
                           struct lr_error *err)
{
    static const char *const names[] = {"node.drain", "node.undrain", "node.delete"};
    struct router_change values = {0};
    (void)pthread_mutex_lock(sync->lock);
    struct router_node *node = router_nodes_find(sync->nodes, id);
    struct saving *saving = node != NULL ? sync_prepare(sync, node) : NULL;
    (void)pthread_mutex_unlock(sync->lock);
    if (node == NULL)
        return lr_fail_as(err, no_node, id);
    if (saving == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for a change of a node");
    if (change == ROUTER_REMOVE_NODE)
        router_node_move(&saving->copy, ROUTER_NODE_REMOVED);
    if (change == ROUTER_REMOVE_NODE) {
        router_change_text(&values, "name", saving->copy.name, NULL);
        router_change_text(&values, "url", saving->copy.url, NULL);
    } else {
        router_change_flag(&values, "drained", saving->copy.is_drained,
                           change == ROUTER_DRAIN_NODE);
    }
    saving->copy.is_drained = change == ROUTER_DRAIN_NODE;
    saving->change = names[change];
    saving->fn = fn;
    saving->arg = arg;
    struct router_action action = {names[change], saving->copy.id, "", &values, *by};
    router_store_act(sync->store, &action, sync_write_node, loop, written, saving);
    return LR_OK;
}

void router_sync_second(struct router_sync *sync)
{
    char trouble[ROUTER_TROUBLE];
    bool is_in_trouble = router_store_trouble(sync->store, trouble), has_tried = false;
    (void)pthread_mutex_lock(sync->lock);
    for (size_t i = 0; i < sync->nodes->count && !(is_in_trouble && has_tried); i++) {
        struct router_node *node = sync->nodes->all[i];
        if (!node->is_unsaved || node->writes != 0)
            continue;
        router_node_store(sync, node);
        has_tried = true;
    }
    bool lacks_month = router_keys_lack_month(sync->keys, lr_clock_wall_ms(&router_clock));
    (void)pthread_mutex_unlock(sync->lock);
    if (lacks_month)
        router_store_look(sync->store);
}

/* ---- writing registrations ---- */

static void announce(struct router_sync *sync, const struct router_model *model,
                     const char *event)
{
    struct net_bus *bus = sync->alerts->events;
    lr_json_member_z(net_bus_begin(bus, event), "model", model->id);
    net_bus_send(bus);
}

static void drop_model(struct router_sync *sync, struct router_model *model)
{
    router_sched_delete(&sync->dispatch->sched, &model->schedule);
    router_registry_remove(sync->registry, model);
}

void router_unregister(struct router_sync *sync, struct lr_str id)
{
    struct router_model *model = router_registry_find(sync->registry, id);
    if (model == NULL)
        return;
    announce(sync, model, "model.deleted");
    drop_model(sync, model);
}

struct adding {
    struct router_sync *sync;
    struct router_model *model; /* reference */
    int64_t generation;         /* once it is stored */
    router_store_done fn;
    void *arg;
};

static lr_code sync_insert(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct adding *a = arg;
    return router_model_insert(sql, a->model, &a->generation, err);
}

static void inserted(void *arg, const struct lr_error *err)
{
    struct adding *a = arg;
    struct router_sync *sync = a->sync;
    (void)pthread_mutex_lock(sync->lock);
    a->model->is_stored = err == NULL;
    a->model->generation = err == NULL ? a->generation : 0;
    if (err == NULL)
        announce(sync, a->model, "model.registered");
    else
        router_registry_remove(sync->registry, a->model);
    router_model_unref(a->model);
    (void)pthread_mutex_unlock(sync->lock);
    if (err == NULL)
        router_reach_tell(sync->reach);
    if (a->fn != NULL)
        a->fn(a->arg, err);
    free(a);
}

static void sync_describe(struct router_change *out, const char *name, const char *value,
                          bool is_added)
{
    if (value[0] != '\0')
        router_change_text(out, name, is_added ? NULL : value, is_added ? value : NULL);
}

void router_describe_model(const struct router_model *model, bool is_added,
                           struct router_change *out)
{
    *out = (struct router_change){0};
    sync_describe(out, "source", model->source, is_added);
    sync_describe(out, "format", model->format, is_added);
    sync_describe(out, "path", model->path, is_added);
    sync_describe(out, "dialect", model->dialect, is_added);
    if (model->aliases[0] != '\0')
        router_change_words(out, "aliases", is_added ? NULL : model->aliases,
                            is_added ? model->aliases : NULL);
}

void router_register(struct router_sync *sync, const struct router_new_model *model,
                     const struct router_actor *by, struct net_loop *loop, router_store_done fn,
                     void *arg)
{
    struct lr_error err;
    struct router_change change;
    struct adding *a = calloc(1, sizeof(*a));
    lr_code code =
        a != NULL ? LR_OK : lr_fail(&err, LR_OUT_OF_RAM, "no memory for a registration");
    if (code == LR_OK) {
        *a = (struct adding){.sync = sync, .fn = fn, .arg = arg};
        (void)pthread_mutex_lock(sync->lock);
        code = router_registry_add(sync->registry, model, &a->model, &err);
        if (code == LR_OK) {
            (void)router_model_ref(a->model);
            router_describe_model(a->model, true, &change);
        }
        (void)pthread_mutex_unlock(sync->lock);
    }
    if (code != LR_OK) {
        free(a);
        if (fn != NULL)
            fn(arg, &err);
        return;
    }
    struct router_action action = {"model.register", a->model->id, a->model->source,
                                   .change = &change};
    if (by != NULL)
        action.by = *by;
    router_store_act(sync->store, by != NULL ? &action : NULL, sync_insert, loop, inserted, a);
}

/* ---- reading what other routers have changed ---- */

static void merge_keys(struct router_keys *keys, const struct router_keys *read)
{
    for (size_t i = 0; i < read->count; i++) {
        const struct router_key *key = read->all[i];
        struct router_key *known = router_keys_find(keys, lr_str_z(key->id));
        if (known != NULL) {
            router_keys_merge(keys, known, key);
        } else if (router_keys_add(keys, key, NULL) != LR_OK) {
            return; /* without memory: the next reading tries again */
        }
    }
    for (size_t i = 0; i < keys->count; i++)
        router_budget_keep(&keys->all[i]->month, read->month);
}

/* A model that was deleted and registered again since the last reading is another one, though
 * its name is the same. */
static void merge_models(struct router_sync *sync, const struct router_registry *read)
{
    struct router_model *model;
    for (size_t i = 0; (model = router_registry_at(read, i)) != NULL; i++) {
        struct router_model *known = router_registry_find(sync->registry, lr_str_z(model->id));
        bool is_other =
            known != NULL && known->is_stored && known->generation != model->generation;
        if (is_other)
            drop_model(sync, known);
        if (known == NULL || is_other)
            (void)router_registry_put(sync->registry, model); /* else with the next reading */
        else if (known->is_stored && strcmp(known->aliases, model->aliases) != 0)
            (void)router_registry_set_aliases(sync->registry, known, lr_str_z(model->aliases));
    }
    for (size_t i = 0; (model = router_registry_at(sync->registry, i)) != NULL;) {
        if (!model->is_stored || router_registry_find(read, lr_str_z(model->id)) != NULL)
            i++;
        else
            drop_model(sync, model); /* the last one moves to place i */
    }
}

/* What we are about to write is newer than what was read. */
static void merge_nodes(struct router_sync *sync, const struct router_nodes *read)
{
    for (size_t i = 0; i < read->count; i++) {
        const struct router_node *node = read->all[i];
        struct router_node *known = router_nodes_know(sync->nodes, node);
        if (known == NULL || known->writes != 0)
            continue;
        known->is_drained = node->is_drained;
        known->is_stored = true;
    }
    struct router_node *known;
    for (size_t at = 0; (known = router_nodes_next(sync->nodes, &at)) != NULL;) {
        if (!known->is_stored || known->writes != 0 ||
            router_nodes_find(read, lr_str_z(known->id)) != NULL)
            continue;
        router_node_remove(known);
        router_alerts_settle_node(sync->alerts, known);
    }
}

/* Nodes send heartbeats to the routers that are alive. */
static void merge_peers(struct router_sync *sync, const struct router_peers *read)
{
    sync->peers = *read;
    sync->peers_ms = lr_clock_ms(NULL);
    sync->url_count = 0;
    for (size_t i = 0; i < read->count && sync->url_count < ROUTER_FLEET_MAX; i++)
        if (router_peer_is_alive(&read->all[i])) {
            LR_COPY(sync->urls[sync->url_count], lr_str_z(read->all[i].url));
            sync->url_count++;
        }
    sync->keys->routers = sync->url_count != 0 ? (uint32_t)sync->url_count : 1;
}

void router_sync_usage(void *arg, const struct router_usage *rows, size_t count)
{
    struct router_sync *sync = arg;
    (void)pthread_mutex_lock(sync->lock);
    for (size_t i = 0; i < count; i++) {
        struct router_key *key = router_keys_find(sync->keys, lr_str_z(rows[i].key_id));
        if (key != NULL)
            router_budget_written(&key->month, rows[i].time_ms,
                                  (int64_t)(rows[i].prompt_tokens + rows[i].completion_tokens));
    }
    (void)pthread_mutex_unlock(sync->lock);
}

void router_sync(void *arg, struct router_sql *sql)
{
    struct router_sync *sync = arg;
    struct router_keys keys;
    struct router_registry registry;
    struct router_nodes nodes;
    struct router_silences silences = {0};
    struct router_peers peers = {0};
    struct router_session_row *rows = malloc(ROUTER_SESSIONS_MAX * sizeof(*rows));
    struct lr_strmap sessions;
    struct lr_error err;
    lr_strmap_init(&sessions);
    router_keys_init(&keys);
    router_registry_init(&registry);
    router_nodes_init(&nodes);
    lr_code code = rows != NULL ? router_keys_load(&keys, sql, &err)
                                : lr_fail(&err, LR_OUT_OF_RAM, "no memory for sessions");
    if (code == LR_OK)
        code = router_keys_load_month(&keys, sql, lr_clock_wall_ms(&router_clock), &err);
    if (code == LR_OK)
        code = router_registry_load(&registry, sql, &err);
    if (code == LR_OK)
        code = router_nodes_load(&nodes, sql, &err);
    if (code == LR_OK)
        code = router_silences_load(&silences, sql, lr_clock_wall_ms(&router_clock), &err);
    if (code == LR_OK)
        code = router_sessions_read(sql, rows, &sessions, &err);
    bool is_shared = router_store_is_shared(sync->store);
    (void)pthread_mutex_lock(sync->lock);
    struct router_load load = sync->load;
    (void)pthread_mutex_unlock(sync->lock);
    if (code == LR_OK && is_shared)
        code = router_peers_exchange(sql, sync->own_url, sync->version, &load, &peers, &err);
    router_store_note(sync->store, code == LR_OK ? NULL : &err);
    (void)pthread_mutex_lock(sync->lock);
    if (code == LR_OK) {
        merge_keys(sync->keys, &keys);
        merge_models(sync, &registry);
        merge_nodes(sync, &nodes);
        sync->alerts->silences = silences;
        router_sessions_merge(sync->sessions, sync->keys, &sessions,
                              lr_clock_wall_ms(&router_clock));
    }
    if (code == LR_OK && is_shared)
        merge_peers(sync, &peers);
    router_registry_free(&registry); /* new models are in the router's registry, too */
    (void)pthread_mutex_unlock(sync->lock);
    if (code != LR_OK)
        lr_log_warn(LR_LOG_OF(&err), "store.not_read reason=%s", err.text);
    router_keys_free(&keys);
    router_nodes_free(&nodes);
    lr_strmap_free(&sessions);
    free(rows);
}
