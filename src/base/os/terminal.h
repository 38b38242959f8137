/* base/os/terminal.h - the terminal: its size, and taking it over for a page of text.
 *
 *   given back --take--> taken <--> suspended (Ctrl-Z, fg)
 *        ^_________________|  give_back, exit, or a signal that ends the process
 *
 * However the process ends, the terminal is as it was before: signals are handled, and exit()
 * gives it back.  One take-over a process.  Thread: main. */
#ifndef BASE_OS_TERMINAL_H
#define BASE_OS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>

/* False: fd is no terminal, or one without a size. */
bool lr_terminal_size(int fd, unsigned *columns, unsigned *rows);

/* Shows an empty page on standard output, without a cursor.  Keys of standard input, if that is
 * a terminal, are read one by one and not echoed.  False: errno says why not. */
bool lr_terminal_take(void);
void lr_terminal_give_back(void);
void lr_terminal_put(const char *text, size_t len);

enum lr_terminal_event { LR_TERMINAL_TIME, LR_TERMINAL_RESIZED, LR_TERMINAL_KEY };
/* Waits for a key, another size of the terminal, or the time. */
enum lr_terminal_event lr_terminal_wait(unsigned ms, char *key);

#endif
