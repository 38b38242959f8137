/* cli/backup.c - llm-router backup and restore: a copy of the router's database, and back. */
#include <inttypes.h>
#include <stdio.h>

#include "cli/commands.h"
#include "router/store/backup.h"

#define DATA_DIR_FLAG                                                                          \
    {                                                                                          \
        .name = "data-dir", .type = LR_SETTING_PATH, .fallback = "~/.llm-router",              \
        .help = "the router's data folder"                                                     \
    }

static const struct lr_setting flags[] = {DATA_DIR_FLAG};

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
    .details = "llm-router restore puts it back. FILE must not exist.\n"
               "A router with --database (PostgreSQL) is backed up with pg_dump.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 1,
    .run = cli_backup_run,
};

static const struct lr_setting restore_flags[] = {
    DATA_DIR_FLAG,
    {.name = "check",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "try the copy, and change nothing; the router may run"},
};

static lr_code cli_restore_run(const struct lr_settings *settings, struct lr_error *err)
{
    const char *file = lr_settings_positional(settings, 0);
    bool only_check = lr_settings_bool(settings, "check");
    struct router_restored restored;
    lr_code code =
        router_restore(lr_settings_str(settings, "data-dir"), file, only_check, &restored, err);
    if (code != LR_OK)
        return code;
    (void)printf(
        "%s: %" PRId64 " keys, %" PRId64 " models; %s\n", file, restored.keys, restored.models,
        only_check ? "it can be restored" : "it is the database now, start the router");
    if (restored.kept[0] != '\0')
        (void)printf("the database before is %s\n", restored.kept);
    return LR_OK;
}

const struct cli_command cli_command_restore = {
    .name = "restore",
    .summary = "Put a backup in the place of the router's database",
    .arguments = "FILE",
    .details =
        "Refused while a router uses the data folder. The copy is checked first: a damaged "
        "one,\n"
        "or one of a newer release, changes nothing. The database before is kept beside it.\n"
        "A router with --database (PostgreSQL) is restored with psql (docs/backup.md).",
    .flags = {restore_flags, sizeof(restore_flags) / sizeof(restore_flags[0])},
    .least = 1,
    .most = 1,
    .run = cli_restore_run,
};
