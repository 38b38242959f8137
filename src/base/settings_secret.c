/* base/settings_secret.c - a secret from a setting or from a file.
 *
 * Every user of a machine can read command lines; a file and the environment are private.
 */
#include <stdio.h>

#include "base/file.h"
#include "base/settings.h"

enum { FILE_BYTES = 64 << 10 };

static lr_code settings_secret_read_file(const char *path, char *out, size_t size,
                                         struct lr_error *err)
{
    struct lr_arena arena;
    struct lr_str text;
    lr_arena_init(&arena, 2 * (size_t)FILE_BYTES);
    lr_code code = lr_file_read(&arena, path, FILE_BYTES, &text, err);
    if (code == LR_OK) {
        text = lr_str_trim(text);
        if (text.len == 0)
            code = lr_fail(err, LR_INVALID_ARGUMENT, "%s is empty", path);
        else if (text.len >= size || lr_str_find_char(text, '\n') != LR_STR_NONE)
            code = lr_fail(err, LR_INVALID_ARGUMENT,
                           "%s must hold one line of at most %zu letters", path, size - 1);
        else
            (void)snprintf(out, size, LR_STR_FMT, LR_STR_ARG(text));
    }
    lr_arena_free(&arena);
    return code;
}

lr_code lr_settings_secret(const struct lr_settings *s, const char *name, char *out,
                           size_t size, struct lr_error *err)
{
    char file_name[64];
    (void)snprintf(file_name, sizeof(file_name), "%s-file", name);
    const char *value = lr_settings_str(s, name), *path = lr_settings_str(s, file_name);
    out[0] = '\0';
    if (value != NULL && path != NULL)
        return lr_fail(err, LR_INVALID_ARGUMENT, "give %s or %s, not both", name, file_name);
    if (path != NULL) {
        lr_code code = settings_secret_read_file(path, out, size, err);
        return code == LR_OK ? LR_OK : lr_fail_prefix(err, "setting %s", file_name);
    }
    if (value != NULL && strlen(value) >= size)
        return lr_fail(err, LR_INVALID_ARGUMENT, "%s must have at most %zu letters", name,
                       size - 1);
    if (value != NULL)
        (void)snprintf(out, size, "%s", value);
    return LR_OK;
}
