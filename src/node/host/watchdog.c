/* node/host/watchdog.c - what time brings: workers without progress, memory under pressure,
 * models nobody uses.
 */
#include <inttypes.h>

#include "base/errors.h"
#include "base/log.h"
#include "node/models/models.h"

enum { OVERUSE_SLACK = 256 << 20 };

static void watch_worker(struct node_models *models, struct node_worker *w, uint64_t now)
{
    struct lr_error why;
    if (w->state == NODE_WORKER_CLOSING && now >= w->close_by_ms)
        node_worker_end(w);
    bool is_loading = w->state == NODE_WORKER_LOADING;
    uint64_t silent = now > w->progress_ms ? now - w->progress_ms : 0;
    uint64_t limit = is_loading ? models->limits.load_ms : models->limits.step_ms;
    bool has_work = is_loading || w->live_count != 0;
    if (node_worker_is_ending(w) || !has_work || silent < limit)
        return;
    (void)lr_fail_as(&why, engine_stuck, w->library->engine_id, silent,
                     is_loading ? "loading" : "running", w->model->id,
                     is_loading ? "load-timeout" : "step-timeout");
    lr_log_error(NULL, "watchdog.kill model=%s pid=%d silent_ms=%" PRIu64 " live=%u",
                 w->model->id, (int)node_proc_pid(w->proc), silent, w->live_count);
    LR_JSON_MEMBERS(net_bus_begin(models->events, "watchdog_kill"),
                    LR_TEXT("model", w->model->id), LR_UINT("silent_ms", silent));
    net_bus_send(models->events);
    models->count.watchdog_kills++;
    node_worker_kill(w, &why);
}

void node_workers_watch(struct node_models *models, uint64_t now_ms)
{
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        for (struct node_worker *w = m->workers; w != NULL; w = w->next)
            watch_worker(models, w, now_ms);
}

/* ---- memory ---- */

static void watchdog_measure(const struct node_models *models, struct node_worker *w)
{
    const struct lr_engine_stats *s = &w->stats;
    w->measured = node_pools_of_process(&models->pools, w->pool, node_proc_pid(w->proc));
    /* In a container NVML does not know our processes: without this, what they hold would count
     * twice, as theirs and as foreign. */
    if (w->measured != 0 || w->pool == NODE_POOL_RAM)
        return;
    uint64_t told = s->weights_bytes + s->kv_bytes + s->workspace_bytes + s->fixed_bytes;
    if (!node_worker_has_opened(w)) /* as far as the load has come */
        told =
            w->load_total != 0
                ? (uint64_t)((double)w->reserved * (double)w->load_done / (double)w->load_total)
                : 0;
    w->measured = told < w->reserved ? told : w->reserved;
}

void node_measure(struct node_models *models)
{
    uint64_t ours[NODE_POOLS_MAX] = {0};
    node_pools_read(&models->pools);
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        for (struct node_worker *w = m->workers; w != NULL; w = w->next) {
            watchdog_measure(models, w);
            ours[w->pool] += w->measured;
        }
    for (uint32_t i = 1; i < models->pools.count; i++)
        node_pool_hold(&models->pools.pool[i], ours[i]);
}

/* Over its allotment by more than the margin: it lied, or it leaks. */
static void check_overuse(struct node_models *models, struct node_worker *w)
{
    struct lr_error why;
    if (w != w->replica->worker || w->reserved == 0 ||
        (w->state != NODE_WORKER_READY && w->state != NODE_WORKER_LEAVING))
        return;
    uint64_t allowed =
        w->reserved + w->reserved / 100 * models->limits.overuse_percent + OVERUSE_SLACK;
    if (w->measured <= allowed)
        return;
    (void)lr_fail_as(&why, engine_overuse, w->measured, w->reserved);
    lr_log_error(NULL,
                 "memory.overuse model=%s pid=%d measured=%" PRIu64 " reserved=%" PRIu64
                 " allowed=%" PRIu64,
                 w->model->id, (int)node_proc_pid(w->proc), w->measured, w->reserved, allowed);
    node_worker_kill(w, &why);
}

static void alert(struct node_models *models, struct node_pool *pool, bool over)
{
    if (pool->is_over == over)
        return;
    pool->is_over = over;
    models->count.alerts += over;
    if (over)
        lr_log_warn(NULL,
                    "memory.alert pool=%s used=%" PRIu64 " total=%" PRIu64 " limit_percent=%u",
                    pool->name, pool->state.used, pool->state.total, pool->state.limit_percent);
    else
        lr_log_info(NULL, "memory.relieved pool=%s used=%" PRIu64 " total=%" PRIu64, pool->name,
                    pool->state.used, pool->state.total);
    LR_JSON_MEMBERS(net_bus_begin(models->events, over ? "memory_alert" : "memory_relieved"),
                    LR_TEXT("pool", pool->name), LR_UINT("used", pool->state.used),
                    LR_UINT("total", pool->state.total));
    net_bus_send(models->events);
}

/* One model a second: its memory must be back before the next look decides. */
static void relieve(struct node_models *models, uint32_t pool, uint64_t now)
{
    static struct node_room room;
    node_plan_room(models, pool, 0, &room);
    for (size_t i = 0; i < room.count; i++) {
        const struct node_worker *w = room.claims[i].owner;
        if (node_worker_is_ending(w))
            return; /* wait for what is already on its way */
        if (room.claims[i].kind == NODE_CLAIM_IDLE &&
            now - w->replica->ready_since_ms < models->limits.min_resident_ms)
            room.claims[i].kind = NODE_CLAIM_BUSY;
    }
    size_t i = node_ledger_pressure(&models->pools.pool[pool].state, room.claims, room.count);
    if (i == room.count)
        return;
    struct node_replica *replica = room.claims[i].owner->replica;
    models->count.evictions++;
    node_scale_gave(&replica->model->scale, now);
    node_replica_drain(replica, "memory is over its threshold");
}

void node_memory_watch(struct node_models *models, uint64_t now_ms)
{
    node_measure(models);
    for (struct node_model *m = models->first; m != NULL; m = m->next)
        for (struct node_worker *w = m->workers; w != NULL; w = w->next)
            check_overuse(models, w);
    for (uint32_t i = 0; i < models->pools.count; i++) {
        struct node_pool *pool = &models->pools.pool[i];
        bool over = node_ledger_over(&pool->state);
        alert(models, pool, over);
        if (over && pool->is_listed)
            (void)node_device_refresh(models); /* other programs may have left */
        /* Caches shrink before models go. */
        if (!node_kv_limit_watch(models, i) && over)
            relieve(models, i, now_ms);
    }
}

void node_idle_watch(struct node_models *models, uint64_t now_ms)
{
    uint64_t limit = models->limits.idle_unload_ms;
    for (struct node_model *m = models->first; limit != 0 && m != NULL; m = m->next)
        for (size_t i = 0; i < NODE_REPLICAS; i++) {
            struct node_replica *r = &m->replicas[i];
            if (r->state == NODE_REPLICA_READY && !m->is_pinned && r->candidate == NULL &&
                node_model_leases(m) == 0 && now_ms - m->last_used_ms >= limit &&
                now_ms - r->ready_since_ms >= limit)
                node_replica_drain(r, "it was not used for the time of setting idle-unload");
        }
}
