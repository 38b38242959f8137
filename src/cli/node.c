/* cli/node.c - llm-router node: serves models on a GPU machine. */
#include "node/node.h"
#include "base/log.h"
#include "cli/commands.h"

static lr_code cli_node_run(const struct lr_settings *settings, struct lr_error *err)
{
    lr_code code = lr_log_open(lr_settings_str(settings, "log-file"), err);
    return code == LR_OK ? node_run(settings, err) : code;
}

const struct cli_command cli_command_node = {
    .name = "node",
    .summary = "Run models on this machine for routers and clients",
    .details =
        "Finds engines (engines-dir) and models (--model, models-dir, the Hugging Face\n"
        "cache) and starts one worker process per loaded model. After SIGTERM the\n"
        "node finishes its requests and exits; after a second SIGTERM it exits at once.\n"
        "SIGHUP looks for new models, reloads changed engines, reads the certificates\n"
        "again and opens the log file again.",
    .shared = true,
    .run = cli_node_run,
};
