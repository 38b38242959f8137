/* cli/completion.c - `llm-router completion SHELL`, and the script for bash. */
#include "cli/completion.h"

#include <stdio.h>
#include <string.h>

enum { SCRIPT_LIMIT = 1 << 20 };

void cli_add_choices(struct lr_buf *out, const char *choices)
{
    for (; *choices != '\0'; choices++) {
        if (*choices == '[') /* "cuda[:N]": the word alone */
            choices = strchr(choices, ']');
        else
            lr_buf_add_char(out, *choices == '|' ? ' ' : *choices);
    }
}

void cli_add_brief(struct lr_buf *out, const char *text, const char *quote)
{
    lr_buf_add_char(out, '\'');
    for (; *text != '\0' && strchr(";:", *text) == NULL && strncmp(text, ". ", 2) != 0;
         text++) {
        if (*text == '\'')
            lr_buf_add_z(out, quote);
        else
            lr_buf_add_char(out, *text);
    }
    lr_buf_add_char(out, '\'');
}

void cli_each_flag(const struct cli_command *command, lr_setting_visit *visit, void *arg)
{
    const struct lr_setting_table tables[] = {command->flags, cli_settings};
    lr_settings_each(tables, command->shared ? 2 : 1, command->name, visit, arg);
}

static void completion_add_flag(void *arg, const struct lr_setting *row)
{
    struct lr_buf *out = arg;
    lr_buf_addf(out, " --%s", row->name);
    if (row->type == LR_SETTING_BOOL)
        lr_buf_addf(out, " --no-%s", row->name);
}

static void add_names(struct lr_buf *out, struct cli_table table)
{
    for (size_t i = 0; i < table.count; i++)
        if (!table.rows[i]->hidden)
            lr_buf_addf(out, " %s", table.rows[i]->name);
}

/* The words that may follow a command: flags, or the names of its tools. */
static void add_words(void *arg, const char *path, size_t parent_len,
                      const struct cli_command *command)
{
    struct lr_buf *out = arg;
    (void)parent_len;
    lr_buf_addf(out, "    \"%s\") words=\"--help", path);
    cli_each_flag(command, completion_add_flag, out);
    if (strcmp(command->name, "help") == 0)
        add_names(out, cli_commands());
    if (command->tools != NULL)
        add_names(out, command->tools());
    lr_buf_add_z(out, "\" ;;\n");
}

struct bash_values {
    struct lr_buf *out;
    const char *path;
};

/* Completions of a flag's value: its choices, or files for a path. */
static void add_value(void *arg, const struct lr_setting *row)
{
    const struct bash_values *v = arg;
    if (row->type != LR_SETTING_CHOICE && row->type != LR_SETTING_PATH)
        return;
    lr_buf_addf(v->out, "    \"%s --%s\") COMPREPLY=($(compgen ", v->path, row->name);
    if (row->type == LR_SETTING_CHOICE) {
        lr_buf_add_z(v->out, "-W \"");
        cli_add_choices(v->out, row->choices);
        lr_buf_add_z(v->out, "\"");
    } else {
        lr_buf_add_z(v->out, "-f");
    }
    lr_buf_add_z(v->out, " -- \"$word\")); return ;;\n");
}

static void completion_add_values(void *arg, const char *path, size_t parent_len,
                                  const struct cli_command *command)
{
    (void)parent_len;
    cli_each_flag(command, add_value, &(struct bash_values){arg, path});
}

void cli_completion_bash(struct lr_buf *out)
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
    cli_each_command(completion_add_values, out);
    lr_buf_add_z(out, "    esac\n"
                      "    case $path in\n");
    cli_each_command(add_words, out);
    lr_buf_add_z(out,
                 "    esac\n"
                 "    COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
                 "    [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- \"$word\"))\n"
                 "}\n"
                 "complete -F _llm_router llm-router\n");
}

static lr_code run_completion(const struct lr_settings *settings, struct lr_error *err)
{
    static const struct {
        const char *shell;
        void (*write)(struct lr_buf *out);
    } writers[] = {{"bash", cli_completion_bash},
                   {"zsh", cli_completion_zsh},
                   {"fish", cli_completion_fish}};
    const char *shell = lr_settings_positional(settings, 0);
    for (size_t i = 0; i < sizeof(writers) / sizeof(writers[0]); i++) {
        if (strcmp(shell, writers[i].shell) != 0)
            continue;
        struct lr_buf script;
        lr_buf_init(&script, SCRIPT_LIMIT);
        writers[i].write(&script);
        lr_code code = cli_print(&script, err);
        lr_buf_free(&script);
        return code;
    }
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "no completion for \"%.40s\"; there is: bash, zsh, fish", shell);
}

const struct cli_command cli_command_completion = {
    .name = "completion",
    .summary = "Print a completion script for your shell",
    .arguments = "bash|zsh|fish",
    .details = "For the current shell:\n"
               "  bash, zsh:  source <(llm-router completion bash)\n"
               "  fish:       llm-router completion fish | source\n"
               "The Debian package installs the scripts for all users.",
    .least = 1,
    .most = 1,
    .run = run_completion,
};
