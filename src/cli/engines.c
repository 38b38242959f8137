/* cli/engines.c - llm-router engines: the engines of nodes; and the choice of a node by
 * --node. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/remote.h"

enum { LIST_BYTES = 4 << 20 };

static bool is_named(struct lr_arena *arena, const struct lr_json *node, const char *wanted)
{
    return wanted == NULL || strcmp(cli_text(arena, node, "id"), wanted) == 0 ||
           strcmp(cli_text(arena, node, "name"), wanted) == 0;
}

lr_code cli_choose_node(const struct lr_settings *s, char id[64], struct lr_error *err)
{
    struct cli_answer a;
    const char *wanted = lr_settings_str(s, "node");
    uint32_t found = 0;
    lr_code code = cli_ask(s, "GET", "/v0/nodes", NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? lr_json_get(a.json, "nodes") : NULL;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (is_named(&a.arena, &list->items[i], wanted)) {
            (void)snprintf(id, 64, "%s", cli_text(&a.arena, &list->items[i], "id"));
            found++;
        }
    if (code == LR_OK && found == 0)
        code = wanted != NULL
                   ? lr_fail(err, LR_NOT_FOUND, "there is no node \"%s\": see llm-router nodes",
                             wanted)
                   : lr_fail(err, LR_NOT_FOUND, "no node has joined this router yet");
    else if (code == LR_OK && found > 1)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "%u nodes %s: say which with --node NODE (see llm-router nodes)", found,
                       wanted != NULL ? "have this name" : "have joined");
    cli_answer_free(&a);
    return code;
}

/* ---- engines ---- */

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
        if (lr_json_str(&list->items[i], &word))
            lr_buf_addf(out, "%s" LR_STR_FMT, i != 0 ? "," : "", LR_STR_ARG(word));
}

static void put_engines(struct lr_buf *out, struct cli_answer *a, const char *node)
{
    const struct lr_json *list = lr_json_get(a->json, "engines");
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

static lr_code list_of(const struct lr_settings *s, struct cli_answer *nodes,
                       const struct lr_json *node, struct lr_buf *out, struct lr_error *err)
{
    struct cli_answer a;
    char path[160];
    const char *name = cli_text(&nodes->arena, node, "name");
    if (!cli_bool(node, "online")) {
        lr_buf_addf(out, "%-20s (offline)\n", name);
        return LR_OK;
    }
    (void)snprintf(path, sizeof(path), "/v0/nodes/%.100s/engines",
                   cli_text(&nodes->arena, node, "id"));
    lr_code code = cli_ask(s, "GET", path, NULL, &a, err);
    if (code == LR_OK)
        put_engines(out, &a, name);
    cli_answer_free(&a);
    return code;
}

static lr_code list(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf out;
    const char *wanted = lr_settings_str(s, "node");
    uint32_t found = 0;
    lr_buf_init(&out, LIST_BYTES);
    lr_buf_addf(&out, "%-20s %-12s %-9s %-10s %s\n", "NODE", "ENGINE", "VERSION", "STATE",
                "BACKENDS AND REASON");
    lr_code code = cli_ask(s, "GET", "/v0/nodes", NULL, &a, err);
    const struct lr_json *nodes = code == LR_OK ? lr_json_get(a.json, "nodes") : NULL;
    for (uint32_t i = 0; code == LR_OK && nodes != NULL && i < nodes->count; i++)
        if (is_named(&a.arena, &nodes->items[i], wanted)) {
            found++;
            code = list_of(s, &a, &nodes->items[i], &out, err);
        }
    if (code == LR_OK && found == 0)
        code = lr_fail(err, LR_NOT_FOUND,
                       wanted != NULL ? "there is no node \"%s\": see llm-router nodes"
                                      : "no node has joined this router yet%s",
                       wanted != NULL ? wanted : "");
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
    char id[64];
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
        (void)printf("reloading %s on %s (llm-router engines shows the result)\n", engine, id);
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

static lr_code run(const struct lr_settings *s, struct lr_error *err)
{
    size_t count = lr_settings_positional_count(s);
    if (count == 0)
        return list(s, err);
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
    .run = run,
};
