/* cli/nodes.c - llm-router nodes: list nodes, create a join token, remove a node. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "uses",
     .type = LR_SETTING_INT,
     .fallback = "1",
     .max = 1000000,
     .help = "with token: how many nodes may join with the token; 0: any number"},
    {.name = "expires",
     .type = LR_SETTING_DURATION,
     .fallback = "1h",
     .min = 1000,
     .help = "with token: how long the token is valid"},
    {.name = "lines",
     .type = LR_SETTING_INT,
     .fallback = "100",
     .min = 1,
     .max = 10000,
     .help = "with logs: number of lines, from the end of the log"},
    {.name = "yes",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "with remove: do not ask, also if the node is online"},
};

static void print_nodes(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "nodes");
    if (list == NULL || list->count == 0) {
        lr_buf_add_z(out,
                     "No node has joined yet: llm-router nodes token creates a join token\n");
        return;
    }
    lr_buf_addf(out, "%-26s %-20s %-8s %-8s %s\n", "NODE", "NAME", "STATE", "DEVICE", "URL");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct lr_json *n = &list->items[i];
        const char *state = !cli_bool(n, "online")   ? "offline"
                            : cli_bool(n, "drained") ? "drained"
                                                     : "online";
        lr_buf_addf(out, "%-26s %-20s %-8s %-8s %s\n", cli_text(&a->arena, n, "id"),
                    cli_text(&a->arena, n, "name"), state, cli_text(&a->arena, n, "device"),
                    cli_text(&a->arena, n, "url"));
    }
}

static lr_code print_token(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf body;
    char nodes[40] = "any number of nodes";
    long long uses = (long long)lr_settings_int(s, "uses");
    lr_buf_init(&body, 128);
    lr_buf_addf(&body, "{\"uses\":%lld,\"expires_in\":%llu}", uses,
                (unsigned long long)(lr_settings_ms(s, "expires") + 999) / 1000);
    lr_code code = cli_ask(s, "POST", "/v0/nodes/tokens", &body, &a, err);
    lr_buf_clear(&body);
    if (code == LR_OK) {
        lr_buf_addf(&body, "%s\n", cli_text(&a.arena, a.json, "key"));
        code = cli_report(s, &a, &body, err);
    }
    if (uses != 0)
        (void)snprintf(nodes, sizeof(nodes), "%lld node%s", uses, uses == 1 ? "" : "s");
    if (code == LR_OK && isatty(STDERR_FILENO) != 0) {
        char until[LR_TIME_TEXT_LEN + 1];
        lr_time_format(cli_int(a.json, "expires") * 1000, until);
        (void)fprintf(stderr,
                      "Lets %s join until %s. On the machine that joins:\n"
                      "  LLM_ROUTER_TOKEN=TOKEN llm-router node --router %s\n",
                      nodes, until, cli_router_url(s));
    }
    cli_answer_free(&a);
    lr_buf_free(&body);
    return code;
}

static void print_lines(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *lines = cli_array(a->json, "lines");
    for (uint32_t i = 0; lines != NULL && i < lines->count; i++)
        lr_buf_addf(out, "%s %s %s\n", cli_text(&a->arena, &lines->items[i], "time"),
                    cli_text(&a->arena, &lines->items[i], "level"),
                    cli_text(&a->arena, &lines->items[i], "text"));
}

static lr_code print_logs(const struct lr_settings *s, const char *node, struct lr_error *err)
{
    struct lr_buf path;
    char id[CLI_ID_MAX];
    lr_code code = cli_node_id(s, node, id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 2000);
    lr_buf_add_z(&path, "/v0/nodes/");
    cli_escape(&path, id);
    lr_buf_addf(&path, "/logs?lines=%lld", (long long)lr_settings_int(s, "lines"));
    code = cli_show(s, lr_buf_z(&path), print_lines, err);
    lr_buf_free(&path);
    return code;
}

/* An online node serves requests: its removal is meant, or a slip. */
static lr_code confirm_removal(const struct lr_settings *s, const char *id,
                               struct lr_error *err)
{
    struct cli_answer a;
    bool is_online = false;
    char answer[16];
    if (lr_settings_bool(s, "yes"))
        return LR_OK;
    lr_code code = cli_ask(s, "GET", "/v0/nodes", NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? cli_array(a.json, "nodes") : NULL;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (strcmp(cli_raw(&a.arena, &list->items[i], "id"), id) == 0)
            is_online = cli_bool(&list->items[i], "online");
    cli_answer_free(&a);
    if (code != LR_OK || !is_online)
        return code;
    if (!isatty(0))
        return lr_fail(
            err, LR_INVALID_ARGUMENT,
            "%s is online: --yes removes it, and nodes drain takes it out of service", id);
    cli_tell(stderr, "%s is online; its requests move to other nodes. Remove it? [y/N] ", id);
    if (fgets(answer, sizeof(answer), stdin) == NULL || (answer[0] != 'y' && answer[0] != 'Y'))
        return lr_fail(err, LR_CANCELLED, "nothing was removed");
    return LR_OK;
}

static lr_code cli_nodes_change(const struct lr_settings *s, const char *what, const char *name,
                                struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf body;
    struct lr_buf path;
    char id[CLI_ID_MAX];
    bool removes = strcmp(what, "remove") == 0;
    lr_code code = cli_node_id(s, name, id, err);
    if (code == LR_OK && removes)
        code = confirm_removal(s, id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&body, 1000);
    lr_buf_add_z(&body, "{}");
    lr_buf_init(&path, 2000);
    lr_buf_add_z(&path, "/v0/nodes/");
    cli_escape(&path, id);
    if (!removes)
        lr_buf_addf(&path, "/%s", what);
    code = cli_ask(s, removes ? "DELETE" : "POST", lr_buf_z(&path), removes ? NULL : &body, &a,
                   err);
    lr_buf_clear(&body);
    lr_buf_addf(&body, "%s %s\n",
                removes                      ? "removed"
                : strcmp(what, "drain") == 0 ? "drained"
                                             : "back in service:",
                id);
    if (code == LR_OK)
        code = cli_report(s, &a, &body, err);
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

static lr_code cli_nodes_run(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const words[] = {"token", "logs", "drain", "undrain", "remove", NULL};
    size_t count = lr_settings_positional_count(s);
    const char *word = count != 0 ? lr_settings_positional(s, 0) : "";
    if (count == 1 && strcmp(word, "token") == 0)
        return print_token(s, err);
    if (count == 2 && (strcmp(word, "drain") == 0 || strcmp(word, "undrain") == 0 ||
                       strcmp(word, "remove") == 0))
        return cli_nodes_change(s, word, lr_settings_positional(s, 1), err);
    if (count == 2 && strcmp(word, "logs") == 0)
        return print_logs(s, lr_settings_positional(s, 1), err);
    if (count != 0)
        return cli_fail_word(word, words,
                             "nodes takes nothing, or: token, logs NODE, drain NODE, undrain "
                             "NODE, remove NODE",
                             err);
    return cli_show(s, "/v0/nodes", print_nodes, err);
}

const struct cli_command cli_command_nodes = {
    .name = "nodes",
    .summary =
        "List the nodes, create a join token, read a node's log, or take a node out of service",
    .arguments = "[token [--uses N] [--expires TIME] | logs NODE | drain NODE | undrain NODE | "
                 "remove NODE]",
    .details =
        "A node joins with: llm-router node --router URL --token-file FILE\n"
        "(or the token in the environment, as LLM_ROUTER_TOKEN).\n"
        "A token is valid for one node and one hour, unless --uses or --expires is given.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 2,
    .run = cli_nodes_run,
};
