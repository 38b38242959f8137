/* cli/completion.h - scripts that complete commands, flags and values, written from the tables
 * of commands and settings: completion.c (bash), completion_zsh.c, completion_fish.c. */
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "cli/commands.h"

void cli_completion_bash(struct lr_buf *out);
void cli_completion_zsh(struct lr_buf *out);
void cli_completion_fish(struct lr_buf *out);

/* Calls visit for each flag of the command. */
void cli_each_flag(const struct cli_command *command, lr_setting_visit *visit, void *arg);

/* "a|b|c" as a list of words. */
void cli_add_choices(struct lr_buf *out, const char *choices);

/* The beginning of a help text, up to the first semicolon, colon or full stop, for a menu;
 * inside single quotes, where `quote` stands for a single quote of the text. */
void cli_add_brief(struct lr_buf *out, const char *text, const char *quote);

#endif
