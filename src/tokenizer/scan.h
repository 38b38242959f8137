/* tokenizer/scan.h - a hand-written scanner for the o200k pattern, and for Kimi's variant of
 * it.
 *
 * The pattern of gpt-oss (and GPT-4o), verbatim in SCAN_O200K_PATTERN, splits nearly all text
 * that we serve.  This scanner is several times faster than the regex engine, and its time
 * cannot grow by backtracking.  PCRE2 is the reference: the tests compare the two, and the
 * character classes come from PCRE2.
 */
#ifndef TOKENIZER_SCAN_H
#define TOKENIZER_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

extern const char tokenizer_scan_o200k_pattern[];

/* The same with runs of Han as pieces of their own, out of the other alternatives. */
extern const char tokenizer_scan_kimi_pattern[];

/* One bit each, so that a set of classes is a mask. */
enum scan_class {
    SCAN_OTHER = 1,     /* none of the below */
    SCAN_UPPER = 2,     /* Lu Lt */
    SCAN_LOWER = 4,     /* Ll */
    SCAN_CASELESS = 8,  /* Lm Lo: counts as upper and as lower */
    SCAN_MARK = 16,     /* M: the same, but not a letter */
    SCAN_NUMBER = 32,   /* N */
    SCAN_SPACE = 64,    /* White_Space except for the next */
    SCAN_NEWLINE = 128, /* CR LF */
};

/* Planes 0 to 3 and the start of 14 hold every character whose class is not
 * SCAN_OTHER. */
enum { SCAN_PLANES = 0x40000, SCAN_PLANE14 = 0xE0000, SCAN_PLANE14_LEN = 0x1000 };

/* With has_han, letters of Han have no class (they are in no set of the other alternatives),
 * and its marks count as SCAN_OTHER. */
struct split_classes {
    unsigned char of[SCAN_PLANES + SCAN_PLANE14_LEN];
    bool has_han;
    uint64_t han[SCAN_PLANES / 64]; /* a bit for each character of the script */
};

/* Asks PCRE2 for the class of every character, so that the program has only one version of
 * Unicode.  The caller frees *out with free(). */
LR_MUST_USE lr_code tokenizer_scan_classes(bool has_han, struct split_classes **out,
                                           struct lr_error *err);

/* Where the piece that starts at `at` ends.  text is valid UTF-8 and at < end. */
const char *tokenizer_scan_o200k(const struct split_classes *classes, const char *at,
                                 const char *end);

#endif
