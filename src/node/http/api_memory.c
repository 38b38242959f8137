/* node/http/api_memory.c - GET /v0/memory: every byte, by whom, and what a load would evict. */
#include "node/http/api.h"

enum { BODY_BYTES = 4 << 20 };

static void put_pool(struct lr_json_writer *w, const struct node *node, uint32_t index)
{
    static const char *const kinds[] = {"idle", "busy", "pinned"};
    static struct node_room room;
    const struct node_pool *pool = &node->models.pools.pool[index];
    uint64_t reserved = 0, reclaimable = 0;
    node_plan_room(&node->models, index, 0, &room);
    for (size_t i = 0; i < room.count; i++) {
        reserved += room.claims[i].bytes;
        reclaimable += room.claims[i].reclaimable;
    }
    uint64_t capacity = node_ledger_capacity(&pool->state, room.claims, room.count);
    lr_json_begin_object(w);
    LR_JSON_MEMBERS(
        w, LR_TEXT("pool", pool->name), LR_TEXT("title", pool->title),
        LR_UINT("total", pool->state.total), LR_UINT("used", pool->state.used),
        LR_UINT("limit_percent", pool->state.limit_percent), LR_FLAG("over", pool->is_over),
        LR_UINT("foreign", node_ledger_foreign(&pool->state, room.claims, room.count)),
        LR_UINT("limit", node_ledger_limit(&pool->state)), LR_UINT("capacity", capacity),
        LR_UINT("reserved", reserved), LR_UINT("reclaimable", reclaimable),
        LR_UINT("free", capacity > reserved ? capacity - reserved : 0));
    lr_json_member_array(w, "claims");
    for (size_t i = 0; i < room.count; i++) {
        const struct node_claim *claim = &room.claims[i];
        const struct node_worker *owner = claim->owner;
        const struct lr_engine_stats *stats = &owner->stats;
        /* A worker that was never asked is idle since it was started. */
        uint64_t since =
            claim->last_used_ms > owner->started_ms ? claim->last_used_ms : owner->started_ms;
        LR_JSON_ITEM(
            w, LR_TEXT("model", owner->model->id),
            LR_INT("pid", owner->proc != NULL ? node_proc_pid(owner->proc) : 0),
            LR_TEXT("kind", kinds[claim->kind]), LR_UINT("reserved", claim->bytes),
            LR_UINT("measured", claim->measured), LR_UINT("weights", stats->weights_bytes),
            LR_UINT("kv", stats->kv_bytes), LR_UINT("kv_in_use", stats->kv_bytes_in_use),
            LR_UINT("kv_cached", stats->kv_bytes_cached), LR_UINT("kv_limit", owner->kv_limit),
            LR_UINT("reclaimable", claim->reclaimable),
            LR_UINT("workspace", stats->workspace_bytes), LR_UINT("fixed", stats->fixed_bytes),
            LR_UINT("idle_ms", node_now(&node->models) - since));
    }
    lr_json_end_array(w);
    if (index != NODE_POOL_RAM) {
        lr_json_member_object(w, "gpu");
        wire_gpu_write(w, &pool->health.gpu);
        lr_json_end_object(w);
    }
    lr_json_end_object(w);
}

/* What would go if this model were loaded now. */
static void put_plan(struct lr_json_writer *w, const struct node *node,
                     const struct node_model *m)
{
    static const char *const plans[] = {"fits", "reclaim", "evict", "wait", "never"};
    static struct node_room room;
    struct lr_error err;
    lr_json_member_z(w, "model", m->id);
    if (node_model_worker(m) != NULL) {
        lr_json_member_z(w, "plan", "loaded");
        return;
    }
    if (!m->has_need) {
        lr_json_member_z(w, "plan", "unknown until it is first asked for");
        return;
    }
    if (node_gpus_check(m, &err) != LR_OK) {
        lr_json_member_z(w, "plan", err.text);
        return;
    }
    node_plan_room(&node->models, node_pool_for(m, m->need.on_device != 0, m->need.total),
                   m->need.total, &room);
    lr_json_member_z(w, "plan", plans[room.plan]);
    lr_json_member_u64(w, "need", m->need.total);
    lr_json_member_u64(w, "available", room.available);
    lr_json_member_array(w, "evicts");
    for (size_t i = 0; i < room.count; i++)
        if (room.claims[i].is_victim)
            lr_json_put_z(w, room.claims[i].owner->model->id);
    lr_json_end_array(w);
}

lr_code node_api_memory(struct node *node, struct net_request *req, struct lr_error *err)
{
    struct net_json json;
    struct lr_str wanted;
    const struct node_model *m = NULL;
    if (net_request_query_get(req, "model", &wanted)) {
        m = node_need_model(node, wanted, err);
        if (m == NULL)
            return err->code;
    }
    node_measure(&node->models);
    struct lr_json_writer *w = net_json_begin(&json, BODY_BYTES);
    lr_json_member_array(w, "pools");
    for (uint32_t i = 0; i < node->models.pools.count; i++)
        put_pool(w, node, i);
    lr_json_end_array(w);
    if (m != NULL) {
        lr_json_member_object(w, "load");
        put_plan(w, node, m);
        lr_json_end_object(w);
    }
    return net_json_send(&json, req, 200, err);
}
