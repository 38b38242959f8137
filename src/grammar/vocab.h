/* grammar/vocab.h - a vocabulary prepared for masks (internal).
 *
 * Tokens with a common prefix are checked together: they form a trie, stored in the order of a
 * walk, so that a whole branch is skipped by one jump.  Inside a JSON string nearly every token
 * is legal, in every state.  So that set is computed once, and only the tokens that leave the
 * string (a second, small trie) are checked for each state.
 */
#ifndef GRAMMAR_VOCAB_H
#define GRAMMAR_VOCAB_H

#include "grammar/program.h"

enum { GRAMMAR_TOKEN_MAX = 512 }; /* longest token that is checked byte by byte */

#define GRAMMAR_NO_TOKEN UINT32_MAX

struct grammar_node {
    uint32_t token; /* token that ends here, or NO_TOKEN */
    uint32_t skip;  /* index of the first node that is not below this node */
    uint16_t depth; /* 0: a first byte */
    uint8_t byte;
    uint8_t below; /* most bytes that follow it in a token; 255: that many or more */
};

struct grammar_trie {
    struct grammar_node *nodes; /* owned */
    uint32_t count;
    uint32_t capacity;
    uint32_t roots[257]; /* the first node of depth 0 with this byte or a higher one */
    uint32_t *tokens;    /* owned, as begins: all tokens in the order of the nodes; or NULL */
    uint32_t *begins;    /* those of node i and below are tokens[begins[i]..begins[skip]) */
};

/* A token that begins and ends inside a string. */
struct grammar_inside {
    uint32_t token;
    uint32_t chars; /* characters that begin in it */
};

enum { GRAMMAR_UP_TO = 24 }; /* characters for which there are masks at hand */

/* Tokens that have the same up to a quote, and after it only plain characters. */
struct grammar_opening {
    uint32_t begin, end; /* of `opened` */
    uint32_t node;       /* of the trie of all tokens, that of the quote */
};

struct grammar_inside_list {
    struct grammar_inside *items; /* owned, fewest characters first */
    uint32_t count;
    uint32_t chars;  /* most characters of one of them */
    uint32_t beyond; /* the first with more than GRAMMAR_UP_TO */
    uint32_t *up_to; /* owned: a mask for 0 to GRAMMAR_UP_TO characters, and one of all */
};

struct grammar_vocab {
    uint32_t size;
    size_t words;
    char *bytes;      /* owned: of all tokens */
    uint32_t *begins; /* owned: token i is bytes[begins[i]..begins[i + 1]) */
    uint8_t *flags;   /* owned: LR_VOCAB_ bits */
    struct grammar_trie all;
    struct grammar_trie outer; /* all but the tokens that begin a string and stay in it */
    uint32_t *outer_groups;    /* owned: by node of outer, 1 + the group of the tokens left
                                  out that begin like it; 0: none */
    struct grammar_opening *openings; /* owned: those groups */
    uint32_t *opened;                 /* owned: their tokens */
    uint32_t opening_count;
    struct grammar_trie leaving;     /* those that end a string they begin in */
    struct grammar_trie leaving_odd; /* of those, the ones whose part inside is not plain */
    struct grammar_trie ends;    /* of the others, what comes from the quote on: a "token" is a
                                    group */
    uint32_t *group_begins;      /* owned: group i is grouped[group_begins[i]..] */
    uint32_t *grouped;           /* owned: tokens that leave a string in the same way */
    struct grammar_trie staying; /* those that do not */
    struct grammar_trie even;    /* of those, the ones that are plain */
    struct grammar_trie odd;     /* and the ones that are not */
    struct grammar_trie uneven;  /* all but those of at most GRAMMAR_UP_TO plain characters */
    struct grammar_inside_list inside; /* those that stay */
    struct grammar_inside_list plain;  /* of those, the ones without escapes and the few
                                          characters that patterns often leave out */
    bool is_share; /* of another one, which owns the tables; masks and scratch are its own */
    struct grammar_dfa_masks *masks;         /* owned: grammar_vocab_kept's */
    struct grammar_scratch *scratch;         /* owned: of its matchers, matcher.h */
    struct grammar_scratch *aside;           /* owned: of one that another thread makes */
    uint32_t *text_mask;                     /* owned: every token that is text */
    uint32_t control[GRAMMAR_CONTROL_COUNT]; /* ids, or NO_TOKEN; STOP is found by its flag */
    uint32_t *stops;                         /* owned: ids of tokens that end an answer */
    uint32_t stop_count;
    uint32_t *specials; /* owned: ids of control tokens */
    uint32_t special_count;
};

static inline struct lr_str grammar_vocab_bytes(const struct grammar_vocab *v, uint32_t id)
{
    return lr_str(v->bytes + v->begins[id], v->begins[id + 1] - v->begins[id]);
}

/* The control token of this name; GRAMMAR_NO_TOKEN: none. */
uint32_t grammar_vocab_special(const struct grammar_vocab *v, struct lr_str name);

const char *grammar_control_name(enum grammar_control control);

/* The mask that is kept for a state of an automaton, until the next call of keep; NULL: none.
 */
const uint32_t *grammar_vocab_kept(const struct grammar_vocab *v, uint64_t dfa, uint32_t state);
/* Keeps a copy, if there is memory. */
void grammar_vocab_keep(const struct grammar_vocab *v, uint64_t dfa, uint32_t state,
                        const uint32_t *mask);

/* ---- json_char.c ---- */

/* Advances by one byte in a character of a JSON string: UTF-8, or an escape, with surrogates in
 * pairs.  0 is between characters; GRAMMAR_CHAR_BAD: not a string. */
enum { GRAMMAR_CHAR_BAD = 255 };
uint8_t grammar_char_next(uint8_t state, uint8_t byte);

#endif
