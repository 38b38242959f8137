/* base/os/posix/terminal.c - a terminal that is taken over, and given back by signal handlers.
 */
#include "base/os/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

/* Signal handlers read these: set before the handlers are installed, or atomic. */
static struct termios before;
static bool has_keys; /* standard input is a terminal */
static volatile sig_atomic_t is_open, is_resized;

void lr_terminal_put(const char *text, size_t len)
{
    while (len > 0) {
        ssize_t wrote = write(STDOUT_FILENO, text, len);
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote <= 0)
            return;
        text += wrote;
        len -= (size_t)wrote;
    }
}

/* Only calls that a signal handler may make: write and tcsetattr. */
static void terminal_enter(void)
{
    static const char begin[] = "\033[?1049h\033[?25l\033[2J";
    struct termios quiet = before;
    quiet.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    quiet.c_cc[VMIN] = 0;
    quiet.c_cc[VTIME] = 0;
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &quiet);
    lr_terminal_put(begin, sizeof(begin) - 1);
    is_open = 1;
}

static void terminal_leave(void)
{
    static const char end[] = "\033[?25h\033[?1049l";
    if (is_open == 0)
        return;
    is_open = 0;
    lr_terminal_put(end, sizeof(end) - 1);
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void terminal_handle(int number, void (*fn)(int))
{
    struct sigaction action = {.sa_handler = fn};
    (void)sigemptyset(&action.sa_mask);
    (void)sigaction(number, &action, NULL);
}

/* The process ends as it would without us, once the handler returns. */
static void terminal_on_end(int number)
{
    int kept = errno;
    terminal_leave();
    terminal_handle(number, SIG_DFL);
    (void)raise(number);
    errno = kept;
}

static void on_suspend(int number)
{
    int kept = errno;
    terminal_leave();
    terminal_handle(number, SIG_DFL);
    (void)raise(number);
    errno = kept;
}

static void on_continue(int number)
{
    int kept = errno;
    (void)number;
    terminal_handle(SIGTSTP, on_suspend);
    if (is_open == 0)
        terminal_enter();
    is_resized = 1;
    errno = kept;
}

static void on_resize(int number)
{
    (void)number;
    is_resized = 1;
}

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS};

bool lr_terminal_take(void)
{
    has_keys = isatty(STDIN_FILENO) != 0;
    if (has_keys && tcgetattr(STDIN_FILENO, &before) != 0)
        return false;
    (void)atexit(terminal_leave);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++)
        terminal_handle(ends[i], terminal_on_end);
    terminal_handle(SIGTSTP, on_suspend);
    terminal_handle(SIGCONT, on_continue);
    terminal_handle(SIGWINCH, on_resize);
    terminal_enter();
    return true;
}

void lr_terminal_give_back(void)
{
    terminal_handle(SIGCONT, SIG_DFL);
    terminal_leave();
}

enum lr_terminal_event lr_terminal_wait(unsigned ms, char *key)
{
    enum { LONGEST_MS = 3600000 };
    struct pollfd input = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    if (is_resized == 0)
        (void)poll(&input, 1, ms < LONGEST_MS ? (int)ms : LONGEST_MS);
    if (is_resized != 0) {
        is_resized = 0;
        return LR_TERMINAL_RESIZED;
    }
    if ((input.revents & (POLLIN | POLLHUP)) == 0)
        return LR_TERMINAL_TIME;
    if (read(STDIN_FILENO, key, 1) == 1)
        return LR_TERMINAL_KEY;
    has_keys = false; /* the terminal's end */
    return LR_TERMINAL_TIME;
}

bool lr_terminal_size(int fd, unsigned *columns, unsigned *rows)
{
    struct winsize size = {0};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0 || size.ws_row == 0)
        return false;
    *columns = size.ws_col;
    *rows = size.ws_row;
    return true;
}
