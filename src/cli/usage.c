/* cli/usage.c - llm-router usage: requests and tokens by key and model. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"

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
};

static void put_row(struct lr_buf *out, const char *key, const char *model,
                    const struct lr_json *row)
{
    lr_buf_addf(out, "%-24s %-36s %9lld %12lld %12lld %12lld\n", key, model,
                (long long)cli_int(row, "requests"), (long long)cli_int(row, "prompt_tokens"),
                (long long)cli_int(row, "cached_tokens"),
                (long long)cli_int(row, "completion_tokens"));
}

/* A key's name says more than its id, but several keys may have the same name. */
static const char *title_of(struct cli_answer *keys, struct cli_answer *usage,
                            const struct lr_json *row)
{
    const struct lr_json *list = cli_array(keys->json, "keys");
    const char *id = cli_text(&usage->arena, row, "key");
    struct lr_str wanted = {0}, other;
    if (!lr_json_str(lr_json_get(row, "key"), &wanted) || wanted.len == 0)
        return "(no key)";
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *key = &list->items[i];
        if (!lr_json_str(lr_json_get(key, "id"), &other) || !lr_str_eq(wanted, other))
            continue;
        const char *both =
            lr_arena_printf(&keys->arena, "%s %s", id, cli_text(&keys->arena, key, "name"));
        return both != NULL ? both : id;
    }
    return id;
}

static void put_usage(struct cli_answer *keys, struct cli_answer *usage, struct lr_buf *out)
{
    static const char *const sums[] = {"requests", "prompt_tokens", "cached_tokens",
                                       "completion_tokens"};
    const struct lr_json *rows = cli_array(usage->json, "usage");
    long long total[4] = {0};
    if (rows == NULL || rows->count == 0) {
        lr_buf_add_z(out, "No request in this time\n");
        return;
    }
    lr_buf_addf(out, "%-24s %-36s %9s %12s %12s %12s\n", "KEY", "MODEL", "REQUESTS", "PROMPT",
                "CACHED", "COMPLETION");
    for (uint32_t i = 0; i < rows->count; i++) {
        const struct lr_json *row = &rows->items[i];
        put_row(out, title_of(keys, usage, row), cli_text(&usage->arena, row, "model"), row);
        for (size_t k = 0; k < 4; k++)
            total[k] += (long long)cli_int(row, sums[k]);
    }
    lr_buf_addf(out, "%-61s %9lld %12lld %12lld %12lld\n", "TOTAL", total[0], total[1],
                total[2], total[3]);
}

static lr_code run(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer usage = {0}, keys = {0};
    struct lr_buf path, out;
    char key[CLI_ID_MAX] = "";
    lr_code code = LR_OK;
    if (lr_settings_has(s, "of"))
        code = cli_key_id(s, lr_settings_str(s, "of"), key, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_init(&out, 4 << 20);
    /* One slot of three thousand years: a row for each key and model. */
    lr_buf_addf(
        &path, "/v0/usage?step=100000000000&since=%lld",
        (long long)((lr_clock_wall_ms(NULL) - (int64_t)lr_settings_ms(s, "since")) / 1000));
    if (key[0] != '\0') {
        lr_buf_add_z(&path, "&key=");
        cli_escape(&path, key);
    }
    code = cli_ask(s, "GET", lr_buf_z(&path), NULL, &usage, err);
    if (code == LR_OK)
        code = cli_ask(s, "GET", "/v0/keys", NULL, &keys, err);
    if (code == LR_OK && lr_settings_bool(s, "json"))
        lr_buf_addf(&out, LR_STR_FMT "\n", LR_STR_ARG(usage.body));
    else if (code == LR_OK)
        put_usage(&keys, &usage, &out);
    if (code == LR_OK)
        code = cli_print(&out, err);
    cli_answer_free(&usage);
    cli_answer_free(&keys);
    lr_buf_free(&path);
    lr_buf_free(&out);
    return code;
}

const struct cli_command cli_command_usage = {
    .name = "usage",
    .summary = "Show requests and tokens by key and model",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run,
};
