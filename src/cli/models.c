/* cli/models.c - llm-router models and llm-router register. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/names.h"
#include "cli/resolve.h"
#include "cli/show.h"
#include "cli/terminal.h"

enum { TEMPLATE_BYTES = 1 << 20, TEXT_BYTES = 1 << 20 };

static const struct lr_setting models_flags[] = {
    CLI_REMOTE_FLAGS,
    CLI_JSON_FLAG,
    {.name = "purge",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "with remove: nodes also delete the files, except those of a Hugging Face cache"},
    {.name = "node",
     .type = LR_SETTING_STRING,
     .value = "NODE",
     .help =
         "with load, unload, pin, unpin and replicas: the node, by its name or id; default: "
         "the router chooses"},
    {.name = "wait",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "with load: show the progress, and end when the model is loaded"},
};

/* The further names of a model, with a comma between two. */
static void add_aliases(const struct lr_json *model, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(model, "aliases");
    struct lr_str name;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_str(&list->items[i], &name)) {
            lr_buf_add_z(out, i > 0 ? ", " : "");
            cli_put(out, name);
        }
}

static void print_models(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "models");
    if (list == NULL || list->count == 0) {
        lr_buf_add_z(out, "No model is registered: llm-router register openai/gpt-oss-20b\n");
        return;
    }
    lr_buf_addf(out, "%-40s %-10s %-8s %s\n", "MODEL", "STATE", "SOURCE", "REASON");
    for (uint32_t i = 0; i < list->count; i++) {
        const struct lr_json *m = &list->items[i];
        lr_buf_addf(out, "%-40s %-10s %-8s %s\n", cli_text(&a->arena, m, "id"),
                    cli_text(&a->arena, m, "state"), cli_text(&a->arena, m, "source"),
                    cli_text(&a->arena, m, "reason"));
        if (strcmp(cli_raw(&a->arena, m, "dialect_from"), "registration") == 0)
            lr_buf_addf(out, "  dialect: %s\n", cli_text(&a->arena, m, "dialect"));
        if (strcmp(cli_raw(&a->arena, m, "template_from"), "registration") == 0)
            lr_buf_add_z(out, "  chat template: of the registration\n");
        const struct lr_json *aliases = cli_array(m, "aliases");
        if (aliases != NULL && aliases->count > 0) {
            lr_buf_add_z(out, "  alias: ");
            add_aliases(m, out);
            lr_buf_add_char(out, '\n');
        }
    }
}

/* The result of deleting files, per node. */
static void put_purged(struct cli_answer *a, struct lr_buf *out)
{
    const struct lr_json *list = cli_array(a->json, "purged");
    for (uint32_t i = 0; list != NULL && i < list->count; i++) {
        const struct lr_json *p = &list->items[i];
        if (cli_bool(p, "ok"))
            lr_buf_addf(out, "%s: files deleted\n", cli_text(&a->arena, p, "name"));
        else
            lr_buf_addf(out, "%s: files stay: %s\n", cli_text(&a->arena, p, "name"),
                        cli_text(&a->arena, p, "reason"));
    }
    if (cli_int(a->json, "nodes_offline") != 0)
        lr_buf_addf(out, "%lld nodes are offline: their files stay\n",
                    (long long)cli_int(a->json, "nodes_offline"));
}

static lr_code remove_model(const struct lr_settings *s, const char *name, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, text;
    char id[CLI_ID_MAX];
    lr_code code = cli_model_id(s, name, id, err);
    if (code == LR_NOT_FOUND && lr_settings_bool(s, "purge")) {
        /* Its registration may be gone already, and its files are left. */
        LR_COPY(id, lr_str_z(name));
        code = LR_OK;
    }
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 2000);
    lr_buf_add_z(&path, "/v0/models/");
    cli_escape(&path, id);
    if (lr_settings_bool(s, "purge"))
        lr_buf_add_z(&path, "?purge=true");
    code = cli_ask(s, "DELETE", lr_buf_z(&path), NULL, &a, err);
    lr_buf_init(&text, TEXT_BYTES);
    if (code == LR_OK) {
        lr_buf_addf(&text, "removed %s\n", id);
        put_purged(&a, &text);
        code = cli_report(s, &a, &text, err);
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&text);
    return code;
}

/* load, unload, pin, unpin; replicas with a count, else NULL. */
static lr_code act(const struct lr_settings *s, const char *action, const char *name,
                   const char *count, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path, body;
    char id[CLI_ID_MAX], node[CLI_ID_MAX] = "";
    lr_code code = cli_model_id(s, name, id, err);
    if (code == LR_OK && lr_settings_has(s, "node"))
        code = cli_choose_node(s, node, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_init(&body, TEXT_BYTES);
    lr_buf_add_z(&body, "{}");
    lr_buf_add_z(&path, "/v0/models/");
    cli_escape(&path, id);
    lr_buf_addf(&path, "/%s", action);
    if (count != NULL) {
        lr_buf_add_z(&path, "?count=");
        cli_escape(&path, count);
    }
    if (node[0] != '\0') {
        lr_buf_add_z(&path, count != NULL ? "&node=" : "?node=");
        cli_escape(&path, node);
    }
    code = cli_ask(s, "POST", lr_buf_z(&path), &body, &a, err);
    lr_buf_clear(&body);
    if (code == LR_OK) {
        const char *missing = cli_text(&a.arena, a.json, "replicas_reason");
        lr_buf_addf(&body, "%s: %s%s\n", id, cli_text(&a.arena, a.json, "state"),
                    cli_bool(a.json, "pinned") ? ", pinned" : "");
        if (missing[0] != '\0')
            lr_buf_addf(&body, "replicas are missing: %s\n", missing);
        code = cli_report(s, &a, &body, err);
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

/* load --wait */
static lr_code load_and_wait(const struct lr_settings *s, const char *name,
                             struct lr_error *err)
{
    char id[CLI_ID_MAX], node[CLI_ID_MAX] = "";
    lr_code code = cli_model_id(s, name, id, err);
    if (code == LR_OK && lr_settings_has(s, "node"))
        code = cli_choose_node(s, node, err);
    if (code == LR_OK)
        code = cli_load(s, id, node, err);
    bool wants_json = lr_settings_bool(s, "json");
    if (code == LR_OK)
        code = cli_follow(s, id, node, CLI_GOAL_LOADED, wants_json ? stderr : stdout, err);
    if (code != LR_OK || !wants_json) {
        if (code == LR_OK)
            cli_tell(stdout, "%s: ready\n", id);
        return code;
    }
    struct lr_buf path;
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v0/models?id=");
    cli_escape(&path, id);
    code = cli_show(s, lr_buf_z(&path), print_models, err);
    lr_buf_free(&path);
    return code;
}

static bool is_action(const char *word)
{
    static const char *const words[] = {"load", "unload", "pin", "unpin"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

/* ---- aliases ---- */

static void put_others(struct lr_json_writer *w, const struct lr_json *list, const char *name)
{
    struct lr_str other;
    for (uint32_t i = 0; list != NULL && i < list->count; i++)
        if (lr_json_str(&list->items[i], &other) && !lr_str_eq_nocase(other, lr_str_z(name)))
            lr_json_put_str(w, other);
}

/* PATCH replaces all aliases, so the command reads them first. */
static lr_code change_alias(const struct lr_settings *s, bool adds, struct lr_error *err)
{
    const char *name = lr_settings_positional(s, 2);
    char id[CLI_ID_MAX];
    struct cli_answer was = {0}, now = {0};
    struct lr_json_writer w;
    struct lr_buf path, body;
    lr_code code = cli_model_id(s, lr_settings_positional(s, 1), id, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&path, 4096);
    lr_buf_init(&body, 64 << 10);
    lr_buf_add_z(&path, "/v0/models?brief=true&id=");
    cli_escape(&path, id);
    code = cli_ask(s, "GET", lr_buf_z(&path), NULL, &was, err);
    const struct lr_json *list = code == LR_OK ? cli_array(was.json, "models") : NULL;
    if (code == LR_OK && (list == NULL || list->count == 0))
        code = lr_fail(err, LR_NOT_FOUND, "the model \"%s\" was removed", id);
    if (code == LR_OK) {
        const struct lr_json *model = &list->items[0];
        lr_json_writer_init(&w, &body);
        lr_json_begin_object(&w);
        lr_json_member_array(&w, "aliases");
        put_others(&w, cli_array(model, "aliases"), name);
        if (adds)
            lr_json_put_z(&w, name);
        lr_json_end_array(&w);
        lr_json_end_object(&w);
        lr_buf_clear(&path);
        lr_buf_add_z(&path, "/v0/models/");
        cli_escape(&path, id);
        code = cli_ask(s, "PATCH", lr_buf_z(&path), &body, &now, err);
    }
    if (code == LR_OK) {
        lr_buf_clear(&body);
        lr_buf_addf(&body, "%s: ", cli_text(&now.arena, now.json, "id"));
        size_t before = body.len;
        add_aliases(now.json, &body);
        lr_buf_add_z(&body, body.len == before ? "no alias\n" : "\n");
        code = cli_report(s, &now, &body, err);
    }
    cli_answer_free(&was);
    cli_answer_free(&now);
    lr_buf_free(&path);
    lr_buf_free(&body);
    return code;
}

static lr_code run_models(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const words[] = {"remove",   "load",  "unload",  "pin",  "unpin",
                                        "replicas", "alias", "unalias", "list", "show",
                                        "rename",   "rm",    NULL};
    size_t count = lr_settings_positional_count(s);
    const char *word = count > 0 ? lr_settings_positional(s, 0) : "";
    if (count == 3 && (strcmp(word, "alias") == 0 || strcmp(word, "unalias") == 0))
        return change_alias(s, strcmp(word, "alias") == 0, err);
    if (count == 3 && strcmp(word, "rename") == 0)
        return change_alias(s, true, err);
    if (count == 1 && (strcmp(word, "list") == 0 || strcmp(word, "ls") == 0))
        return cli_show(s, "/v0/models", print_models, err);
    if (count == 2 && strcmp(word, "show") == 0)
        return cli_show_model(s, lr_settings_positional(s, 1), err);
    if (count == 2 && (strcmp(word, "remove") == 0 || strcmp(word, "rm") == 0))
        return remove_model(s, lr_settings_positional(s, 1), err);
    if (count == 2 && strcmp(word, "load") == 0 && lr_settings_bool(s, "wait"))
        return load_and_wait(s, lr_settings_positional(s, 1), err);
    if (count == 2 && is_action(word))
        return act(s, word, lr_settings_positional(s, 1), NULL, err);
    if (count == 3 && strcmp(word, "replicas") == 0)
        return act(s, word, lr_settings_positional(s, 1), lr_settings_positional(s, 2), err);
    if (count != 0)
        return cli_fail_word(
            word, words,
            "models takes nothing, or: list, show MODEL, remove MODEL [--purge] (or rm), load "
            "MODEL, unload MODEL, pin MODEL, unpin MODEL, replicas MODEL auto|N, alias MODEL "
            "NAME, unalias MODEL NAME, rename MODEL NAME",
            err);
    return cli_show(s, "/v0/models", print_models, err);
}

const struct cli_command cli_command_models = {
    .name = "models",
    .summary =
        "List the registered models and why some are not ready; load, pin, name or remove one",
    .arguments =
        "[list | show MODEL | remove MODEL | load MODEL | unload MODEL | pin MODEL | "
        "unpin MODEL | replicas MODEL auto|N | alias MODEL NAME | unalias MODEL NAME | "
        "rename MODEL NAME]",
    .details =
        "MODEL is the id of a model, an alias, or the part of the id behind the slash.\n"
        "Removing a registration keeps the files on the nodes unless --purge is given. "
        "A pinned\n"
        "model is never unloaded to free memory. Replicas are copies of a model on several\n"
        "GPUs of a node; auto: as many as the traffic asks for. An alias is a further name "
        "under which\n"
        "clients find the model; rename is the same, since an id stays:\n"
        "  llm-router models alias openai/gpt-oss-20b claude-sonnet-4-5",
    .flags = {models_flags, sizeof(models_flags) / sizeof(models_flags[0])},
    .most = 3,
    .run = run_models,
};

/* ---- register ---- */

static const struct lr_setting register_flags[] = {
    CLI_REMOTE_FLAGS,
    {.name = "format",
     .type = LR_SETTING_CHOICE,
     .choices = "safetensors|gguf",
     .help = "the format, if the repository has both"},
    {.name = "revision", .type = LR_SETTING_STRING, .help = "branch, tag or commit"},
    {.name = "filename",
     .type = LR_SETTING_STRING,
     .help = "the file to use, if there are several"},
    {.name = "name",
     .type = LR_SETTING_STRING,
     .help = "id of the model; default: the name of the repository"},
    {.name = "alias",
     .type = LR_SETTING_LIST,
     .value = "NAME",
     .help = "a further name under which clients find the model, such as claude-sonnet-4-5"},
    {.name = "chat-template",
     .type = LR_SETTING_PATH,
     .value = "FILE",
     .help = "a Jinja chat template to use instead of the model's own"},
    {.name = "dialect",
     .type = LR_SETTING_STRING,
     .value = "NAME",
     .help =
         "the form of the model's reasoning and calls (docs/dialects.md); default: what its "
         "chat template shows"},
    {.name = "path",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "REPO is a model whose files are on a node already: its name below the node's "
             "models-dir, or its folder"},
    {.name = "wait",
     .type = LR_SETTING_BOOL,
     .fallback = "false",
     .help = "show the progress of the download, and end when the model can be used"},
};

/* "./model", "/srv/model", "~/model": a folder, which only --path takes. */
static lr_code check_source(const struct lr_settings *s, struct lr_error *err)
{
    const char *repo = lr_settings_positional(s, 0);
    if (lr_settings_bool(s, "path") || (repo[0] != '/' && repo[0] != '.' && repo[0] != '~'))
        return LR_OK;
    return lr_fail(err, LR_INVALID_ARGUMENT,
                   "%.200s looks like a folder: add --path if it is on a node, below its "
                   "models-dir; a repository is written org/name",
                   repo);
}

static lr_code run_register(const struct lr_settings *s, struct lr_error *err)
{
    static const char *const optional[] = {"format", "revision", "filename", "name", "dialect"};
    struct cli_answer a;
    struct lr_buf body, template;
    struct lr_json_writer w;
    const char *file = lr_settings_str(s, "chat-template");
    char id[CLI_ID_MAX] = "";
    lr_code code = check_source(s, err);
    if (code != LR_OK)
        return code;
    lr_buf_init(&template, TEMPLATE_BYTES);
    code = file != NULL ? lr_file_read_buf(file, &template, err) : LR_OK;
    if (code != LR_OK) {
        lr_buf_free(&template);
        return code;
    }
    lr_buf_init(&body, 8 * TEMPLATE_BYTES);
    lr_json_writer_init(&w, &body);
    lr_json_begin_object(&w);
    if (file != NULL)
        lr_json_member_str(&w, "chat_template", lr_buf_str(&template));
    lr_buf_free(&template);
    lr_json_member_z(&w, lr_settings_bool(s, "path") ? "path" : "repo",
                     lr_settings_positional(s, 0));
    for (size_t i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
        if (lr_settings_has(s, optional[i]))
            lr_json_member_z(&w, optional[i], lr_settings_str(s, optional[i]));
    lr_json_member_array(&w, "aliases");
    for (size_t i = 0; i < lr_settings_list_count(s, "alias"); i++)
        lr_json_put_z(&w, lr_settings_list_item(s, "alias", i));
    lr_json_end_array(&w);
    lr_json_end_object(&w);
    code = cli_ask(s, "POST", "/v0/models/register", &body, &a, err);
    if (code == LR_OK) {
        const struct lr_json *warnings = cli_array(a.json, "warnings");
        struct lr_str text;
        bool waits = lr_settings_bool(s, "wait");
        LR_COPY(id, lr_str_z(cli_raw(&a.arena, a.json, "id")));
        cli_tell(stdout, "registered %s%s\n", id,
                 waits ? "" : " (llm-router models shows the progress)");
        for (uint32_t i = 0; warnings != NULL && i < warnings->count; i++)
            if (lr_json_str(&warnings->items[i], &text))
                cli_tell(stderr, "warning: " LR_STR_FMT "\n", LR_STR_ARG(text));
    }
    cli_answer_free(&a);
    lr_buf_free(&body);
    if (code == LR_OK && lr_settings_bool(s, "wait"))
        code = cli_follow(s, id, "", CLI_GOAL_FILES, stdout, err);
    if (code == LR_OK && lr_settings_bool(s, "wait"))
        cli_tell(stdout, "%s can be used\n", id);
    return code;
}

const struct cli_command cli_command_register = {
    .name = "register",
    .summary = "Register a model: nodes download it and clients can use it",
    .arguments = "REPO",
    .details =
        "REPO is org/name, or a Hugging Face URL. For gated repositories, set HF_TOKEN in the\n"
        "router's environment.\n\n"
        "With --path nothing is downloaded: REPO is a model that lies on a node. The node "
        "looks\n"
        "below its models-dir (data-dir/models, unless it was started with another) and at "
        "the\n"
        "folders that it was given with --model, and REPO is the name there:\n"
        "  models-dir/acme/parrot on the node:  llm-router register acme/parrot --path\n"
        "A whole path works too, if it is below the models-dir. Every node that has the "
        "folder\n"
        "serves the model.",
    .flags = {register_flags, sizeof(register_flags) / sizeof(register_flags[0])},
    .least = 1,
    .most = 1,
    .run = run_register,
};
