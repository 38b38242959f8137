/* cli/usage.c - llm-router usage: requests, tokens and cost by day, key, owner and model. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "since",
     .type = LR_SETTING_DURATION,
     .fallback = "24h",
     .min = 1000,
     .max = 3650LL * 86400000,
     .help = "how far to look back"},
    {.name = "of",
     .type = LR_SETTING_STRING,
     .value = "KEY",
     .help = "only the usage of this key, by its id or name"},
    {.name = "by",
     .type = LR_SETTING_LIST,
     .value = "day|model|key|owner,...",
     .help =
         "a row for each day (UTC), model, key, owner, or a list of these; default: key and "
         "model"},
    {.name = "csv",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the rows as CSV (RFC 4180), with the cost where the router has prices"},
};

/* ---- the table ---- */

/* What a row may be of, in the order of the columns. */
static const struct {
    const char *member, *title;
    int width;
} groups[] = {
    {"day", "DAY", 10}, {"key", "KEY", 24}, {"owner", "OWNER", 24}, {"model", "MODEL", 36}};
static const struct {
    const char *member, *title;
    int width;
} sums[] = {{"requests", "REQUESTS", 9},
            {"errors", "ERRORS", 7},
            {"prompt_tokens", "PROMPT", 12},
            {"cached_tokens", "CACHED", 12},
            {"completion_tokens", "COMPLETION", 12}};
enum { GROUPS = sizeof(groups) / sizeof(groups[0]), SUMS = sizeof(sums) / sizeof(sums[0]) };

/* A key's name says more than its id, but several keys may have the same name. */
static const char *group_of(struct cli_answer *a, const struct lr_json *row, const char *member)
{
    const char *text = cli_text(&a->arena, row, member);
    if (strcmp(member, "key") != 0)
        return text[0] != '\0' ? text : "(none)";
    if (text[0] == '\0')
        return "(no key)";
    const char *both =
        lr_arena_printf(&a->arena, "%s %s", text, cli_text(&a->arena, row, "key_name"));
    return both != NULL ? both : text;
}

static void put_sums(struct lr_buf *out, const long long values[SUMS], const double *cost)
{
    for (size_t i = 0; i < SUMS; i++)
        lr_buf_addf(out, "%s%*lld", i != 0 ? " " : "", sums[i].width, values[i]);
    if (cost != NULL)
        lr_buf_addf(out, " %12.4f", *cost);
    lr_buf_add_z(out, "\n");
}

static void put_row(struct cli_answer *a, const struct lr_json *row, bool has_cost,
                    long long total[SUMS], double *total_cost, struct lr_buf *out)
{
    long long values[SUMS];
    double cost = cli_real(row, "cost");
    for (size_t i = 0; i < GROUPS; i++)
        if (lr_json_get(row, groups[i].member) != NULL)
            lr_buf_addf(out, "%-*s ", groups[i].width, group_of(a, row, groups[i].member));
    for (size_t i = 0; i < SUMS; i++) {
        values[i] = (long long)cli_int(row, sums[i].member);
        total[i] += values[i];
    }
    *total_cost += cost;
    put_sums(out, values, has_cost ? &cost : NULL);
}

static void put_usage(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *rows = cli_array(a->json, "usage");
    long long total[SUMS] = {0};
    double cost = 0;
    int width = 0;
    if (rows == NULL || rows->count == 0) {
        lr_buf_add_z(out, "No request in this time\n");
        return;
    }
    bool has_cost = lr_json_get(&rows->items[0], "cost") != NULL;
    for (size_t i = 0; i < GROUPS; i++)
        if (lr_json_get(&rows->items[0], groups[i].member) != NULL) {
            lr_buf_addf(out, "%-*s ", groups[i].width, groups[i].title);
            width += groups[i].width + 1;
        }
    for (size_t i = 0; i < SUMS; i++)
        lr_buf_addf(out, "%s%*s", i != 0 ? " " : "", sums[i].width, sums[i].title);
    if (has_cost)
        lr_buf_addf(out, " %5s %6s", "COST", cli_text(&a->arena, a->json, "currency"));
    lr_buf_add_z(out, "\n");
    for (uint32_t i = 0; i < rows->count; i++)
        put_row(a, &rows->items[i], has_cost, total, &cost, out);
    lr_buf_addf(out, "%-*s ", width - 1, "TOTAL");
    put_sums(out, total, has_cost ? &cost : NULL);
}

/* ---- the question ---- */

static lr_code put_path(const struct lr_settings *s, struct lr_buf *path, struct lr_error *err)
{
    char key[CLI_ID_MAX];
    lr_buf_addf(
        path, "/v0/usage?since=%lld&by=",
        (long long)((lr_clock_wall_ms(NULL) - (int64_t)lr_settings_ms(s, "since")) / 1000));
    for (size_t i = 0; i < lr_settings_list_count(s, "by"); i++) {
        lr_buf_add_z(path, i != 0 ? "," : "");
        cli_escape(path, lr_settings_list_item(s, "by", i));
    }
    if (lr_settings_list_count(s, "by") == 0)
        lr_buf_add_z(path, "key,model");
    if (lr_settings_bool(s, "csv"))
        lr_buf_add_z(path, "&format=csv");
    if (!lr_settings_has(s, "of"))
        return LR_OK;
    lr_code code = cli_key_id(s, lr_settings_str(s, "of"), key, err);
    if (code == LR_OK) {
        lr_buf_add_z(path, "&key=");
        cli_escape(path, key);
    }
    return code;
}

static lr_code print_csv(const struct lr_settings *s, const char *path, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf out;
    lr_code code = cli_ask(s, "GET", path, NULL, &a, err);
    lr_buf_init(&out, 4 * a.body.len + 16);
    if (code == LR_OK && isatty(STDOUT_FILENO) != 0)
        cli_add_visible(&out, a.body, CLI_LINES);
    else if (code == LR_OK)
        lr_buf_add_str(&out, a.body);
    if (code == LR_OK)
        code = cli_print(&out, err);
    lr_buf_free(&out);
    cli_answer_free(&a);
    return code;
}

static lr_code usage_run(const struct lr_settings *s, struct lr_error *err)
{
    struct lr_buf path;
    if (lr_settings_bool(s, "csv") && lr_settings_bool(s, "json"))
        return lr_fail(err, LR_INVALID_ARGUMENT, "--csv and --json: choose one");
    lr_buf_init(&path, 4096);
    lr_code code = put_path(s, &path, err);
    if (code == LR_OK)
        code = lr_settings_bool(s, "csv") ? print_csv(s, lr_buf_z(&path), err)
                                          : cli_show(s, lr_buf_z(&path), put_usage, err);
    lr_buf_free(&path);
    return code;
}

const struct cli_command cli_command_usage = {
    .name = "usage",
    .summary = "Show requests, tokens and cost by day, key, owner and model",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = usage_run,
};
