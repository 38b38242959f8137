#include "router/observe/stats.h"

#include <math.h>

enum { MARKS = ROUTER_STATS_KEPT + 1 };

static const struct router_mark *mark_at(const struct router_stats *stats, uint64_t i)
{
    return &stats->ring[i % MARKS];
}

static uint64_t stats_get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void copy_counts(uint64_t out[ROUTER_BUCKETS], const struct router_histogram *h)
{
    for (size_t i = 0; i < ROUTER_BUCKETS; i++)
        out[i] = stats_get(&h->counts[i]);
}

void router_stats_tick(struct router_stats *stats, const struct router_metrics *m,
                       uint32_t queue, uint32_t in_flight, uint64_t now_ms, int64_t wall_ms)
{
    if (stats->count != 0 && now_ms <= mark_at(stats, stats->count - 1)->at_ms)
        return;
    struct router_mark *mark = &stats->ring[stats->count++ % MARKS];
    *mark = (struct router_mark){
        .at_ms = now_ms, .wall_ms = wall_ms, .queue = queue, .in_flight = in_flight};
#define ROUTER_KEPT_COUNTER(member, name, help, column, series, title, ja)                     \
    mark->counts[ROUTER_MARK_##member] = stats_get(&m->member);
#define ROUTER_KEPT_HISTOGRAM(member, name, by_model, vllm, help, column, series)              \
    copy_counts(mark->spreads[ROUTER_MARK_##member], &m->member);
#include "router/figures/figures.def"
    mark->counts[ROUTER_MARK_requests] = router_histogram_count(&m->total);
    /* Tokens as they flow: their counter moves only when a request ends. */
    mark->counts[ROUTER_MARK_completion_tokens] =
        router_histogram_count(&m->first_token) + router_histogram_count(&m->inter_token);
}

double router_percentile(const uint64_t counts[ROUTER_BUCKETS], double share)
{
    uint64_t total = 0;
    for (size_t i = 0; i < ROUTER_BUCKETS; i++)
        total += counts[i];
    if (total == 0)
        return NAN;
    double wanted = share * (double)total, below = 0;
    for (size_t i = 0; i < ROUTER_BUCKETS; i++) {
        double here = (double)counts[i];
        double low = i == 0 ? 0 : (double)((uint64_t)1 << (i - 1)) / 2;
        double high = (double)((uint64_t)1 << i) / 2;
        if (here > 0 && below + here >= wanted)
            return low + (high - low) * (wanted - below) / here;
        below += here;
    }
    return (double)((uint64_t)1 << (ROUTER_BUCKETS - 1)) / 2;
}

uint64_t router_stats_minute(const struct router_stats *stats)
{
    if (stats->count == 0)
        return 0;
    uint64_t last = stats->count - 1, first = last > 60 ? last - 60 : 0;
    return mark_at(stats, last)->counts[ROUTER_MARK_requests] -
           mark_at(stats, first)->counts[ROUTER_MARK_requests];
}

/* ---- points ---- */

/* What happened between two marks. */
struct point {
    double rates[ROUTER_MARK_COUNTS]; /* per second */
    double queue, in_flight;          /* at the end */
    int64_t wall_ms;
    uint64_t spreads[ROUTER_MARK_SPREADS][ROUTER_BUCKETS]; /* of the window */
};

static uint64_t oldest(const struct router_stats *stats)
{
    return stats->count > MARKS ? stats->count - MARKS : 0;
}

static void read_point(const struct router_stats *stats, uint64_t from, uint64_t to,
                       struct point *out)
{
    uint64_t first = to > ROUTER_STATS_WINDOW ? to - ROUTER_STATS_WINDOW : 0;
    const struct router_mark *begin = mark_at(stats, from), *end = mark_at(stats, to);
    const struct router_mark *window =
        mark_at(stats, first > oldest(stats) ? first : oldest(stats));
    double seconds = (double)(end->at_ms - begin->at_ms) / 1000;
    *out = (struct point){
        .queue = end->queue, .in_flight = end->in_flight, .wall_ms = end->wall_ms};
    for (size_t i = 0; i < ROUTER_MARK_COUNTS; i++)
        out->rates[i] = (double)(end->counts[i] - begin->counts[i]) / seconds;
    for (size_t i = 0; i < ROUTER_MARK_SPREADS; i++)
        for (size_t b = 0; b < ROUTER_BUCKETS; b++)
            out->spreads[i][b] = end->spreads[i][b] - window->spreads[i][b];
}

/* Two decimals: more than a histogram knows, and short. */
static double short_number(double value)
{
    return isnan(value) ? value : round(value * 100) / 100;
}

/* A column of the answer. */
struct column {
    enum { RATE, QUEUE, IN_FLIGHT, MEDIAN, P99 } kind;
    size_t index; /* of the point's rates or spreads */
};

static double value_of(const struct point *p, struct column column)
{
    switch (column.kind) {
    case RATE:
        return p->rates[column.index];
    case QUEUE:
        return p->queue;
    case IN_FLIGHT:
        return p->in_flight;
    default:
        return router_percentile(p->spreads[column.index], column.kind == MEDIAN ? 0.50 : 0.99);
    }
}

typedef void (*put_fn)(void *ctx, struct lr_json_writer *w, struct column column);

static void put_columns(struct lr_json_writer *w, put_fn put, void *ctx)
{
    size_t counts = 0, spreads = 0;
    lr_json_key(w, "queue");
    put(ctx, w, (struct column){.kind = QUEUE});
    lr_json_key(w, "in_flight");
    put(ctx, w, (struct column){.kind = IN_FLIGHT});
    for (size_t i = 0; i < router_kept_count; i++) {
        const struct router_kept *kept = &router_kept[i];
        if (kept->kind == ROUTER_KEPT_COUNTS) {
            size_t at = counts++;
            if (kept->series[0] == '\0')
                continue;
            lr_json_key(w, kept->series);
            put(ctx, w, (struct column){RATE, at});
        } else if (kept->kind == ROUTER_KEPT_SPREAD) {
            lr_json_member_object(w, kept->series);
            lr_json_key(w, "p50");
            put(ctx, w, (struct column){MEDIAN, spreads});
            lr_json_key(w, "p99");
            put(ctx, w, (struct column){P99, spreads++});
            lr_json_end_object(w);
        }
    }
}

void router_stats_put_charts(struct lr_json_writer *w)
{
    lr_json_member_array(w, "charts");
    for (size_t i = 0; i < router_kept_count; i++) {
        const struct router_kept *kept = &router_kept[i];
        if (kept->title[0] == '\0')
            continue;
        lr_json_begin_object(w);
        lr_json_member_z(w, "series", kept->series);
        lr_json_member_object(w, "title");
        LR_JSON_MEMBERS(w, LR_TEXT("en", kept->title), LR_TEXT("ja", kept->title_ja));
        lr_json_end_object(w);
        lr_json_end_object(w);
    }
    lr_json_end_array(w);
}

static void put_number(void *ctx, struct lr_json_writer *w, struct column column)
{
    lr_json_put_double(w, short_number(value_of(ctx, column)));
}

void router_stats_put_newest(const struct router_stats *stats, struct lr_json_writer *w)
{
    struct point point = {0};
    if (stats->count > 1)
        read_point(stats, stats->count - 2, stats->count - 1, &point);
    put_columns(w, put_number, &point);
}

/* All there is, `step` seconds in a point.  Points end at the newest second, so that live
 * ones go on where these stop; the oldest may be a short one. */
struct series {
    const struct router_stats *stats;
    uint64_t step, count;
};

static void point_at(const struct series *s, uint64_t index, struct point *out)
{
    uint64_t to = s->stats->count - 1 - (s->count - 1 - index) * s->step;
    uint64_t first = oldest(s->stats);
    read_point(s->stats, to > first + s->step ? to - s->step : first, to, out);
}

static void put_array(void *ctx, struct lr_json_writer *w, struct column column)
{
    const struct series *series = ctx;
    struct point point;
    lr_json_begin_array(w);
    for (uint64_t i = 0; i < series->count; i++) {
        point_at(series, i, &point);
        lr_json_put_double(w, short_number(value_of(&point, column)));
    }
    lr_json_end_array(w);
}

void router_stats_put_all(const struct router_stats *stats, uint32_t step,
                          struct lr_json_writer *w)
{
    uint64_t seconds = stats->count != 0 ? stats->count - 1 - oldest(stats) : 0;
    struct series series = {stats, step, (seconds + step - 1) / step};
    struct point point;
    lr_json_member_u64(w, "step", step);
    lr_json_key(w, "time");
    lr_json_begin_array(w);
    for (uint64_t i = 0; i < series.count; i++) {
        point_at(&series, i, &point);
        lr_json_put_i64(w, point.wall_ms / 1000);
    }
    lr_json_end_array(w);
    put_columns(w, put_array, &series);
    router_stats_put_charts(w);
}
