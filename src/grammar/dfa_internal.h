/* grammar/dfa_internal.h - what the files of dfa.h share (internal). */
#ifndef GRAMMAR_DFA_INTERNAL_H
#define GRAMMAR_DFA_INTERNAL_H

#include "grammar/dfa.h"

enum { DFA_SCRATCH_BYTES = 64 << 20 };

/* An automaton in the making.  The first failure sticks. */
struct dfa_making {
    struct lr_arena *arena;  /* of the result */
    struct lr_arena scratch; /* of everything else */
    uint32_t *work;          /* borrowed */
    uint32_t states_max;     /* a power of two */
    struct lr_error *err;
    lr_code code;
    uint32_t *starts; /* classes of characters, as in struct dfa */
    uint16_t *range_class;
    uint32_t ranges, classes;
};

/* A pattern on its own. */
struct automaton {
    uint32_t *next; /* grows; complete: no move is dead */
    uint8_t *accept;
    uint32_t states, capacity;
};

enum { DFA_SETS_MAX = 1 << 14 };

/* The sets of all patterns, each once. */
struct sets {
    const struct regex_set **items; /* scratch of the making, as the two lists below */
    uint8_t **classes;              /* which classes are in set i */
    uint32_t *slots;                /* twice as many as there may be sets */
    uint32_t count, max;
    bool single[128]; /* a set of this one character has been seen */
};

/* ---- dfa.c ---- */
void grammar_dfa_too_large(struct dfa_making *m);
/* False: the budget is used up, and the making has failed. */
bool grammar_dfa_charge(struct dfa_making *m, uint64_t work);
/* Memory that dies with the making; NULL: it has failed. */
void *grammar_dfa_scratch(struct dfa_making *m, size_t count, size_t size);
uint32_t *grammar_dfa_grow(struct dfa_making *m, uint32_t *old, size_t used, size_t *capacity,
                           size_t need);
uint32_t grammar_dfa_hash_list(const uint32_t *list, uint32_t count, bool accepts);
/* Room for one more state. */
bool grammar_dfa_reserve(struct dfa_making *m, struct automaton *a);

/* ---- dfa_pattern.c ---- */
void grammar_dfa_gather(struct dfa_making *m, struct sets *s, const struct regex *r);
void grammar_dfa_classify(struct dfa_making *m, struct sets *s);
struct automaton grammar_dfa_automaton(struct dfa_making *m, const struct sets *sets,
                                       const struct regex *tree);

/* ---- dfa_settle.c ---- */
/* The automaton without the states that lead nowhere, measured; its tables are copied. */
struct dfa *grammar_dfa_settle(struct dfa_making *m, const uint32_t *next,
                               const uint8_t *accept, uint32_t states);

#endif
