/* cli/run.c - llm-router run MODEL [PROMPT]: fetches and loads the model where needed, then
 * answers a prompt, or talks. */
#include <stdio.h>
#include <string.h>

#include "base/os/fd.h"
#include "cli/commands.h"
#include "cli/follow.h"
#include "cli/remote.h"
#include "cli/talk.h"

static const struct lr_setting flags[] = {CLI_REMOTE_FLAGS, CLI_TALK_FLAGS};

/* The model's id and state, from its name. */
static lr_code run_look_up(const struct lr_settings *s, const char *name, char id[CLI_ID_MAX],
                           bool *is_loaded, struct lr_error *err)
{
    struct cli_answer a;
    struct lr_buf path;
    lr_buf_init(&path, 4096);
    lr_buf_add_z(&path, "/v1/models/");
    cli_escape(&path, name);
    lr_code code = cli_ask(s, "GET", lr_buf_z(&path), NULL, &a, err);
    if (code == LR_OK) {
        lr_str_copy(id, CLI_ID_MAX, lr_str_z(cli_raw(&a.arena, a.json, "id")));
        *is_loaded = strcmp(cli_raw(&a.arena, a.json, "state"), "ready") == 0;
    }
    cli_answer_free(&a);
    lr_buf_free(&path);
    return code;
}

/* Progress goes to standard error, so that standard output has the answer only. */
static lr_code cmd_run_prepare(const struct lr_settings *s, const char *name,
                               char id[CLI_ID_MAX], struct lr_error *err)
{
    bool is_loaded = false;
    lr_code code = cli_usable_model_id(s, name, id, err);
    if (code == LR_NOT_FOUND && strchr(name, '/') != NULL) {
        code = cli_register_repo(s, name, id, CLI_ID_MAX, err);
        if (code == LR_OK)
            code = cli_follow(s, id, "", CLI_GOAL_FILES, stderr, err);
    }
    if (code == LR_OK)
        code = run_look_up(s, id, id, &is_loaded, err);
    if (code != LR_OK || is_loaded)
        return code;
    code = cli_load(s, id, "", err);
    if (code == LR_OK)
        return cli_follow(s, id, "", CLI_GOAL_LOADED, stderr, err);
    /* The key of a client cannot ask for it: the request itself loads the model. */
    return code == LR_PERMISSION_DENIED ? LR_OK : code;
}

/* The arguments behind MODEL, and standard input if that is no terminal. */
static lr_code read_prompt(const struct lr_settings *s, struct lr_buf *out,
                           struct lr_error *err)
{
    cli_talk_join(s, 1, out);
    if (isatty(STDIN_FILENO) != 0)
        return LR_OK;
    size_t before = out->len;
    if (before != 0)
        lr_buf_add_z(out, "\n\n");
    size_t begin = out->len;
    lr_code code = cli_read_stdin(out, err);
    if (code == LR_OK && out->len == begin)
        out->len = before;
    return code;
}

static lr_code cmd_run_this(const struct lr_settings *s, struct lr_error *err)
{
    struct cli_talk t;
    struct lr_buf prompt;
    cli_talk_init(&t, s);
    lr_buf_init(&prompt, CLI_TALK_BYTES);
    lr_code code = read_prompt(s, &prompt, err);
    struct lr_str text = lr_str_trim(lr_buf_str(&prompt));
    bool talks = text.len == 0 && isatty(STDIN_FILENO) != 0;
    if (code == LR_OK && text.len == 0 && !talks)
        code = lr_fail(err, LR_INVALID_ARGUMENT,
                       "there is no prompt: give it after MODEL, or on standard input");
    if (code == LR_OK)
        code = cmd_run_prepare(s, lr_settings_positional(s, 0), t.model, err);
    if (code == LR_OK)
        code = talks ? cli_talk_converse(&t, err) : cli_talk_turn(&t, text, err);
    lr_buf_free(&prompt);
    cli_talk_free(&t);
    return code;
}

const struct cli_command cli_command_run = {
    .name = "run",
    .summary = "Run a model: answer a prompt, or chat",
    .arguments = "MODEL [PROMPT...]",
    .details =
        "Prints the answer as it comes. Standard input that is no terminal is the prompt, or "
        "is\n"
        "appended to it; without a prompt, a terminal gets a chat. A model that is not loaded "
        "is\n"
        "loaded first, and a repository of Hugging Face (org/name) is registered first; the\n"
        "progress is shown on standard error. Ctrl-C ends the answer.\n"
        "  git diff | llm-router run gpt-oss-20b Write a commit message",
    .flags = {flags, sizeof(flags) / sizeof(flags[0])},
    .least = 1,
    .most = 4096,
    .run = cmd_run_this,
};
