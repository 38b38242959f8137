#include "router/observe/history.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/random.h"
#include "router/fleet/registry.h"
#include "router/store/clock.h"

enum { CHUNK_ROWS = 64 }; /* of one transaction: a change waits for no more than these */

struct series {
    char subject[160], place[96];
    int64_t figures[ROUTER_LEVELS][ROUTER_FIGURES];
};

void router_history_init(struct router_history *history)
{
    *history = (struct router_history){0};
    lr_random_base62(history->part, sizeof(history->part) - 1);
    for (size_t k = 0; k < ROUTER_HISTORY_KINDS; k++)
        lr_strmap_init(&history->series[k]);
}

void router_history_free(struct router_history *history)
{
    struct lr_str name;
    void *series;
    for (size_t k = 0; k < ROUTER_HISTORY_KINDS; k++) {
        for (size_t i = 0; lr_strmap_at(&history->series[k], i, &name, &series); i++)
            free(series);
        lr_strmap_free(&history->series[k]);
    }
}

/* NULL: no memory. */
static struct series *history_find(struct router_history *history,
                                   enum router_history_kind kind, const char *subject,
                                   const char *place)
{
    struct lr_strmap *map = &history->series[kind];
    char name[sizeof(((struct series *)0)->subject) + sizeof(((struct series *)0)->place)];
    size_t len = strnlen(subject, sizeof(((struct series *)0)->subject) - 1);
    memcpy(name, subject, len);
    name[len++] = '\n';
    size_t more = strnlen(place, sizeof(((struct series *)0)->place) - 1);
    memcpy(name + len, place, more);
    len += more;
    struct series *one = lr_strmap_get(map, lr_str(name, len));
    if (one != NULL)
        return one;
    bool is_other = strcmp(subject, "other") == 0 && place[0] == '\0';
    if (map->count >= ROUTER_HISTORY_SERIES && !is_other)
        return history_find(history, kind, "other", "");
    one = calloc(1, sizeof(*one));
    if (one == NULL || !lr_strmap_put(map, lr_str(name, len), one, NULL)) {
        free(one);
        return NULL;
    }
    (void)snprintf(one->subject, sizeof(one->subject), "%.159s", subject);
    (void)snprintf(one->place, sizeof(one->place), "%.95s", place);
    return one;
}

void router_history_add(struct router_history *history, const char *model, const char *node,
                        const int64_t figures[ROUTER_FIGURES])
{
    struct series *one = history_find(history, ROUTER_HISTORY_REQUESTS, model, node);
    for (size_t level = 0; one != NULL && level < ROUTER_LEVELS; level++)
        for (size_t i = 0; i < ROUTER_FIGURES; i++)
            one->figures[level][i] += figures[i];
}

void router_history_bump(struct router_history *history, enum router_history_kind kind,
                         const char *subject, const char *place, size_t figure, int64_t by)
{
    struct series *one = history_find(history, kind, subject, place);
    for (size_t level = 0; one != NULL && level < ROUTER_LEVELS; level++)
        one->figures[level][figure] += by;
}

/* ---- samples ---- */

static void sample_device(struct router_history *history, const struct router_node *node,
                          uint32_t pool)
{
    static const enum wire_gpu_figure figures[ROUTER_GPU_TOLD] = {
        WIRE_GPU_UTILIZATION, WIRE_GPU_MEMORY_BUSY, WIRE_GPU_TEMPERATURE, WIRE_GPU_POWER,
        WIRE_GPU_CLOCK};
    struct series *one =
        history_find(history, ROUTER_HISTORY_GPUS, node->id, node->pools[pool].name);
    const struct wire_gpu *gpu = &node->pools[pool].gpu;
    for (size_t level = 0; one != NULL && level < ROUTER_LEVELS; level++) {
        int64_t *sums = one->figures[level];
        sums[ROUTER_GPU_SAMPLES]++;
        sums[ROUTER_GPU_MEMORY_USED] += (int64_t)node->pools[pool].used;
        sums[ROUTER_GPU_MEMORY_TOTAL] += (int64_t)node->pools[pool].total;
        for (size_t i = 0; i < ROUTER_GPU_TOLD; i++) {
            bool is_told = (gpu->reported >> figures[i] & 1) != 0;
            sums[ROUTER_GPU_FIRST + 2 * i] += is_told ? (int64_t)gpu->figures[figures[i]] : 0;
            sums[ROUTER_GPU_FIRST + 2 * i + 1] += is_told;
        }
    }
}

void router_history_sample(struct router_history *history, const struct router_nodes *nodes,
                           const struct router_registry *registry, uint64_t now_ms)
{
    int64_t ms = history->at_ms != 0 ? (int64_t)(now_ms - history->at_ms) : 0;
    const struct router_node *node;
    const struct router_replica *replica;
    const struct router_model *model;
    history->at_ms = now_ms;
    for (size_t at = 0; (node = router_nodes_next(nodes, &at)) != NULL;) {
        for (size_t i = 0; (replica = router_node_replica_at(node, i)) != NULL; i++)
            if (replica->inflight != 0)
                router_history_bump(history, ROUTER_HISTORY_REQUESTS, replica->id, node->id,
                                    ROUTER_FIGURE_running_ms, ms * replica->inflight);
        for (uint32_t i = 0; router_node_is_online(node) && i < node->pool_count; i++)
            sample_device(history, node, i);
    }
    for (size_t i = 0; (model = router_registry_at(registry, i)) != NULL; i++) {
        size_t waiting = router_schedule_waiting(&model->schedule);
        if (waiting != 0)
            router_history_bump(history, ROUTER_HISTORY_REQUESTS, model->id, "",
                                ROUTER_FIGURE_queued_ms, ms * (int64_t)waiting);
    }
}

/* ---- slots ---- */

static bool is_empty(const struct series *one, size_t level)
{
    size_t i = 0;
    while (i < ROUTER_FIGURES && one->figures[level][i] == 0)
        i++;
    return i == ROUTER_FIGURES;
}

/* A row for each level in which the series has figures, if it has any in the shortest slot. */
static void copy_rows(const struct router_history *history, enum router_history_kind kind,
                      const struct series *one, struct router_history_rows *out)
{
    if (is_empty(one, 0))
        return;
    for (uint32_t level = 0; level < ROUTER_LEVELS; level++) {
        struct router_history_row *row = &out->rows[out->count++];
        *row = (struct router_history_row){
            .kind = kind, .level = level, .slot_s = history->slot_s[level]};
        memcpy(row->part, history->part, sizeof(row->part));
        memcpy(row->subject, one->subject, sizeof(row->subject));
        memcpy(row->place, one->place, sizeof(row->place));
        memcpy(row->figures, one->figures[level], sizeof(row->figures));
    }
}

/* The slots that have ended begin anew.  A series of which nothing is left makes room. */
static void begin_slots(struct router_history *history, enum router_history_kind kind,
                        int64_t now_s)
{
    struct lr_strmap *map = &history->series[kind];
    struct lr_str name;
    void *at;
    for (size_t i = 0; lr_strmap_at(map, i, &name, &at);) {
        struct series *one = at;
        for (size_t level = 0; level < ROUTER_LEVELS; level++)
            if (now_s / router_levels[level].slot_s * router_levels[level].slot_s !=
                history->slot_s[level])
                memset(one->figures[level], 0, sizeof(one->figures[level]));
        if (is_empty(one, ROUTER_LEVELS - 1)) {
            (void)lr_strmap_remove(map, name);
            free(one);
        } else {
            i++;
        }
    }
}

struct router_history_rows *router_history_turn(struct router_history *history, int64_t now_s,
                                                bool is_last)
{
    struct router_history_rows *out = NULL;
    struct lr_str name;
    void *one;
    bool is_over =
        now_s / router_levels[0].slot_s * router_levels[0].slot_s != history->slot_s[0];
    if (!is_over && !is_last)
        return NULL;
    size_t count = history->series[0].count + history->series[1].count;
    if (history->slot_s[0] != 0 && count != 0)
        out = malloc(sizeof(*out) + count * ROUTER_LEVELS * sizeof(out->rows[0]));
    for (size_t k = 0; k < ROUTER_HISTORY_KINDS; k++) {
        if (out != NULL && k == 0)
            *out = (struct router_history_rows){.now_s = now_s};
        for (size_t i = 0; out != NULL && lr_strmap_at(&history->series[k], i, &name, &one);
             i++)
            copy_rows(history, (enum router_history_kind)k, one, out);
        if (history->slot_s[0] != 0) /* figures from before the first turn stay */
            begin_slots(history, (enum router_history_kind)k, now_s);
    }
    for (size_t level = 0; level < ROUTER_LEVELS; level++)
        history->slot_s[level] =
            now_s / router_levels[level].slot_s * router_levels[level].slot_s;
    return out;
}

/* ---- writing.  Thread: the database's ---- */

struct chunk {
    struct router_store *store;
    struct router_history_rows *rows; /* owned */
    size_t next;
};

static lr_code write_chunk(struct router_sql *sql, void *arg, struct lr_error *err)
{
    const struct chunk *chunk = arg;
    const struct router_history_rows *rows = chunk->rows;
    lr_code code = LR_OK;
    for (size_t i = chunk->next;
         code == LR_OK && i < rows->count && i < chunk->next + CHUNK_ROWS; i++)
        code = router_history_write(sql, &rows->rows[i], err);
    bool is_last = chunk->next + CHUNK_ROWS >= rows->count;
    if (code == LR_OK && is_last && router_clock_is_steady())
        code = router_history_sweep(sql, rows->now_s, err);
    return code;
}

/* Rows that could not be written are given up: those of longer slots are written again. */
static void wrote_chunk(void *arg, const struct lr_error *err)
{
    struct chunk *chunk = arg;
    chunk->next += CHUNK_ROWS;
    if (err == NULL && chunk->next < chunk->rows->count) {
        router_store_quietly(chunk->store, write_chunk, NULL, wrote_chunk, chunk);
        return;
    }
    free(chunk->rows);
    free(chunk);
}

void router_history_store(struct router_store *store, struct router_history_rows *rows)
{
    struct chunk *chunk = rows != NULL ? malloc(sizeof(*chunk)) : NULL;
    if (chunk == NULL) {
        free(rows);
        return;
    }
    *chunk = (struct chunk){.store = store, .rows = rows};
    router_store_quietly(store, write_chunk, NULL, wrote_chunk, chunk);
}
