/* net/path.c - decoding paths and query strings. */
#include "net/path.h"

#include "base/errors.h"
#include "base/utf8.h"

/* Decodes raw into out, which needs at most raw.len bytes; false for a broken escape. */
static bool path_decode(struct lr_str raw, bool keep_slash, bool plus_is_blank, char *out,
                        size_t *len)
{
    *len = 0;
    for (size_t i = 0; i < raw.len; i++) {
        char c = raw.ptr[i];
        if (c == '+' && plus_is_blank) {
            c = ' ';
        } else if (c == '%') {
            if (raw.len - i < 3)
                return false;
            int high = lr_hex_digit(raw.ptr[i + 1]);
            int low = lr_hex_digit(raw.ptr[i + 2]);
            if (high < 0 || low < 0)
                return false;
            c = (char)(high << 4 | low);
            if (c == '/' && keep_slash) {
                out[(*len)++] = '%';
                out[(*len)++] = '2';
                c = 'F';
            }
            i += 2;
        }
        out[(*len)++] = c;
    }
    return true;
}

static bool has_control(struct lr_str s)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = (unsigned char)s.ptr[i];
        if (c < 0x20 || c == 0x7f)
            return true;
    }
    return false;
}

static lr_code decode_segment(struct lr_arena *arena, struct lr_str raw, bool keep_slash,
                              struct lr_str *out, struct lr_error *err)
{
    char *text = lr_arena_alloc(arena, raw.len + 1);
    if (text == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the path");
    size_t len = 0;
    if (!path_decode(raw, keep_slash, false, text, &len))
        return lr_fail_plain(err, path_escape);
    text[len] = '\0';
    *out = lr_str(text, len);
    if (has_control(*out))
        return lr_fail_plain(err, path_control);
    if (!lr_utf8_valid(*out))
        return lr_fail_plain(err, path_utf8);
    if (lr_str_eq_z(*out, ".") || lr_str_eq_z(*out, ".."))
        return lr_fail_as(err, path_segment, text);
    return LR_OK;
}

/* "/v1/models/" is "/v1/models"; "//" stays, to be refused. */
static struct lr_str without_last_slash(struct lr_str path)
{
    bool has_one =
        path.len > 1 && path.ptr[path.len - 1] == '/' && path.ptr[path.len - 2] != '/';
    return has_one ? lr_str_sub(path, 0, path.len - 1) : path;
}

static lr_code path_walk(struct lr_arena *arena, struct lr_str raw_path, bool keep_slash,
                         struct net_path *out, struct lr_error *err)
{
    out->count = 0;
    raw_path = without_last_slash(raw_path);
    if (raw_path.len == 0 || raw_path.ptr[0] != '/')
        return lr_fail(err, LR_INVALID_ARGUMENT, "the path does not begin with \"/\"");
    if (raw_path.len == 1)
        return LR_OK;
    size_t start = 1;
    while (start <= raw_path.len) {
        size_t end = start;
        while (end < raw_path.len && raw_path.ptr[end] != '/')
            end++;
        if (end == start)
            return lr_fail_plain(err, path_slashes);
        if (out->count == NET_PATH_MAX_SEGMENTS)
            return lr_fail_as(err, path_long, NET_PATH_MAX_SEGMENTS);
        lr_code code = decode_segment(arena, lr_str_sub(raw_path, start, end), keep_slash,
                                      &out->segments[out->count], err);
        if (code != LR_OK)
            return code;
        out->count++;
        start = end + 1;
    }
    return LR_OK;
}

lr_code net_path_split(struct lr_arena *arena, struct lr_str raw_path, struct net_path *out,
                       struct lr_error *err)
{
    return path_walk(arena, raw_path, false, out, err);
}

/* True for a path that needs no decoding and so no copy; most paths are plain. */
static bool is_plain(struct lr_str path)
{
    if (path.len == 0 || path.ptr[0] != '/')
        return false;
    for (size_t i = 0; i < path.len; i++) {
        unsigned char c = (unsigned char)path.ptr[i];
        if (c <= 0x20 || c >= 0x7f || c == '%')
            return false;
        /* "//" and "/." may have to be refused: the full parser decides. */
        if (c == '/' && i + 1 < path.len && (path.ptr[i + 1] == '/' || path.ptr[i + 1] == '.'))
            return false;
    }
    return true;
}

lr_code net_path_decode(struct lr_arena *arena, struct lr_str raw_path, struct lr_str *out,
                        struct lr_error *err)
{
    *out = without_last_slash(raw_path);
    if (is_plain(raw_path) || lr_str_eq_z(raw_path, "*"))
        return LR_OK;
    struct net_path parts;
    lr_code code = path_walk(arena, raw_path, true, &parts, err);
    if (code != LR_OK)
        return code;
    char *text = lr_arena_alloc(arena, raw_path.len + 1);
    if (text == NULL)
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the path");
    size_t len = 0;
    for (size_t i = 0; i < parts.count; i++) {
        text[len++] = '/';
        memcpy(text + len, parts.segments[i].ptr, parts.segments[i].len);
        len += parts.segments[i].len;
    }
    if (len == 0)
        text[len++] = '/';
    text[len] = '\0';
    *out = lr_str(text, len);
    return LR_OK;
}

bool net_query_get(struct lr_arena *arena, struct lr_str query, const char *name,
                   struct lr_str *out)
{
    *out = lr_str("", 0);
    struct lr_str part;
    while (lr_str_split(&query, '&', &part)) {
        size_t mark = lr_str_find_char(part, '=');
        struct lr_str key = lr_str_sub(part, 0, mark);
        char *text = lr_arena_alloc(arena, part.len + 1);
        size_t len = 0;
        if (text == NULL)
            return false;
        if (!path_decode(key, false, true, text, &len) || !lr_str_eq_z(lr_str(text, len), name))
            continue;
        struct lr_str value =
            mark == LR_STR_NONE ? lr_str("", 0) : lr_str_sub(part, mark + 1, part.len);
        if (!path_decode(value, false, true, text, &len) || !lr_utf8_valid(lr_str(text, len)))
            return false;
        text[len] = '\0';
        *out = lr_str(text, len);
        return true;
    }
    return false;
}
