/* cli/engines.c - llm-router engines: the engines of nodes. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

enum { LIST_BYTES = 4 << 20 };

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "node",
     .type = LR_SETTING_STRING,
     .value = "NODE",
     .help = "name or id of a node; default: all nodes for the list, the only node for reload"},
};

/* "a, b" */
static void put_words(struct lr_buf *out, const struct lr_json *list)
{
    struct lr_str word;
    for (uint32_t i = 0; lr_json_is(list, LR_JSON_ARRAY) && i < list->count; i++)
        if (lr_json_str(&list->items[i], &word)) {
            lr_buf_add_z(out, i != 0 ? "," : "");
            cli_put(out, word);
        }
}

static void put_engines(struct lr_buf *out, struct cli_answer *a, const char *node)
{
    const struct lr_json *list = cli_array(a->json, "engines");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *e = &list->items[i];
        const char *state = cli_bool(e, "reloading") ? "reloading"
                            : cli_bool(e, "usable")  ? "usable"
                                                     : "refused";
        lr_buf_addf(out, "%-20s %-12s %-9s %-10s ", node, cli_text(&a->arena, e, "id"),
                    cli_text(&a->arena, e, "version"), state);
        put_words(out, lr_json_get(e, "backends"));
        lr_buf_addf(out, " %s\n", cli_text(&a->arena, e, "reason"));
    }
}

static lr_code cli_engines_list_of(const struct lr_settings *s, struct cli_answer *nodes,
                                   const struct lr_json *node, struct lr_buf *out,
                                   struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path;
    const char *name = cli_text(&nodes->arena, node, "name");
    if (!cli_bool(node, "online")) {
        lr_buf_addf(out, "%-20s (offline)\n", name);
        return LR_OK;
    }
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v0/nodes/");
    cli_escape(&path, cli_raw(&nodes->arena, node, "id"));
    lr_buf_add_z(&path, "/engines");
    lr_code code = cli_ask(s, "GET", lr_buf_z(&path), NULL, &a, err);
    if (code == LR_OK)
        put_engines(out, &a, name);
    lr_buf_free(&path);
    cli_answer_free(&a);
    return code;
}

static lr_code cli_engines_list(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf out;
    char wanted[CLI_ID_MAX] = "";
    uint32_t found = 0;
    lr_code code = lr_settings_has(s, "node") ? cli_choose_node(s, wanted, err) : LR_OK;
    if (code != LR_OK)
        return code;
    lr_buf_init(&out, LIST_BYTES);
    lr_buf_addf(&out, "%-20s %-12s %-9s %-10s %s\n", "NODE", "ENGINE", "VERSION", "STATE",
                "BACKENDS AND REASON");
    code = cli_ask(s, "GET", "/v0/nodes", NULL, &a, err);
    const struct lr_json *nodes = code == LR_OK ? cli_array(a.json, "nodes") : NULL;
    for (uint32_t i = 0; code == LR_OK && nodes != NULL && i < nodes->count; i++)
        if (wanted[0] == '\0' ||
            strcmp(cli_raw(&a.arena, &nodes->items[i], "id"), wanted) == 0) {
            found++;
            code = cli_engines_list_of(s, &a, &nodes->items[i], &out, err);
        }
    if (code == LR_OK && found == 0)
        code = lr_fail(err, LR_NOT_FOUND, "no node has joined this router yet");
    if (code == LR_OK)
        code = cli_print(&out, err);
    cli_answer_free(&a);
    lr_buf_free(&out);
    return code;
}

static lr_code reload(const struct lr_settings *s, const char *engine, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, body;
    char id[CLI_ID_MAX];
    lr_code code = cli_choose_node(s, id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_init(&body, 16);
    lr_buf_add_z(&body, "{}");
    lr_buf_addf(&path, "/v0/nodes/%s/engines/", id);
    cli_escape(&path, engine);
    lr_buf_add_z(&path, "/reload");
    code = cli_ask(s, "POST", lr_buf_z(&path), &body, &a, err);
    if (code == LR_OK)
        cli_tell(stdout, "reloading %s on %s (llm-router engines shows the result)\n", engine,
                 id);
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

static lr_code cli_engines_run(const struct lr_settings *s, struct lr_error *err)
{
    size_t count = lr_settings_positional_count(s);
    if (count == 0)
        return cli_engines_list(s, err);
    if (count == 2 && strcmp(lr_settings_positional(s, 0), "reload") == 0)
        return reload(s, lr_settings_positional(s, 1), err);
    return lr_fail(err, LR_INVALID_ARGUMENT, "engines takes nothing, or: reload ENGINE");
}

const struct cli_command cli_command_engines = {
    .name = "engines",
    .summary = "List the engines of the nodes, or reload an engine without losing requests",
    .arguments = "[reload ENGINE]",
    .details =
        "A reload starts the version that is now in the engine's folder, beside the running\n"
        "version. New requests go to the new version; the old version finishes its requests.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .most = 2,
    .run = cli_engines_run,
};
