/* cli/help.c - `llm-router help [COMMAND [TOOL]]`. */
#include "cli/commands.h"

static lr_code fail_unknown(const char *parent, struct cli_table table, const char *name,
                            struct lr_error *err)
{
    const char *near = cli_near(table, name);
    return near != NULL
               ? lr_fail(err, LR_INVALID_ARGUMENT,
                         "there is no \"%s %.60s\"; did you mean \"%s %s\"?", parent, name,
                         parent, near)
               : lr_fail(err, LR_INVALID_ARGUMENT, "there is no \"%s %.60s\"", parent, name);
}

static lr_code write_help(const struct lr_settings *settings, struct lr_buf *out,
                          struct lr_error *err)
{
    char parent[CLI_PATH_LEN] = "llm-router";
    struct cli_table table = cli_commands();
    const struct cli_command *command = NULL;
    for (size_t i = 0; i < lr_settings_positional_count(settings); i++) {
        const char *name = lr_settings_positional(settings, i);
        if (command != NULL && command->tools == NULL)
            return lr_fail(err, LR_INVALID_ARGUMENT,
                           "%s %s has no tools: llm-router help %s explains it", parent,
                           command->name, command->name);
        if (command != NULL) {
            cli_path("llm-router", command, parent);
            table = command->tools();
        }
        command = cli_find(table, name);
        if (command == NULL)
            return fail_unknown(parent, table, name, err);
    }
    if (command == NULL)
        cli_list(parent, table, out);
    else
        cli_help(parent, command, out);
    return LR_OK;
}

static lr_code run_help(const struct lr_settings *settings, struct lr_error *err)
{
    struct lr_buf text;
    lr_buf_init(&text, 1 << 20);
    lr_code code = write_help(settings, &text, err);
    if (code == LR_OK)
        code = cli_print(&text, err);
    lr_buf_free(&text);
    return code;
}

const struct cli_command cli_command_help = {
    .name = "help",
    .summary = "List the commands, or explain a command",
    .arguments = "[COMMAND [TOOL]]",
    .most = 2,
    .run = run_help,
};
