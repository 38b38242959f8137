/* cli/version.c - version and commit; cmake/version.cmake writes build_version.h. */
#include "cli/version.h"

#include "build_version.h"
#include "cli/commands.h"

const char *cli_version(void)
{
    return LR_VERSION;
}

const char *cli_commit(void)
{
    return LR_COMMIT;
}

static lr_code run_version(const struct lr_settings *settings, struct lr_error *err)
{
    (void)settings;
    struct lr_buf text;
    lr_buf_init(&text, 1024);
    lr_buf_addf(&text, "llm-router %s (%s)\n", cli_version(), cli_commit());
    lr_code code = cli_print(&text, err);
    lr_buf_free(&text);
    return code;
}

const struct cli_command cli_command_version = {
    .name = "version",
    .summary = "Print version and commit",
    .run = run_version,
};
