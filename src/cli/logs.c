/* cli/logs.c - llm-router logs: the log of the router or of a node, through the API. */
#include <stdio.h>
#include <string.h>

#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

enum { LOOK_MS = 500, WAIT_MS = 10000, LINES_MOST = 2000, MARK_LEN = 64 };

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "follow",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .letter = 'f',
     .help = "go on with new lines as they come, until Ctrl-C; -f for short"},
    {.name = "lines",
     .type = LR_SETTING_INT,
     .fallback = "100",
     .min = 1,
     .max = LINES_MOST,
     .help = "number of lines, from the end of the log"},
};

/* mark "": the newest lines; else those after the mark, which moves on. */
static lr_code print_lines(const struct lr_settings *s, const char *path, int64_t count,
                           char mark[MARK_LEN], struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf target, out;
    lr_buf_init(&target, 4096);
    lr_buf_init(&out, 64 << 20);
    lr_buf_addf(&target, "%s?lines=%lld", path, (long long)count);
    if (mark[0] != '\0') {
        lr_buf_add_z(&target, "&after=");
        cli_escape(&target, mark);
    }
    lr_code code = cli_ask_within(s, WAIT_MS, lr_buf_z(&target), &a, err);
    const struct lr_json *lines = code == LR_OK ? cli_array(a.json, "lines") : NULL;
    for (uint32_t i = 0; lines != NULL && i < lines->count; i++)
        lr_buf_addf(&out, "%s %-5s %s\n", cli_text(&a.arena, &lines->items[i], "time"),
                    cli_text(&a.arena, &lines->items[i], "level"),
                    cli_text(&a.arena, &lines->items[i], "text"));
    if (code == LR_OK) {
        lr_str_copy(mark, MARK_LEN, lr_str_z(cli_raw(&a.arena, a.json, "next")));
        code = cli_print(&out, err);
    }
    cli_answer_free(&a);
    lr_buf_free(&out);
    lr_buf_free(&target);
    return code;
}

/* Ends with Ctrl-C, with an output that is closed, and with an answer that time does not
 * change.  A router or node that restarts is waited for. */
static lr_code cli_logs_follow(const struct lr_settings *s, const char *path,
                               char mark[MARK_LEN], struct lr_error *err)
{
    bool is_silent = false;
    for (;;) {
        if (mark[0] == '\0')
            return lr_fail(err, LR_UNSUPPORTED,
                           "the log cannot be followed: its process is of an older release");
        lr_sleep_ms(LOOK_MS);
        lr_code code = print_lines(s, path, LINES_MOST, mark, err);
        if (code == LR_IO || code == LR_UNAUTHENTICATED || code == LR_PERMISSION_DENIED ||
            code == LR_NOT_FOUND)
            return code;
        if (code != LR_OK && !is_silent)
            cli_tell(stderr, "llm-router: %s; trying again\n", err->text);
        is_silent = code != LR_OK;
    }
}

static lr_code cli_logs_run(const struct lr_settings *s, struct lr_error *err)
{
    struct lr_buf path;
    char id[CLI_ID_MAX], mark[MARK_LEN] = "";
    lr_code code = LR_OK;
    lr_buf_init(&path, 2000);
    lr_buf_add_z(&path, "/v0");
    if (lr_settings_positional_count(s) != 0) {
        code = cli_node_id(s, lr_settings_positional(s, 0), id, err);
        if (code == LR_OK) {
            lr_buf_add_z(&path, "/nodes/");
            cli_escape(&path, id);
        }
    }
    lr_buf_add_z(&path, "/logs");
    if (code == LR_OK)
        code = print_lines(s, lr_buf_z(&path), lr_settings_int(s, "lines"), mark, err);
    if (code == LR_OK && lr_settings_bool(s, "follow"))
        code = cli_logs_follow(s, lr_buf_z(&path), mark, err);
    lr_buf_free(&path);
    return code;
}

const struct cli_command cli_command_logs = {
    .name = "logs",
    .summary = "Show the log of the router, or of a node",
    .arguments = "[NODE]",
    .details = "Router and nodes keep the last 2000 lines in memory, whatever --log-file says. "
               "NODE is\n"
               "the name or id of a node.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 1,
    .run = cli_logs_run,
};
