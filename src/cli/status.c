/* cli/status.c - llm-router status: router, nodes, models, work and alerts on one screen. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/remote.h"
#include "cli/terminal.h"

enum { PAGE_BYTES = 1 << 20, ALERTS_SHOWN = 10, FORBIDDEN = 403 };

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS};

/* "3 h 12 min" */
static void put_uptime(struct lr_buf *out, int64_t ms)
{
    long long s = (long long)ms / 1000;
    if (s >= 86400)
        lr_buf_addf(out, "%lld d %lld h", s / 86400, s / 3600 % 24);
    else if (s >= 3600)
        lr_buf_addf(out, "%lld h %lld min", s / 3600, s / 60 % 60);
    else if (s >= 60)
        lr_buf_addf(out, "%lld min", s / 60);
    else
        lr_buf_addf(out, "%lld s", s);
}

static lr_code put_health(const struct lr_settings *s, struct lr_buf *out, struct lr_error *err)
{
    struct cli_answer a;
    lr_code code = cli_ask(s, "GET", "/health", NULL, &a, err);
    /* While a router stops, it answers 503 with the same members. */
    if (code != LR_OK && a.json != NULL && lr_json_get(a.json, "uptime_ms") != NULL)
        code = LR_OK;
    if (code == LR_OK) {
        lr_buf_add_z(out, "router   ");
        cli_put(out, lr_str_z(cli_router_url(s)));
        lr_buf_addf(out, "  %s, version %s, up ", cli_text(&a.arena, a.json, "status"),
                    cli_text(&a.arena, a.json, "version"));
        put_uptime(out, cli_int(a.json, "uptime_ms"));
        lr_buf_add_char(out, '\n');
    }
    cli_answer_free(&a);
    return code;
}

static void status_put_nodes(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "nodes");
    uint32_t count = list != NULL ? list->count : 0, online = 0;
    for (uint32_t i = 0; i < count; i++)
        online += cli_bool(&list->items[i], "online");
    lr_buf_addf(out, "nodes    %u of %u online\n", online, count);
    for (uint32_t i = 0; i < count; i++) {
        const struct lr_json *n = &list->items[i];
        const char *why = !cli_bool(n, "online")    ? "offline"
                          : cli_bool(n, "drained")  ? "drained"
                          : cli_bool(n, "draining") ? "stopping"
                                                    : NULL;
        if (why != NULL)
            lr_buf_addf(out, "         %s: %s\n", cli_text(&a->arena, n, "name"), why);
    }
}

static void status_put_models(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "models");
    uint32_t count = list != NULL ? list->count : 0, ready = 0, loaded = 0;
    for (uint32_t i = 0; i < count; i++) {
        ready += cli_bool(&list->items[i], "ready");
        loaded += cli_int(lr_json_get(&list->items[i], "states"), "ready") != 0;
    }
    lr_buf_addf(out, "models   %u of %u can be used, %u loaded\n", ready, count, loaded);
}

/* The newest value of a column. */
static double newest(const struct lr_json *stats, const char *column)
{
    const struct lr_json *list = cli_array(stats, column);
    double value = 0;
    if (list != NULL && list->count != 0)
        (void)lr_json_double(&list->items[list->count - 1], &value);
    return value;
}

static void put_work(struct cli_answer *a, struct lr_buf *out)
{
    lr_buf_addf(out, "work     %.0f requests run, %.0f wait, %.1f tokens/s\n",
                newest(a->json, "in_flight"), newest(a->json, "queue"),
                newest(a->json, "tokens_per_second"));
}

static void put_alerts(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "alerts");
    uint32_t open = 0;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        open += cli_bool(&list->items[i], "open");
    lr_buf_addf(out, "alerts   %u open\n", open);
    for (uint32_t i = 0, shown = 0; list != NULL && i < list->count && shown < ALERTS_SHOWN;
         i++) {
        const struct lr_json *alert = &list->items[i];
        if (!cli_bool(alert, "open"))
            continue;
        shown++;
        const char *node = cli_text(&a->arena, alert, "node_name");
        const char *advice = cli_text(&a->arena, alert, "advice");
        lr_buf_addf(out, "  %-7s %s%s%s\n", cli_text(&a->arena, alert, "level"), node,
                    node[0] != '\0' ? ": " : "", cli_text(&a->arena, alert, "message"));
        if (advice[0] != '\0')
            lr_buf_addf(out, "          %s\n", advice);
    }
}

static lr_code put_fleet(const struct lr_settings *s, struct lr_buf *out, struct lr_error *err)
{
    static const struct {
        const char *path;
        cli_print_fn put;
    } parts[] = {
        {"/v0/nodes?brief=true", status_put_nodes},
        {"/v0/models?brief=true", status_put_models},
        {"/v0/stats?step=5", put_work},
        {"/v0/alerts", put_alerts},
    };
    lr_code code = LR_OK;
    for (size_t i = 0; code == LR_OK && i < sizeof(parts) / sizeof(parts[0]); i++) {
        struct cli_answer a;
        code = cli_ask(s, "GET", parts[i].path, NULL, &a, err);
        bool is_forbidden = code != LR_OK && a.status == FORBIDDEN;
        if (code == LR_OK)
            parts[i].put(&a, out);
        cli_answer_free(&a);
        if (is_forbidden) {
            lr_buf_add_z(out, "         a key of role admin shows nodes, models and alerts\n");
            return LR_OK;
        }
    }
    return code;
}

static lr_code status_run(const struct lr_settings *s, struct lr_error *err)
{
    struct lr_buf out;
    lr_buf_init(&out, PAGE_BYTES);
    lr_code code = put_health(s, &out, err);
    if (code == LR_OK)
        code = put_fleet(s, &out, err);
    if (code == LR_OK)
        code = cli_print(&out, err);
    lr_buf_free(&out);
    return code;
}

const struct cli_command cli_command_status = {
    .name = "status",
    .summary = "Show whether the router is well: nodes, models, work and open alerts",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = status_run,
};
