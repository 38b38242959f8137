/* cli/reference.c - docs/settings.md and docs/cli.md, written from the tables. */
#include <stdio.h>

#include "cli/commands.h"

enum { PAGE_LIMIT = 4 << 20 };

static const char settings_intro[] =
    "# Settings\n\n"
    "<!-- Written by `llm-router debug settings-reference`; change src/cli/settings_table.c. "
    "-->\n\n"
    "Every setting can be given as a flag (`--name value` or `--name=value`; `--name` and "
    "`--no-name`\n"
    "for true and false), as an environment variable (`LLM_ROUTER_` and the name in upper case "
    "with\n"
    "underscores), or as a line of the file that `--config` names. A flag wins over the "
    "environment,\n"
    "which wins over the file, which wins over the default. An unknown flag or key, or a value "
    "that is\n"
    "not allowed, is an error that names it; `llm-router` then exits with 2 and has changed "
    "nothing.\n\n"
    "```\n"
    "# router.conf: name = value, one per line; comments after #\n"
    "listen = 0.0.0.0:11680\n"
    "data-dir = \"/srv/llm router\"   # quotes keep blanks and #; inside them \\\" and \\\\\n"
    "```\n\n"
    "A file may serve several commands: keys that belong to another command are checked and "
    "ignored.\n"
    "An empty environment variable counts as not set. Sizes: bytes, or `KiB MiB GiB TiB` (`K M "
    "G T`\n"
    "mean the same) and the decimal `KB MB GB TB`. Durations: `ms s m h d`.\n\n";

static lr_code run_settings_reference(const struct lr_settings *settings, struct lr_error *err)
{
    (void)settings;
    struct lr_buf page;
    lr_buf_init(&page, PAGE_LIMIT);
    lr_buf_add_z(&page, settings_intro);
    lr_settings_reference(&cli_settings, &page);
    lr_code code = cli_print(&page, err);
    lr_buf_free(&page);
    return code;
}

const struct cli_command cli_debug_settings_reference = {
    .name = "settings-reference",
    .summary = "Print docs/settings.md",
    .run = run_settings_reference,
};

static void reference_add_command(void *arg, const char *path, size_t parent_len,
                                  const struct cli_command *command)
{
    struct lr_buf *page = arg;
    char parent[CLI_PATH_LEN];
    (void)snprintf(parent, sizeof(parent), "llm-router%s%.*s", parent_len != 0 ? " " : "",
                   (int)parent_len, path);
    lr_buf_addf(page, "\n## %s %s\n\n```\n", parent, command->name);
    cli_help(parent, command, page);
    lr_buf_add_z(page, "```\n");
}

static lr_code run_cli_reference(const struct lr_settings *settings, struct lr_error *err)
{
    (void)settings;
    struct lr_buf page;
    lr_buf_init(&page, PAGE_LIMIT);
    lr_buf_add_z(&page, "# Command line\n\n"
                        "<!-- Written by `llm-router debug cli-reference`. -->\n\n"
                        "`llm-router COMMAND --help` prints the same. Exit codes: 0 success, 1 "
                        "failure, 2 wrong\narguments. `source <(llm-router completion bash)` "
                        "completes commands, flags and values.\n");
    cli_each_command(reference_add_command, &page);
    lr_code code = cli_print(&page, err);
    lr_buf_free(&page);
    return code;
}

const struct cli_command cli_debug_cli_reference = {
    .name = "cli-reference",
    .summary = "Print docs/cli.md",
    .run = run_cli_reference,
};
