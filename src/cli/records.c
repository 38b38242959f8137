/* cli/records.c - what a router has recorded, for operators: requests, audit, sessions, whoami,
 * explain. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"

enum { PATH_BYTES = 2000 };

/* "2026-11-20T10:00:00Z" of seconds since 1970. */
static const char *time_of(int64_t seconds, char out[LR_TIME_TEXT_LEN + 1])
{
    lr_time_format(seconds * 1000, out);
    return out;
}

/* GET path?name=value&... of the settings that were given. */
static lr_code show_filtered(const struct lr_settings *s, const char *path,
                             const char *const *names, cli_print_fn fn, struct lr_error *err)
{
    struct lr_buf url;
    lr_buf_init(&url, PATH_BYTES);
    lr_buf_add_z(&url, path);
    const char *before = "?";
    for (; *names != NULL; names++) {
        if (!lr_settings_has(s, *names))
            continue;
        lr_buf_addf(&url, "%s%s=", before, *names);
        cli_escape(&url, lr_settings_str(s, *names));
        before = "&";
    }
    lr_code code = cli_show(s, lr_buf_z(&url), fn, err);
    lr_buf_free(&url);
    return code;
}

/* ---- requests ---- */

static void print_requests(struct cli_answer *a, struct lr_buf *out)
{
    char when[LR_TIME_TEXT_LEN + 1];
    const struct lr_json *all = cli_array(a->json, "requests");
    lr_buf_addf(out, "%-20s %6s %-24s %-18s %9s %9s %9s  %s\n", "TIME", "STATUS", "MODEL",
                "KEY", "PROMPT", "TOKENS", "MS", "REQUEST");
    for (uint32_t i = all != NULL ? all->count : 0; i-- > 0;) { /* the newest comes last */
        const struct lr_json *r = &all->items[i];
        lr_buf_addf(out, "%-20s %6" PRId64 " %-24s %-18s %9" PRId64 " %9" PRId64 " %9.0f  %s",
                    time_of(cli_int(r, "time_ms") / 1000, when), cli_int(r, "status"),
                    cli_text(&a->arena, r, "model"), cli_text(&a->arena, r, "key_name"),
                    cli_int(r, "prompt_tokens"), cli_int(r, "completion_tokens"),
                    cli_real(r, "total_ms"), cli_text(&a->arena, r, "request_id"));
        const char *error = cli_text(&a->arena, r, "error");
        lr_buf_addf(out, "%s%s\n", error[0] != '\0' ? "  " : "", error);
    }
}

static lr_code run_requests(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const filters[] = {"model", "node", "status", "limit", NULL};
    return show_filtered(s, "/v0/requests", filters, print_requests, err);
}

static const struct lr_setting requests_flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "model", .type = LR_SETTING_STRING, .help = "only requests for this model"},
    {.name = "node",
     .type = LR_SETTING_STRING,
     .help = "only requests that this node answered"},
    {.name = "status",
     .type = LR_SETTING_STRING,
     .value = "CODE",
     .help = "only answers with this status, such as 503"},
    {.name = "limit",
     .type = LR_SETTING_STRING,
     .value = "N",
     .help = "at most N; default: 50"},
};

const struct cli_command cli_command_requests = {
    .name = "requests",
    .summary = "List the latest requests: status, tokens, times",
    .details = "The router keeps them in memory (setting request-log). The newest comes last.",
    .flags = {requests_flags, sizeof(requests_flags) / sizeof(requests_flags[0])},
    .run = run_requests,
};

/* ---- audit ---- */

static void print_audit(struct cli_answer *a, struct lr_buf *out)
{
    char when[LR_TIME_TEXT_LEN + 1];
    const struct lr_json *all = cli_array(a->json, "audit");
    lr_buf_addf(out, "%-20s %-20s %-22s %-24s %s\n", "TIME", "WHO", "ACTION", "TARGET",
                "DETAIL");
    for (uint32_t i = all != NULL ? all->count : 0; i-- > 0;) {
        const struct lr_json *line = &all->items[i];
        const char *name = cli_text(&a->arena, line, "actor_name");
        lr_buf_addf(out, "%-20s %-20s %-22s %-24s %s\n", time_of(cli_int(line, "time"), when),
                    name[0] != '\0' ? name : cli_text(&a->arena, line, "actor"),
                    cli_text(&a->arena, line, "action"), cli_text(&a->arena, line, "target"),
                    cli_text(&a->arena, line, "detail"));
    }
}

static lr_code run_audit(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const filters[] = {"actor", "action", "limit", NULL};
    return show_filtered(s, "/v0/audit", filters, print_audit, err);
}

static const struct lr_setting audit_flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "actor", .type = LR_SETTING_STRING, .help = "only what this key or person did"},
    {.name = "action",
     .type = LR_SETTING_STRING,
     .help = "only this action, such as key.create"},
    {.name = "limit", .type = LR_SETTING_STRING, .value = "N", .help = "at most N lines"},
};

const struct cli_command cli_command_audit = {
    .name = "audit",
    .summary = "Show who changed what: keys, models, nodes, sign-ins",
    .details = "The newest comes last.",
    .flags = {audit_flags, sizeof(audit_flags) / sizeof(audit_flags[0])},
    .run = run_audit,
};

/* ---- sessions ---- */

static void print_sessions(struct cli_answer *a, struct lr_buf *out)
{
    char began[LR_TIME_TEXT_LEN + 1], used[LR_TIME_TEXT_LEN + 1];
    const struct lr_json *all = cli_array(a->json, "sessions");
    if (all == NULL || all->count == 0) {
        lr_buf_add_z(out, "Nobody is signed in to the dashboard.\n");
        return;
    }
    lr_buf_addf(out, "%-20s %-20s %-20s %-16s %s\n", "SIGNED IN", "LAST USED", "NAME", "FROM",
                "ROLE");
    for (uint32_t i = 0; i < all->count; i++) {
        const struct lr_json *one = &all->items[i];
        lr_buf_addf(out, "%-20s %-20s %-20s %-16s %s\n",
                    time_of(cli_int(one, "created"), began),
                    time_of(cli_int(one, "last_used"), used), cli_text(&a->arena, one, "name"),
                    cli_text(&a->arena, one, "from"), cli_text(&a->arena, one, "role"));
    }
}

static lr_code run_sessions(const struct lr_settings *s, struct lr_error *err)
{
    return cli_show(s, "/v0/sessions", print_sessions, err);
}

static const struct lr_setting plain_flags[] = {CLI_REMOTE_FLAGS, CLI_JSON_FLAG};

const struct cli_command cli_command_sessions = {
    .name = "sessions",
    .summary = "List who is signed in to the dashboard",
    .flags = {plain_flags, sizeof(plain_flags) / sizeof(plain_flags[0])},
    .run = run_sessions,
};

/* ---- whoami ---- */

static void print_whoami(struct cli_answer *a, struct lr_buf *out)
{
    const char *name = cli_text(&a->arena, a->json, "name");
    const char *id = cli_text(&a->arena, a->json, "id");
    if (id[0] == '\0')
        lr_buf_addf(out, "no key; the router answers with the rights of role %s\n",
                    cli_text(&a->arena, a->json, "role"));
    else
        lr_buf_addf(out, "%s (%s), role %s\n", name[0] != '\0' ? name : "a key without a name",
                    id, cli_text(&a->arena, a->json, "role"));
}

static lr_code run_whoami(const struct lr_settings *s, struct lr_error *err)
{
    return cli_show(s, "/v0/whoami", print_whoami, err);
}

const struct cli_command cli_command_whoami = {
    .name = "whoami",
    .summary = "Show which key the router knows you by",
    .flags = {plain_flags, sizeof(plain_flags) / sizeof(plain_flags[0])},
    .run = run_whoami,
};

/* ---- explain ---- */

static const char *yes_no(bool is)
{
    return is ? "yes" : "no";
}

static void print_explain(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *ways = cli_array(a->json, "candidates");
    const struct lr_json *nodes = cli_array(a->json, "nodes");
    lr_buf_addf(out, "A prompt of %" PRId64 " tokens for %s: %s\n",
                cli_int(a->json, "prompt_tokens"), cli_text(&a->arena, a->json, "model"),
                cli_bool(a->json, "overloaded")    ? "refused, the queue is full"
                : ways == NULL || ways->count == 0 ? "no node can run it now"
                                                   : "sent to the node with the least cost");
    if (ways != NULL && ways->count != 0)
        lr_buf_addf(out, "%-2s %-24s %10s %-7s %-6s %6s %6s\n", "", "NODE", "COST MS", "LOADED",
                    "ROOM", "ACTIVE", "SLOTS");
    for (uint32_t i = 0; ways != NULL && i < ways->count; i++) {
        const struct lr_json *w = &ways->items[i];
        lr_buf_addf(out, "%-2s %-24s %10.1f %-7s %-6s %6" PRId64 " %6" PRId64 "\n",
                    cli_bool(w, "chosen") ? "*" : "", cli_text(&a->arena, w, "name"),
                    cli_real(w, "cost_ms"), yes_no(cli_bool(w, "loaded")),
                    yes_no(cli_bool(w, "has_room")), cli_int(w, "active"), cli_int(w, "slots"));
    }
    for (uint32_t i = 0; nodes != NULL && i < nodes->count; i++) {
        const struct lr_json *n = &nodes->items[i];
        if (cli_bool(n, "can_run") && cli_bool(n, "online"))
            continue;
        const char *reason = cli_text(&a->arena, n, "reason");
        lr_buf_addf(out, "%s cannot: %s\n", cli_text(&a->arena, n, "name"),
                    !cli_bool(n, "online") ? "it is offline"
                    : reason[0] != '\0'    ? reason
                                           : cli_text(&a->arena, n, "state"));
    }
}

static lr_code run_explain(const struct lr_settings *s, struct lr_error *err)
{
    char id[CLI_ID_MAX];
    struct lr_buf url;
    lr_code code = cli_usable_model_id(s, lr_settings_positional(s, 0), id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&url, PATH_BYTES);
    lr_buf_add_z(&url, "/v0/explain?model=");
    cli_escape(&url, id);
    code = cli_show(s, lr_buf_z(&url), print_explain, err);
    lr_buf_free(&url);
    return code;
}

const struct cli_command cli_command_explain = {
    .name = "explain",
    .summary = "Show where a request for a model would go, and why",
    .arguments = "MODEL",
    .flags = {plain_flags, sizeof(plain_flags) / sizeof(plain_flags[0])},
    .least = 1,
    .most = 1,
    .run = run_explain,
};
