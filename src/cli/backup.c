/* cli/backup.c - llm-router backup: a copy of the router's database. */
#include <stdio.h>

#include "cli/commands.h"
#include "router/store/backup.h"

static const struct lr_setting flags[] = {
    {.name = "data-dir",
     .type = LR_SETTING_PATH,
     .fallback = "~/.llm-router",
     .help = "the router's data folder"},
};

static lr_code cli_backup_run(const struct lr_settings *settings, struct lr_error *err)
{
    const char *file = lr_settings_positional(settings, 0);
    lr_code code = router_backup(lr_settings_str(settings, "data-dir"), file, err);
    if (code == LR_OK)
        (void)printf(
            "%s: keys, usage, audit log, registrations and nodes; readable by you alone\n",
            file);
    return code;
}

const struct cli_command cli_command_backup = {
    .name = "backup",
    .summary = "Copy the router's database; works while the router runs",
    .arguments = "FILE",
    .details =
        "To restore: stop the router, replace router.db in its data folder with the copy,\n"
        "remove router.db-wal and router.db-shm, and start the router.\n"
        "A router with --database (PostgreSQL) is backed up with pg_dump.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 1,
    .run = cli_backup_run,
};
