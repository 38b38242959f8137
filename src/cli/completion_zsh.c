/* cli/completion_zsh.c - `llm-router completion zsh`. */
#include "cli/completion.h"

static const char ZSH_QUOTE[] = "'\\''";

static void zsh_add_commands(struct lr_buf *out, struct cli_table table)
{
    for (size_t i = 0; i < table.count; i++) {
        if (table.rows[i]->hidden)
            continue;
        lr_buf_addf(out, " %s:", table.rows[i]->name);
        cli_add_brief(out, table.rows[i]->summary, ZSH_QUOTE);
    }
}

static void zsh_add_flag(void *arg, const struct lr_setting *row)
{
    struct lr_buf *out = arg;
    lr_buf_addf(out, " --%s:", row->name);
    cli_add_brief(out, row->help, ZSH_QUOTE);
    if (row->type == LR_SETTING_BOOL)
        lr_buf_addf(out, " --no-%s:'turns --%s off'", row->name, row->name);
}

struct zsh_values {
    struct lr_buf *out;
    const char *path;
};

static void add_value(void *arg, const struct lr_setting *row)
{
    const struct zsh_values *v = arg;
    if (row->type == LR_SETTING_BOOL)
        return;
    lr_buf_addf(v->out, "    ('%s --%s') ", v->path, row->name);
    if (row->type == LR_SETTING_CHOICE) {
        lr_buf_add_z(v->out, "compadd ");
        cli_add_choices(v->out, row->choices);
    } else {
        lr_buf_add_z(v->out, row->type == LR_SETTING_PATH ? "_files" : "_message value");
    }
    lr_buf_add_z(v->out, "; return ;;\n");
}

static void zsh_add_values(void *arg, const char *path, size_t parent_len,
                           const struct cli_command *command)
{
    (void)parent_len;
    cli_each_flag(command, add_value, &(struct zsh_values){arg, path});
}

static void add_lists(void *arg, const char *path, size_t parent_len,
                      const struct cli_command *command)
{
    struct lr_buf *out = arg;
    (void)parent_len;
    lr_buf_addf(out, "    ('%s') flags=(--help:'explains the command'", path);
    cli_each_flag(command, zsh_add_flag, out);
    lr_buf_add_z(out, ")");
    if (command->tools != NULL) {
        lr_buf_add_z(out, " tools=(");
        zsh_add_commands(out, command->tools());
        lr_buf_add_z(out, ")");
    }
    lr_buf_add_z(out, " ;;\n");
}

void cli_completion_zsh(struct lr_buf *out)
{
    struct cli_table table = cli_commands();
    lr_buf_add_z(out,
                 "#compdef llm-router\n"
                 "# zsh completion of llm-router: source <(llm-router completion zsh), or a "
                 "file _llm-router in $fpath\n"
                 "_llm_router() {\n"
                 "    local name=$words[2]\n"
                 "    local -a commands flags tools\n"
                 "    if (( CURRENT == 2 )); then\n"
                 "        commands=(");
    zsh_add_commands(out, table);
    lr_buf_add_z(out, ")\n"
                      "        _describe command commands\n"
                      "        return\n"
                      "    fi\n"
                      "    case $name in\n");
    for (size_t i = 0; i < table.count; i++)
        if (table.rows[i]->tools != NULL)
            lr_buf_addf(out, "    (%s) (( CURRENT == 3 )) || name=\"%s $words[3]\" ;;\n",
                        table.rows[i]->name, table.rows[i]->name);
    lr_buf_add_z(out, "    esac\n"
                      "    case \"$name $words[CURRENT-1]\" in\n");
    cli_each_command(zsh_add_values, out);
    lr_buf_add_z(out, "    esac\n"
                      "    case $name in\n");
    cli_each_command(add_lists, out);
    lr_buf_add_z(out, "    esac\n"
                      "    if [[ $words[CURRENT] == -* ]]; then\n"
                      "        _describe -o flag flags\n"
                      "    elif (( $#tools )); then\n"
                      "        _describe tool tools\n"
                      "    else\n"
                      "        _files\n"
                      "    fi\n"
                      "}\n"
                      "if [[ ${funcstack[1]-} == _llm-router ]]; then\n"
                      "    _llm_router \"$@\"\n"
                      "else\n"
                      "    compdef _llm_router llm-router\n"
                      "fi\n");
}
