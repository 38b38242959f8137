/* cli/stop.c - llm-router stop: unloads a model from the nodes that have it loaded. */
#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/names.h"
#include "cli/remote.h"
#include "cli/terminal.h"

static const struct lr_setting flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "node",
     .type = LR_SETTING_STRING,
     .value = "NODE",
     .help = "name or id of a node; default: every node that has the model loaded"},
};

static lr_code unload(const struct lr_settings *s, const char *id, const char *node,
                      const char *name, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, body;
    lr_buf_init(&path, 4096);
    lr_buf_init(&body, 16);
    lr_buf_add_z(&body, "{}");
    lr_buf_add_z(&path, "/v0/models/");
    cli_escape(&path, id);
    lr_buf_add_z(&path, "/unload?node=");
    cli_escape(&path, node);
    lr_code code = cli_ask(s, "POST", lr_buf_z(&path), &body, &a, err);
    if (code == LR_OK) {
        const char *state = cli_text(&a.arena, a.json, "state");
        bool finishes = strcmp(state, "draining") == 0;
        cli_tell(stdout, "%s on %s: %s\n", id, name,
                 finishes ? "stops after its running requests" : "stopped");
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

static bool is_up(struct cli_answer *a, const struct lr_json *replica, const char *node)
{
    const char *state = cli_raw(&a->arena, replica, "state");
    bool runs = cli_bool(replica, "loaded") || strcmp(state, "starting") == 0 ||
                strcmp(state, "loading") == 0;
    return runs && (node[0] == '\0' || strcmp(cli_raw(&a->arena, replica, "node"), node) == 0);
}

static lr_code cli_stop_run(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_answer a = {0};
    struct lr_buf path;
    char id[CLI_ID_MAX], node[CLI_ID_MAX] = "";
    uint32_t stopped = 0;
    lr_code code = cli_model_id(s, lr_settings_positional(s, 0), id, err);
    if (code == LR_OK && lr_settings_has(s, "node"))
        code = cli_choose_node(s, node, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v0/models?id=");
    cli_escape(&path, id);
    code = cli_ask(s, "GET", lr_buf_z(&path), NULL, &a, err);
    const struct lr_json *list = code == LR_OK ? cli_array(a.json, "models") : NULL;
    const struct lr_json *replicas =
        list != NULL && list->count == 1 ? cli_array(&list->items[0], "nodes") : NULL;
    for (uint32_t i = 0; code == LR_OK && replicas != NULL && i < replicas->count; i++) {
        const struct lr_json *r = &replicas->items[i];
        if (!is_up(&a, r, node))
            continue;
        stopped++;
        code = unload(s, id, cli_raw(&a.arena, r, "node"), cli_text(&a.arena, r, "name"), err);
    }
    if (code == LR_OK && stopped == 0)
        cli_tell(stdout, "%s is not loaded%s\n", id, node[0] != '\0' ? " there" : "");
    cli_answer_free(&a);
    lr_buf_free(&path);
    return code;
}

const struct cli_command cli_command_stop = {
    .name = "stop",
    .summary = "Unload a model: running requests finish, its memory is freed",
    .arguments = "MODEL",
    .details = "The model stays registered, and the next request loads it again.",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 1,
    .run = cli_stop_run,
};
