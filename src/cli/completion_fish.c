/* cli/completion_fish.c - `llm-router completion fish`. */
#include "cli/completion.h"

static const char FISH_QUOTE[] = "\\'";

struct fish_flags {
    struct lr_buf *out;
    const char *path; /* "up", "debug tokenize" */
};

static void completion_fish_add_flag(void *arg, const struct lr_setting *row)
{
    const struct fish_flags *f = arg;
    lr_buf_addf(f->out, "complete -c llm-router -n '__llm_router_is %s' -l %s", f->path,
                row->name);
    if (row->type == LR_SETTING_CHOICE) {
        lr_buf_add_z(f->out, " -x -a '");
        cli_add_choices(f->out, row->choices);
        lr_buf_add_z(f->out, "'");
    } else if (row->type != LR_SETTING_BOOL) {
        lr_buf_add_z(f->out, row->type == LR_SETTING_PATH ? " -r -F" : " -x");
    }
    lr_buf_add_z(f->out, " -d ");
    cli_add_brief(f->out, row->help, FISH_QUOTE);
    lr_buf_add_z(f->out, "\n");
    if (row->type == LR_SETTING_BOOL)
        lr_buf_addf(f->out,
                    "complete -c llm-router -n '__llm_router_is %s' -l no-%s -d 'turns --%s "
                    "off'\n",
                    f->path, row->name, row->name);
}

static void fish_add_command(void *arg, const char *path, size_t parent_len,
                             const struct cli_command *command)
{
    struct lr_buf *out = arg;
    lr_buf_addf(out, "complete -c llm-router -f -n '__llm_router_next%s%.*s' -a %s -d ",
                parent_len != 0 ? " " : "", (int)parent_len, path, command->name);
    cli_add_brief(out, command->summary, FISH_QUOTE);
    lr_buf_add_z(out, "\n");
    cli_each_flag(command, completion_fish_add_flag, &(struct fish_flags){out, path});
}

void cli_completion_fish(struct lr_buf *out)
{
    lr_buf_add_z(out,
                 "# fish completion of llm-router: llm-router completion fish | source\n"
                 "function __llm_router_is # COMMAND [TOOL]: the command line begins with it\n"
                 "    set -l words (commandline -opc)\n"
                 "    test \"$words[2]\" = $argv[1]; or return 1\n"
                 "    test (count $argv) -lt 2; or test \"$words[3]\" = $argv[2]\n"
                 "end\n"
                 "function __llm_router_next # [COMMAND]: the next word follows it at once\n"
                 "    set -l words (commandline -opc)\n"
                 "    test (count $words) -eq (math (count $argv) + 1); or return 1\n"
                 "    test (count $argv) -eq 0; or test \"$words[2]\" = $argv[1]\n"
                 "end\n"
                 "complete -c llm-router -l help -d 'explains the command'\n");
    cli_each_command(fish_add_command, out);
}
