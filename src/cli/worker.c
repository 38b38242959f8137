/* cli/worker.c - llm-router worker: one model in one engine.  Started by a node. */
#include "worker/worker.h"
#include "cli/commands.h"
#include "worker/devices.h"

static const struct lr_setting flags[] = {
    {.name = "parent",
     .type = LR_SETTING_INT,
     .fallback = "0",
     .max = INT32_MAX,
     .help = "process id of the node; the worker exits when the node exits"},
    {.name = "label", .type = LR_SETTING_STRING, .help = "name of the model, shown by ps"},
    {.name = "scratch",
     .type = LR_SETTING_PATH,
     .help = "confine the engine; it can write to this folder only"},
    {.name = "probe",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "answer one question about a model and exit"},
    {.name = "devices",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "print the Vulkan devices of this machine and exit"},
};

static lr_code cli_worker_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct worker_config config = {
        .parent = (int)lr_settings_int(settings, "parent"),
        .scratch = lr_settings_str(settings, "scratch"),
        .is_probe = lr_settings_bool(settings, "probe"),
    };
    /* The worker has reported the error over its pipe; only the exit code is left. */
    err->text[0] = '\0';
    if (lr_settings_bool(settings, "devices"))
        return worker_print_devices() == 0 ? LR_OK : LR_INTERNAL;
    return worker_run(&config) == 0 ? LR_OK : LR_INTERNAL;
}

const struct cli_command cli_command_worker = {
    .name = "worker",
    .summary = "Run one model in one engine (internal: started by a node)",
    .details = "Reads and writes frames on descriptors 0 and 3; see src/wire/frame.h.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .hidden = true,
    .run = cli_worker_run,
};
