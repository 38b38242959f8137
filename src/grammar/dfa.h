/* grammar/dfa.h - texts as automata over characters (internal).
 *
 * What a string has to be is a list of demands: patterns that are found in it or are not, and a
 * length.  They become one deterministic automaton, of which every state leads to an accepted
 * text: what a state lets through can be completed.  Characters that no demand tells apart are
 * one class, so tables stay small.
 */
#ifndef GRAMMAR_DFA_H
#define GRAMMAR_DFA_H

#include "grammar/regex.h"

enum {
    DFA_DEMANDS_MAX = 24,
    DFA_STATES_MAX = 1 << 14,
    DFA_CELLS_MAX = 1 << 21, /* states * classes */
    DFA_ENDLESS = 255,       /* of `least` and `most` */
};

#define DFA_ANY       UINT64_C(1) /* the id of any text */
#define DFA_DEAD      UINT32_MAX
#define DFA_UNBOUNDED UINT32_MAX /* of words, and of lengths */

struct dfa {
    uint32_t states, classes, ranges; /* state 0 is the first; none: nothing is accepted */
    uint32_t *next;                   /* of state * classes + class, or DFA_DEAD */
    uint8_t *accept;
    uint32_t *words;       /* accepted from a state on, or UNBOUNDED */
    uint8_t *least;        /* plain characters that may come whatever they are */
    uint8_t *most;         /* characters that may come at all */
    uint32_t *starts;      /* first character of range i; [0] is 0 */
    uint16_t *range_class; /* of range i */
    uint16_t ascii[128];   /* class of a character */
    bool tame;             /* from every state on words are unbounded */
    uint64_t id;           /* no two have the same: for caches */
};

struct dfa_demand {
    struct regex_pattern pattern;
    bool negative;
    const char *format; /* the pattern is that of a format: its text; else NULL */
};

struct dfa_text {
    struct dfa_demand demands[DFA_DEMANDS_MAX];
    uint32_t count;
    uint32_t min, max;   /* characters; max may be DFA_UNBOUNDED */
    uint32_t states_max; /* a power of two from 32 on; 0: DFA_STATES_MAX */
};

/* The first `labels` demands (in any order: bit i of labels) do not decide whether a text is
 * accepted: one automaton comes for each of their combinations that texts can have.  Without
 * labels there is one.  All memory is the arena's.  work: what is left of the budget. */
enum { DFA_RESULTS_MAX = 64 };
struct dfa_result {
    const struct dfa *dfa;
    uint32_t labels; /* the labelled demands that hold */
};
LR_MUST_USE lr_code grammar_dfa_build(struct lr_arena *arena, const struct dfa_text *text,
                                      uint32_t labels, uint32_t *work, struct dfa_result *out,
                                      uint32_t *count, struct lr_error *err);

/* An automaton given by its moves: for numbers. */
struct dfa_moves {
    void *ctx;
    uint64_t start;
    bool (*step)(void *ctx, uint64_t state, uint8_t byte, uint64_t *to); /* of one of `bytes` */
    bool (*accepts)(void *ctx, uint64_t state);
    const char *bytes;
};
LR_MUST_USE lr_code grammar_dfa_explore(struct lr_arena *arena, const struct dfa_moves *moves,
                                        uint32_t *work, const struct dfa **out,
                                        struct lr_error *err);

/* Any text. */
const struct dfa *grammar_dfa_any(struct lr_arena *arena);

/* ---- dfa_step.c: texts byte by byte ---- */

enum dfa_spelling {
    DFA_JSON, /* within a JSON string, every character in its shortest spelling */
    DFA_RAW,  /* UTF-8 */
};

/* One byte further; part is 0 between characters.  False: no accepted text goes on so. */
bool grammar_dfa_step(const struct dfa *d, enum dfa_spelling spelling, uint32_t *state,
                      uint32_t *part, uint8_t byte);

/* How many texts are accepted from here on, part of a character included; or UNBOUNDED. */
uint32_t grammar_dfa_words(const struct dfa *d, uint32_t state, uint32_t part);

/* Whether a whole text is accepted. */
bool grammar_dfa_accepts(const struct dfa *d, enum dfa_spelling spelling, struct lr_str text);

#endif
