/* cli/top.c - llm-router top: nodes, models and tokens a second, live. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/os/terminal.h"
#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/terminal.h"

enum {
    PAGE_BYTES = 8 << 20,
    WAIT_MS = 5000,
    HEAD_ROWS = 3,
    ROWS_LEAST = 4,
};

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "once",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the figures once and exit; also where standard output is no terminal"},
    {.name = "interval",
     .type = LR_SETTING_DURATION,
     .fallback = "2s",
     .min = 200,
     .max = 3600000,
     .help = "time between two looks at the router"},
};

/* What the router said last. */
struct view {
    const struct lr_settings *settings;
    struct cli_answer stats, nodes, models;
    bool has_any;
    struct lr_error err; /* of the last look; LR_OK: it was answered */
};

static void top_forget(struct view *v)
{
    if (v->has_any) {
        cli_answer_free(&v->stats);
        cli_answer_free(&v->nodes);
        cli_answer_free(&v->models);
    }
    v->has_any = false;
}

/* Keeps the older figures where the router does not answer. */
static lr_code top_look(struct view *v)
{
    struct view now = {.settings = v->settings};
    lr_code code =
        cli_ask_within(v->settings, WAIT_MS, "/v0/stats?step=5", &now.stats, &now.err);
    if (code == LR_OK)
        code = cli_ask_within(v->settings, WAIT_MS, "/v0/nodes", &now.nodes, &now.err);
    if (code == LR_OK)
        code = cli_ask_within(v->settings, WAIT_MS, "/v0/models", &now.models, &now.err);
    now.has_any = true;
    if (code != LR_OK) {
        v->err = now.err;
        top_forget(&now);
        return code;
    }
    top_forget(v);
    *v = now;
    return LR_OK;
}

/* ---- the page ---- */

/* The newest point of a column of /v0/stats; 0: none yet. */
static double newest(const struct lr_json *list)
{
    double value = 0;
    if (lr_json_is(list, LR_JSON_ARRAY) && list->count != 0)
        (void)lr_json_double(&list->items[list->count - 1], &value);
    return value;
}

static void top_put_head(struct view *v, struct lr_buf *page)
{
    const struct lr_json *s = v->stats.json;
    char now[LR_TIME_TEXT_LEN + 1];
    lr_time_format(lr_clock_wall_ms(NULL), now);
    lr_buf_add_z(page, "llm-router ");
    cli_put(page, lr_str_z(cli_router_url(v->settings)));
    lr_buf_addf(page, "  %.19sZ", now);
    if (v->err.code != LR_OK) {
        lr_buf_add_z(page, "  NO ANSWER: ");
        cli_put(page, lr_str_z(v->err.text));
    }
    lr_buf_addf(page,
                "\n%.1f requests/s  %.1f tokens/s  %.0f running  %.0f queued  first token %.0f "
                "ms  between tokens %.1f ms\n\n",
                newest(lr_json_get(s, "requests_per_second")),
                newest(lr_json_get(s, "tokens_per_second")),
                newest(lr_json_get(s, "in_flight")), newest(lr_json_get(s, "queue")),
                newest(lr_json_get(lr_json_get(s, "first_token_ms"), "p50")),
                newest(lr_json_get(lr_json_get(s, "inter_token_ms"), "p50")));
}

static void put_pools(const struct lr_json *node, struct lr_buf *out)
{
    const struct lr_json *pools = cli_array(node, "memory");
    for (uint32_t i = 0; pools != NULL && i < pools->count; i++) {
        char used[32], total[32];
        lr_format_size((uint64_t)cli_int(&pools->items[i], "used"), used);
        lr_format_size((uint64_t)cli_int(&pools->items[i], "total"), total);
        lr_buf_addf(out, "%s%s of %s", i != 0 ? ", " : "", used, total);
    }
}

/* Rows of a table; those beyond `most` are only counted. */
struct rows {
    struct lr_buf *page;
    size_t count, most;
};

static bool begin_row(struct rows *rows)
{
    return rows->count++ < rows->most;
}

static void end_rows(const struct rows *rows)
{
    if (rows->count > rows->most)
        lr_buf_addf(rows->page, "  and %zu more\n", rows->count - rows->most);
    lr_buf_add_char(rows->page, '\n');
}

static void top_put_nodes(struct view *v, struct lr_buf *page, size_t most)
{
    const struct lr_json *list = cli_array(v->nodes.json, "nodes");
    struct lr_arena *arena = &v->nodes.arena;
    struct rows rows = {.page = page, .most = most};
    lr_buf_addf(page, "%-20s %-9s %-7s %6s %6s  %s\n", "NODE", "STATE", "DEVICE", "ACTIVE",
                "LOADED", "MEMORY");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *n = &list->items[i], *models = cli_array(n, "models");
        long long active = 0, loaded = 0;
        for (uint32_t k = 0; models != NULL && k < models->count; k++) {
            active += (long long)cli_int(&models->items[k], "inflight");
            loaded += strcmp(cli_raw(arena, &models->items[k], "state"), "ready") == 0;
        }
        if (!begin_row(&rows))
            continue;
        const char *state = !cli_bool(n, "online")    ? "offline"
                            : cli_bool(n, "drained")  ? "drained"
                            : cli_bool(n, "draining") ? "stopping"
                                                      : "online";
        cli_add_cell(page, cli_text(arena, n, "name"), 20);
        lr_buf_addf(page, " %-9s %-7s %6lld %6lld  ", state, cli_text(arena, n, "device"),
                    active, loaded);
        put_pools(n, page);
        lr_buf_add_char(page, '\n');
    }
    end_rows(&rows);
}

/* Each step of the engine gives every running answer a token. */
static double tokens_per_second(const struct lr_json *replica)
{
    double step = cli_real(replica, "step_ms");
    return step > 0 ? (double)cli_int(replica, "live") * 1000 / step : 0;
}

static void top_put_models(struct view *v, struct lr_buf *page, size_t most)
{
    const struct lr_json *list = cli_array(v->models.json, "models");
    struct lr_arena *arena = &v->models.arena;
    struct rows rows = {.page = page, .most = most};
    lr_buf_addf(page, "%-36s %-16s %-9s %6s %5s %6s %8s\n", "MODEL", "NODE", "STATE", "ACTIVE",
                "SLOTS", "QUEUED", "TOKENS/S");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *m = &list->items[i], *replicas = cli_array(m, "nodes");
        for (uint32_t k = 0; replicas != NULL && k < replicas->count; k++) {
            const struct lr_json *r = &replicas->items[k];
            if (lr_json_get(r, "state") == NULL || !begin_row(&rows))
                continue;
            cli_add_cell(page, cli_text(arena, m, "id"), 36);
            lr_buf_add_char(page, ' ');
            cli_add_cell(page, cli_text(arena, r, "name"), 16);
            lr_buf_addf(page, " %-9s %6lld %5lld %6lld %8.1f\n", cli_text(arena, r, "state"),
                        (long long)cli_int(r, "inflight"), (long long)cli_int(r, "slots"),
                        (long long)cli_int(m, "queued"), tokens_per_second(r));
        }
    }
    end_rows(&rows);
}

/* Cuts lines at the width and the page at the height.  The last column stays free: in it a
 * terminal would erase the letter itself when the rest of the line is erased. */
static void top_fit(const struct lr_buf *page, struct cli_size size, struct lr_buf *out)
{
    struct lr_str rest = lr_buf_str(page), line;
    struct lr_buf one;
    lr_buf_init(&one, PAGE_BYTES);
    for (unsigned row = 0; row < size.rows && lr_str_split(&rest, '\n', &line); row++) {
        lr_buf_clear(&one);
        lr_buf_add_str(&one, line);
        cli_add_cell(out, lr_buf_z(&one), size.columns - 1);
        while (out->len != 0 && out->data[out->len - 1] == ' ')
            out->len--;
        lr_buf_add_char(out, '\n');
    }
    lr_buf_free(&one);
}

/* Shows the page: lines that end with a newline, the first at the top. */
static void top_show(const struct lr_buf *page)
{
    struct lr_buf out;
    struct lr_str rest = lr_buf_str(page), line;
    bool is_first = true;
    lr_buf_init(&out, (size_t)PAGE_BYTES * 2);
    lr_buf_add_z(&out, "\033[H");
    while (lr_str_split(&rest, '\n', &line)) {
        if (rest.ptr == NULL && line.len == 0)
            break; /* behind the last newline */
        lr_buf_add_z(&out, is_first ? "" : "\n");
        lr_buf_add_str(&out, line);
        lr_buf_add_z(&out, "\033[K");
        is_first = false;
    }
    lr_buf_add_z(&out, "\033[J");
    lr_terminal_put(out.data, out.len);
    lr_buf_free(&out);
}

static size_t top_count_of(const struct lr_json *json, const char *key)
{
    const struct lr_json *list = cli_array(json, key);
    return list != NULL ? list->count : 0;
}

static void draw(struct view *v)
{
    struct cli_size size = cli_terminal_size(STDOUT_FILENO);
    struct lr_buf page, shown;
    lr_buf_init(&page, PAGE_BYTES);
    lr_buf_init(&shown, PAGE_BYTES);
    /* Nodes get what they need, up to half of the rows; models get the rest. */
    size_t rows =
        size.rows > HEAD_ROWS + 6 + ROWS_LEAST ? size.rows - HEAD_ROWS - 6 : ROWS_LEAST;
    size_t nodes = top_count_of(v->nodes.json, "nodes");
    nodes = nodes < rows / 2 ? nodes : rows / 2;
    top_put_head(v, &page);
    top_put_nodes(v, &page, nodes);
    top_put_models(v, &page, rows - nodes);
    lr_buf_add_z(&page, "q ends");
    top_fit(&page, size, &shown);
    top_show(&shown);
    lr_buf_free(&shown);
    lr_buf_free(&page);
}

static lr_code print_once(struct view *v, struct lr_error *err)
{
    struct lr_buf page;
    lr_buf_init(&page, PAGE_BYTES);
    top_put_head(v, &page);
    top_put_nodes(v, &page, SIZE_MAX);
    top_put_models(v, &page, SIZE_MAX);
    lr_code code = cli_print(&page, err);
    lr_buf_free(&page);
    return code;
}

static lr_code top_watch(struct view *v, struct lr_error *err)
{
    uint64_t interval = lr_settings_ms(v->settings, "interval"), due = 0;
    char key = '\0';
    if (!lr_terminal_take())
        return lr_fail_errno(err, LR_IO, "the terminal cannot be set up");
    due = lr_clock_ms(NULL) + interval;
    while (key != 'q' && key != 'Q') {
        draw(v);
        uint64_t now = lr_clock_ms(NULL);
        if (lr_terminal_wait(due > now ? (unsigned)(due - now) : 0, &key) != LR_TERMINAL_TIME)
            continue;
        (void)top_look(v);
        due = lr_clock_ms(NULL) + interval;
    }
    lr_terminal_give_back();
    return LR_OK;
}

static lr_code top_run(const struct lr_settings *s, struct lr_error *err)
{
    struct view v = {.settings = s};
    bool is_live = isatty(STDOUT_FILENO) != 0 && !lr_settings_bool(s, "once");
    lr_code code = top_look(&v);
    if (code != LR_OK)
        *err = v.err;
    else
        code = is_live ? top_watch(&v, err) : print_once(&v, err);
    top_forget(&v);
    return code;
}

const struct cli_command cli_command_top = {
    .name = "top",
    .summary = "Watch nodes, models and tokens a second",
    .details =
        "Fills the terminal until q or Ctrl-C. Where standard output is no terminal, or with\n"
        "--once, the figures are printed once. The tokens a second of a model are those of "
        "its\n"
        "running answers at the speed of its last steps.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = top_run,
};
