/* tokenizer/pattern.c - patterns written for Oniguruma, compiled by PCRE2.
 *
 * The Hugging Face tokenizer uses Oniguruma.  Where the two interpret a pattern differently the
 * pattern is rewritten (\s) or refused, so that text is never silently split differently.
 */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "base/utf8.h"
#include "tokenizer/internal.h"
#include "tokenizer/pattern.h"
#include "tokenizer/scan.h"

enum { PATTERN_MAX = 64 << 10 };

/* White_Space; PCRE2's \s would add U+180E, which has not been a space since
 * Unicode 6.3. */
#define SPACE_SET "\\t-\\r\\x{85}\\p{Z}"

struct rewriting {
    struct lr_str from;
    size_t at;
    bool in_class;
    size_t class_at; /* in `to`: where the set that is being rewritten begins */
    struct lr_buf to;
};

/* In PCRE2 the name of a script alone also means the script's extensions. */
static void rewrite_property(struct rewriting *w)
{
    struct lr_str rest = lr_str_sub(w->from, w->at, w->from.len);
    size_t end = lr_str_find_char(rest, '}');
    size_t start = lr_str_starts(rest, "{^") ? 2 : 1;
    if (end == LR_STR_NONE || !lr_str_starts(rest, "{") || end < start ||
        !tokenizer_is_script(lr_str_sub(rest, start, end)))
        return;
    lr_buf_add(&w->to, rest.ptr, start);
    lr_buf_add_z(&w->to, "sc:");
    w->at += start;
}

/* Rewrites the escape at w->at (the backslash); false when it means something else in PCRE2. */
static bool rewrite_escape(struct rewriting *w)
{
    if (w->at + 1 == w->from.len)
        return false;
    char c = w->from.ptr[w->at + 1];
    w->at += 2;
    if (c == 's' || c == 'S') {
        if (w->in_class && c == 'S')
            return false;
        lr_buf_add_z(&w->to, w->in_class ? SPACE_SET
                             : c == 's'  ? "[" SPACE_SET "]"
                                         : "[^" SPACE_SET "]");
        return true;
    }
    /* Word characters, line breaks and graphemes are different sets in Oniguruma, \h is a hex
     * digit, and octal and control escapes are not supported here. */
    if (strchr("wWbBhHRXKGgkcCMQEyYO", c) != NULL || (c >= '0' && c <= '9'))
        return false;
    lr_buf_add_char(&w->to, '\\');
    lr_buf_add_char(&w->to, c);
    if (c == 'p' || c == 'P')
        rewrite_property(w);
    return true;
}

/* "[A&&[B]]" and "[A&&[^B]]" with w->at on "&&": PCRE2 has no intersection, so the set is
 * written as ranges of characters.  A look ahead before A would give the same matches, but
 * PCRE2 needs memory for each repetition of such a group. */
static bool rewrite_intersection(struct rewriting *w)
{
    struct rewriting inner = {.from = w->from, .at = w->at + 3};
    if (w->at + 3 >= w->from.len || w->from.ptr[w->at + 2] != '[')
        return false;
    bool negated = w->from.ptr[inner.at] == '^';
    inner.at += negated ? 1 : 0;
    inner.in_class = true;
    lr_buf_init(&inner.to, w->to.limit);
    bool good = true;
    while (good && inner.at < inner.from.len && inner.from.ptr[inner.at] != ']') {
        char c = inner.from.ptr[inner.at];
        if (c == '\\') {
            good = rewrite_escape(&inner);
        } else {
            good = c != '[' && c != '&';
            lr_buf_add_char(&inner.to, c);
            inner.at++;
        }
    }
    good = good && inner.at + 1 < inner.from.len && inner.from.ptr[inner.at + 1] == ']' &&
           inner.to.len != 0 && w->to.data[w->class_at + 1] != '^';
    struct lr_buf one;
    lr_buf_init(&one, w->to.limit);
    lr_buf_add_z(&one, negated ? "(?![" : "(?=[");
    lr_buf_add_str(&one, lr_buf_str(&inner.to));
    lr_buf_add_z(&one, "])");
    lr_buf_add(&one, w->to.data + w->class_at, w->to.len - w->class_at);
    lr_buf_add_char(&one, ']');
    w->to.len = w->class_at;
    good = good && !one.failed && tokenizer_pattern_ranges(lr_buf_str(&one), &w->to);
    lr_buf_free(&inner.to);
    lr_buf_free(&one);
    w->at = inner.at + 2;
    w->in_class = false;
    return good && !w->to.failed;
}

/* "{2,3}+" is possessive in PCRE2 and a repeated repetition in Oniguruma. */
static bool is_interval_plus(struct lr_str from, size_t at)
{
    return from.ptr[at] == '}' && at + 1 < from.len && from.ptr[at + 1] == '+' && at > 0 &&
           from.ptr[at - 1] >= '0' && from.ptr[at - 1] <= '9';
}

/* Rewrites the whole pattern; false with w->at near the unsupported part. */
static bool rewrite(struct rewriting *w)
{
    while (w->at < w->from.len) {
        const char *p = w->from.ptr + w->at;
        size_t left = w->from.len - w->at;
        if (*p == '\\') {
            if (!rewrite_escape(w))
                return false;
            continue;
        }
        if (w->in_class && left > 1 && p[0] == '&' && p[1] == '&') {
            if (!rewrite_intersection(w))
                return false;
            continue;
        }
        if (w->in_class && *p == '[')
            return false; /* sets within sets */
        if (!w->in_class && is_interval_plus(w->from, w->at))
            return false;
        if (*p == '[') {
            w->in_class = true;
            w->class_at = w->to.len;
            bool negated = left > 1 && p[1] == '^';
            lr_buf_add(&w->to, p, negated ? 2 : 1);
            w->at += negated ? 2 : 1;
            continue;
        }
        if (*p == ']')
            w->in_class = false;
        lr_buf_add_char(&w->to, *p);
        w->at++;
    }
    return !w->in_class;
}

lr_code tokenizer_pattern_compile(struct lr_str pattern, uint32_t options, const char *what,
                                  void **code, struct lr_error *err)
{
    int number;
    PCRE2_SIZE offset;
    pcre2_code *made = pcre2_compile((PCRE2_SPTR)pattern.ptr, pattern.len, PCRE2_UTF | options,
                                     &number, &offset, NULL);
    if (made == NULL) {
        PCRE2_UCHAR text[160];
        (void)pcre2_get_error_message(number, text, sizeof(text));
        return lr_fail(err, LR_UNSUPPORTED, "%s cannot be compiled: %s, at offset %zu", what,
                       (const char *)text, (size_t)offset);
    }
    /* Where JIT is not allowed (hardened kernels) matching uses the interpreter. */
    (void)pcre2_jit_compile(made, PCRE2_JIT_COMPLETE);
    *code = made;
    return LR_OK;
}

lr_code tokenizer_split_compile(struct lr_str pattern, bool literal, const char *what,
                                void **code, struct lr_error *err)
{
    *code = NULL;
    if (pattern.len == 0 || pattern.len > PATTERN_MAX)
        return lr_fail(err, LR_UNSUPPORTED, "%s has %zu bytes; 1 to %d are possible", what,
                       pattern.len, PATTERN_MAX);
    if (literal)
        return tokenizer_pattern_compile(pattern, PCRE2_LITERAL, what, code, err);
    struct rewriting w = {.from = pattern};
    lr_buf_init(&w.to, 32 * PATTERN_MAX);
    lr_code rc;
    if (!rewrite(&w))
        rc = lr_fail(err, LR_UNSUPPORTED,
                     "%s uses something at offset %zu that is read differently by Oniguruma "
                     "and by PCRE2",
                     what, w.at);
    else if (w.to.failed)
        rc = lr_fail(err, LR_OUT_OF_RAM, "no memory for %s", what);
    else
        rc = tokenizer_pattern_compile(lr_buf_str(&w.to), PCRE2_UCP, what, code, err);
    lr_buf_free(&w.to);
    return rc;
}

void tokenizer_split_free_code(void *code)
{
    pcre2_code_free(code);
}

/* ---- classes of all characters ---- */

/* Groups 1.. are the classes SCAN_UPPER.. in order. */
static const char class_pattern[] =
    "([\\p{Lu}\\p{Lt}]+)|(\\p{Ll}+)|([\\p{Lm}\\p{Lo}]+)|(\\p{M}+)"
    "|(\\p{N}+)|([\\t\\x0B\\x0C\\x{85}\\p{Z}]+)|([\\r\\n]+)";

/* Sets the classes of first..last; `room` holds their UTF-8. */
static bool classify(pcre2_code *code, uint32_t first, uint32_t last, char *room,
                     uint32_t *starts, unsigned char *of)
{
    size_t len = 0;
    for (uint32_t c = first; c < last; c++) {
        starts[c - first] = (uint32_t)len;
        if (c < 0xD800 || c > 0xDFFF)
            len += lr_utf8_encode(c, room + len);
    }
    pcre2_match_data *data = pcre2_match_data_create_from_pattern(code, NULL);
    if (data == NULL)
        return false;
    size_t at = 0;
    uint32_t c = first;
    while (pcre2_match(code, (PCRE2_SPTR)room, len, at, PCRE2_NO_UTF_CHECK, data, NULL) > 0) {
        const PCRE2_SIZE *found = pcre2_get_ovector_pointer(data);
        unsigned group = 1;
        while (found[2 * group] == PCRE2_UNSET)
            group++;
        while (starts[c - first] < found[0])
            c++;
        for (; c < last && starts[c - first] < found[1]; c++)
            of[c - first] = (unsigned char)(SCAN_OTHER << group);
        at = found[1];
    }
    pcre2_match_data_free(data);
    return true;
}

/* Marks the characters of Han, and takes them out of the classes of letters and marks. */
static lr_code mark_han(struct split_classes *classes, struct lr_error *err)
{
    unsigned char *scripts;
    lr_code rc = tokenizer_scripts(false, &scripts, err);
    if (rc != LR_OK)
        return rc;
    for (uint32_t c = 0x2E80; c < SCAN_PLANES; c++) {
        if (scripts[c] != scripts[0x4E00])
            continue;
        classes->han[c >> 6] |= (uint64_t)1 << (c & 63);
        unsigned of = classes->of[c];
        classes->of[c] = (of & (SCAN_UPPER | SCAN_LOWER | SCAN_CASELESS)) != 0 ? 0
                         : of == SCAN_MARK                                     ? SCAN_OTHER
                                           : (unsigned char)of;
    }
    free(scripts);
    return LR_OK;
}

lr_code tokenizer_scan_classes(const struct scan_variant *variant, struct split_classes **out,
                               struct lr_error *err)
{
    *out = NULL;
    void *code = NULL;
    lr_code rc = tokenizer_pattern_compile(lr_str_z(class_pattern), 0,
                                           "the pattern of character classes", &code, err);
    if (rc != LR_OK)
        return rc;
    struct split_classes *classes = calloc(1, sizeof(*classes));
    char *room = malloc((size_t)SCAN_PLANES * 4);
    uint32_t *starts = malloc((size_t)SCAN_PLANES * sizeof(*starts));
    if (classes != NULL)
        memset(classes->of, SCAN_OTHER, sizeof(classes->of));
    bool good = classes != NULL && room != NULL && starts != NULL &&
                classify(code, 0, SCAN_PLANES, room, starts, classes->of) &&
                classify(code, SCAN_PLANE14, SCAN_PLANE14 + SCAN_PLANE14_LEN, room, starts,
                         classes->of + SCAN_PLANES);
    pcre2_code_free(code);
    free(room);
    free(starts);
    if (!good) {
        free(classes);
        return lr_fail(err, LR_OUT_OF_RAM, "no memory for the table of character classes");
    }
    classes->variant = variant;
    rc = variant->has_han ? mark_han(classes, err) : LR_OK;
    if (rc != LR_OK) {
        free(classes);
        return rc;
    }
    *out = classes;
    return LR_OK;
}
