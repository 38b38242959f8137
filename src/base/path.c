/* base/path.c - names of files: which are safe, and how they are joined. */
#include <stdio.h>

#include "base/file.h"

static bool component_safe(struct lr_str part)
{
    return part.len != 0 && part.len <= 255 && !lr_str_eq_z(part, ".") &&
           !lr_str_eq_z(part, "..");
}

bool lr_path_safe(struct lr_str name)
{
    struct lr_str rest = name, part;
    if (name.len == 0 || name.len >= LR_PATH_MAX)
        return false;
    for (size_t i = 0; i < name.len; i++) {
        unsigned char c = (unsigned char)name.ptr[i];
        /* A colon names a drive or a stream on Windows, where the same names are used. */
        if (c < 0x20 || c == 0x7F || c == '\\' || c == ':')
            return false;
    }
    while (lr_str_split(&rest, '/', &part))
        if (!component_safe(part))
            return false;
    return true;
}

/* Untrusted names reach logs and HTTP bodies: shortened, printable ASCII only. */
static void show_name(struct lr_str name, char out[96])
{
    size_t n = 0;
    for (; n < name.len && n < 80; n++) {
        char c = name.ptr[n];
        out[n] = (char)(c >= ' ' && c <= '~' ? c : '?');
    }
    memcpy(out + n, n < name.len ? "..." : "", n < name.len ? 4 : 1);
}

lr_code lr_path_join(char out[LR_PATH_MAX], const char *root, struct lr_str name,
                     struct lr_error *err)
{
    out[0] = '\0';
    if (!lr_path_safe(name)) {
        char shown[96];
        show_name(name, shown);
        return lr_fail(err, LR_INVALID_ARGUMENT,
                       "\"%s\" is not a safe file name: it must be relative, without \"..\", "
                       "backslash, colon or control characters",
                       shown);
    }
    size_t len = strlen(root);
    const char *slash = len != 0 && root[len - 1] == '/' ? "" : "/";
    int total = snprintf(out, LR_PATH_MAX, "%s%s" LR_STR_FMT, root, slash, LR_STR_ARG(name));
    if (total < 0 || total >= LR_PATH_MAX) {
        out[0] = '\0';
        return lr_fail(err, LR_INVALID_ARGUMENT, "path below %.200s is longer than %d bytes",
                       root, LR_PATH_MAX - 1);
    }
    return LR_OK;
}

const char *lr_path_base(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}
