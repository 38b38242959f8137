/* cli/debug.c - `llm-router debug TOOL`: tools for developers of llm-router.
 *
 * --help shows the tools in this order.
 */
#include "cli/commands.h"

/* One row per line. */
/* clang-format off */
static const struct cli_command *const rows[] = {
    &cli_debug_tokenize,
    &cli_debug_detokenize,
    &cli_debug_render,
    &cli_debug_answer,
    &cli_debug_dialect,
    &cli_debug_harmony,
    &cli_debug_match,
    &cli_debug_logits,
    &cli_debug_generate,
    &cli_debug_embed,
    &cli_debug_ops,
    &cli_debug_write_metal,
    &cli_debug_write_gguf,
    &cli_debug_manifest,
    &cli_debug_fetch,
    &cli_debug_settings_reference,
    &cli_debug_errors_reference,
    &cli_debug_cli_reference,
    &cli_debug_man_page,
};
/* clang-format on */

struct cli_table cli_debug_tools(void)
{
    return (struct cli_table){rows, sizeof(rows) / sizeof(rows[0])};
}

const struct cli_command cli_command_debug = {
    .name = "debug",
    .summary = "Debugging tools: tokens, prompts, logits, reference pages",
    .arguments = "TOOL ...",
    .tools = cli_debug_tools,
};
