/* cli/router.c - llm-router router: the front door of a fleet. */
#include "router/router.h"
#include "cli/commands.h"
#include "cli/version.h"

static lr_code run(const struct lr_settings *settings, struct lr_error *err)
{
    return router_run(settings, cli_version(), err);
}

const struct cli_command cli_command_router = {
    .name = "router",
    .summary = "Offer one OpenAI-compatible endpoint over all nodes that join",
    .details = "On loopback no key is needed. On any other address every request needs one,\n"
               "and the first start prints an admin key once. Nodes join with a token\n"
               "(llm-router nodes token). SIGTERM lets running requests finish.",
    .shared = true,
    .run = run,
};
