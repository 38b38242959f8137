/* tokenizer/scan.c - a scanner for the o200k pattern, alternative by alternative.
 *
 * The regex tries its alternatives in order and backtracks inside each.  Each function's
 * comment spells out the result.  No function reads a character more than a constant number of
 * times per piece, and no character is read again in more than two later pieces.
 */
#include "tokenizer/scan.h"

#include "tokenizer/chars.h"

const char tokenizer_scan_o200k_pattern[] =
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*"
    "|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)"
    "|\\s+";

#define NOT_HAN "&&[^\\p{Han}]]"

const char tokenizer_scan_kimi_pattern[] =
    "[\\p{Han}]+"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NOT_HAN "*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NOT_HAN "+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}" NOT_HAN "+"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}" NOT_HAN "*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    "|\\p{N}{1,3}"
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*"
    "|\\s*[\\r\\n]+"
    "|\\s+(?!\\S)"
    "|\\s+";

enum {
    UPPERS = SCAN_UPPER | SCAN_CASELESS | SCAN_MARK,
    LOWERS = SCAN_LOWER | SCAN_CASELESS | SCAN_MARK,
    BOTH = SCAN_CASELESS | SCAN_MARK,
    PREFIXES = SCAN_OTHER | SCAN_SPACE | SCAN_MARK, /* [^\r\n\p{L}\p{N}] */
    SYMBOLS = SCAN_OTHER | SCAN_MARK,               /* [^\s\p{L}\p{N}] */
    SPACES = SCAN_SPACE | SCAN_NEWLINE,
};

/* Class bit of the character at `at`, and its length; 0 at the end. */
static inline unsigned class_at(const struct split_classes *classes, const char *at,
                                const char *end, unsigned *len)
{
    if (at == end)
        return 0;
    const unsigned char *p = (const unsigned char *)at;
    uint32_t c = p[0];
    if (c < 0x80) {
        *len = 1;
        return classes->of[c];
    }
    if (c < 0xE0) {
        *len = 2;
        c = (c & 0x1F) << 6 | (p[1] & 0x3Fu);
        return classes->of[c];
    }
    if (c < 0xF0) {
        *len = 3;
        c = (c & 0x0F) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
        return classes->of[c];
    }
    *len = 4;
    c = (c & 0x07) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
    if (c < SCAN_PLANES)
        return classes->of[c];
    if (c >= SCAN_PLANE14 && c < SCAN_PLANE14 + SCAN_PLANE14_LEN)
        return classes->of[c - SCAN_PLANE14 + SCAN_PLANES];
    return SCAN_OTHER;
}

static inline const char *run(const struct split_classes *classes, const char *at,
                              const char *end, unsigned set)
{
    unsigned len = 0;
    while ((class_at(classes, at, end, &len) & set) != 0)
        at += len;
    return at;
}

/* (?i:'s|'t|'re|'ve|'m|'ll|'d)?  Ignoring case, s is also U+017F. */
static const char *contraction(const char *at, const char *end)
{
    if (end - at < 2 || *at != '\'')
        return at;
    char c = (char)(at[1] | 0x20);
    if (c == 's' || c == 't' || c == 'm' || c == 'd')
        return at + 2;
    if (end - at < 3)
        return at;
    if (at[1] == '\xC5' && at[2] == '\xBF')
        return at + 3;
    char next = (char)(at[2] | 0x20);
    if (((c == 'r' || c == 'v') && next == 'e') || (c == 'l' && next == 'l'))
        return at + 3;
    return at;
}

/* The first two alternatives from `at`, after the optional prefix: U* L+ else U+ L*.  NULL when
 * neither matches. */
static const char *word(const struct split_classes *classes, const char *at, const char *end,
                        bool first_only)
{
    const char *p = at, *last_both = NULL;
    unsigned len = 0, set;
    for (; ((set = class_at(classes, p, end, &len)) & UPPERS) != 0; p += len)
        if ((set & BOTH) != 0)
            last_both = p + len;
    /* U* is greedy, so only a plain lower-case letter can follow. */
    if (set == SCAN_LOWER)
        return contraction(run(classes, p + len, end, LOWERS), end);
    /* Else U* backtracks to the last character that L+ accepts.  The characters after it are
     * upper case, so L+ takes only that character. */
    if (last_both != NULL)
        return contraction(last_both, end);
    if (p != at && !first_only)
        return contraction(p, end);
    return NULL;
}

/* \s*[\r\n]+ else \s+(?!\S) else \s+ */
static const char *spaces(const struct split_classes *classes, const char *at, const char *end)
{
    const char *p = at, *last = at, *after_newline = NULL;
    unsigned len = 0, set;
    for (; ((set = class_at(classes, p, end, &len)) & SPACES) != 0; p += len) {
        last = p;
        if (set == SCAN_NEWLINE)
            after_newline = p + len;
    }
    if (after_newline != NULL)
        return after_newline;
    return p == end || last == at ? p : last;
}

static bool han_at(const struct split_classes *classes, const char *at, const char *end,
                   size_t *len)
{
    if (at == end || (unsigned char)*at < 0xE2) /* Han begins at U+2E80 */
        return false;
    uint32_t c = char_at(at, len);
    return c < SCAN_PLANES && (classes->han[c >> 6] >> (c & 63) & 1) != 0;
}

const char *tokenizer_scan_o200k(const struct split_classes *classes, const char *at,
                                 const char *end)
{
    unsigned len = 0, next_len = 0;
    size_t width;
    const char *result;
    if (classes->has_han && han_at(classes, at, end, &width)) {
        do
            at += width;
        while (han_at(classes, at, end, &width));
        return at;
    }
    unsigned set = class_at(classes, at, end, &len);
    if ((set & PREFIXES) != 0) {
        /* A mark can be the prefix or part of the word.  The first alternative is tried both
         * ways before the second. */
        if ((result = word(classes, at + len, end, set == SCAN_MARK)) != NULL)
            return result;
        if (set == SCAN_MARK)
            return contraction(at + len, end);
    } else if ((set & SCAN_NUMBER) == 0 && (set & SPACES) == 0) {
        return word(classes, at, end, false); /* a letter always begins a word */
    }
    if (set == SCAN_NUMBER) {
        at += len;
        for (int i = 1; i < 3 && class_at(classes, at, end, &len) == SCAN_NUMBER; i++)
            at += len;
        return at;
    }
    const char *p = at + len;
    if ((set & SYMBOLS) == 0) {
        if (*at != ' ' || (class_at(classes, p, end, &next_len) & SYMBOLS) == 0)
            return spaces(classes, at, end);
        p += next_len;
    }
    p = run(classes, p, end, SYMBOLS);
    while (p < end && (*p == '\r' || *p == '\n' || (*p == '/' && !classes->has_han)))
        p++;
    return p;
}
