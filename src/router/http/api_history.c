/* router/http/api_history.c - GET /v0/history: the figures of up to seven days, for charts. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/errors.h"
#include "router/http/api.h"
#include "router/http/state.h"
#include "router/store/clock.h"

enum {
    POINTS_MAX = 360,
    SETTLED_S = 2, /* a slot is in the database this long after its end */
};

static const struct range {
    const char *name;
    uint32_t level;
    int64_t points;
} ranges[] = {{"15m", 0, 90}, {"1h", 0, 360}, {"24h", 1, 288}, {"7d", 2, 336}};

/* In the request's memory, as the names are. */
struct asking {
    struct router *router;
    struct lr_json_writer *w;
    const struct range *range;
    struct router_history_question q;
    int64_t step_s;
    int64_t horizon_s; /* up to which figures are there */
    int64_t points[POINTS_MAX][ROUTER_FIGURES];
    struct device {
        char node[160], name[96]; /* of the device whose columns are gathered; "": none */
        int64_t points[POINTS_MAX][ROUTER_GPU_FIGURES];
    } device;
    bool has_names; /* of nodes: the array was begun */
};

/* ---- columns ---- */

static void put_short(struct lr_json_writer *w, double value)
{
    lr_json_put_double(w, isnan(value) ? value : round(value * 100) / 100);
}

/* How much of slot i has passed. */
static double seconds_of(const struct asking *a, int64_t i)
{
    int64_t begin_s = a->q.since_s + i * a->step_s;
    int64_t passed = a->horizon_s - begin_s;
    return (double)(passed < a->step_s ? passed : a->step_s);
}

static void put_counts(struct asking *a, const char *name, size_t figure)
{
    lr_json_member_array(a->w, name);
    for (int64_t i = 0; i < a->range->points; i++)
        lr_json_put_i64(a->w, a->points[i][figure]);
    lr_json_end_array(a->w);
}

/* per: what the figure is counted in, by second. */
static void put_rates(struct asking *a, const char *name, size_t figure, double per)
{
    lr_json_member_array(a->w, name);
    for (int64_t i = 0; i < a->range->points; i++)
        put_short(a->w, (double)a->points[i][figure] / per / seconds_of(a, i));
    lr_json_end_array(a->w);
}

static void put_percentiles(struct asking *a, const char *name, size_t first)
{
    static const struct {
        const char *name;
        double share;
    } shares[] = {{"p50", 0.50}, {"p99", 0.99}};
    uint64_t counts[ROUTER_BUCKETS];
    lr_json_member_object(a->w, name);
    for (size_t s = 0; s < 2; s++) {
        lr_json_member_array(a->w, shares[s].name);
        for (int64_t i = 0; i < a->range->points; i++) {
            for (size_t b = 0; b < ROUTER_BUCKETS; b++)
                counts[b] = (uint64_t)a->points[i][first + b];
            put_short(a->w, router_percentile(counts, shares[s].share));
        }
        lr_json_end_array(a->w);
    }
    lr_json_end_object(a->w);
}

/* Of each figure of a kind its series, or its counts. */
static void put_kind(struct asking *a, enum router_kept_kind kind, bool is_series)
{
    for (size_t i = 0; i < router_kept_count; i++) {
        const struct router_kept *kept = &router_kept[i];
        if (kept->kind != kind || (is_series && kept->series[0] == '\0'))
            continue;
        if (!is_series)
            put_counts(a, kept->column, kept->figure);
        else if (kind == ROUTER_KEPT_SPREAD)
            put_percentiles(a, kept->series, kept->figure);
        else
            put_rates(a, kept->series, kept->figure, kind == ROUTER_KEPT_MEAN ? 1000 : 1);
    }
}

static void put_columns(struct asking *a)
{
    lr_json_member_array(a->w, "time");
    for (int64_t i = 1; i <= a->range->points; i++)
        lr_json_put_i64(a->w, a->q.since_s + i * a->step_s);
    lr_json_end_array(a->w);
    put_kind(a, ROUTER_KEPT_COUNTS, false);
    put_kind(a, ROUTER_KEPT_COUNTS, true);
    put_kind(a, ROUTER_KEPT_MEAN, true);
    put_kind(a, ROUTER_KEPT_SPREAD, true);
    router_stats_put_charts(a->w);
}

/* ---- devices ---- */

/* Nodes that were removed keep their ids; titles of devices are known while the node is. */
static void api_history_name_of(struct router *r, const char *id, const char *device,
                                char name[64], char title[96])
{
    name[0] = title[0] = '\0';
    router_lock(r);
    const struct router_node *node = router_nodes_find_any(&r->nodes, lr_str_z(id));
    if (node != NULL)
        (void)snprintf(name, 64, "%s", node->name);
    for (uint32_t i = 0; node != NULL && i < node->pool_count; i++)
        if (strcmp(node->pools[i].name, device) == 0)
            (void)snprintf(title, 96, "%s", node->pools[i].title);
    router_unlock(r);
}

static void put_means(struct asking *a, const char *name, size_t sum, size_t count)
{
    lr_json_member_array(a->w, name);
    for (int64_t i = 0; i < a->range->points; i++) {
        const int64_t *figures = a->device.points[i];
        put_short(a->w, figures[count] != 0 ? (double)figures[sum] / (double)figures[count]
                                            : (double)NAN);
    }
    lr_json_end_array(a->w);
}

static void end_device(struct asking *a)
{
    struct device *d = &a->device;
    char name[64], title[96];
    if (d->node[0] == '\0')
        return;
    api_history_name_of(a->router, d->node, d->name, name, title);
    lr_json_begin_object(a->w);
    LR_JSON_MEMBERS(a->w, LR_TEXT("node", d->node), LR_TEXT("name", name),
                    LR_TEXT("device", d->name), LR_TEXT("title", title));
    put_means(a, "memory_used_bytes", ROUTER_GPU_MEMORY_USED, ROUTER_GPU_SAMPLES);
    put_means(a, "memory_total_bytes", ROUTER_GPU_MEMORY_TOTAL, ROUTER_GPU_SAMPLES);
    for (size_t i = 0; i < ROUTER_GPU_TOLD; i++)
        put_means(a, router_gpu_names[i], ROUTER_GPU_FIRST + 2 * i,
                  ROUTER_GPU_FIRST + 2 * i + 1);
    lr_json_end_object(a->w);
    memset(d, 0, sizeof(*d));
}

/* ---- questions.  Thread: the database's ---- */

static int64_t point_of(const struct asking *a, int64_t slot_s)
{
    int64_t i = (slot_s - a->q.since_s) / a->step_s;
    return i < a->range->points ? i : a->range->points - 1;
}

static lr_code take_requests(void *ctx, const struct router_history_row *row,
                             struct lr_error *err)
{
    struct asking *a = ctx;
    (void)err;
    memcpy(a->points[point_of(a, row->slot_s)], row->figures, sizeof(row->figures));
    return LR_OK;
}

static lr_code take_device(void *ctx, const struct router_history_row *row,
                           struct lr_error *err)
{
    struct asking *a = ctx;
    (void)err;
    if (strcmp(a->device.node, row->subject) != 0 || strcmp(a->device.name, row->place) != 0) {
        end_device(a);
        memcpy(a->device.node, row->subject, sizeof(a->device.node));
        memcpy(a->device.name, row->place, sizeof(a->device.name));
    }
    memcpy(a->device.points[point_of(a, row->slot_s)], row->figures,
           sizeof(a->device.points[0]));
    return LR_OK;
}

/* Models come first, then nodes. */
static void begin_nodes(struct asking *a)
{
    if (a->has_names)
        return;
    a->has_names = true;
    lr_json_end_array(a->w);
    lr_json_member_array(a->w, "nodes");
}

static void api_history_take_name(void *ctx, bool is_node, struct lr_str text)
{
    struct asking *a = ctx;
    char id[48], name[64], title[96];
    if (!is_node) {
        lr_json_put_str(a->w, text);
        return;
    }
    begin_nodes(a);
    LR_COPY(id, text);
    api_history_name_of(a->router, id, "", name, title);
    LR_JSON_ITEM(a->w, LR_TEXT("id", id), LR_TEXT("name", name));
}

static lr_code read_history(struct router_sql *sql, void *arg, struct lr_error *err)
{
    struct asking *a = arg;
    lr_code code =
        router_history_read(sql, ROUTER_HISTORY_REQUESTS, &a->q, take_requests, a, err);
    put_columns(a);
    lr_json_member_array(a->w, "models");
    if (code == LR_OK)
        code = router_history_names(sql, &a->q, api_history_take_name, a, err);
    begin_nodes(a);
    lr_json_end_array(a->w);
    lr_json_member_array(a->w, "gpus");
    if (code == LR_OK)
        code = router_history_read(sql, ROUTER_HISTORY_GPUS, &a->q, take_device, a, err);
    end_device(a);
    lr_json_end_array(a->w);
    return code;
}

static const struct range *find_range(struct net_request *req)
{
    struct lr_str name;
    if (!net_request_query_get(req, "range", &name))
        name = LR_STR_LIT("1h");
    for (size_t i = 0; i < sizeof(ranges) / sizeof(ranges[0]); i++)
        if (lr_str_eq_z(name, ranges[i].name))
            return &ranges[i];
    return NULL;
}

lr_code router_api_history(struct router *r, struct net_request *req, struct lr_error *err)
{
    const struct range *range = find_range(req);
    struct asking *a = range != NULL ? router_memory(req, sizeof(*a), err) : NULL;
    if (range == NULL)
        return lr_fail_plain(err, history_range);
    if (a == NULL)
        return LR_OUT_OF_RAM;
    int64_t shortest = router_levels[0].slot_s, step = router_levels[range->level].slot_s;
    a->router = r;
    a->range = range;
    a->step_s = step;
    a->horizon_s = (lr_clock_wall_ms(&router_clock) / 1000 - SETTLED_S) / shortest * shortest;
    a->q.level = range->level;
    a->q.until_s = (a->horizon_s - 1) / step * step + step;
    a->q.since_s = a->q.until_s - range->points * step;
    (void)net_request_query_get(req, "model", &a->q.model);
    (void)net_request_query_get(req, "node", &a->q.node);
    char *id = router_memory(req, ROUTER_ID_MAX, err);
    if (id == NULL)
        return LR_OUT_OF_RAM;
    router_lock(r); /* ids and aliases are found in any case of letters */
    const struct router_model *model =
        a->q.model.len != 0 ? router_registry_resolve(&r->registry, a->q.model) : NULL;
    if (model != NULL) {
        (void)snprintf(id, ROUTER_ID_MAX, "%s", model->id);
        a->q.model = lr_str_z(id);
    }
    router_unlock(r);
    a->w = router_answer_begin(req);
    LR_JSON_MEMBERS(a->w, LR_TEXT("range", range->name), LR_INT("step", step),
                    LR_STR("model", a->q.model), LR_STR("node", a->q.node));
    return router_act(req, NULL, read_history, NULL, a, err);
}
