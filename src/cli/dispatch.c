/* cli/dispatch.c - from argv to a running subcommand. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/os/fd.h"
#include "base/os/process.h"
#include "base/sandbox.h"
#include "cli/commands.h"
#include "cli/synonyms.h"
#include "cli/terminal.h"

extern char **environ;

enum { HELP_LIMIT = 1 << 20, MOST_COMMANDS = 64 };

void cli_path(const char *parent, const struct cli_command *command, char out[CLI_PATH_LEN])
{
    (void)snprintf(out, CLI_PATH_LEN, "%s %s", parent, command->name);
}

const struct cli_command *cli_find(struct cli_table table, const char *name)
{
    for (size_t i = 0; i < table.count; i++)
        if (strcmp(table.rows[i]->name, name) == 0)
            return table.rows[i];
    return NULL;
}

lr_code cli_fail_word(const char *word, const char *const *words, const char *takes,
                      struct lr_error *err)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    const char *near = lr_closest(word, words, count);
    bool is_known = near != NULL && strcmp(near, word) == 0; /* its arguments are wrong */
    return near == NULL || is_known
               ? lr_fail(err, LR_INVALID_ARGUMENT, "%s", takes)
               : lr_fail(err, LR_INVALID_ARGUMENT, "\"%.40s\": did you mean \"%s\"? %s", word,
                         near, takes);
}

/* The text may quote a server's answer or an argument. */
static void complain(const struct lr_error *err)
{
    struct lr_buf text;
    lr_buf_init(&text, 1 << 16);
    cli_add_visible(&text, lr_str_z(err->text), CLI_LINES);
    (void)fprintf(stderr, "llm-router: %s\n", lr_buf_z(&text));
    lr_buf_free(&text);
}

lr_code cli_print(const struct lr_buf *buf, struct lr_error *err)
{
    if (buf->failed)
        return lr_fail(err, LR_INTERNAL, "the output is larger than %zu bytes", buf->limit);
    size_t wrote = buf->len != 0 ? fwrite(buf->data, 1, buf->len, stdout) : 0;
    if (wrote != buf->len || fflush(stdout) != 0)
        return lr_fail_errno(err, LR_IO, "cannot write to standard output");
    return LR_OK;
}

lr_code cli_printed(struct lr_error *err)
{
    return fflush(stdout) == 0 && ferror(stdout) == 0
               ? LR_OK
               : lr_fail(err, LR_IO, "cannot write to standard output");
}

lr_code cli_read_stdin(struct lr_buf *out, struct lr_error *err)
{
    enum { CHUNK = 64 << 10 };
    for (;;) {
        char *room = lr_buf_reserve(out, CHUNK);
        if (room == NULL)
            return lr_fail(err, LR_TOO_LARGE, "stdin has more than %zu bytes", out->limit);
        ssize_t got = read(STDIN_FILENO, room, CHUNK);
        if (got == 0)
            return LR_OK;
        if (got > 0)
            lr_buf_commit(out, (size_t)got);
        else if (errno != EINTR)
            return lr_fail_errno(err, LR_IO, "reading stdin");
    }
}

void cli_list(const char *parent, struct cli_table table, struct lr_buf *out)
{
    bool root = strcmp(parent, "llm-router") == 0;
    lr_buf_addf(out, "Usage: %s %s\n\n", parent, root ? "COMMAND ..." : "TOOL ...");
    for (size_t i = 0; i < table.count; i++)
        if (!table.rows[i]->hidden)
            lr_buf_addf(out, "  %-20s %s\n", table.rows[i]->name, table.rows[i]->summary);
    lr_buf_addf(out,
                "\n%s %s --help prints the details.\n"
                "Exit codes: 0 success, 1 failure, 2 wrong arguments, 130 ended by Ctrl-C.\n",
                parent, root ? "COMMAND" : "TOOL");
}

void cli_help(const char *parent, const struct cli_command *command, struct lr_buf *out)
{
    if (command->tools != NULL) {
        char path[CLI_PATH_LEN];
        cli_path(parent, command, path);
        cli_list(path, command->tools(), out);
        return;
    }
    bool has_flags = command->flags.count != 0 || command->shared;
    lr_buf_addf(out, "%s\n\nUsage: %s %s%s%s%s\n", command->summary, parent, command->name,
                has_flags ? " [--flag value]..." : "", command->arguments != NULL ? " " : "",
                command->arguments != NULL ? command->arguments : "");
    if (command->details != NULL)
        lr_buf_addf(out, "\n%s\n", command->details);
    if (has_flags) {
        const struct lr_setting_table tables[] = {command->flags, cli_settings};
        lr_buf_add_z(out, "\n");
        lr_settings_help(tables, command->shared ? 2 : 1, command->name, out);
    }
    if (command->shared)
        lr_buf_add_z(out,
                     "\nEvery flag is also an environment variable (LLM_ROUTER_NAME) and a "
                     "line in the file\nthat --config names (name = value); a flag wins, "
                     "then the environment, then the file.\n");
}

static int fail_usage(const char *parent, const char *command, const struct lr_error *err)
{
    complain(err);
    (void)fprintf(stderr, "Try: %s %s --help\n", parent, command);
    return CLI_USAGE;
}

static int print_and_exit(struct lr_buf *text)
{
    struct lr_error err;
    lr_code code = cli_print(text, &err);
    if (code != LR_OK)
        complain(&err);
    lr_buf_free(text);
    return code == LR_OK ? CLI_OK : CLI_FAILED;
}

static lr_code check_positional(const struct cli_command *command, const struct lr_settings *s,
                                struct lr_error *err)
{
    size_t count = lr_settings_positional_count(s);
    if (count > command->most)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s does not take \"%.80s\"", command->name,
                       lr_settings_positional(s, command->most));
    if (count < command->least)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s needs %s", command->name,
                       command->arguments);
    return LR_OK;
}

static void set_up_log(const struct lr_settings *s)
{
    enum lr_log_level level = LR_LOG_INFO;
    (void)lr_log_level_parse(lr_str_z(lr_settings_str(s, "log-level")), &level);
    bool json = strcmp(lr_settings_str(s, "log-format"), "json") == 0;
    lr_log_set(level, json ? LR_LOG_JSON : LR_LOG_TEXT);
}

static int run_command(const char *parent, const struct cli_command *command, int argc,
                       const char *const *argv)
{
    const struct lr_setting_table tables[] = {command->flags, cli_settings};
    struct lr_settings *s;
    struct lr_error err = {0};
    lr_code code = lr_settings_create(tables, command->shared ? 2 : 1, command->name, &s, &err);
    if (code != LR_OK) {
        complain(&err);
        return CLI_FAILED;
    }
    code = cli_foreign_flags(s, argc, argv, &err);
    if (code == LR_OK && command->shared)
        code = lr_settings_load(s, argc, argv, (const char *const *)environ, &err);
    else if (code == LR_OK)
        code = lr_settings_read_args(s, argc, argv, &err);
    int exit_code;
    if (code == LR_OK && lr_settings_is_help(s)) {
        struct lr_buf text;
        lr_buf_init(&text, HELP_LIMIT);
        cli_help(parent, command, &text);
        exit_code = print_and_exit(&text);
    } else if (code != LR_OK || (code = check_positional(command, s, &err)) != LR_OK) {
        exit_code = fail_usage(parent, command->name, &err);
    } else {
        if (command->shared) {
            lr_no_core_dumps();
            lr_process_close_to_others(); /* it holds secrets, and prompts of all clients */
            set_up_log(s);
        }
        code = command->run(s, &err);
        /* A daemon's work is not its output. */
        if (code == LR_OK && !command->shared)
            code = cli_printed(&err);
        if (code != LR_OK && err.text[0] != '\0')
            complain(&err);
        exit_code = code == LR_OK                 ? CLI_OK
                    : code == LR_INVALID_ARGUMENT ? CLI_USAGE
                    : code == LR_CANCELLED        ? CLI_INTERRUPTED
                                                  : CLI_FAILED;
    }
    lr_settings_destroy(s);
    return exit_code;
}

const char *cli_near(struct cli_table table, const char *name)
{
    const char *names[MOST_COMMANDS];
    size_t count = 0;
    for (size_t i = 0; i < table.count && count < MOST_COMMANDS; i++)
        if (!table.rows[i]->hidden)
            names[count++] = table.rows[i]->name;
    return lr_closest(name, names, count);
}

static int fail_unknown(const char *parent, struct cli_table table, const char *name)
{
    const char *near = cli_near(table, name);
    (void)fprintf(stderr, "llm-router: there is no \"%s %.60s\"", parent, name);
    if (near != NULL)
        (void)fprintf(stderr, "; did you mean \"%s %s\"?", parent, near);
    (void)fprintf(stderr, "\nTry: %s --help\n", parent);
    return CLI_USAGE;
}

int cli_dispatch(const char *parent, struct cli_table table, int argc, const char *const *argv)
{
    const struct cli_command *command = cli_find(table, argv[0]);
    if (command == NULL)
        return fail_unknown(parent, table, argv[0]);
    if (command->tools == NULL)
        return run_command(parent, command, argc - 1, argv + 1);

    char path[CLI_PATH_LEN];
    cli_path(parent, command, path);
    bool help = argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
    if (argc >= 2 && !help)
        return cli_dispatch(path, command->tools(), argc - 1, argv + 1);
    struct lr_buf text;
    lr_buf_init(&text, HELP_LIMIT);
    cli_list(path, command->tools(), &text);
    if (help)
        return print_and_exit(&text);
    (void)fprintf(stderr, "%s", lr_buf_z(&text));
    lr_buf_free(&text);
    return CLI_USAGE;
}

static void each_of(struct cli_table table, const char *parent, cli_visit *visit, void *arg)
{
    size_t parent_len = strlen(parent);
    for (size_t i = 0; i < table.count; i++) {
        const struct cli_command *command = table.rows[i];
        char path[CLI_PATH_LEN];
        if (command->hidden)
            continue;
        (void)snprintf(path, sizeof(path), "%s%s%s", parent, parent_len != 0 ? " " : "",
                       command->name);
        visit(arg, path, parent_len, command);
        if (command->tools != NULL)
            each_of(command->tools(), path, visit, arg);
    }
}

void cli_each_command(cli_visit *visit, void *arg)
{
    each_of(cli_commands(), "", visit, arg);
}
