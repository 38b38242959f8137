#include "router/fleet/sync.h"

#include <stdlib.h>

#include "router/sched/dispatch.h"
#include "router/state.h"

/* ---- writing nodes ---- */

/* A copy of what the database keeps, for its thread. */
struct saving {
    struct router *router;
    struct router_node copy;
};

lr_code router_node_write(struct router_sql *sql, const struct router_node *node,
                          struct lr_error *err)
{
    if (!router_node_is_removed(node))
        return router_node_save(sql, node, err);
    return ROUTER_SQL(sql, "DELETE FROM nodes WHERE id = $1", NULL, NULL, err,
                      ROUTER_Z(node->id));
}

static lr_code save_node(struct router_sql *sql, void *arg, struct lr_error *err)
{
    return router_node_write(sql, &((struct saving *)arg)->copy, err);
}

/* A failure was logged where it happened. */
static void saved(void *arg, const struct lr_error *err)
{
    struct saving *saving = arg;
    struct router *r = saving->router;
    router_lock(r);
    struct router_node *node = router_nodes_find_any(&r->nodes, lr_str_z(saving->copy.id));
    if (node != NULL) {
        router_node_end_write(node);
        node->is_unsaved = err != NULL;
    }
    router_unlock(r);
    free(saving);
}

void router_node_store(struct router *r, struct router_node *node)
{
    struct saving *saving = malloc(sizeof(*saving));
    if (saving == NULL) {
        node->is_unsaved = true;
        return;
    }
    *saving = (struct saving){.router = r, .copy = *node};
    lr_strmap_init(&saving->copy.replicas);
    router_node_begin_write(node);
    router_store_submit(r->store, save_node, NULL, saved, saving);
}

void router_nodes_store_again(struct router *r)
{
    char trouble[ROUTER_TROUBLE];
    bool is_in_trouble = router_store_trouble(r->store, trouble);
    for (size_t i = 0; i < r->nodes.count; i++) {
        struct router_node *node = r->nodes.all[i];
        if (!node->is_unsaved || node->writes != 0)
            continue;
        router_node_store(r, node);
        if (is_in_trouble)
            return;
    }
}

/* ---- reading what other routers have changed ---- */

enum { ROUTER_ALIVE_MS = 10000 };

/* The clocks of two routers may differ by any time, the database has one.  Only PostgreSQL is
 * shared, so this is its own language. */
#define DATABASE_MS "CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000 AS BIGINT)"

static void merge_keys(struct router *r, const struct router_keys *read)
{
    for (size_t i = 0; i < read->count; i++) {
        const struct router_key *key = read->all[i];
        struct router_key *known = router_keys_find(&r->keys, lr_str_z(key->id));
        if (known != NULL) {
            known->revoked_ms = key->revoked_ms;
            known->joins = key->joins;
            router_key_apply(known, &(struct router_key_change){.given = ~0U, .to = *key});
        } else if (router_keys_add(&r->keys, key, NULL) != LR_OK) {
            return; /* without memory: the next reading tries again */
        }
    }
}

static void drop_model(struct router *r, struct router_model *model)
{
    router_sched_delete(&r->sched, &model->schedule);
    router_registry_remove(&r->registry, model);
}

/* A model that was deleted and registered again since the last reading is another one, though
 * its name is the same. */
static void merge_models(struct router *r, const struct router_registry *read)
{
    struct lr_str key;
    void *value;
    for (size_t i = 0; lr_strmap_at(&read->models, i, &key, &value); i++) {
        const struct router_model *m = value;
        struct router_model *added;
        struct router_new_model model = {
            .id = lr_str_z(m->id),
            .source = lr_str_z(m->source),
            .format = lr_str_z(m->format),
            .manifest = lr_str_z(m->manifest),
            .chat_template = lr_str_z(m->chat_template),
            .path = lr_str_z(m->path),
            .created_ms = m->created_ms,
            .generation = m->generation,
        };
        struct router_model *known = router_registry_find(&r->registry, key);
        if (known != NULL && known->is_stored && known->generation != m->generation)
            drop_model(r, known);
        if (router_registry_find(&r->registry, key) == NULL &&
            router_registry_add(&r->registry, &model, &added, NULL) == LR_OK)
            added->is_stored = true;
    }
    for (size_t i = 0; lr_strmap_at(&r->registry.models, i, &key, &value);) {
        struct router_model *model = value;
        if (!model->is_stored || lr_strmap_has(&read->models, key)) {
            i++;
            continue;
        }
        drop_model(r, model); /* the last one moves to place i */
    }
}

/* What we are about to write is newer than what was read. */
static void merge_nodes(struct router *r, const struct router_nodes *read)
{
    for (size_t i = 0; i < read->count; i++) {
        const struct router_node *node = read->all[i];
        struct router_node *known = router_nodes_know(&r->nodes, node);
        if (known == NULL || known->writes != 0)
            continue;
        known->is_drained = node->is_drained;
        known->is_stored = true;
    }
    for (size_t i = 0; i < r->nodes.count; i++) {
        struct router_node *known = r->nodes.all[i];
        if (!known->is_stored || known->writes != 0 ||
            router_nodes_find(read, lr_str_z(known->id)) != NULL)
            continue;
        router_node_remove(known);
        router_alerts_settle_node(&r->alerts, known);
    }
}

struct urls {
    char list[ROUTER_FLEET_MAX][300];
    size_t count;
};

static lr_code take_url(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct urls *urls = ctx;
    (void)err;
    if (urls->count < ROUTER_FLEET_MAX) {
        LR_COPY(urls->list[urls->count], router_row_text(row, 0));
        urls->count++;
    }
    return LR_OK;
}

static lr_code read_fleet(struct router *r, struct router_sql *sql, struct urls *urls,
                          struct lr_error *err)
{
    char own[300];
    router_url(r, own);
    lr_code code = ROUTER_SQL(sql,
                              "INSERT INTO routers (url, seen_ms) VALUES ($1, " DATABASE_MS
                              ") ON CONFLICT (url) DO UPDATE SET seen_ms = excluded.seen_ms",
                              NULL, NULL, err, ROUTER_Z(own));
    if (code == LR_OK)
        code = ROUTER_SQL(
            sql, "SELECT url FROM routers WHERE seen_ms >= " DATABASE_MS " - $1 ORDER BY url",
            take_url, urls, err, ROUTER_INT(ROUTER_ALIVE_MS));
    return code;
}

void router_sync(void *arg, struct router_sql *sql)
{
    struct router *r = arg;
    struct router_keys keys;
    struct router_registry registry;
    struct router_nodes nodes;
    struct urls urls = {0};
    struct lr_error err;
    router_keys_init(&keys);
    router_registry_init(&registry);
    router_nodes_init(&nodes);
    lr_code code = router_keys_load(&keys, sql, &err);
    if (code == LR_OK)
        code = router_registry_load(&registry, sql, &err);
    if (code == LR_OK)
        code = router_nodes_load(&nodes, sql, &err);
    if (code == LR_OK)
        code = read_fleet(r, sql, &urls, &err);
    router_store_note(r->store, code == LR_OK ? NULL : &err);
    if (code == LR_OK) {
        router_lock(r);
        merge_keys(r, &keys);
        merge_models(r, &registry);
        merge_nodes(r, &nodes);
        memcpy(r->fleet, urls.list, sizeof(r->fleet));
        r->fleet_count = urls.count;
        atomic_store(&r->routers, urls.count != 0 ? (uint32_t)urls.count : 1);
        router_unlock(r);
    } else {
        lr_log_warn(NULL, "store.not_read reason=%s", err.text);
    }
    router_keys_free(&keys);
    router_registry_free(&registry);
    router_nodes_free(&nodes);
}
