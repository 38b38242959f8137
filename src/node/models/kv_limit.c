#include "node/models/kv_limit.h"

#include <inttypes.h>

#include "base/log.h"
#include "node/models/models.h"
#include "wire/event.h"

static bool is_elastic(const struct node_worker *w)
{
    return w->need.kv_most != 0 && node_worker_has_opened(w) && !node_worker_is_ending(w);
}

static void set_limit(struct node_worker *w, uint64_t bytes)
{
    w->kv_limit = bytes;
    w->reserved = w->base - (w->need.kv < w->base ? w->need.kv : w->base) + bytes;
}

/* Tells the worker; a limit that was sent before is outdated. */
static void send_limit(struct node_worker *w, uint64_t bytes)
{
    struct node_models *models = w->models;
    w->kv_sent = bytes;
    w->awaits_kv = true;
    if (bytes > w->kv_limit)
        set_limit(w, bytes);
    lr_log_debug(NULL, "memory.kv_limit model=%s pid=%d bytes=%" PRIu64, w->model->id,
                 (int)node_proc_pid(w->proc), bytes);
    lr_buf_clear(&models->scratch);
    wire_u64_encode(&models->scratch, WIRE_LIMIT_KV, bytes);
    (void)node_proc_send(w->proc, lr_buf_str(&models->scratch));
}

void node_kv_limit_begin(struct node_worker *w)
{
    w->kv_limit = w->kv_sent = w->need.kv;
}

uint64_t node_kv_limit_reclaimable(const struct node_worker *w)
{
    const struct lr_engine_stats *s = &w->stats;
    if (!is_elastic(w) || s->kv_bytes == 0)
        return 0;
    uint64_t firm = s->kv_bytes - s->kv_bytes_reclaimable;
    return w->kv_limit > firm ? w->kv_limit - firm : 0;
}

/* More than three quarters of the limit are used, by requests or by cached prefixes. */
static bool wants_more(const struct node_worker *w)
{
    uint64_t used = w->stats.kv_bytes_in_use + w->stats.kv_bytes_cached;
    return is_elastic(w) && w->state == NODE_WORKER_READY && !w->awaits_kv &&
           w->kv_sent == w->kv_limit && w->kv_limit < w->need.kv_most &&
           used > w->kv_limit / 4 * 3;
}

void node_kv_limit_settle(struct node_worker *w, bool answered)
{
    if (!is_elastic(w))
        return;
    if (answered)
        w->awaits_kv = false;
    uint64_t held = w->stats.kv_bytes > w->kv_sent ? w->stats.kv_bytes : w->kv_sent;
    bool gives = !w->awaits_kv && held < w->kv_limit;
    if (gives)
        set_limit(w, held);
    if (gives || answered) /* also where it gave nothing: then another model must go */
        node_admit_waiting(w->models);
    else if (wants_more(w))
        (void)node_kv_limit_watch(w->models, w->pool);
}

bool node_kv_limit_reclaim(const struct node_room *room)
{
    bool is_awaited = false;
    for (size_t i = 0; i < room->count; i++) {
        struct node_worker *w = room->claims[i].owner;
        uint64_t gives = room->claims[i].gives;
        if (gives == 0)
            continue;
        uint64_t limit = w->kv_limit - gives;
        if (limit < w->kv_sent)
            send_limit(w, limit);
        is_awaited = is_awaited || w->awaits_kv;
    }
    return is_awaited;
}

/* Whether a model waits for memory of this pool: what is free there is the model's. */
static bool is_room_wanted(const struct node_models *models, uint32_t pool)
{
    for (const struct node_model *m = models->first; m != NULL; m = m->next)
        if ((m->wants_room && m->room_pool == pool) ||
            (m->wants_extra && m->extra_pool == pool))
            return true;
    return false;
}

/* By half of what it has, as far as `spare` goes.  Returns what is left of it. */
static uint64_t raise_limit(struct node_worker *w, uint64_t spare)
{
    enum { LEAST = 1 << 20 };
    uint64_t more = w->kv_limit / 2, most = w->need.kv_most - w->kv_limit;
    more = more < spare ? more : spare;
    more = more < most ? more : most;
    if (more < LEAST)
        return spare;
    send_limit(w, w->kv_limit + more);
    return spare - more;
}

bool node_kv_limit_watch(struct node_models *models, uint32_t pool)
{
    static struct node_room room;
    const struct node_pool_state *state = &models->pools.pool[pool].state;
    uint64_t held = 0;
    if (state->total == 0)
        return false;
    node_plan_room(models, pool, 0, &room);
    for (size_t i = 0; i < room.count; i++)
        held += room.claims[i].bytes;
    uint64_t capacity = node_ledger_capacity(state, room.claims, room.count);
    /* At the threshold itself the alert is given, and models go: a hundredth stays free.  A cap
     * may be used up. */
    uint64_t margin = capacity == state->cap ? 0 : state->total / 100;
    if (held > capacity) {
        node_plan_room(models, pool, margin, &room);
        return node_kv_limit_reclaim(&room);
    }
    uint64_t spare = capacity - held > margin ? capacity - held - margin : 0;
    for (size_t i = 0; i < room.count && !is_room_wanted(models, pool); i++)
        if (wants_more(room.claims[i].owner))
            spare = raise_limit(room.claims[i].owner, spare);
    return false;
}
