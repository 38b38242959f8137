/* cli/node.c - llm-router node: a GPU machine's side of the service. */
#include "node/node.h"
#include "cli/commands.h"

const struct cli_command cli_command_node = {
    .name = "node",
    .summary = "Run models on this machine and offer them to routers and clients",
    .details = "Finds engines (engines-dir) and models (--model, models-dir, the Hugging Face\n"
               "cache) and starts one worker process per loaded model. SIGTERM finishes what\n"
               "runs and leaves, a second one leaves at once; SIGHUP looks for new models and\n"
               "reloads engines that changed.",
    .shared = true,
    .run = node_run,
};
