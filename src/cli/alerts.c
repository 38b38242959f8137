/* cli/alerts.c - llm-router alerts: what is wrong in the fleet, and silencing an alert. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/remote.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "for",
     .type = LR_SETTING_DURATION,
     .fallback = "1h",
     .min = 1000,
     .max = 2592000000,
     .help = "with silence: how long the alert is silenced"},
    {.name = "comment",
     .type = LR_SETTING_STRING,
     .help = "with silence: a note for other operators"},
};

static void print_alert(struct cli_answer *a, const struct lr_json *alert, struct lr_buf *out)
{
    const struct lr_json *nodes = lr_json_get(alert, "nodes");
    const char *subject = cli_text(&a->arena, alert, "subject");
    char time[LR_TIME_TEXT_LEN + 1];
    lr_time_format(cli_int(alert, "last") * 1000, time);
    lr_buf_addf(out, "%lld %s %s%s%s, %s\n", (long long)cli_int(alert, "id"),
                cli_text(&a->arena, alert, "level"), cli_text(&a->arena, alert, "kind"),
                subject[0] != '\0' ? " " : "", subject, time);
    lr_buf_addf(out, "  %s\n", cli_text(&a->arena, alert, "message"));
    if (nodes != NULL && nodes->count != 0) {
        lr_buf_add_z(out, "  nodes:");
        for (uint32_t i = 0; i < nodes->count; i++)
            lr_buf_addf(out, "%s %s", i != 0 ? "," : "",
                        cli_text(&a->arena, &nodes->items[i], "name"));
        lr_buf_add_z(out, "\n");
    }
    lr_buf_addf(out, "  what to do: %s\n", cli_text(&a->arena, alert, "advice"));
    if (cli_int(alert, "silenced_until") == 0)
        return;
    const char *comment = cli_text(&a->arena, alert, "silence_comment");
    lr_time_format(cli_int(alert, "silenced_until") * 1000, time);
    lr_buf_addf(out, "  silenced until %s%s%s\n", time, comment[0] != '\0' ? ": " : "",
                comment);
}

static void print_alerts(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = lr_json_get(a->json, "alerts");
    size_t open = 0;
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        if (!cli_bool(&list->items[i], "open"))
            continue;
        print_alert(a, &list->items[i], out);
        open++;
    }
    if (open == 0)
        lr_buf_add_z(out, "No open alerts.\n");
}

static lr_code cli_alerts_change(const struct lr_settings *s, const char *id, bool begins,
                                 struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, body;
    struct lr_json_writer w;
    const char *comment = lr_settings_str(s, "comment");
    lr_buf_init(&path, 500);
    lr_buf_add_z(&path, "/v0/alerts/");
    cli_escape(&path, id);
    lr_buf_add_z(&path, "/silence");
    lr_buf_init(&body, 4096);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    lr_json_member_u64(&w, "seconds", (lr_settings_ms(s, "for") + 999) / 1000);
    if (comment != NULL)
        lr_json_member_z(&w, "comment", comment);
    lr_json_end_object(&w);
    lr_code code =
        cli_ask(s, begins ? "POST" : "DELETE", lr_buf_z(&path), begins ? &body : NULL, &a, err);
    lr_buf_clear(&body);
    if (code == LR_OK) {
        char until[LR_TIME_TEXT_LEN + 1];
        lr_time_format(cli_int(a.json, "silenced_until") * 1000, until);
        if (begins)
            lr_buf_addf(&body, "silenced until %s\n", until);
        else
            lr_buf_add_z(&body, "no longer silenced\n");
        code = cli_report(s, &a, &body, err);
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

static lr_code cli_alerts_run(const struct lr_settings *s, struct lr_error *err)
{
    size_t count = lr_settings_positional_count(s);
    const char *word = count != 0 ? lr_settings_positional(s, 0) : "";
    if (count == 2 && (strcmp(word, "silence") == 0 || strcmp(word, "unsilence") == 0))
        return cli_alerts_change(s, lr_settings_positional(s, 1), word[0] == 's', err);
    if (count != 0)
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "alerts takes nothing, or: silence ID, unsilence ID");
    return cli_show(s, "/v0/alerts", print_alerts, err);
}

const struct cli_command cli_command_alerts = {
    .name = "alerts",
    .summary = "List the open alerts with what to do, or silence one for a time",
    .arguments = "[silence ID [--for TIME] [--comment TEXT] | unsilence ID]",
    .details = "A silenced alert is listed, but neither sent to the webhook nor counted in\n"
               "/metrics. The number of an alert is the same on every router.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 2,
    .run = cli_alerts_run,
};
