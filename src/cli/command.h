/* cli/command.h - what a subcommand is, and how one is added.
 *
 * A subcommand (or a tool of `llm-router debug`) is one const struct cli_command in its
 * own file.  To add one: define it, declare it in cli/commands.h, add a line to the
 * table in cli/table.c (or cli/debug.c).  Arguments are parsed, --help answered and the
 * log set up before run() is called; usage, help, completion and docs/cli.md come from
 * the struct.
 *
 * Exit codes: 0 success, 1 failure, 2 wrong arguments, 130 ended by Ctrl-C.
 */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "base/settings.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_INTERRUPTED = 130 };

struct cli_command;

struct cli_table {
    const struct cli_command *const *rows;
    size_t count;
};

struct cli_command {
    const char *name;
    const char *summary;   /* one line, for the list */
    const char *arguments; /* "MODEL [PROMPT...]"; NULL: none are taken */
    const char *details;   /* paragraphs below the summary in --help, or NULL */

    /* Its own flags, or an empty table.  They come from the command line only, unless `shared`
     * is set too. */
    struct lr_setting_table flags;
    /* Uses the rows of cli_settings that name it, from flags, environment and file. */
    bool shared;
    bool hidden; /* works but is not listed */

    size_t least; /* positional arguments */
    size_t most;

    /* OK: exit 0.  Otherwise err->text is printed and the exit code is 1, or 2 when the
     * code is INVALID_ARGUMENT, or 130 when it is CANCELLED.  An empty text prints nothing. */
    lr_code (*run)(const struct lr_settings *settings, struct lr_error *err);

    /* A command with subcommands (`debug`) has a table instead of run(). */
    struct cli_table (*tools)(void);
};

/* Runs argv[0] of the table.  parent is the text before it: "llm-router". */
int cli_dispatch(const char *parent, struct cli_table table, int argc, const char *const *argv);

/* --help of one command: usage, details, flags; or its tools. */
void cli_help(const char *parent, const struct cli_command *command, struct lr_buf *out);
void cli_list(const char *parent, struct cli_table table, struct lr_buf *out);

/* "llm-router debug": the parent of a command's tools. */
enum { CLI_PATH_LEN = 128 };
/* Calls visit for each command and, after it, for each of its tools, but for hidden ones. path:
 * the words after the program, "debug tokenize"; the first parent_len bytes are the command
 * that a tool belongs to. */
typedef void cli_visit(void *arg, const char *path, size_t parent_len,
                       const struct cli_command *command);
void cli_each_command(cli_visit *visit, void *arg);
void cli_path(const char *parent, const struct cli_command *command, char out[CLI_PATH_LEN]);

/* NULL: no command of that name. */
const struct cli_command *cli_find(struct cli_table table, const char *name);

/* The name of a command that is close to this one; NULL: none is. */
const char *cli_near(struct cli_table table, const char *name);

/* INVALID_ARGUMENT for a word that a command does not take: what it takes, and the word of the
 * list (which ends with NULL) that was probably meant. */
LR_MUST_USE lr_code cli_fail_word(const char *word, const char *const *words, const char *takes,
                                  struct lr_error *err);

/* Writes buf to stdout; IO when that fails. */
LR_MUST_USE lr_code cli_print(const struct lr_buf *buf, struct lr_error *err);
/* IO when something that was written to stdout is lost. */
LR_MUST_USE lr_code cli_printed(struct lr_error *err);

/* Appends stdin, to its end, to out; TOO_LARGE over the buffer's limit. */
LR_MUST_USE lr_code cli_read_stdin(struct lr_buf *out, struct lr_error *err);

#endif
