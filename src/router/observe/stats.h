/* router/observe/stats.h - the last quarter of an hour, second by second, for charts.
 *
 * Once a second the counters of metrics.h go into a ring; a page that opens gets their growth
 * in each second (GET /v0/stats), a page that listens gets a "stats" event a second.
 * Thread: the router's lock is held.
 */
#ifndef ROUTER_OBSERVE_STATS_H
#define ROUTER_OBSERVE_STATS_H

#include "base/json.h"
#include "router/store/history.h"

enum {
    ROUTER_STATS_KEPT = 900,  /* seconds */
    ROUTER_STATS_WINDOW = 10, /* seconds that a percentile looks back: calm, still live */
};

/* The counters and histograms that the history keeps, in the order of figures.def. */
enum {
#define ROUTER_KEPT_SUM(member, column, series)                            ROUTER_MARK_##member,
#define ROUTER_KEPT_COUNTER(member, name, help, column, series, title, ja) ROUTER_MARK_##member,
#include "router/figures/figures.def"
    ROUTER_MARK_COUNTS,
};
enum {
#define ROUTER_KEPT_HISTOGRAM(member, name, by_model, vllm, help, column, series)              \
    ROUTER_MARK_##member,
#include "router/figures/figures.def"
    ROUTER_MARK_SPREADS,
};

/* Counters as they stood; a second is what lies between two of these. */
struct router_mark {
    uint64_t at_ms; /* monotonic */
    int64_t wall_ms;
    uint64_t counts[ROUTER_MARK_COUNTS];
    uint64_t spreads[ROUTER_MARK_SPREADS][ROUTER_BUCKETS];
    uint32_t queue, in_flight;
};

struct router_stats {
    struct router_mark ring[ROUTER_STATS_KEPT + 1];
    uint64_t count; /* marks since the start */
};

/* The counters' growth since the last call becomes the newest second. */
void router_stats_tick(struct router_stats *stats, const struct router_metrics *metrics,
                       uint32_t queue, uint32_t in_flight, uint64_t now_ms, int64_t wall_ms);

/* Requests that ended in the last minute, or since the start. */
uint64_t router_stats_minute(const struct router_stats *stats);

/* Milliseconds below which `share` of the counted values lie, evenly spread within a
 * bucket; NaN without values.  Pure. */
double router_percentile(const uint64_t counts[ROUTER_BUCKETS], double share);

/* Members of the newest second, into an object that is open. */
void router_stats_put_newest(const struct router_stats *stats, struct lr_json_writer *w);
/* Everything, a column per figure, `step` seconds in one point; oldest first. */
void router_stats_put_all(const struct router_stats *stats, uint32_t step,
                          struct lr_json_writer *w);
/* "charts": the series that have a chart of their own, with its title in each language. */
void router_stats_put_charts(struct lr_json_writer *w);

#endif
