#include "router/http/stats.h"

#include <math.h>

static uint64_t get(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void read_mark(const struct router_metrics *m, uint64_t now_ms, struct router_mark *out)
{
    out->at_ms = now_ms;
    out->requests = get(&m->total.count);
    /* Tokens as they flow: the counter of metrics.h moves only when a request ends. */
    out->tokens = get(&m->first_token.count) + get(&m->inter_token.count);
    out->errors = get(&m->failed);
    for (size_t i = 0; i < ROUTER_BUCKETS; i++) {
        out->first_token[i] = get(&m->first_token.counts[i]);
        out->inter_token[i] = get(&m->inter_token.counts[i]);
    }
}

void router_stats_tick(struct router_stats *stats, const struct router_metrics *metrics,
                       uint32_t queue, uint32_t in_flight, uint64_t now_ms, int64_t wall_ms)
{
    struct router_mark now, *was = &stats->mark;
    read_mark(metrics, now_ms, &now);
    if (was->at_ms != 0 && now_ms > was->at_ms) {
        struct router_second *s = &stats->ring[stats->count++ % ROUTER_STATS_KEPT];
        *s = (struct router_second){
            .wall_ms = wall_ms,
            .elapsed_ms = (uint32_t)(now_ms - was->at_ms),
            .requests = (uint32_t)(now.requests - was->requests),
            .tokens = (uint32_t)(now.tokens - was->tokens),
            .errors = (uint32_t)(now.errors - was->errors),
            .queue = queue,
            .in_flight = in_flight,
        };
        for (size_t i = 0; i < ROUTER_BUCKETS; i++) {
            s->first_token[i] = (uint32_t)(now.first_token[i] - was->first_token[i]);
            s->inter_token[i] = (uint32_t)(now.inter_token[i] - was->inter_token[i]);
        }
    }
    *was = now;
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

/* ---- points ---- */

/* Seconds [from, to) of the ring as one. */
struct point {
    double requests, tokens, errors; /* per second */
    double queue, in_flight;         /* at the end */
    int64_t wall_ms;
    uint64_t first_token[ROUTER_BUCKETS], inter_token[ROUTER_BUCKETS]; /* of the window */
};

static const struct router_second *second_at(const struct router_stats *stats, uint64_t i)
{
    return &stats->ring[i % ROUTER_STATS_KEPT];
}

static uint64_t oldest(const struct router_stats *stats)
{
    return stats->count > ROUTER_STATS_KEPT ? stats->count - ROUTER_STATS_KEPT : 0;
}

static void read_point(const struct router_stats *stats, uint64_t from, uint64_t to,
                       struct point *out)
{
    double requests = 0, tokens = 0, errors = 0, seconds = 0;
    const struct router_second *last = second_at(stats, to - 1);
    for (uint64_t i = from; i < to; i++) {
        const struct router_second *s = second_at(stats, i);
        requests += s->requests;
        tokens += s->tokens;
        errors += s->errors;
        seconds += (double)s->elapsed_ms / 1000;
    }
    *out = (struct point){.requests = requests / seconds,
                          .tokens = tokens / seconds,
                          .errors = errors / seconds,
                          .queue = last->queue,
                          .in_flight = last->in_flight,
                          .wall_ms = last->wall_ms};
    uint64_t first = to > ROUTER_STATS_WINDOW ? to - ROUTER_STATS_WINDOW : 0;
    for (uint64_t i = first > oldest(stats) ? first : oldest(stats); i < to; i++) {
        for (size_t b = 0; b < ROUTER_BUCKETS; b++) {
            out->first_token[b] += second_at(stats, i)->first_token[b];
            out->inter_token[b] += second_at(stats, i)->inter_token[b];
        }
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
    if (stats->count != 0)
        read_point(stats, stats->count - 1, stats->count, &point);
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
    uint64_t to = s->stats->count - (s->count - 1 - index) * s->step;
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
    uint64_t seconds = stats->count - oldest(stats);
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
