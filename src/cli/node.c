/* cli/node.c - llm-router node: a GPU machine's side of the service. */
#include "node/node.h"
#include "base/log.h"
#include "cli/commands.h"

static lr_code run(const struct lr_settings *settings, struct lr_error *err)
{
    lr_code code = lr_log_open(lr_settings_str(settings, "log-file"), err);
    return code == LR_OK ? node_run(settings, err) : code;
}

const struct cli_command cli_command_node = {
    .name = "node",
    .summary = "Run models on this machine and offer them to routers and clients",
    .details = "Finds engines (engines-dir) and models (--model, models-dir, the Hugging Face\n"
               "cache) and starts one worker process per loaded model. SIGTERM finishes what\n"
               "runs and leaves, a second one leaves at once; SIGHUP looks for new models,\n"
               "reloads engines that changed, reads the certificates again and opens the log\n"
               "file anew.",
    .shared = true,
    .run = run,
};
