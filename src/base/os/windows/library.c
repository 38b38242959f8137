/* base/os/windows/library.c - shared libraries by LoadLibrary. */
#include "base/os/library.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <windows.h>

#include "base/os/windows/internal.h"

static _Thread_local DWORD last_error;

/* A path also names the folder where the library's own libraries are looked for.  A name is
 * looked for beside this program and in the system's folder only. */
void *lr_library_open(const char *path)
{
    bool is_path = strchr(path, '/') != NULL || strchr(path, '\\') != NULL;
    wchar_t *wide = lr_os_wide_path(path);
    HMODULE library = NULL;
    if (wide != NULL)
        library = LoadLibraryExW(wide, NULL,
                                 is_path ? LOAD_WITH_ALTERED_SEARCH_PATH
                                         : LOAD_LIBRARY_SEARCH_APPLICATION_DIR |
                                               LOAD_LIBRARY_SEARCH_SYSTEM32);
    last_error = library == NULL ? GetLastError() : 0;
    free(wide);
    return library;
}

/* A symbol of the libraries that this one needs, which its list of imports names. */
static FARPROC symbol_of_needed(HMODULE library, const char *name)
{
    const char *base = (const char *)library;
    const IMAGE_DOS_HEADER *dos = (const void *)base;
    const IMAGE_NT_HEADERS *head = (const void *)(base + dos->e_lfanew);
    DWORD at = head->OptionalHeader.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT].VirtualAddress;
    FARPROC symbol = NULL;

    if (at == 0)
        return NULL;
    for (const IMAGE_IMPORT_DESCRIPTOR *needed = (const void *)(base + at);
         needed->Name != 0 && symbol == NULL; needed++) {
        HMODULE other = GetModuleHandleA(base + needed->Name);
        symbol = other != NULL ? GetProcAddress(other, name) : NULL;
    }
    return symbol;
}

void *lr_library_symbol(void *library, const char *name)
{
    FARPROC symbol = GetProcAddress(library, name);
    if (symbol == NULL)
        symbol = symbol_of_needed(library, name);
    void *out;
    memcpy(&out, &symbol, sizeof(out));
    last_error = symbol == NULL ? GetLastError() : 0;
    return out;
}

void lr_library_close(void *library)
{
    (void)FreeLibrary(library);
}

const char *lr_library_error(void)
{
    static _Thread_local char text[256];
    wchar_t wide[200] = L"";
    DWORD len = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS, NULL,
                               last_error, 0, wide, 200, NULL);
    while (len > 0 &&
           (wide[len - 1] == L'\r' || wide[len - 1] == L'\n' || wide[len - 1] == L'.'))
        wide[--len] = 0;
    if (len == 0 || !lr_os_narrow(wide, text, sizeof(text), false))
        (void)snprintf(text, sizeof(text), "error %lu", (unsigned long)last_error);
    return text;
}

static const char *const names[] = {
    [LR_LIBRARY_CUDA] = "nvcuda.dll",
    [LR_LIBRARY_NVML] = "nvml.dll",
    [LR_LIBRARY_VULKAN] = "vulkan-1.dll",
    [LR_LIBRARY_METAL] = "",
    [LR_LIBRARY_OBJC] = "",
    [LR_LIBRARY_CURL] = "libcurl.dll",
    [LR_LIBRARY_PQ] = "",
};

void *lr_library_open_known(enum lr_known_library which)
{
    return names[which][0] != '\0' ? lr_library_open(names[which]) : NULL;
}

const char *lr_library_name(enum lr_known_library which)
{
    return names[which];
}

bool lr_gpu_device_exists(bool has_driver)
{
    return has_driver;
}

bool lr_library_of(const void *address, char out[LR_PATH_MAX])
{
    HMODULE module = NULL;
    wchar_t *wide = malloc(LR_WIDE_PATH * sizeof(*wide));
    bool ok = wide != NULL &&
              GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS |
                                     GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT,
                                 (LPCWSTR)address, &module) &&
              GetModuleFileNameW(module, wide, LR_WIDE_PATH) != 0 &&
              lr_os_narrow(wide, out, LR_PATH_MAX, true);
    free(wide);
    return ok;
}
