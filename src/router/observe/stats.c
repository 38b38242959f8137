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

void router_stats_tick(struct router_stats *stats, const struct router_metrics *m,
                       uint32_t queue, uint32_t in_flight, uint64_t now_ms, int64_t wall_ms)
{
    if (stats->count != 0 && now_ms <= mark_at(stats, stats->count - 1)->at_ms)
        return;
    struct router_mark *mark = &stats->ring[stats->count++ % MARKS];
    *mark = (struct router_mark){
        .at_ms = now_ms,
        .wall_ms = wall_ms,
        .requests = router_histogram_count(&m->total),
        /* Tokens as they flow: the counter of metrics.h moves only when a request ends. */
        .tokens =
            router_histogram_count(&m->first_token) + router_histogram_count(&m->inter_token),
        .errors = stats_get(&m->failed),
        .queue = queue,
        .in_flight = in_flight,
    };
    for (size_t i = 0; i < ROUTER_BUCKETS; i++) {
        mark->first_token[i] = stats_get(&m->first_token.counts[i]);
        mark->inter_token[i] = stats_get(&m->inter_token.counts[i]);
    }
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
    return mark_at(stats, last)->requests - mark_at(stats, first)->requests;
}

/* ---- points ---- */

/* What happened between two marks. */
struct point {
    double requests, tokens, errors; /* per second */
    double queue, in_flight;         /* at the end */
    int64_t wall_ms;
    uint64_t first_token[ROUTER_BUCKETS], inter_token[ROUTER_BUCKETS]; /* of the window */
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
    *out = (struct point){.requests = (double)(end->requests - begin->requests) / seconds,
                          .tokens = (double)(end->tokens - begin->tokens) / seconds,
                          .errors = (double)(end->errors - begin->errors) / seconds,
                          .queue = end->queue,
                          .in_flight = end->in_flight,
                          .wall_ms = end->wall_ms};
    for (size_t b = 0; b < ROUTER_BUCKETS; b++) {
        out->first_token[b] = end->first_token[b] - window->first_token[b];
        out->inter_token[b] = end->inter_token[b] - window->inter_token[b];
    }
}

/* Two decimals: more than a histogram knows, and short. */
static double short_number(double value)
{
    return isnan(value) ? value : round(value * 100) / 100;
}

enum { COLUMNS = 9, FIRST_PAIR = 5 };

/* In the order of `columns`. */
static double value_of(const struct point *p, size_t column)
{
    if (column >= FIRST_PAIR)
        return router_percentile(column < FIRST_PAIR + 2 ? p->first_token : p->inter_token,
                                 (column - FIRST_PAIR) % 2 == 0 ? 0.50 : 0.99);
    const double plain[] = {p->requests, p->tokens, p->errors, p->queue, p->in_flight};
    return plain[column];
}

static const char *const columns[] = {
    "requests_per_second", "tokens_per_second", "errors_per_second", "queue",
    "in_flight",           "first_token_ms",    "first_token_ms",    "inter_token_ms",
    "inter_token_ms"};

typedef void (*put_fn)(void *ctx, struct lr_json_writer *w, size_t column);

/* Five plain members, then two objects of p50 and p99. */
static void put_columns(struct lr_json_writer *w, put_fn put, void *ctx)
{
    for (size_t c = 0; c < COLUMNS; c++) {
        bool in_pair = c >= FIRST_PAIR, is_first = in_pair && (c - FIRST_PAIR) % 2 == 0;
        if (!in_pair || is_first)
            lr_json_key(w, columns[c]);
        if (is_first)
            lr_json_begin_object(w);
        if (in_pair)
            lr_json_key(w, is_first ? "p50" : "p99");
        put(ctx, w, c);
        if (in_pair && !is_first)
            lr_json_end_object(w);
    }
}

static void put_number(void *ctx, struct lr_json_writer *w, size_t column)
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

static void put_array(void *ctx, struct lr_json_writer *w, size_t column)
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
}
