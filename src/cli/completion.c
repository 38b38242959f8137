/* cli/completion.c - `llm-router completion bash`: a script generated from the tables. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"

enum { SCRIPT_LIMIT = 1 << 20 };

/* "a|b|c" as a list of words. */
static void add_choices(struct lr_buf *out, const char *choices)
{
    for (; *choices != '\0'; choices++)
        lr_buf_add_char(out, *choices == '|' ? ' ' : *choices);
}

static bool applies(const struct lr_setting *row, const struct cli_command *command)
{
    struct lr_str rest = lr_str_z(row->commands), word;
    bool found = row->commands == NULL;
    while (!found && lr_str_split(&rest, ' ', &word))
        found = lr_str_eq_z(word, command->name);
    return found;
}

static void add_flags(struct lr_buf *out, const struct cli_command *command)
{
    const struct lr_setting_table tables[] = {command->flags, cli_settings};
    for (int t = 0; t < (command->shared ? 2 : 1); t++) {
        for (size_t i = 0; i < tables[t].count; i++) {
            const struct lr_setting *row = &tables[t].rows[i];
            if (!applies(row, command))
                continue;
            lr_buf_addf(out, " --%s", row->name);
            if (row->type == LR_SETTING_BOOL)
                lr_buf_addf(out, " --no-%s", row->name);
        }
    }
}

static void add_names(struct lr_buf *out, struct cli_table table)
{
    for (size_t i = 0; i < table.count; i++)
        if (!table.rows[i]->hidden)
            lr_buf_addf(out, " %s", table.rows[i]->name);
}

/* The words that may follow each command: flags, or the names of its tools. */
static void add_words(struct lr_buf *out, const char *prefix, struct cli_table table)
{
    for (size_t i = 0; i < table.count; i++) {
        const struct cli_command *command = table.rows[i];
        if (command->hidden)
            continue;
        lr_buf_addf(out, "    \"%s%s\") words=\"--help", prefix, command->name);
        add_flags(out, command);
        if (strcmp(command->name, "help") == 0)
            add_names(out, cli_commands());
        if (command->tools != NULL)
            add_names(out, command->tools());
        lr_buf_add_z(out, "\" ;;\n");
        if (command->tools != NULL) {
            char path[CLI_PATH_LEN];
            (void)snprintf(path, sizeof(path), "%s%s ", prefix, command->name);
            add_words(out, path, command->tools());
        }
    }
}

static void add_value(struct lr_buf *out, const char *path, const struct lr_setting *row)
{
    lr_buf_addf(out, "    \"%s --%s\") COMPREPLY=($(compgen ", path, row->name);
    if (row->type == LR_SETTING_CHOICE) {
        lr_buf_add_z(out, "-W \"");
        add_choices(out, row->choices);
        lr_buf_add_z(out, "\"");
    } else {
        lr_buf_add_z(out, "-f");
    }
    lr_buf_add_z(out, " -- \"$word\")); return ;;\n");
}

/* Completions of a flag's value: its choices, or files for a path. */
static void add_values(struct lr_buf *out, const char *prefix, struct cli_table table)
{
    for (size_t i = 0; i < table.count; i++) {
        const struct cli_command *command = table.rows[i];
        const struct lr_setting_table tables[] = {command->flags, cli_settings};
        char path[CLI_PATH_LEN];
        (void)snprintf(path, sizeof(path), "%s%s", prefix, command->name);
        for (int t = 0; t < (command->shared ? 2 : 1); t++) {
            for (size_t k = 0; k < tables[t].count; k++) {
                const struct lr_setting *row = &tables[t].rows[k];
                bool known = row->type == LR_SETTING_CHOICE || row->type == LR_SETTING_PATH;
                if (known && !command->hidden && applies(row, command))
                    add_value(out, path, row);
            }
        }
        if (command->tools != NULL) {
            (void)snprintf(path, sizeof(path), "%s%s ", prefix, command->name);
            add_values(out, path, command->tools());
        }
    }
}

static void write_bash(struct lr_buf *out)
{
    struct cli_table table = cli_commands();
    lr_buf_add_z(out,
                 "# bash completion of llm-router: source <(llm-router completion bash)\n"
                 "_llm_router() {\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} last=${COMP_WORDS[COMP_CWORD-1]}\n"
                 "    local path=${COMP_WORDS[1]} words=\"\"\n"
                 "    COMPREPLY=()\n"
                 "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
                 "        COMPREPLY=($(compgen -W \"--help --version");
    add_names(out, table);
    lr_buf_add_z(out, "\" -- \"$word\")); return\n"
                      "    fi\n"
                      "    case $path in\n");
    for (size_t i = 0; i < table.count; i++)
        if (table.rows[i]->tools != NULL)
            lr_buf_addf(out,
                        "    %s) [ \"$COMP_CWORD\" = 2 ] || path=\"%s ${COMP_WORDS[2]}\" ;;\n",
                        table.rows[i]->name, table.rows[i]->name);
    lr_buf_add_z(out, "    esac\n"
                      "    case \"$path $last\" in\n");
    add_values(out, "", table);
    lr_buf_add_z(out, "    esac\n"
                      "    case $path in\n");
    add_words(out, "", table);
    lr_buf_add_z(out,
                 "    esac\n"
                 "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                 "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$word\"))\n"
                 "}\n"
                 "complete -F _llm_router llm-router\n");
}

static lr_code run_completion(const struct lr_settings *settings, struct lr_error *err)
{
    const char *shell = lr_settings_positional(settings, 0);
    if (strcmp(shell, "bash") != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT, "no completion for \"%.40s\"; there is: bash",
                       shell);
    struct lr_buf script;
    lr_buf_init(&script, SCRIPT_LIMIT);
    write_bash(&script);
    lr_code code = cli_print(&script, err);
    lr_buf_free(&script);
    return code;
}

const struct cli_command cli_command_completion = {
    .name = "completion",
    .summary = "Print a completion script for your shell",
    .arguments = "bash",
    .details = "For the current shell:  source <(llm-router completion bash)",
    .least = 1,
    .most = 1,
    .run = run_completion,
};
