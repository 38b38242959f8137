/* router/store/history.h - figures of the last seven days, in slots of three lengths.
 *
 *   history       requests, tokens and latencies by model and node
 *   history_gpus  memory and GPU figures by node and device
 *
 * A row has the sums of one slot as one process counted them.  `part` is a random name of the
 * process, so a process writes only rows of its own, always whole, and a reader adds the rows
 * of all parts: routers that share the database, and a router before and after its restart.
 * Latencies are counts of histograms, which can be added; percentiles are made of the sums.  An
 * older release names its columns, so a column that it does not know is 0 in its rows.
 *
 *   level  slot    kept
 *   0      10 s    1 hour
 *   1      5 min   1 day
 *   2      30 min  7 days
 *
 * Thread: the database's, inside a transaction.
 */
#ifndef ROUTER_STORE_HISTORY_H
#define ROUTER_STORE_HISTORY_H

#include "router/figures/metrics.h"
#include "router/store/sql.h"

enum { ROUTER_LEVELS = 3 };

extern const struct router_level {
    int64_t slot_s, kept_s;
} router_levels[ROUTER_LEVELS];

/* Columns of `history`, from figures/figures.def; a histogram has one for each bucket. */
enum router_figure {
#define ROUTER_KEPT_COUNTER(member, name, help, column, series, title, ja)                     \
    ROUTER_FIGURE_##member,
#define ROUTER_KEPT_SUM(member, column, series)   ROUTER_FIGURE_##member,
#define ROUTER_KEPT_LEVEL(member, column, series) ROUTER_FIGURE_##member,
#define ROUTER_KEPT_HISTOGRAM(member, name, by_model, vllm, help, column, series)              \
    ROUTER_FIGURE_##member,                                                                    \
        ROUTER_FIGURE_##member##_last = ROUTER_FIGURE_##member + ROUTER_BUCKETS - 1,
#include "router/figures/figures.def"
    ROUTER_FIGURES,
};

/* The same as a table, in the same order. */
enum router_kept_kind { ROUTER_KEPT_COUNTS, ROUTER_KEPT_MEAN, ROUTER_KEPT_SPREAD };
struct router_kept {
    enum router_kept_kind kind;
    size_t figure;                /* its first */
    const char *column;           /* name, or its beginning */
    const char *series;           /* name in charts; "": it is in none */
    const char *title, *title_ja; /* of its own chart; "": it has none */
};
extern const struct router_kept router_kept[];
extern const size_t router_kept_count;

/* Columns of `history_gpus`: sums of `samples` samples.  A figure that a device does not report
 * is 0 in all its samples, and `told` has the number of samples that had it. */
enum router_gpu_figure {
    ROUTER_GPU_SAMPLES,
    ROUTER_GPU_MEMORY_USED,
    ROUTER_GPU_MEMORY_TOTAL,
    ROUTER_GPU_FIRST, /* pairs of sum and told, in the order of router_gpu_names */
    ROUTER_GPU_TOLD = 5,
    ROUTER_GPU_FIGURES = ROUTER_GPU_FIRST + 2 * ROUTER_GPU_TOLD,
};
extern const char
    *const router_gpu_names[ROUTER_GPU_TOLD]; /* members of "gpu" (wire/fleet.h) */

enum router_history_kind { ROUTER_HISTORY_REQUESTS, ROUTER_HISTORY_GPUS, ROUTER_HISTORY_KINDS };
size_t router_history_figures(enum router_history_kind kind);

struct router_history_row {
    enum router_history_kind kind;
    uint32_t level;
    int64_t slot_s; /* its beginning, in seconds since 1970 */
    char part[12];
    char subject[160], place[96]; /* model and node, or node and device */
    int64_t figures[ROUTER_FIGURES];
};

/* For a schema step: makes the two tables. */
LR_MUST_USE lr_code router_history_create(struct router_sql *sql, struct lr_error *err);
/* Adds the columns that a table of an older release lacks. */
LR_MUST_USE lr_code router_history_widen(struct router_sql *sql, struct lr_error *err);

/* Writes the row, or writes it anew. */
LR_MUST_USE lr_code router_history_write(struct router_sql *sql,
                                         const struct router_history_row *row,
                                         struct lr_error *err);
/* Removes what is older than its level is kept. */
LR_MUST_USE lr_code router_history_sweep(struct router_sql *sql, int64_t now_s,
                                         struct lr_error *err);

/* Slots of one level from `since_s` on and before `until_s`. */
struct router_history_question {
    uint32_t level;
    int64_t since_s, until_s;
    struct lr_str model, node; /* empty: all */
};
/* The figures of a slot, added over all parts and all that was not asked for by name.  Of GPUs
 * each device apart, one device after the other.  Borrowed for the call. */
typedef lr_code (*router_history_fn)(void *ctx, const struct router_history_row *row,
                                     struct lr_error *err);
LR_MUST_USE lr_code router_history_read(struct router_sql *sql, enum router_history_kind kind,
                                        const struct router_history_question *q,
                                        router_history_fn fn, void *ctx, struct lr_error *err);
/* The models, and then the nodes, that occur in these slots; at most 1000 of each. */
typedef void (*router_history_name_fn)(void *ctx, bool is_node, struct lr_str name);
LR_MUST_USE lr_code router_history_names(struct router_sql *sql,
                                         const struct router_history_question *q,
                                         router_history_name_fn fn, void *ctx,
                                         struct lr_error *err);

#endif
