/* tokenizer/scan.c - the scanners, alternative by alternative.
 *
 * The regex tries its alternatives in order and backtracks inside each.  Each function's
 * comment spells out the result.  No function reads a character more than a constant number of
 * times per piece, and no character is read again in more than two later pieces.
 */
#include "tokenizer/scan.h"

#include "tokenizer/chars.h"

#define PREFIX   "[^\\r\\n\\p{L}\\p{N}]?"
#define UPPER    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}"
#define LOWER    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}"
#define ENGLISH  "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define SYMBOL   " ?[^\\s\\p{L}\\p{N}]+"
#define SPACING  "|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define NO_HAN   "&&[^\\p{Han}]]"
#define CASED(C) PREFIX UPPER "]*" LOWER "]+" C "|" PREFIX UPPER "]+" LOWER "]*" C

const struct scan_variant tokenizer_scan_variants[] = {
    /* GPT-4o, gpt-oss */
    {CASED(ENGLISH "?") "|\\p{N}{1,3}|" SYMBOL "[\\r\\n/]*" SPACING, SCAN_WORDS_CASED, 3, true,
     true, false, false},
    /* Kimi */
    {"[\\p{Han}]+|" PREFIX UPPER NO_HAN "*" LOWER NO_HAN "+" ENGLISH "?|" PREFIX UPPER NO_HAN
     "+" LOWER NO_HAN "*" ENGLISH "?|\\p{N}{1,3}|" SYMBOL "[\\r\\n]*" SPACING,
     SCAN_WORDS_CASED, 3, true, false, false, true},
    /* Mistral (Tekken) */
    {CASED("") "|\\p{N}|" SYMBOL "[\\r\\n/]*" SPACING, SCAN_WORDS_CASED, 1, false, true, false,
     false},
    /* GPT-4, Llama 3 */
    {ENGLISH "|" PREFIX "\\p{L}+|\\p{N}{1,3}|" SYMBOL "[\\r\\n]*" SPACING, SCAN_WORDS_PLAIN, 3,
     true, false, false, false},
    /* Qwen 2 and 3 */
    {ENGLISH "|" PREFIX "\\p{L}+|\\p{N}|" SYMBOL "[\\r\\n]*" SPACING, SCAN_WORDS_PLAIN, 1, true,
     false, false, false},
    /* Qwen 3.5 */
    {ENGLISH "|" PREFIX "[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*" SPACING,
     SCAN_WORDS_PLAIN, 1, true, false, true, false},
    /* GPT-2 and ByteLevel */
    {"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|" SYMBOL "|\\s+(?!\\S)|\\s+",
     SCAN_WORDS_BLANK, 0, true, false, false, false},
};
const size_t tokenizer_scan_variant_count =
    sizeof(tokenizer_scan_variants) / sizeof(tokenizer_scan_variants[0]);

const struct scan_variant *tokenizer_scan_find(struct lr_str pattern)
{
    for (size_t i = 0; i < tokenizer_scan_variant_count; i++)
        if (lr_str_eq_z(pattern, tokenizer_scan_variants[i].pattern))
            return &tokenizer_scan_variants[i];
    return NULL;
}

enum {
    UPPERS = SCAN_UPPER | SCAN_CASELESS | SCAN_MARK,
    LOWERS = SCAN_LOWER | SCAN_CASELESS | SCAN_MARK,
    BOTH = SCAN_CASELESS | SCAN_MARK,
    LETTERS = SCAN_UPPER | SCAN_LOWER | SCAN_CASELESS,
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
static const char *contraction(const struct split_classes *classes, const char *at,
                               const char *end)
{
    if (end - at < 2 || *at != '\'' || !classes->variant->contracts)
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
        return contraction(classes, run(classes, p + len, end, LOWERS), end);
    /* Else U* backtracks to the last character that L+ accepts.  The characters after it are
     * upper case, so L+ takes only that character. */
    if (last_both != NULL)
        return contraction(classes, last_both, end);
    if (p != at && !first_only)
        return contraction(classes, p, end);
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

/* \p{N}{1,digits} from a number. */
static const char *numbers(const struct split_classes *classes, const char *at, const char *end)
{
    unsigned len = 0, most = classes->variant->digits;
    for (unsigned i = 0;
         (i < most || most == 0) && class_at(classes, at, end, &len) == SCAN_NUMBER; i++)
        at += len;
    return at;
}

static unsigned symbol_set(const struct split_classes *classes)
{
    return classes->variant->marks ? SCAN_OTHER : SYMBOLS;
}

/* Symbols from `p`, and line breaks after them. */
static const char *symbols(const struct split_classes *classes, const char *p, const char *end)
{
    bool slash = classes->variant->slash;
    p = run(classes, p, end, symbol_set(classes));
    while (p < end && (*p == '\r' || *p == '\n' || (*p == '/' && slash)))
        p++;
    return p;
}

/* From a character that is neither a letter nor a number: " ?" symbols else spaces. */
static const char *rest(const struct split_classes *classes, const char *at, const char *end)
{
    unsigned len = 0, next_len = 0;
    unsigned set = class_at(classes, at, end, &len);
    if ((set & symbol_set(classes)) != 0)
        return symbols(classes, at, end);
    if (*at == ' ' && (class_at(classes, at + 1, end, &next_len) & symbol_set(classes)) != 0)
        return symbols(classes, at + 1, end);
    return spaces(classes, at, end);
}

static const char *scan_cased(const struct split_classes *classes, const char *at,
                              const char *end)
{
    unsigned len = 0;
    size_t width;
    const char *result;
    if (classes->variant->has_han && han_at(classes, at, end, &width)) {
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
            return contraction(classes, at + len, end);
    } else if ((set & SCAN_NUMBER) == 0 && (set & SPACES) == 0) {
        return word(classes, at, end, false); /* a letter always begins a word */
    }
    return set == SCAN_NUMBER ? numbers(classes, at, end) : rest(classes, at, end);
}

static const char *scan_plain(const struct split_classes *classes, const char *at,
                              const char *end)
{
    const unsigned letters = classes->variant->marks ? LETTERS | SCAN_MARK : LETTERS;
    unsigned len = 0, next_len = 0;
    unsigned set = class_at(classes, at, end, &len);
    if ((set & letters) != 0)
        return run(classes, at + len, end, letters);
    if (*at == '\'') {
        const char *after = contraction(classes, at, end);
        if (after != at)
            return after;
    }
    if ((set & PREFIXES) != 0 && (class_at(classes, at + len, end, &next_len) & letters) != 0)
        return run(classes, at + len + next_len, end, letters);
    return set == SCAN_NUMBER ? numbers(classes, at, end) : rest(classes, at, end);
}

/* 's|'t|'re|'ve|'m|'ll|'d, in lower case only */
static const char *lower_contraction(const char *at, const char *end)
{
    if (end - at < 2)
        return at;
    if (at[1] == 's' || at[1] == 't' || at[1] == 'm' || at[1] == 'd')
        return at + 2;
    if (end - at < 3)
        return at;
    bool three =
        ((at[1] == 'r' || at[1] == 'v') && at[2] == 'e') || (at[1] == 'l' && at[2] == 'l');
    return three ? at + 3 : at;
}

static const char *scan_blank(const struct split_classes *classes, const char *at,
                              const char *end)
{
    static const unsigned char kinds[] = {LETTERS, SCAN_NUMBER, SYMBOLS};
    unsigned len = 0;
    if (*at == '\'') {
        const char *after = lower_contraction(at, end);
        if (after != at)
            return after;
    }
    const char *p = *at == ' ' ? at + 1 : at;
    unsigned set = class_at(classes, p, end, &len);
    for (size_t i = 0; i < sizeof(kinds); i++)
        if ((set & kinds[i]) != 0)
            return run(classes, p + len, end, kinds[i]);
    /* \s+(?!\S) else \s+: all but the last blank before something else */
    const char *last = at;
    for (p = at; (class_at(classes, p, end, &len) & SPACES) != 0; p += len)
        last = p;
    return p == end || last == at ? p : last;
}

const char *tokenizer_scan(const struct split_classes *classes, const char *at, const char *end)
{
    switch (classes->variant->words) {
    case SCAN_WORDS_PLAIN:
        return scan_plain(classes, at, end);
    case SCAN_WORDS_BLANK:
        return scan_blank(classes, at, end);
    case SCAN_WORDS_CASED:
        break;
    }
    return scan_cased(classes, at, end);
}
