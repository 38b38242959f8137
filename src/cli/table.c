/* cli/table.c - the subcommands, in the order `llm-router help` lists them. */
#include "cli/commands.h"

/* One row per line. */
/* clang-format off */
static const struct cli_command *const rows[] = {
    &cli_command_up,
    &cli_command_router,
    &cli_command_node,
    &cli_command_run,
    &cli_command_chat,
    &cli_command_launch,
    &cli_command_list,
    &cli_command_show,
    &cli_command_ps,
    &cli_command_stop,
    &cli_command_pull,
    &cli_command_search,
    &cli_command_fit,
    &cli_command_register,
    &cli_command_models,
    &cli_command_nodes,
    &cli_command_alerts,
    &cli_command_engines,
    &cli_command_keys,
    &cli_command_usage,
    &cli_command_requests,
    &cli_command_audit,
    &cli_command_sessions,
    &cli_command_whoami,
    &cli_command_explain,
    &cli_command_status,
    &cli_command_health,
    &cli_command_top,
    &cli_command_logs,
    &cli_command_config,
    &cli_command_doctor,
    &cli_command_explain_error,
    &cli_command_memory,
    &cli_command_backup,
    &cli_command_restore,
    &cli_command_update,
    &cli_command_bench,
    &cli_command_debug,
    &cli_command_completion,
    &cli_command_help,
    &cli_command_version,
    &cli_command_worker,
};
/* clang-format on */

struct cli_table cli_commands(void)
{
    return (struct cli_table){rows, sizeof(rows) / sizeof(rows[0])};
}
