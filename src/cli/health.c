/* cli/health.c - llm-router health: whether the router answers and has a model. */
#include "cli/commands.h"
#include "cli/remote.h"

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS, CLI_JSON_FLAG};

static void print_health(struct cli_answer *a, struct lr_buf *out)
{
    lr_buf_addf(out, "%s\n", cli_text(&a->arena, a->json, "status"));
}

static lr_code run_health(const struct lr_settings *s, struct lr_error *err)
{
    return cli_show(s, "/health", print_health, err);
}

const struct cli_command cli_command_health = {
    .name = "health",
    .summary = "Tell whether the router answers",
    .details = "Needs no key. llm-router status has more.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = run_health,
};
