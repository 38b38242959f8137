/* tokenizer/scan.h - the o200k pattern by hand.
 *
 * The pattern of gpt-oss (and GPT-4o), verbatim in SCAN_O200K_PATTERN, splits nearly
 * everything we serve; a scanner made for it is several times faster than the regex
 * machine and has no backtracking that could grow with the text.  PCRE2 stays the
 * oracle: the tests compare the two, and the character classes come from it.
 */
#ifndef TOKENIZER_SCAN_H
#define TOKENIZER_SCAN_H

#include "base/fail.h"
#include "base/str.h"

extern const char tokenizer_scan_o200k_pattern[];

/* One bit each, so that a set of classes is a mask. */
enum scan_class {
    SCAN_OTHER = 1,     /* none of the below */
    SCAN_UPPER = 2,     /* Lu Lt */
    SCAN_LOWER = 4,     /* Ll */
    SCAN_CASELESS = 8,  /* Lm Lo: counts as upper and as lower */
    SCAN_MARK = 16,     /* M: the same, but is not a letter */
    SCAN_NUMBER = 32,   /* N */
    SCAN_SPACE = 64,    /* White_Space, but for the next */
    SCAN_NEWLINE = 128, /* CR LF */
};

/* Planes 0 to 3 and the start of 14 hold every character whose class is not
 * SCAN_OTHER. */
enum { SCAN_PLANES = 0x40000, SCAN_PLANE14 = 0xE0000, SCAN_PLANE14_LEN = 0x1000 };

struct split_classes {
    unsigned char of[SCAN_PLANES + SCAN_PLANE14_LEN];
};

/* Asks PCRE2 for the class of every character, so that there is one version of Unicode
 * in the program.  *out is the caller's to free(). */
LR_MUST_USE lr_code tokenizer_scan_classes(struct split_classes **out, struct lr_error *err);

/* Where the piece that starts at `at` ends.  text is valid UTF-8 and at < end. */
const char *tokenizer_scan_o200k(const struct split_classes *classes, const char *at,
                                 const char *end);

#endif
