#include "router/store/history.h"

#include <assert.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

const struct router_level router_levels[ROUTER_LEVELS] = {
    {10, 3600}, {300, 24 * 3600}, {1800, 7 * 24 * 3600}};

const char *const router_gpu_names[ROUTER_GPU_TOLD] = {
    "utilization_percent", "memory_busy_percent", "temperature_celsius", "power_milliwatts",
    "clock_mhz"};

/* ---- the statements: made once of the names of columns, and never freed ---- */

const struct router_kept router_kept[] = {
#define ROUTER_KEPT_COUNTER(member, name, help, column, series, title, ja)                     \
    {ROUTER_KEPT_COUNTS, ROUTER_FIGURE_##member, column, series, title, ja},
#define ROUTER_KEPT_SUM(member, column, series)                                                \
    {ROUTER_KEPT_COUNTS, ROUTER_FIGURE_##member, column, series, "", ""},
#define ROUTER_KEPT_LEVEL(member, column, series)                                              \
    {ROUTER_KEPT_MEAN, ROUTER_FIGURE_##member, column, series, "", ""},
#define ROUTER_KEPT_HISTOGRAM(member, name, by_model, vllm, help, column, series)              \
    {ROUTER_KEPT_SPREAD, ROUTER_FIGURE_##member, column, series, "", ""},
#include "router/figures/figures.def"
};
const size_t router_kept_count = sizeof(router_kept) / sizeof(router_kept[0]);

static const char *const gpu_columns[] = {
    "samples",          "memory_used", "memory_total",     "utilization",
    "utilization_told", "memory_busy", "memory_busy_told", "temperature",
    "temperature_told", "power",       "power_told",       "clock",
    "clock_told",
};
_Static_assert(sizeof(gpu_columns) / sizeof(gpu_columns[0]) == ROUTER_GPU_FIGURES,
               "a name for each column of history_gpus");

enum { KEYS = 5, TEXT_MAX = 8192, NAME_MAX = 40 }; /* KEYS: columns before the figures */

static struct kind {
    const char *table, *subject, *place;
    size_t count;
    char columns[ROUTER_FIGURES][NAME_MAX], widen[ROUTER_FIGURES][2 * NAME_MAX + 40];
    char create[TEXT_MAX], insert[TEXT_MAX], select[TEXT_MAX];
} kinds[ROUTER_HISTORY_KINDS] = {
    {.table = "history", .subject = "model", .place = "node", .count = ROUTER_FIGURES},
    {.table = "history_gpus",
     .subject = "node",
     .place = "device",
     .count = ROUTER_GPU_FIGURES},
};

size_t router_history_figures(enum router_history_kind kind)
{
    return kinds[kind].count;
}

/* A statement in an array of TEXT_MAX bytes: nothing is allocated, so nothing can fail. */
struct text {
    char *out;
    size_t len;
};

LR_PRINTF(2, 3) static void add(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int more = vsnprintf(text->out + text->len, TEXT_MAX - text->len, format, args);
    va_end(args);
    text->len += more > 0 ? (size_t)more : 0;
    assert(text->len < TEXT_MAX);
}

static void make_create(const struct kind *k, struct text *text)
{
    add(text,
        "CREATE TABLE %s (level BIGINT NOT NULL, slot BIGINT NOT NULL, part TEXT NOT "
        "NULL, %s TEXT NOT NULL, %s TEXT NOT NULL",
        k->table, k->subject, k->place);
    for (size_t i = 0; i < k->count; i++)
        add(text, ", %s BIGINT NOT NULL", k->columns[i]);
    add(text, ", PRIMARY KEY (level, slot, part, %s, %s))", k->subject, k->place);
}

static void make_insert(const struct kind *k, struct text *text)
{
    add(text, "INSERT INTO %s (level, slot, part, %s, %s", k->table, k->subject, k->place);
    for (size_t i = 0; i < k->count; i++)
        add(text, ", %s", k->columns[i]);
    add(text, ") VALUES (");
    for (size_t i = 1; i <= KEYS + k->count; i++)
        add(text, "%s$%zu", i != 1 ? ", " : "", i);
    add(text, ") ON CONFLICT (level, slot, part, %s, %s) DO UPDATE SET ", k->subject, k->place);
    for (size_t i = 0; i < k->count; i++)
        add(text, "%s%s = excluded.%s", i != 0 ? ", " : "", k->columns[i], k->columns[i]);
}

/* The rows of one slot become one row; those of different devices stay apart. */
static void make_select(const struct kind *k, bool is_apart, struct text *text)
{
    add(text, "%s", is_apart ? "SELECT slot, node, device" : "SELECT slot, '', ''");
    for (size_t i = 0; i < k->count; i++)
        add(text, ", CAST(SUM(%s) AS BIGINT)", k->columns[i]);
    add(text, " FROM %s WHERE level = $1 AND slot >= $2 AND slot < $3", k->table);
    add(text, "%s",
        is_apart ? " AND ($4 = '' OR node = $4) GROUP BY slot, node, device "
                   "ORDER BY node, device, slot"
                 : " AND ($4 = '' OR node = $4) AND ($5 = '' OR model = $5) "
                   "GROUP BY slot ORDER BY slot");
}

static void make_names(void)
{
    for (size_t i = 0; i < router_kept_count; i++) {
        const struct router_kept *kept = &router_kept[i];
        bool is_spread = kept->kind == ROUTER_KEPT_SPREAD;
        for (size_t b = 0; b < (is_spread ? ROUTER_BUCKETS : 1); b++) {
            char *name = kinds[ROUTER_HISTORY_REQUESTS].columns[kept->figure + b];
            (void)snprintf(name, NAME_MAX, is_spread ? "%s_%zu" : "%s", kept->column, b);
        }
    }
    for (size_t i = 0; i < ROUTER_GPU_FIGURES; i++)
        (void)snprintf(kinds[ROUTER_HISTORY_GPUS].columns[i], NAME_MAX, "%s", gpu_columns[i]);
}

static void make_texts(void)
{
    make_names();
    for (size_t i = 0; i < ROUTER_HISTORY_KINDS; i++) {
        struct kind *k = &kinds[i];
        make_create(k, &(struct text){k->create, 0});
        make_insert(k, &(struct text){k->insert, 0});
        make_select(k, i == ROUTER_HISTORY_GPUS, &(struct text){k->select, 0});
        for (size_t c = 0; c < k->count; c++)
            (void)snprintf(k->widen[c], sizeof(k->widen[c]),
                           "ALTER TABLE %s ADD COLUMN %s BIGINT NOT NULL DEFAULT 0", k->table,
                           k->columns[c]);
    }
}

static const struct kind *kind_of(enum router_history_kind kind)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, make_texts);
    return &kinds[kind];
}

/* ---- writing ---- */

lr_code router_history_create(struct router_sql *sql, struct lr_error *err)
{
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < ROUTER_HISTORY_KINDS; i++)
        code = router_sql_plain(sql, kind_of((enum router_history_kind)i)->create, err);
    return code;
}

struct lacking {
    const struct kind *kind;
    bool has[ROUTER_FIGURES];
};

static lr_code note_column(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct lacking *lacking = ctx;
    struct lr_str name = router_row_text(row, 0);
    (void)err;
    for (size_t i = 0; i < lacking->kind->count; i++)
        lacking->has[i] = lacking->has[i] || lr_str_eq_z(name, lacking->kind->columns[i]);
    return LR_OK;
}

static lr_code find_lacking(struct router_sql *sql, struct lacking *lacking,
                            struct lr_error *err)
{
    return ROUTER_SQL(sql, sql->backend->columns, note_column, lacking, err,
                      ROUTER_Z(lacking->kind->table));
}

static lr_code widen_table(struct router_sql *sql, const struct kind *k, struct lr_error *err)
{
    struct lacking lacking = {.kind = k};
    lr_code code = find_lacking(sql, &lacking, err);
    for (size_t i = 0; code == LR_OK && i < k->count; i++) {
        if (lacking.has[i])
            continue;
        code = router_sql_plain(sql, k->widen[i], err);
        /* Another router that starts now may have been faster. */
        if (code != LR_OK && find_lacking(sql, &lacking, err) == LR_OK && lacking.has[i])
            code = LR_OK;
    }
    return code;
}

lr_code router_history_widen(struct router_sql *sql, struct lr_error *err)
{
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < ROUTER_HISTORY_KINDS; i++)
        code = widen_table(sql, kind_of((enum router_history_kind)i), err);
    return code;
}

lr_code router_history_write(struct router_sql *sql, const struct router_history_row *row,
                             struct lr_error *err)
{
    const struct kind *k = kind_of(row->kind);
    struct router_sql_value values[KEYS + ROUTER_FIGURES] = {
        ROUTER_INT(row->level), ROUTER_INT(row->slot_s), ROUTER_Z(row->part),
        ROUTER_Z(row->subject), ROUTER_Z(row->place)};
    for (size_t i = 0; i < k->count; i++)
        values[KEYS + i] = ROUTER_INT(row->figures[i]);
    return router_sql_run(sql, k->insert, values, KEYS + k->count, NULL, NULL, err);
}

lr_code router_history_sweep(struct router_sql *sql, int64_t now_s, struct lr_error *err)
{
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < ROUTER_LEVELS; i++) {
        /* A slot more than a range shows: its first slot may have begun before the range. */
        int64_t since_s = now_s - router_levels[i].kept_s - 2 * router_levels[i].slot_s;
        code = ROUTER_SQL(sql, "DELETE FROM history WHERE level = $1 AND slot < $2", NULL, NULL,
                          err, ROUTER_INT(i), ROUTER_INT(since_s));
        if (code == LR_OK)
            code = ROUTER_SQL(sql, "DELETE FROM history_gpus WHERE level = $1 AND slot < $2",
                              NULL, NULL, err, ROUTER_INT(i), ROUTER_INT(since_s));
    }
    return code;
}

/* ---- reading ---- */

struct reading {
    router_history_fn fn;
    void *ctx;
    struct router_history_row row;
    size_t count;
};

static lr_code history_take_row(void *ctx, const struct router_row *row, struct lr_error *err)
{
    struct reading *r = ctx;
    r->row.slot_s = router_row_int(row, 0);
    LR_COPY(r->row.subject, router_row_text(row, 1));
    LR_COPY(r->row.place, router_row_text(row, 2));
    for (size_t i = 0; i < r->count; i++)
        r->row.figures[i] = router_row_int(row, 3 + (int)i);
    return r->fn(r->ctx, &r->row, err);
}

lr_code router_history_read(struct router_sql *sql, enum router_history_kind kind,
                            const struct router_history_question *q, router_history_fn fn,
                            void *ctx, struct lr_error *err)
{
    struct reading reading = {fn, ctx, {.kind = kind, .level = q->level}, kinds[kind].count};
    const struct router_sql_value values[] = {ROUTER_INT(q->level), ROUTER_INT(q->since_s),
                                              ROUTER_INT(q->until_s), ROUTER_TEXT(q->node),
                                              ROUTER_TEXT(q->model)};
    return router_sql_run(sql, kind_of(kind)->select, values,
                          kind == ROUTER_HISTORY_REQUESTS ? 5 : 4, history_take_row, &reading,
                          err);
}

struct naming {
    router_history_name_fn fn;
    void *ctx;
    bool is_node;
};

static lr_code history_take_name(void *ctx, const struct router_row *row, struct lr_error *err)
{
    const struct naming *naming = ctx;
    (void)err;
    naming->fn(naming->ctx, naming->is_node, router_row_text(row, 0));
    return LR_OK;
}

lr_code router_history_names(struct router_sql *sql, const struct router_history_question *q,
                             router_history_name_fn fn, void *ctx, struct lr_error *err)
{
    struct naming naming = {fn, ctx, false};
    lr_code code = ROUTER_SQL(sql,
                              "SELECT DISTINCT model FROM history WHERE level = $1 AND slot >= "
                              "$2 AND slot < $3 AND model <> '' ORDER BY model LIMIT 1000",
                              history_take_name, &naming, err, ROUTER_INT(q->level),
                              ROUTER_INT(q->since_s), ROUTER_INT(q->until_s));
    naming.is_node = true;
    if (code == LR_OK)
        code =
            ROUTER_SQL(sql,
                       "SELECT DISTINCT node FROM (SELECT node, level, slot FROM history "
                       "UNION ALL SELECT node, level, slot FROM history_gpus) AS both_tables "
                       "WHERE level = $1 AND slot >= $2 AND slot < $3 AND node <> '' ORDER "
                       "BY node LIMIT 1000",
                       history_take_name, &naming, err, ROUTER_INT(q->level),
                       ROUTER_INT(q->since_s), ROUTER_INT(q->until_s));
    return code;
}
