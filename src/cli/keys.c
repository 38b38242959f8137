/* cli/keys.c - llm-router keys: make, list and revoke keys. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/remote.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "name", .type = LR_SETTING_STRING, .help = "whose key it is"},
    {.name = "role",
     .type = LR_SETTING_CHOICE,
     .fallback = "api",
     .choices = "admin|api|node",
     .help = "what it may do"},
    {.name = "expires",
     .type = LR_SETTING_DURATION,
     .fallback = "0",
     .help = "how long it is good; 0 is for ever"},
    {.name = "requests-per-minute",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "0: no limit"},
    {.name = "tokens-per-minute",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .help = "0: no limit"},
};

static lr_code create(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf body;
    struct lr_json_writer w;
    lr_buf_init(&body, 4096);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_z(&w, "name", lr_settings_has(s, "name") ? lr_settings_str(s, "name") : "");
    lr_json_member_z(&w, "role", lr_settings_str(s, "role"));
    lr_json_member_u64(&w, "expires_in", lr_settings_ms(s, "expires") / 1000);
    lr_json_member_i64(&w, "requests_per_minute", lr_settings_int(s, "requests-per-minute"));
    lr_json_member_i64(&w, "tokens_per_minute", lr_settings_int(s, "tokens-per-minute"));
    lr_json_end_object(&w);
    lr_code code = cli_ask(s, "POST", "/v0/keys", &body, &a, err);
    if (code == LR_OK)
        (void)printf("%s\n", cli_text(&a.arena, a.json, "key"));
    cli_answer_free(&a);
    lr_buf_free(&body);
    return code;
}

static lr_code revoke(const struct lr_settings *s, const char *id, struct lr_error *err)
{
    struct cli_answer a;
    char path[120];
    (void)snprintf(path, sizeof(path), "/v0/keys/%.60s", id);
    lr_code code = cli_ask(s, "DELETE", path, NULL, &a, err);
    if (code == LR_OK)
        (void)printf("revoked %s\n", id);
    cli_answer_free(&a);
    return code;
}

static void print_keys(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *keys = lr_json_get(a->json, "keys");
    lr_buf_addf(out, "%-18s %-7s %-8s %-24s %s\n", "KEY", "ROLE", "STATE", "CREATED", "NAME");
    for (uint32_t i = 0; keys != NULL && i < keys->count; i++) {
        const struct lr_json *k = &keys->items[i];
        char created[LR_TIME_TEXT_LEN + 1];
        int64_t expires = cli_int(k, "expires");
        const char *state = cli_int(k, "revoked") != 0 ? "revoked"
                            : expires != 0 && expires * 1000 <= lr_clock_wall_ms(NULL)
                                ? "expired"
                                : "good";
        lr_time_format(cli_int(k, "created") * 1000, created);
        lr_buf_addf(out, "%-18s %-7s %-8s %-24s %s\n", cli_text(&a->arena, k, "id"),
                    cli_text(&a->arena, k, "role"), state, created,
                    cli_text(&a->arena, k, "name"));
    }
}

static lr_code run(const struct lr_settings *s, struct lr_error *err)
{
    size_t count = lr_settings_positional_count(s);
    const char *word = count != 0 ? lr_settings_positional(s, 0) : "list";
    if (count <= 1 && strcmp(word, "list") == 0)
        return cli_show(s, "/v0/keys", print_keys, err);
    if (count == 1 && strcmp(word, "create") == 0)
        return create(s, err);
    if (count == 2 && strcmp(word, "revoke") == 0)
        return revoke(s, lr_settings_positional(s, 1), err);
    return lr_fail(err, LR_INVALID_ARGUMENT, "keys takes: create, list, or revoke KEY");
}

const struct cli_command cli_command_keys = {
    .name = "keys",
    .summary = "Make, list and revoke keys",
    .arguments = "[create | list | revoke KEY]",
    .details = "A new key is printed once; the router keeps only its hash.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 2,
    .run = run,
};
