/* grammar/schema.h - JSON Schema on its way to a program (internal).
 *
 * A value has to fit several schemas at once: those a $ref, an "allOf" or a neighbour adds.  So
 * what is compiled is a list of parts, all of which hold.  grammar_schema_expand takes the
 * parts apart into alternatives (the ways through "anyOf", "oneOf", "if", "not" and what
 * depends on a property); within an alternative only keywords are left that say something about
 * a value itself, and all parts are looked at together.
 */
#ifndef GRAMMAR_SCHEMA_H
#define GRAMMAR_SCHEMA_H

#include "grammar/program.h"

/* ---- words.c: keywords ---- */

/* In the order of their names. */
enum schema_word {
    WORD_DYNAMIC_REF,
    WORD_RECURSIVE_REF,
    WORD_REF,
    WORD_ADDITIONAL_ITEMS,
    WORD_ADDITIONAL_PROPERTIES,
    WORD_ALL_OF,
    WORD_ANY_OF,
    WORD_CONST,
    WORD_CONTAINS,
    WORD_DEPENDENCIES,
    WORD_DEPENDENT_REQUIRED,
    WORD_DEPENDENT_SCHEMAS,
    WORD_ELSE,
    WORD_ENUM,
    WORD_EXCLUSIVE_MAXIMUM,
    WORD_EXCLUSIVE_MINIMUM,
    WORD_FORMAT,
    WORD_IF,
    WORD_ITEMS,
    WORD_MAX_CONTAINS,
    WORD_MAX_ITEMS,
    WORD_MAX_LENGTH,
    WORD_MAX_PROPERTIES,
    WORD_MAXIMUM,
    WORD_MIN_CONTAINS,
    WORD_MIN_ITEMS,
    WORD_MIN_LENGTH,
    WORD_MIN_PROPERTIES,
    WORD_MINIMUM,
    WORD_MULTIPLE_OF,
    WORD_NOT,
    WORD_ONE_OF,
    WORD_PATTERN,
    WORD_PATTERN_PROPERTIES,
    WORD_PREFIX_ITEMS,
    WORD_PROPERTIES,
    WORD_PROPERTY_NAMES,
    WORD_REQUIRED,
    WORD_THEN,
    WORD_TYPE,
    WORD_UNEVALUATED_ITEMS,
    WORD_UNEVALUATED_PROPERTIES,
    WORD_UNIQUE_ITEMS,
    WORD_COUNT,
};

/* The keywords of one schema that say something about validity. */
struct schema_words {
    const struct lr_json *at[WORD_COUNT]; /* NULL: it is not there */
    uint32_t count;
};

void grammar_schema_words_of(const struct lr_json *node, struct schema_words *out);
const char *grammar_schema_word_name(enum schema_word word);

/* Types, as bits.  Integers and other numbers are apart, as are true and false. */
enum {
    TYPE_NULL = 1,
    TYPE_FALSE = 2,
    TYPE_TRUE = 4,
    TYPE_INTEGER = 8,
    TYPE_FRACTION = 16,
    TYPE_STRING = 32,
    TYPE_ARRAY = 64,
    TYPE_OBJECT = 128,
    TYPE_ANY = 255,
    TYPE_NUMBER = TYPE_INTEGER | TYPE_FRACTION,
};

uint32_t grammar_schema_type_of(const struct lr_json *value);
/* By "type", "enum" and "const". */
uint32_t grammar_schema_types(struct grammar_build *b, const struct schema_words *w);
/* A count that a keyword gives; `otherwise` without it. */
uint32_t grammar_schema_count(struct grammar_build *b, const struct schema_words *w,
                              enum schema_word word, uint32_t otherwise);

/* The draft a document says it is written in: 4, 6, 7, 2019 or 2020 (also when it says none).
 */
uint32_t grammar_schema_draft(const struct lr_json *root);
/* Before 2019-09 nothing counts beside a $ref. */
bool grammar_schema_is_only_ref(const struct grammar_build *b, const struct schema_words *w);
/* The list of schemas for the first items, and the schema of those after them. */
const struct lr_json *grammar_schema_prefix(const struct schema_words *w);
const struct lr_json *grammar_schema_rest(const struct schema_words *w);

/* ---- expand.c: alternatives ---- */

enum schema_part_kind {
    PART_IS,        /* fits the schema `node` */
    PART_NOT,       /* does not */
    PART_BREAKS,    /* the keyword `word` of `node` does not hold */
    PART_NEEDS,     /* has the property `name` */
    PART_LACKS,     /* an object: does not have it */
    PART_NEEDS_NOT, /* has it, and its value does not fit `node` */
    PART_ITEM_NOT,  /* an array: has an item at `place`, which does not fit `node` */
    PART_SOME_NOT,  /* an array: some item does not fit `node` */
    PART_TRACE,     /* was passed on the way */
};

struct schema_part {
    enum schema_part_kind kind;
    enum schema_word word;
    const struct lr_json *node;
    struct lr_str name;
    uint32_t place;
    uint32_t above; /* of an alternative: 1 + the part it came from, or 0 */
};

struct schema_alternative {
    struct schema_part *parts;
    uint32_t count;
    uint32_t types;
};

struct schema_alternatives {
    struct schema_alternative *items;
    uint32_t count, capacity;
};

/* Part number `part` came from part number `above`, or is that one. */
bool grammar_schema_is_below(const struct schema_alternative *a, uint32_t part, uint32_t above);

void grammar_schema_expand(struct grammar_build *b, const struct schema_part *parts,
                           uint32_t count, uint32_t types, struct schema_alternatives *out);

/* ---- exclusive.c ---- */
/* Whether a value of these types fits one of the schemas at most.  first, second: two that may
 * overlap. */
bool grammar_schema_excludes(struct grammar_build *b, const struct lr_json *list,
                             uint32_t types, uint32_t *first, uint32_t *second);

/* ---- validate.c: values that are given ---- */
bool grammar_schema_fits(struct grammar_build *b, const struct lr_json *node,
                         const struct lr_json *value);
bool grammar_schema_fits_part(struct grammar_build *b, const struct schema_part *part,
                              const struct lr_json *value);
bool grammar_schema_equal(const struct lr_json *a, const struct lr_json *b);
/* A regular expression is found in the text. */
bool grammar_schema_finds(struct grammar_build *b, struct lr_str pattern, struct lr_str text);

/* The values that "enum" and "const" leave to an alternative; NULL: it has neither. */
const struct lr_json *grammar_schema_values(struct grammar_build *b,
                                            const struct schema_alternative *a,
                                            uint32_t *count);

/* ---- compiling an alternative: each gives the step to begin with ---- */
uint32_t grammar_schema_string(struct grammar_build *b, const struct schema_alternative *a,
                               uint32_t next);
uint32_t grammar_schema_number(struct grammar_build *b, const struct schema_alternative *a,
                               uint32_t next);
uint32_t grammar_schema_array(struct grammar_build *b, const struct schema_alternative *a,
                              uint32_t next);
uint32_t grammar_schema_object(struct grammar_build *b, const struct schema_alternative *a,
                               uint32_t next);

/* What an alternative demands of a string; false: the build has failed. */
bool grammar_schema_text(struct grammar_build *b, const struct schema_part *parts,
                         uint32_t count, struct dfa_text *out);
/* The same, or the strings that "enum" and "const" leave. */
bool grammar_schema_text_with_values(struct grammar_build *b,
                                     const struct schema_alternative *a, struct dfa_text *out);
/* The regular expression of a format as text; NULL: it has no effect.  Some are refused. */
const char *grammar_schema_format(struct grammar_build *b, struct lr_str name);
/* The demand that a text has the format with this regular expression; false: the build has
 * failed. */
bool grammar_schema_format_demand(struct grammar_build *b, const char *pattern,
                                  struct dfa_demand *out);
/* The automaton of that demand alone; NULL: the build has failed. */
const struct dfa *grammar_schema_format_dfa(struct grammar_build *b, const char *pattern);
/* A number's text as whole digits and those after the point; false: not within 40 digits. */
struct decimal {
    bool negative;
    uint32_t whole, fraction; /* digits; no zeros in front of the whole, none at the end */
    char digits[48];
};
bool grammar_decimal_of(struct lr_str text, struct decimal *out);
int grammar_decimal_compare(const struct decimal *a, const struct decimal *b);
bool grammar_decimal_is_whole(struct lr_str text);

/* ---- schema.c ---- */
/* The rule of a value that all the parts hold for: made where there is none. */
uint32_t grammar_schema_rule(struct grammar_build *b, const struct schema_part *parts,
                             uint32_t count);
/* The automaton of a text, made once for the same one; NULL: the build has failed. */
const struct dfa *grammar_schema_dfa(struct grammar_build *b, const struct dfa_text *text);
void *grammar_schema_alloc(struct grammar_build *b, size_t count,
                           size_t size); /* of the build */
void grammar_schema_unsupported(struct grammar_build *b, const char *what);
/* Refuses a part by which values of these types must not come. */
void grammar_schema_refuse_values(struct grammar_build *b, const struct schema_part *part,
                                  uint32_t types);
const struct dfa *grammar_schema_any_dfa(struct grammar_build *b); /* any text */

#endif
