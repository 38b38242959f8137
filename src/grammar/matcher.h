/* grammar/matcher.h - the state of a matcher (internal).
 *
 * Where a program forks, all ways are followed at once: the state is a list of threads, each a
 * step, the rules it has yet to return to, and the set of what its object or array has so far.
 * Frames and sets are shared and made once for the same content, so that two states are equal
 * when their threads are.  A thread that could not end within the depth allowed is not begun,
 * and dropping a thread never harms the others: that is why there are no dead ends.
 */
#ifndef GRAMMAR_MATCHER_H
#define GRAMMAR_MATCHER_H

#include "grammar/vocab.h"

enum {
    THREADS_MAX = 2048, /* of one state; more alternatives are dropped */
    WORK_MAX = 8192,
    SEEN_SLOTS = 16384,
    KEPT_SOFT = 1 << 14, /* between two tokens frames and sets nobody needs are forgotten */
    KEPT_MAX = 1 << 20,
    MEMO_STATES = 2047, /* of a walk */
    MEMO_SLOTS = 4096,
    MEMO_MOVES = 8192,
    MEMO_THREADS = 1 << 14, /* of all these states */
    CACHED_MAX = 24,        /* masks kept: 25 KB each for 200 000 tokens */
    MOVES_MAX = 4 << 20,    /* of threads, for one mask: about 20 ms */
    NODES_A_MOVE = 8,       /* of an automaton's walk: as much work as a move of a thread */
};

struct thread {
    uint32_t step;
    uint32_t frame;
    uint32_t set;
    uint32_t sub;  /* characters so far, the state of an automaton, or of a run of blanks */
    uint32_t part; /* within a character */
};

struct frame {
    uint32_t next; /* step to return to */
    uint32_t parent;
    uint32_t set; /* of the caller */
    uint32_t depth;
};

/* One more in a set: a text, or (len is SET_COUNTED) just one more. */
struct member {
    uint32_t parent;
    uint32_t count; /* of the set, with this one */
    uint32_t hash;
    uint32_t begin, len;  /* within the texts */
    uint32_t index;       /* of a declared property, or GRAMMAR_NO_INDEX */
    uint32_t bits, words; /* within the bits: all declared properties of the set */
};

#define SET_COUNTED UINT32_MAX

/* Frames and sets; [0] of both is the empty one. */
struct kept {
    struct frame *frames;   /* owned */
    struct member *members; /* owned */
    char *texts;            /* owned */
    uint64_t *bits;         /* owned */
    uint32_t *frame_slots;  /* owned: index + 1, 0 is free; twice the capacity */
    uint32_t *member_slots; /* owned, likewise */
    uint32_t frame_count, frame_capacity;
    uint32_t member_count, member_capacity;
    uint32_t text_len, text_capacity;
    uint32_t bit_count, bit_capacity; /* words */
};

struct place {
    uint32_t step;
    uint32_t frame;
    uint32_t set;
};

/* A state among the threads.  All its keys began at the same byte of the text. */
struct span {
    uint32_t begin;
    uint32_t count;
    uint32_t key_begin;
    uint32_t id; /* memo.c's number of the state, or 0 */
    bool looked; /* behind blanks: matcher.c's */
};

/* Where bytes lead from the states of a walk: memo.c. */
struct memo_move {
    uint32_t serial; /* of the walk */
    uint32_t key;    /* state and byte */
    uint32_t to;     /* state, or 0: nowhere */
};

struct grammar_memo {
    struct grammar_memo *next; /* among those that no matcher uses */
    uint32_t serial;           /* of the walk; everything of another serial is forgotten */
    uint32_t count;
    struct span states[MEMO_STATES + 1]; /* [0] is not used */
    uint64_t bytes[MEMO_STATES + 1][4];  /* that may follow a state, as bits */
    bool has_bytes[MEMO_STATES + 1];
    struct {
        uint32_t serial, hash, count, state;
    } slots[MEMO_SLOTS]; /* of the states */
    struct memo_move moves[MEMO_MOVES];
};

/* What following a program needs for one byte: shared by the matchers of a vocabulary. */
struct grammar_scratch {
    struct place work[WORK_MAX];
    struct {
        struct place place;
        uint32_t epoch;
    } seen[SEEN_SLOTS];
    uint32_t epoch;
    uint32_t seen_count;
    struct grammar_memo *memos; /* owned: those that no matcher uses */
};

struct cached {
    struct thread *threads; /* owned */
    uint32_t count;
    uint32_t hash;
    uint64_t used;
    uint32_t *mask; /* owned; NULL: free */
};

#define CACHED_NONE UINT32_MAX /* as a count: the mask is for no state */

/* A walk over a trie: which threads go, and which tokens a node stands for. */
enum walk_threads { WALK_ALL, WALK_NAME, WALK_OTHERS, WALK_NO_TEXT };
enum walk_way { WALK_TOKENS, WALK_ENDS, WALK_OUTER };

struct walk {
    const struct grammar_trie *trie;
    enum walk_threads threads;
    enum walk_way way;
};

enum { WALKS_MAX = 4 };

/* The mask of the state: none (into is NULL), being made, or made.  A mask that is being made
 * keeps its place in the walks, so that it can go on later; a token ends it. */
struct masking {
    struct cached *into; /* within the cache */
    bool is_made;
    uint32_t thread;                      /* the next one whose automaton is asked */
    uint32_t name;                        /* the thread of WALK_NAME */
    uint32_t text;                        /* the next one of a text that is not JSON */
    uint64_t text_done[THREADS_MAX / 64]; /* those that a walk has covered */
    const struct grammar_trie *text_trie; /* its walk; NULL: it has not begun */
    bool text_ends;                       /* a control token follows, and nothing else */
    bool text_fits[256];                  /* bytes that may follow its automaton */
    uint32_t until;                       /* the thread of GRAMMAR_UNTIL */
    struct walk walks[WALKS_MAX];
    uint32_t walk, walk_count;
    bool is_walking;
    struct span state; /* of the walk, as the next four */
    uint32_t node;
    uint32_t inner, inner_end; /* of the trie of all tokens: comes before node */
    uint32_t skipped;          /* bytes of the text that stand for what is before the trie's */
    enum { DFA_NOT_BEGUN, DFA_EVEN, DFA_ODD } dfa_stage;
    uint32_t dfa_node;
    uint32_t *dfa_mask; /* owned: what the automaton of `thread` takes */
    struct {
        uint32_t state, part;
    } at[GRAMMAR_TOKEN_MAX + 1]; /* of the automaton, by depth */
};

struct grammar_matcher {
    const struct grammar_program *program;
    const struct grammar_vocab *vocab;
    uint32_t named[GRAMMAR_NAMED_MAX]; /* ids of the program's, or GRAMMAR_NO_TOKEN */
    uint32_t thought_tokens;           /* of reasoning, so far */
    struct kept kept;
    struct thread *threads; /* owned; [0, count) is the state, what follows is scratch */
    uint32_t count;
    uint32_t capacity;
    uint32_t floor;     /* threads below stay as they are, while a mask is being made */
    uint32_t key_begin; /* of the state */
    char *text;         /* owned: what was taken since a key began, and what is tried */
    uint32_t text_len;  /* taken */
    uint32_t text_capacity;
    uint32_t position;                        /* of the byte that comes next, within the text */
    struct grammar_memo *memo;                /* owned while a walk goes on */
    struct grammar_scratch *scratch;          /* the vocabulary's; owned where there is none */
    uint32_t moves;                           /* of threads, since the mask was begun */
    uint32_t pause;                           /* moves at which the mask waits */
    struct span spans[GRAMMAR_TOKEN_MAX + 1]; /* of a walk, by depth */
    struct cached cache[CACHED_MAX];
    struct masking masking;
    uint64_t clock;
};

static inline uint32_t matcher_mix(uint32_t a, uint32_t b)
{
    uint64_t h = ((uint64_t)a << 32 | b) * UINT64_C(0x9E3779B97F4A7C15);
    return (uint32_t)(h >> 32) ^ (uint32_t)(h >> 11);
}

/* The work that a mask may use now is used up. */
static inline bool matcher_is_spent(const struct grammar_matcher *m)
{
    return m->moves >= m->pause;
}

/* ---- matcher.c ---- */
/* The state after `byte`, written behind the one before.  Empty: not legal.  Threads may be
 * added to the state before, which say the same. */
struct span grammar_matcher_advance(struct grammar_matcher *m, struct span *from, uint8_t byte);

/* Where thread `first`, and those behind it at the same place, go on once their automaton is
 * over: a state written from `begin` on.  Their bits in `done` are set. */
struct span grammar_matcher_after(struct grammar_matcher *m, uint32_t first, uint64_t *done,
                                  uint32_t begin);

/* Adds what follows the blanks of a state to it, behind its threads. */
void grammar_matcher_look(struct grammar_matcher *m, struct span *state);
/* The number of threads that there is room for. */
LR_MUST_USE bool grammar_matcher_reserve(struct grammar_matcher *m, uint32_t count);

/* ---- memo.c ---- */
/* A walk begins with this state; its memo is the matcher's until it ends. */
void grammar_memo_begin(struct grammar_matcher *m, struct span *state);
void grammar_memo_end(struct grammar_matcher *m);
/* The first byte from `byte` on that may follow the state; 256: none. */
uint32_t grammar_memo_byte(struct grammar_matcher *m, struct span *state, uint32_t byte);
/* As grammar_matcher_advance. */
struct span grammar_memo_advance(struct grammar_matcher *m, struct span *from, uint8_t byte);
void grammar_scratch_free(struct grammar_scratch *scratch); /* NULL is fine */

/* ---- interned.c ---- */
LR_MUST_USE bool grammar_kept_init(struct kept *k);
void grammar_kept_free(struct kept *k);
/* The frame or set with this content; 0 when there may be no more. */
uint32_t grammar_kept_frame(struct kept *k, uint32_t next, uint32_t parent, uint32_t set);
uint32_t grammar_kept_add(struct kept *k, uint32_t set, struct lr_str text, uint32_t index);
uint32_t grammar_kept_count(struct kept *k, uint32_t set); /* one more, without a text */
bool grammar_kept_has_index(const struct kept *k, uint32_t set, uint32_t index);
bool grammar_kept_has(const struct kept *k, uint32_t set, struct lr_str text, uint32_t hash);
/* How many texts of the set begin so and are accepted by the automaton. */
uint32_t grammar_kept_begins(const struct kept *k, uint32_t set, struct lr_str prefix,
                             const struct dfa *d);
/* Keeps what the threads need, and renumbers it; false without memory: nothing has changed. */
bool grammar_kept_forget(struct kept *k, struct thread *threads, uint32_t count);

/* ---- mask.c ---- */
void grammar_matcher_clear_masks(struct grammar_matcher *m);
/* The state changes: its mask is no longer wanted. */
void grammar_matcher_drop_mask(struct grammar_matcher *m);
/* Walks on over the tokens of a trie from *node to `end`, with the state before them in
 * m->spans.  False: the work is used up. */
bool grammar_mask_tokens(struct grammar_matcher *m, const struct grammar_trie *trie,
                         uint32_t *node, uint32_t end, uint32_t *mask);
/* The tokens of a list that begin `left` characters at most. */
void grammar_mask_up_to(const struct grammar_vocab *v, const struct grammar_inside_list *list,
                        uint32_t left, uint32_t *mask);

/* ---- mask_text.c ---- */
/* A thread within a text that is not JSON, between two characters. */
bool grammar_mask_is_text(const struct grammar_matcher *m, const struct thread *t);
/* The tokens of all threads within a text.  False: the work is used up. */
bool grammar_mask_texts(struct grammar_matcher *m, uint32_t *mask);

#endif
