/* cli/debug_ops.c - `debug ops`: a model as its list of operations, without reading its
 * weights.
 *
 * The ABI has no function for this: the engine tells the list as log lines and then refuses to
 * open the model.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/engine_tool.h"

struct listing {
    uint32_t lines;
};

static void debug_ops_line(void *ctx, int32_t level, const char *event, const char *text)
{
    struct listing *listing = ctx;

    (void)level;
    if (strcmp(event, "model.ops") != 0)
        return;
    puts(text);
    listing->lines++;
}

static lr_code debug_ops_run(const struct lr_settings *settings, struct lr_error *err)
{
    struct listing listing = {0};
    const struct lr_engine_host host = {
        .size = sizeof(host), .ctx = &listing, .log = debug_ops_line};
    struct cli_engine engine = {0};

    lr_code code = cli_engine_open_extra(settings, &host, lr_settings_str(settings, "model"),
                                         "{\"describe\":true}", 1, 0, &engine, err);
    cli_engine_close(&engine);
    if (code == LR_CANCELLED && listing.lines > 0)
        return fflush(stdout) == 0 ? LR_OK : lr_fail_errno(err, LR_IO, "standard output");
    if (code == LR_OK)
        return lr_fail(err, LR_UNSUPPORTED,
                       "the engine for this model does not describe models: name another one "
                       "with --engine native");
    return code;
}

static const struct lr_setting flags[] = {CLI_ENGINE_FLAGS};

const struct cli_command cli_debug_ops = {
    .name = "ops",
    .summary = "Print a model as its list of operations, with shapes and bytes",
    .details = "Equal layers are printed once.  No weights are read.\n"
               "  llm-router debug ops --model DIR",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .run = debug_ops_run,
};
