/* cli/terminal.h - the terminal: text of a server made safe for it, its size, its colours.
 *
 * Names of models, answers and error messages come from other machines.  A terminal obeys
 * escape sequences in what it prints, so control characters never reach it: they are printed as
 * \x1b or \u202e. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/str.h"

enum cli_visible {
    CLI_ONE_LINE, /* a newline and a tab are made visible too */
    CLI_LINES,    /* newlines and tabs stay */
};

/* Appends text with every control character made visible: C0, DEL, C1, line and paragraph
 * separators, and the characters that change the direction of text.  Invalid UTF-8 becomes
 * U+FFFD. */
void cli_add_visible(struct lr_buf *out, struct lr_str text, enum cli_visible how);

/* fprintf for a text with words of a server in it: control characters but newlines and tabs are
 * made visible.  Flushes. */
void cli_tell(FILE *out, const char *fmt, ...) LR_PRINTF(2, 3);

struct cli_size {
    unsigned columns, rows;
};
/* 80 x 24 where fd is no terminal, or a terminal without a size. */
struct cli_size cli_terminal_size(int fd);

/* Appends text, cut or filled with blanks to this number of columns.  Counts code points, and
 * two columns for the wide letters of East Asia. */
void cli_add_cell(struct lr_buf *out, const char *text, unsigned columns);

#endif
