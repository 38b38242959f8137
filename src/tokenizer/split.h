/* tokenizer/split.h - pre_tokenizer: text to the pieces that the model sees.
 *
 * A list of steps.  Every step splits the pieces of the step before it; some also change their
 * text.
 */
#ifndef TOKENIZER_SPLIT_H
#define TOKENIZER_SPLIT_H

#include "base/buf.h"
#include "base/fail.h"
#include "base/json.h"
#include "tokenizer/find.h"

struct split_classes; /* scan.h */

enum split_kind {
    SPLIT_REGEX,     /* by the matches of a pattern */
    SPLIT_SCAN,      /* the same for known patterns, by a hand-written scanner */
    SPLIT_CHARS,     /* every character with a property is a match */
    SPLIT_PREFIX,    /* a blank before every piece that does not begin with one */
    SPLIT_METASPACE, /* blanks become a letter, and one may be put before the piece */
    SPLIT_ALPHABET,  /* bytes become the letters of the byte alphabet */
    SPLIT_SCRIPTS,   /* where the script changes */
};

/* What becomes of matches and of the text between them. */
enum split_behavior {
    SPLIT_ISOLATED,
    SPLIT_REMOVED,
    SPLIT_CONTIGUOUS,
    SPLIT_MERGED_WITH_PREVIOUS,
    SPLIT_MERGED_WITH_NEXT,
};

enum split_prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

/* Members that a kind does not use are zero. */
struct split_step {
    enum split_kind kind;
    enum split_behavior behavior;
    bool invert;                   /* matches are gaps, gaps are matches */
    struct split_classes *classes; /* owned: SPLIT_SCAN */
    void *code;                    /* owned pcre2_code */
    bool (*is_match)(uint32_t c);  /* SPLIT_CHARS; NULL: only `letter` */
    uint64_t *matches;          /* owned: SPLIT_CHARS, a bit for each of the first characters */
    uint32_t letter;            /* SPLIT_CHARS: the character that matches */
    char mark[4];               /* SPLIT_METASPACE: what a blank becomes */
    uint8_t mark_len;           /* bytes of it */
    enum split_prepend prepend; /* SPLIT_METASPACE */
};

enum { SPLIT_MAX_STEPS = 16, SPLIT_TABLE = 0x20000 };

struct splitter {
    struct split_step steps[SPLIT_MAX_STEPS];
    uint32_t count;
    unsigned char *scripts; /* owned, by character; only with SPLIT_SCRIPTS */
    bool has_letters;       /* pieces are in the byte alphabet, and the model wants the bytes */
};

/* Compiles a pattern written for Oniguruma; `what` names it in messages. */
LR_MUST_USE lr_code tokenizer_split_compile(struct lr_str pattern, bool literal,
                                            const char *what, void **code,
                                            struct lr_error *err);
void tokenizer_split_free_code(void *code);

/* letters: the model wants the letters of the byte alphabet, not bytes. */
LR_MUST_USE lr_code tokenizer_split_read(struct splitter *s, bool letters,
                                         const struct lr_json *pre_tokenizer,
                                         struct lr_error *err);
/* True if the pre_tokenizer has a ByteLevel anywhere. */
bool tokenizer_split_has_bytes(const struct lr_json *pre_tokenizer);
void tokenizer_split_free(struct splitter *s);

bool tokenizer_is_script(struct lr_str name);
/* Script numbers of all characters, 0: none; the caller frees *out with free().  kana_is_han:
 * as UnicodeScripts wants it, where blanks have no script. */
LR_MUST_USE lr_code tokenizer_scripts(bool kana_is_han, unsigned char **out,
                                      struct lr_error *err);

#endif
