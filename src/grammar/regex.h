/* grammar/regex.h - regular expressions of ECMA-262, as trees (internal).
 *
 * The regular part of the language: characters, classes, groups, alternatives, repetition and
 * anchors, and look-ahead at the very beginning.  References back, word boundaries, Unicode
 * properties and other looks are refused by name.
 */
#ifndef GRAMMAR_REGEX_H
#define GRAMMAR_REGEX_H

#include "base/arena.h"
#include "base/fail.h"
#include "base/str.h"

enum {
    REGEX_CODE_MAX = 0x10FFFF,
    REGEX_LOOKS_MAX = 4,
    REGEX_COUNT_MAX = 1 << 16, /* of a repetition */
};

#define REGEX_ENDLESS UINT32_MAX

enum regex_op {
    REGEX_EMPTY,
    REGEX_SET, /* one character of a set */
    REGEX_CAT,
    REGEX_ALT,
    REGEX_REPEAT, /* a, min to max times */
    REGEX_BEGIN,  /* only where the text begins */
    REGEX_END,
};

struct regex_range {
    uint32_t low, high;
};

/* Sorted, apart from each other. */
struct regex_set {
    const struct regex_range *ranges;
    uint32_t count;
};

struct regex {
    enum regex_op op;
    uint32_t min, max;
    const struct regex *a, *b;
    struct regex_set set;
};

/* What a pattern demands together: that its tree is found somewhere, and that the looks are
 * (or are not) found at the beginning. */
struct regex_pattern {
    const struct regex *tree;
    struct {
        const struct regex *tree;
        bool negative;
    } looks[REGEX_LOOKS_MAX];
    uint32_t look_count;
};

/* The tree lives in the arena.  UNSUPPORTED names what is not regular. */
LR_MUST_USE lr_code grammar_regex_parse(struct lr_arena *arena, struct lr_str text,
                                        struct regex_pattern *out, struct lr_error *err);

/* Exactly one of these texts (UTF-8), with anchors at both ends; NULL without memory. */
const struct regex *grammar_regex_of_texts(struct lr_arena *arena, const struct lr_str *texts,
                                           size_t count);

#endif
