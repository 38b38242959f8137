/* cli/router.c - llm-router router: the endpoint of a fleet. */
#include "router/router.h"
#include "base/log.h"
#include "cli/commands.h"
#include "cli/version.h"

static lr_code cli_router_run(const struct lr_settings *settings, struct lr_error *err)
{
    lr_code code = lr_log_open(lr_settings_str(settings, "log-file"), err);
    return code == LR_OK ? router_run(settings, cli_version(), cli_args(), err) : code;
}

const struct cli_command cli_command_router = {
    .name = "router",
    .summary = "Serve one OpenAI-compatible endpoint for all nodes that join",
    .details =
        "On loopback no key is needed. On any other address every request needs a key,\n"
        "and the first start prints an admin key once. Nodes join with a token\n"
        "(llm-router nodes token). After SIGTERM running requests finish; SIGHUP reads the\n"
        "certificates again and opens the log file again. SIGUSR2 starts the installed\n"
        "program with the same arguments and --takeover: an upgrade without a gap.",
    .shared = true,
    .run = cli_router_run,
};
