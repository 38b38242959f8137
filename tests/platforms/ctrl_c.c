/* tests/platforms/ctrl_c.c - runs a program in a console of its own and presses Ctrl-C there.
 *
 *   ctrl_c.exe PROGRAM ARGUMENT...
 *
 * Ctrl-C is pressed when standard input has a byte or ends.  Every process of the console gets
 * it, as from a keyboard.  The exit status is the program's.
 */
#include <stdio.h>
#include <windows.h>

enum { FAILED = 120 };

static BOOL WINAPI stay(DWORD event)
{
    return event == CTRL_C_EVENT;
}

/* The command line without its first word, which is the name of this program. */
static wchar_t *rest_of(wchar_t *line)
{
    BOOL is_quoted = FALSE;

    for (; *line != 0 && (is_quoted || *line != L' '); line++)
        is_quoted = *line == L'"' ? !is_quoted : is_quoted;
    while (*line == L' ')
        line++;
    return line;
}

static int fail(const char *what)
{
    (void)fprintf(stderr, "ctrl_c: %s: error %lu\n", what, GetLastError());
    return FAILED;
}

int main(void)
{
    STARTUPINFOW start = {.cb = sizeof(start),
                          .dwFlags = STARTF_USESTDHANDLES,
                          .hStdInput = GetStdHandle(STD_INPUT_HANDLE),
                          .hStdOutput = GetStdHandle(STD_OUTPUT_HANDLE),
                          .hStdError = GetStdHandle(STD_ERROR_HANDLE)};
    HANDLE keys = start.hStdInput;
    PROCESS_INFORMATION program;
    DWORD count, status;
    char key;

    (void)FreeConsole();
    if (!AllocConsole() || !SetConsoleCtrlHandler(NULL, FALSE) ||
        !SetConsoleCtrlHandler(stay, TRUE))
        return fail("no console");
    if (!CreateProcessW(NULL, rest_of(GetCommandLineW()), NULL, NULL, TRUE, 0, NULL, NULL,
                        &start, &program))
        return fail("cannot run the program");
    (void)ReadFile(keys, &key, 1, &count, NULL);
    if (!GenerateConsoleCtrlEvent(CTRL_C_EVENT, 0))
        return fail("cannot press Ctrl-C");
    (void)WaitForSingleObject(program.hProcess, INFINITE);
    return GetExitCodeProcess(program.hProcess, &status) ? (int)status : fail("no status");
}
