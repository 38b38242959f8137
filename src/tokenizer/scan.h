/* tokenizer/scan.h - hand-written scanners for the patterns of known families.
 *
 * The patterns of GPT-2, GPT-4 (cl100k), Llama 3, Qwen, GPT-4o and gpt-oss (o200k), Mistral and
 * Kimi, verbatim in scan.c, split nearly all text that we serve.  The scanners are several
 * times faster than the regex engine, and their time cannot grow by backtracking.  PCRE2 is the
 * reference: the tests compare the two, and the character classes come from PCRE2.
 */
#ifndef TOKENIZER_SCAN_H
#define TOKENIZER_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/str.h"

/* How words are found; the rest of the patterns is much the same. */
enum scan_words {
    SCAN_WORDS_CASED, /* a character, upper case, lower case */
    SCAN_WORDS_PLAIN, /* a character, letters */
    SCAN_WORDS_BLANK, /* a blank, letters */
};

struct scan_variant {
    const char *pattern;
    enum scan_words words;
    unsigned digits; /* most numbers in one piece; 0: any */
    bool contracts;  /* 's and the like belong to the word, or are a piece */
    bool slash;      /* slashes, too, may follow symbols */
    bool marks;      /* marks are letters (SCAN_WORDS_PLAIN) */
    bool has_han;    /* runs of Han are pieces of their own, out of the other alternatives */
};

extern const struct scan_variant tokenizer_scan_variants[];
extern const size_t tokenizer_scan_variant_count;

/* The variant with this pattern, or NULL. */
const struct scan_variant *tokenizer_scan_find(struct lr_str pattern);

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

/* Of a variant with has_han, letters of Han have no class (they are in no set of the other
 * alternatives), and its marks count as SCAN_OTHER. */
struct split_classes {
    unsigned char of[SCAN_PLANES + SCAN_PLANE14_LEN];
    const struct scan_variant *variant; /* borrowed: static */
    uint64_t han[SCAN_PLANES / 64];     /* a bit for each character of the script */
};

/* Asks PCRE2 for the class of every character, so that the program has only one version of
 * Unicode.  The caller frees *out with free(). */
LR_MUST_USE lr_code tokenizer_scan_classes(const struct scan_variant *variant,
                                           struct split_classes **out, struct lr_error *err);

/* Where the piece that starts at `at` ends.  text is valid UTF-8 and at < end. */
const char *tokenizer_scan(const struct split_classes *classes, const char *at,
                           const char *end);

#endif
