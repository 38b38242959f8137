/* cli/commands.h - every subcommand and debug tool, and the tables that list them. */
#ifndef CLI_COMMANDS_H
#define CLI_COMMANDS_H

#include "cli/command.h"

/* All settings of router, node and the commands that talk to them (settings_table.c). */
extern const struct lr_setting_table cli_settings;

struct cli_table cli_commands(void);    /* table.c */
struct cli_table cli_debug_tools(void); /* debug.c */

extern const struct cli_command cli_command_alerts;
extern const struct cli_command cli_command_backup;
extern const struct cli_command cli_command_bench;
extern const struct cli_command cli_command_completion;
extern const struct cli_command cli_command_debug;
extern const struct cli_command cli_command_help;
extern const struct cli_command cli_command_memory;
extern const struct cli_command cli_command_node;
extern const struct cli_command cli_command_router;
extern const struct cli_command cli_command_up;
extern const struct cli_command cli_command_audit;
extern const struct cli_command cli_command_explain;
extern const struct cli_command cli_command_requests;
extern const struct cli_command cli_command_restore;
extern const struct cli_command cli_command_sessions;
extern const struct cli_command cli_command_whoami;
extern const struct cli_command cli_command_run;
extern const struct cli_command cli_command_chat;
extern const struct cli_command cli_command_launch;
extern const struct cli_command cli_command_list;
extern const struct cli_command cli_command_show;
extern const struct cli_command cli_command_health;
extern const struct cli_command cli_command_ps;
extern const struct cli_command cli_command_stop;
extern const struct cli_command cli_command_pull;
extern const struct cli_command cli_command_search;
extern const struct cli_command cli_command_fit;
extern const struct cli_command cli_command_usage;
extern const struct cli_command cli_command_status;
extern const struct cli_command cli_command_top;
extern const struct cli_command cli_command_logs;
extern const struct cli_command cli_command_config;
extern const struct cli_command cli_command_register;
extern const struct cli_command cli_command_models;
extern const struct cli_command cli_command_nodes;
extern const struct cli_command cli_command_engines;
extern const struct cli_command cli_command_keys;
extern const struct cli_command cli_command_doctor;
extern const struct cli_command cli_command_update;
extern const struct cli_command cli_command_explain_error;
extern const struct cli_command cli_command_version;
extern const struct cli_command cli_command_worker;

extern const struct cli_command cli_debug_answer;
extern const struct cli_command cli_debug_cli_reference;
extern const struct cli_command cli_debug_detokenize;
extern const struct cli_command cli_debug_dialect;
extern const struct cli_command cli_debug_fetch;
extern const struct cli_command cli_debug_generate;
extern const struct cli_command cli_debug_embed;
extern const struct cli_command cli_debug_ops;
extern const struct cli_command cli_debug_logits;
extern const struct cli_command cli_debug_man_page;
extern const struct cli_command cli_debug_harmony;
extern const struct cli_command cli_debug_manifest;
extern const struct cli_command cli_debug_match;
extern const struct cli_command cli_debug_render;
extern const struct cli_command cli_debug_errors_reference;
extern const struct cli_command cli_debug_settings_reference;
extern const struct cli_command cli_debug_tokenize;
extern const struct cli_command cli_debug_write_gguf;
extern const struct cli_command cli_debug_write_metal;

/* The command line of this process, with the program's name; ends with NULL. */
const char *const *cli_args(void);

#endif
