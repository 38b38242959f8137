#include "base/str.h"

void lr_str_copy(char *out, size_t size, struct lr_str s)
{
    size_t len = s.len < size ? s.len : size - 1;
    if (len != 0)
        memcpy(out, s.ptr, len);
    out[len] = '\0';
}

bool lr_str_eq(struct lr_str a, struct lr_str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool lr_str_eq_z(struct lr_str a, const char *b)
{
    return lr_str_eq(a, lr_str_z(b));
}

static unsigned char lower(char c)
{
    return (unsigned char)(c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c);
}

bool lr_str_is_plain(struct lr_str s, const char *others)
{
    bool ok = true;
    for (size_t i = 0; ok && i < s.len; i++) {
        char c = s.ptr[i];
        ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             (c != '\0' && strchr(others, c) != NULL);
    }
    return ok;
}

bool lr_str_eq_nocase(struct lr_str a, struct lr_str b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++)
        if (lower(a.ptr[i]) != lower(b.ptr[i]))
            return false;
    return true;
}

int lr_str_cmp(struct lr_str a, struct lr_str b)
{
    size_t common = a.len < b.len ? a.len : b.len;
    int order = common != 0 ? memcmp(a.ptr, b.ptr, common) : 0;
    if (order != 0)
        return order;
    return (a.len > b.len) - (a.len < b.len);
}

bool lr_str_starts(struct lr_str s, const char *prefix)
{
    size_t len = strlen(prefix);
    return s.len >= len && (len == 0 || memcmp(s.ptr, prefix, len) == 0);
}

bool lr_str_ends(struct lr_str s, const char *suffix)
{
    size_t len = strlen(suffix);
    return s.len >= len && (len == 0 || memcmp(s.ptr + s.len - len, suffix, len) == 0);
}

size_t lr_str_find(struct lr_str s, struct lr_str part)
{
    if (part.len == 0)
        return 0;
    size_t at = 0;
    while (s.len - at >= part.len) {
        const char *hit = memchr(s.ptr + at, part.ptr[0], s.len - at - part.len + 1);
        if (hit == NULL)
            return LR_STR_NONE;
        at = (size_t)(hit - s.ptr);
        if (memcmp(hit, part.ptr, part.len) == 0)
            return at;
        at++;
    }
    return LR_STR_NONE;
}

size_t lr_str_find_char(struct lr_str s, char c)
{
    const char *hit = s.len != 0 ? memchr(s.ptr, c, s.len) : NULL;
    return hit != NULL ? (size_t)(hit - s.ptr) : LR_STR_NONE;
}

struct lr_str lr_str_sub(struct lr_str s, size_t from, size_t to)
{
    if (to > s.len)
        to = s.len;
    if (from > to)
        from = to;
    return s.ptr != NULL ? lr_str(s.ptr + from, to - from) : s;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

struct lr_str lr_str_trim(struct lr_str s)
{
    while (s.len != 0 && blank(s.ptr[s.len - 1]))
        s.len--;
    while (s.len != 0 && blank(s.ptr[0])) {
        s.ptr++;
        s.len--;
    }
    return s;
}

bool lr_str_split(struct lr_str *rest, char sep, struct lr_str *part)
{
    if (rest->ptr == NULL)
        return false;
    size_t at = lr_str_find_char(*rest, sep);
    if (at == LR_STR_NONE) {
        *part = *rest;
        *rest = lr_str(NULL, 0);
    } else {
        *part = lr_str(rest->ptr, at);
        *rest = lr_str(rest->ptr + at + 1, rest->len - at - 1);
    }
    return true;
}

bool lr_str_u64(struct lr_str s, uint64_t *out)
{
    if (s.len == 0)
        return false;
    uint64_t value = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] < '0' || s.ptr[i] > '9')
            return false;
        uint64_t digit = (uint64_t)(s.ptr[i] - '0');
        if (value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *out = value;
    return true;
}

bool lr_str_i64(struct lr_str s, int64_t *out)
{
    bool negative = s.len != 0 && s.ptr[0] == '-';
    uint64_t magnitude;
    if (!lr_str_u64(lr_str_sub(s, negative ? 1 : 0, s.len), &magnitude))
        return false;
    if (magnitude > (uint64_t)INT64_MAX + (negative ? 1 : 0))
        return false;
    *out = negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
    return true;
}

bool lr_str_eq_secret(struct lr_str a, struct lr_str b)
{
    if (a.len != b.len)
        return false;
    unsigned char difference = 0;
    for (size_t i = 0; i < a.len; i++)
        difference |= (unsigned char)(a.ptr[i] ^ b.ptr[i]);
    return difference == 0;
}
