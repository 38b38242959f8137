/* base/os/windows/terminal.c - the console, which understands the escapes of terminals. */
#include "base/os/terminal.h"

#include <conio.h>
#include <errno.h>
#include <io.h>
#include <stdlib.h>
#include <windows.h>

static DWORD output_before;
static bool is_open;
static unsigned last_columns, last_rows;

bool lr_terminal_size(int fd, unsigned *columns, unsigned *rows)
{
    CONSOLE_SCREEN_BUFFER_INFO info;
    if (!_isatty(fd) || !GetConsoleScreenBufferInfo((HANDLE)_get_osfhandle(fd), &info))
        return false;
    *columns = (unsigned)(info.srWindow.Right - info.srWindow.Left + 1);
    *rows = (unsigned)(info.srWindow.Bottom - info.srWindow.Top + 1);
    return *columns != 0 && *rows != 0;
}

void lr_terminal_put(const char *text, size_t len)
{
    while (len > 0) {
        int wrote = _write(1, text, (unsigned)len);
        if (wrote <= 0)
            return;
        text += wrote;
        len -= (size_t)wrote;
    }
}

static void terminal_leave(void)
{
    static const char end[] = "\033[?25h\033[?1049l";
    if (!is_open)
        return;
    is_open = false;
    lr_terminal_put(end, sizeof(end) - 1);
    (void)SetConsoleMode((HANDLE)_get_osfhandle(1), output_before);
}

/* Ctrl-C and a closed window end the process; before that, the console is as it was. */
static BOOL WINAPI terminal_on_end(DWORD event)
{
    (void)event;
    terminal_leave();
    return FALSE;
}

bool lr_terminal_take(void)
{
    static const char begin[] = "\033[?1049h\033[?25l\033[2J";
    HANDLE output = (HANDLE)_get_osfhandle(1);
    if (!GetConsoleMode(output, &output_before) ||
        !SetConsoleMode(output, output_before | ENABLE_PROCESSED_OUTPUT |
                                    ENABLE_VIRTUAL_TERMINAL_PROCESSING)) {
        errno = ENOTTY;
        return false;
    }
    (void)atexit(terminal_leave);
    (void)SetConsoleCtrlHandler(terminal_on_end, TRUE);
    (void)lr_terminal_size(1, &last_columns, &last_rows);
    lr_terminal_put(begin, sizeof(begin) - 1);
    is_open = true;
    return true;
}

void lr_terminal_give_back(void)
{
    (void)SetConsoleCtrlHandler(terminal_on_end, FALSE);
    terminal_leave();
}

/* Keys and sizes are looked at every 20 ms. */
enum lr_terminal_event lr_terminal_wait(unsigned ms, char *key)
{
    ULONGLONG begin = GetTickCount64();
    bool has_keys = _isatty(0) != 0;
    for (;;) {
        unsigned columns = last_columns, rows = last_rows;
        (void)lr_terminal_size(1, &columns, &rows);
        if (columns != last_columns || rows != last_rows) {
            last_columns = columns;
            last_rows = rows;
            return LR_TERMINAL_RESIZED;
        }
        if (has_keys && _kbhit()) {
            *key = (char)_getch();
            return LR_TERMINAL_KEY;
        }
        if (GetTickCount64() - begin >= ms)
            return LR_TERMINAL_TIME;
        Sleep(20);
    }
}
