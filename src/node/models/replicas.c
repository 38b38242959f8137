/* node/models/replicas.c - all replicas of a model: which one gets the next request, and how
 * many there are.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/errors.h"
#include "base/log.h"
#include "base/settings.h"
#include "node/models/models.h"

/* Before anything was measured: a slow GPU. */
enum { PREFILL_US = 500, STEP_US = 20000 };

/* A full replica means waiting for another answer to end: a short answer's steps. */
enum { FULL_STEPS = 64 };

/* Sent beyond the slots, so that a slot that becomes free is used at once. */
enum { SLOTS_BEYOND = 2, SLOTS_UNKNOWN = 62 };

enum { BYTES_PER_TOKEN = 4, DECODE_BYTES = 128 << 20 };

lr_code node_replicas_parse(struct lr_str text, uint32_t *out, struct lr_error *err)
{
    uint64_t count = NODE_REPLICAS_AUTO;
    if (!lr_str_eq_z(text, "auto") &&
        (!lr_str_u64(text, &count) || count < 1 || count > NODE_REPLICAS))
        return lr_fail_as(err, replicas_number, NODE_REPLICAS, text);
    *out = (uint32_t)count;
    return LR_OK;
}

static bool serves(const struct node_replica *r)
{
    return r->state == NODE_REPLICA_READY && r->worker->state == NODE_WORKER_READY;
}

uint32_t node_replicas_ready(const struct node_model *model)
{
    uint32_t count = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        count += serves(&model->replicas[i]);
    return count;
}

uint32_t node_replicas_slots(const struct node_model *model)
{
    uint32_t slots = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        if (serves(&model->replicas[i]))
            slots += model->replicas[i].worker->need.max_sequences;
    return slots;
}

uint32_t node_replicas_load(const struct node_model *model)
{
    uint32_t load = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        if (serves(&model->replicas[i]))
            load += node_worker_load(model->replicas[i].worker);
    return load;
}

bool node_replica_is_extra(const struct node_replica *replica)
{
    for (size_t i = 0; i < NODE_REPLICAS; i++) {
        const struct node_replica *other = &replica->model->replicas[i];
        if (other != replica && serves(other) && !other->is_yielding)
            return true;
    }
    return false;
}

/* What the operator set; NODE_REPLICAS_AUTO: the traffic decides. */
static uint32_t setting(const struct node_model *m)
{
    return m->has_own_replicas ? m->own_replicas : m->models->replicas;
}

/* Replicas that the devices could hold. */
static uint32_t places(const struct node_model *m)
{
    const struct node_pools *pools = &m->models->pools;
    uint32_t count = 0;
    if (m->need.on_device == 0 || pools->count == 1)
        return 1;
    for (uint32_t i = 1; i < pools->count; i++)
        if (node_pool_takes(m, i))
            count += pools->pool[i].copies;
    return count;
}

/* ---- the choice of a replica ---- */

/* A replica that must make room serves what came before the request that needs it, and
 * what already waited when it was loaded; the rest waits for the next turn. */
bool node_replica_may_serve(const struct node_replica *replica,
                            const struct node_generation *request)
{
    if (!replica->is_yielding)
        return true;
    uint64_t until = replica->serve_until_seq;
    for (const struct node_model *m = replica->model->models->first; m != NULL; m = m->next)
        if (m->wants_room && m->wants_room_seq > until)
            until = m->wants_room_seq;
    return request->seq <= until;
}

/* Whether a cohort that goes in by itself is on probation in the worker. */
static bool has_other_cohort(const struct node_worker *worker, uint32_t cohort)
{
    for (const struct node_generation *g = worker->live; g != NULL; g = g->next)
        if (g->attempt.probation != 0 && g->ask.cohort != WIRE_COHORT_TOGETHER &&
            g->ask.cohort != cohort)
            return true;
    return false;
}

/* The rules of node/workers/blame.h. */
static bool may_enter(const struct node_generation *g, const struct node_worker *worker,
                      bool suspect_waits)
{
    switch (g->ask.entry) {
    case WIRE_ENTRY_NEW:
        return !suspect_waits && worker->suspect_count == 0;
    case WIRE_ENTRY_SUSPECT:
        return worker->newcomer_count == 0;
    case WIRE_ENTRY_COHORT:
        return g->ask.cohort == WIRE_COHORT_TOGETHER ||
               !has_other_cohort(worker, g->ask.cohort);
    default:
        return true;
    }
}

static bool replicas_has_room(const struct node_replica *r, uint32_t beyond)
{
    uint32_t slots = r->worker->need.max_sequences;
    return node_worker_load(r->worker) < (slots != 0 ? slots : SLOTS_UNKNOWN) + beyond;
}

/* The hashes of the prompt's prefixes, made once; NULL: there is nothing to choose by. */
static const struct prefix_hashes *prefixes_of(struct node_generation *g)
{
    struct node_models *models = g->model->models;
    struct wire_generate ask;
    struct lr_arena arena;
    if (g->prefixes != NULL || g->frame == NULL)
        return g->prefixes;
    g->prefixes = calloc(1, sizeof(*g->prefixes));
    if (models->prefixes.noted == NULL)
        prefix_index_init(&models->prefixes);
    lr_arena_init(&arena, DECODE_BYTES);
    struct lr_str body = lr_str_sub(lr_str(g->frame, g->frame_len), WIRE_HEADER_LEN, SIZE_MAX);
    if (g->prefixes != NULL && wire_submit_decode(&arena, body, &ask, NULL) == LR_OK) {
        struct chat_prompt prompt = {.segments = ask.segments,
                                     .segment_count = ask.segment_count,
                                     .ids = ask.prompt_id_count != 0 ? ask.prompt_ids : NULL,
                                     .id_count = ask.prompt_id_count};
        for (size_t i = 0; i < ask.segment_count; i++)
            prompt.bytes += ask.segments[i].len;
        prefix_hashes_make(g->prefixes, lr_str_z(g->model->id), ask.cache_scope, &prompt);
    }
    lr_arena_free(&arena);
    return g->prefixes;
}

/* Estimated microseconds until the request has its first token there. */
static double cost_of(const struct node_replica *r, const struct prefix_hashes *prefixes)
{
    const struct node_model *model = r->model;
    double step = model->step_us != 0 ? (double)model->step_us : STEP_US;
    double prefill = model->prefill_us != 0 ? (double)model->prefill_us : PREFILL_US;
    uint32_t load = node_worker_load(r->worker), slots = r->worker->need.max_sequences;
    double cost = load * step;
    if (slots != 0 && load >= slots)
        cost += FULL_STEPS * step;
    if (prefixes == NULL || !model->is_caching)
        return cost;
    double cached = prefix_index_share(&model->models->prefixes, r->worker, prefixes);
    double tokens = (double)prefixes->total_bytes / BYTES_PER_TOKEN;
    return cost + (1 - cached) * tokens * prefill;
}

/* Replicas with room for one more request; 0: nothing can be sent. */
static size_t list_open(struct node_model *model, uint32_t beyond,
                        struct node_replica *out[NODE_REPLICAS])
{
    size_t count = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        if (serves(&model->replicas[i]) && replicas_has_room(&model->replicas[i], beyond))
            out[count++] = &model->replicas[i];
    return count;
}

struct pair {
    struct node_generation *request;
    struct node_replica *replica;
};

/* The first of these in the queue that may go into a worker now, and the best of the workers.
 */
static bool find_pair(struct node_model *model, bool begun, uint32_t beyond, struct pair *out)
{
    struct node_replica *open[NODE_REPLICAS];
    size_t count = list_open(model, beyond, open);
    bool suspect_waits = false, is_served = count != 0;
    for (struct node_generation *g = model->queue; g != NULL && is_served; g = g->next) {
        double least = 0;
        *out = (struct pair){.request = g};
        if ((node_generation_given(g) != 0) != begun) {
            suspect_waits = suspect_waits || g->ask.entry == WIRE_ENTRY_SUSPECT;
            continue;
        }
        is_served = false;
        const struct prefix_hashes *prefixes = count > 1 ? prefixes_of(g) : NULL;
        for (size_t i = 0; i < count; i++) {
            if (!node_replica_may_serve(open[i], g))
                continue;
            is_served = true;
            double cost = cost_of(open[i], prefixes);
            if (may_enter(g, open[i]->worker, suspect_waits) &&
                (out->replica == NULL || cost < least)) {
                out->replica = open[i];
                least = cost;
            }
        }
        if (out->replica != NULL)
            return true;
        suspect_waits = suspect_waits || g->ask.entry == WIRE_ENTRY_SUSPECT;
    }
    return false;
}

/* What goes beyond the slots waits for the end of another answer.  An answer that has begun and
 * lost its worker therefore goes to a free slot only, here or in the worker that comes back; it
 * is the first to get one, and meanwhile nothing goes beyond the slots to get it before. */
static bool next_pair(struct node_model *model, struct pair *out)
{
    bool has_begun = false;
    if (find_pair(model, true, 0, out))
        return true;
    for (const struct node_generation *g = model->queue; g != NULL && !has_begun; g = g->next)
        has_begun = node_generation_given(g) != 0;
    return find_pair(model, false, has_begun ? 0 : SLOTS_BEYOND, out);
}

/* Whether the replica of a later request may be another one than that of this request: there
 * are several replicas, or there may be. */
static bool has_choice_later(const struct node_model *model)
{
    uint32_t count = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        count += model->replicas[i].state != NODE_REPLICA_EMPTY;
    return count > 1 || (setting(model) != 1 && places(model) > 1);
}

/* Also where one replica alone is open now: the next turn of the conversation may have the
 * choice, and this replica has the prefix. */
static void note_prefixes(struct node_generation *g, const struct node_worker *worker)
{
    const struct prefix_hashes *prefixes = has_choice_later(g->model) ? prefixes_of(g) : NULL;
    if (prefixes != NULL)
        prefix_index_note(&g->model->models->prefixes, worker, prefixes);
}

void node_replicas_dispatch(struct node_model *model)
{
    struct pair next;
    while (model->queue != NULL && next_pair(model, &next)) {
        struct node_worker *worker = next.replica->worker;
        note_prefixes(next.request, worker);
        node_generation_submit(next.request, worker);
    }
}

/* ---- how many ---- */

static uint32_t count_in(const struct node_model *m, enum node_replica_state state)
{
    uint32_t count = 0;
    for (size_t i = 0; i < NODE_REPLICAS; i++)
        count += m->replicas[i].state == state && !m->replicas[i].is_yielding;
    return count;
}

static uint32_t wanted(struct node_model *m, uint64_t now)
{
    uint32_t fixed = setting(m);
    uint32_t most = places(m) < NODE_REPLICAS ? places(m) : NODE_REPLICAS;
    if (fixed != NODE_REPLICAS_AUTO)
        return fixed < most ? fixed : most;
    struct node_scale_view view = {
        .ready = count_in(m, NODE_REPLICA_READY),
        .slots = node_replicas_slots(m),
        .load = node_replicas_load(m) + m->queue_count,
    };
    view.has_room = view.load >= view.slots && 1 + m->scale.extra < most &&
                    node_pool_for_extra(m) != NODE_POOL_NONE;
    node_scale_look(&m->scale, &view, now);
    return 1 + m->scale.extra < most ? 1 + m->scale.extra : most;
}

/* ---- why there are fewer ---- */

/* Why the devices hold no more replicas, however much memory they have. */
static void explain_places(const struct node_model *m, char why[NODE_REASON_MAX])
{
    const struct node_pools *pools = &m->models->pools;
    uint32_t gpus = pools->count - 1, faulty = 0, refused = 0, most = places(m);
    bool has_parts = false;
    for (uint32_t i = 1; i < pools->count; i++) {
        bool is_faulty = node_health_is_faulty(&pools->pool[i].health);
        faulty += is_faulty;
        refused += !is_faulty && !node_pool_takes(m, i);
        has_parts = has_parts || pools->pool[i].is_part;
    }
    const char *name = has_parts ? "GPUs and parts of GPUs" : gpus == 1 ? "GPU" : "GPUs";
    if (gpus == 0)
        (void)snprintf(why, NODE_REASON_MAX, "%s",
                       m->models->devices.is_cpu ? "a CPU node runs one replica"
                                                 : "the node has 1 GPU");
    else if (m->need.on_device == 0)
        (void)snprintf(why, NODE_REASON_MAX, "a model on the CPU runs one replica");
    else if (faulty != 0)
        (void)snprintf(why, NODE_REASON_MAX, "the node has %u %s, and %u of them %s faulty",
                       gpus, name, faulty, faulty == 1 ? "is" : "are");
    else if (refused != 0)
        (void)snprintf(why, NODE_REASON_MAX,
                       "the node has %u %s, and the engine cannot use %u of them", gpus, name,
                       refused);
    else if (most != gpus)
        (void)snprintf(why, NODE_REASON_MAX,
                       "the node has %u %s, for %u replicas of a model (setting gpus)", gpus,
                       name, most);
    else
        (void)snprintf(why, NODE_REASON_MAX, "the node has %u %s", gpus, name);
}

/* The model whose first replica waits for memory of this pool; NULL: none. */
static const struct node_model *first_waiting(const struct node_models *models, uint32_t pool)
{
    for (const struct node_model *m = models->first; m != NULL; m = m->next)
        if (m->wants_room && m->room_pool == pool)
            return m;
    return NULL;
}

/* Why node_pool_for_extra finds no device. */
static void explain_no_pool(const struct node_model *m, char why[NODE_REASON_MAX])
{
    const struct node_pools *pools = &m->models->pools;
    const struct node_model *awaited_by = NULL;
    bool is_memory_short = false;
    char size[32];
    for (uint32_t i = 1; i < pools->count; i++) {
        const struct node_model *waiting = first_waiting(m->models, i);
        uint32_t held = 0;
        for (size_t k = 0; k < NODE_REPLICAS; k++)
            held += m->replicas[k].state != NODE_REPLICA_EMPTY && m->replicas[k].pool == i;
        if (held >= pools->pool[i].copies || !node_pool_takes(m, i))
            continue;
        if (waiting != NULL)
            awaited_by = waiting;
        else
            is_memory_short = true;
    }
    lr_format_size(m->need.total, size);
    if (is_memory_short)
        (void)snprintf(why, NODE_REASON_MAX,
                       "no GPU that may hold one more replica has %s free", size);
    else if (awaited_by != NULL)
        (void)snprintf(why, NODE_REASON_MAX, "model \"%s\" waits for the memory",
                       awaited_by->id);
    else
        (void)snprintf(why, NODE_REASON_MAX, "a replica that is leaving still holds its GPU");
}

/* An empty reason: all wanted replicas are there or on their way. */
static void set_reason(struct node_model *m, const char *why)
{
    if (strcmp(m->replicas_reason, why) == 0)
        return;
    (void)snprintf(m->replicas_reason, sizeof(m->replicas_reason), "%s", why);
    if (why[0] != '\0')
        lr_log_warn(NULL, "replica.missing model=%s replicas=%u reason=%s", m->id,
                    node_replicas_ready(m), why);
}

/* ---- more, and fewer ---- */

/* why: gets the reason for which a replica does not come. */
static void replicas_grow(struct node_model *m, uint32_t missing, uint64_t now,
                          char why[NODE_REASON_MAX])
{
    static struct node_room room;
    struct lr_error err;
    for (size_t i = 0; missing != 0 && i < NODE_REPLICAS; i++) {
        struct node_replica *r = &m->replicas[i];
        if (r->state != NODE_REPLICA_EMPTY)
            continue;
        missing--; /* also one that waits for its next try */
        if (r->breaker.due_ms != 0 && !node_breaker_is_due(&r->breaker, now)) {
            (void)snprintf(why, NODE_REASON_MAX,
                           "a replica failed and waits for its next try: %s", m->lost_reason);
            continue;
        }
        uint32_t pool = node_pool_for_extra(m);
        if (pool == NODE_POOL_NONE) {
            explain_no_pool(m, why);
            return;
        }
        node_plan_room(m->models, pool, m->need.total, &room);
        if (room.plan != NODE_PLAN_FITS) {
            m->wants_extra = true; /* nobody takes meanwhile what others give back */
            m->extra_pool = pool;
            (void)node_kv_limit_reclaim(&room);
            (void)snprintf(why, NODE_REASON_MAX,
                           "a replica waits for KV memory that other models give back");
            return;
        }
        node_breaker_try(&r->breaker);
        if (node_replica_load(r, pool, &err) != LR_OK) {
            node_breaker_failed(&r->breaker, now);
            lr_log_warn(LR_LOG_OF(&err), "replica.not_started model=%s pool=%s reason=%s",
                        m->id, m->models->pools.pool[pool].name, err.text);
            (void)snprintf(m->lost_reason, sizeof(m->lost_reason), "%s", err.text);
            (void)snprintf(why, NODE_REASON_MAX,
                           "a replica failed and waits for its next try: %s", m->lost_reason);
            return;
        }
    }
}

void node_replicas_add(struct node_model *model)
{
    char why[NODE_REASON_MAX];
    replicas_grow(model, 1, node_now(model->models), why);
}

/* Removes the replica with the fewest running requests; a replica that still loads has none. */
static void shrink(struct node_model *m)
{
    struct node_replica *least = NULL;
    for (size_t i = 0; i < NODE_REPLICAS; i++) {
        struct node_replica *r = &m->replicas[i];
        bool may_go = (r->state == NODE_REPLICA_READY || r->state == NODE_REPLICA_LOADING) &&
                      !r->is_yielding && node_replica_is_extra(r);
        if (may_go &&
            (least == NULL || r->worker->live_count < least->worker->live_count ||
             (r->state == NODE_REPLICA_LOADING && least->state == NODE_REPLICA_READY)))
            least = r;
    }
    if (least != NULL)
        node_replica_drain(least, "fewer replicas are wanted");
}

static void replicas_watch(struct node_model *m, uint64_t now)
{
    char why[NODE_REASON_MAX] = "";
    m->wants_extra = false;
    if (m->state != NODE_MODEL_READY && m->state != NODE_MODEL_LOADING)
        m->scale = (struct node_scale){0};
    /* The first replica shows that the model can be loaded. */
    if (m->state != NODE_MODEL_READY || m->is_purging || !m->has_need ||
        m->registered_as[0] != '\0') {
        set_reason(m, "");
        return;
    }
    uint32_t want = wanted(m, now);
    if (setting(m) != NODE_REPLICAS_AUTO && setting(m) > want)
        explain_places(m, why);
    uint32_t have = count_in(m, NODE_REPLICA_READY) + count_in(m, NODE_REPLICA_LOADING);
    if (have < want)
        replicas_grow(m, want - have, now, why);
    set_reason(m, why);
    for (; have > want; have--)
        shrink(m);
}

void node_replicas_watch(struct node_models *models, uint64_t now_ms)
{
    for (struct node_model *m = models->first; !models->is_draining && m != NULL; m = m->next)
        replicas_watch(m, now_ms);
}
