/* grammar/program.h - the compiled form of a constraint (internal).
 *
 * A program is a graph of steps.  A step that consumes input names the step after it; a fork
 * follows both branches; a call runs a rule and returns, which allows nesting.  Programs are
 * built from their end: every function here takes the step that follows and returns the step to
 * begin with.
 */
#ifndef GRAMMAR_PROGRAM_H
#define GRAMMAR_PROGRAM_H

#include "base/arena.h"
#include "grammar/calls.h"
#include "grammar/dfa.h"
#include "grammar/grammar.h"

enum grammar_op {
    GRAMMAR_BYTE,    /* a byte from low to high */
    GRAMMAR_TEXT,    /* any byte */
    GRAMMAR_FREE,    /* any token; a token that ends the answer is followed by next */
    GRAMMAR_CHARS,   /* characters of a JSON string, as many as lengths[other] says */
    GRAMMAR_DFA,     /* what dfas[other] accepts; low: its enum dfa_spelling; high:
                        GRAMMAR_DFA_OF_TEXT if it is of a text that is not JSON */
    GRAMMAR_KEY,     /* a string that keys[other] allows and that is not in the set, and its
                        closing quote; it joins the set */
    GRAMMAR_UNTIL,   /* any text, followed by next, up to marks[low], followed by other */
    GRAMMAR_SPACE,   /* nothing, one blank, or a line break and its indentation */
    GRAMMAR_CONTROL, /* the control token `low`, or named[low - GRAMMAR_CONTROL_COUNT] */
    GRAMMAR_FORK,    /* next or other */
    GRAMMAR_CALL,    /* rule `other` with an empty set, then next with the set of before */
    GRAMMAR_RETURN,
    GRAMMAR_COUNT, /* one more in the set, up to `other` */
    GRAMMAR_ADD,   /* the name `absent` of checks[other] joins the set */
    GRAMMAR_CHECK, /* nothing, if the set is as checks[other] says */
    GRAMMAR_NEVER, /* no answer goes on from here */
    GRAMMAR_END,
};

enum grammar_control {
    GRAMMAR_CHANNEL,
    GRAMMAR_MESSAGE,
    GRAMMAR_CONSTRAIN,
    GRAMMAR_MESSAGE_END,
    GRAMMAR_START,
    GRAMMAR_TOOL_CALL,
    GRAMMAR_ANSWER_END,
    GRAMMAR_STOP, /* any token that ends an answer of this model */
    GRAMMAR_CONTROL_COUNT,
};

enum {
    GRAMMAR_NAMED_MAX = 20, /* with the controls above a bit each */
    GRAMMAR_MARKS_MAX = 64,
};

/* What GRAMMAR_UNTIL looks for: a text, or (empty) a byte that is the first but blanks. */
struct grammar_mark {
    struct lr_str text;
    char first;
    uint64_t id; /* of masks: equal for equal marks */
};

#define GRAMMAR_UNBOUNDED UINT32_MAX /* of lengths and counts */
#define GRAMMAR_NO_RULE   UINT32_MAX

enum {
    GRAMMAR_RULES_MAX = 8192,
    GRAMMAR_RULE_SLOTS = 2 * GRAMMAR_RULES_MAX,
    GRAMMAR_CALLS_MAX = GRAMMAR_DEPTH_MAX + 1, /* the answer itself is one, too */
    GRAMMAR_DFA_OF_TEXT = 1,
};

struct grammar_step {
    uint8_t op;
    uint8_t low;
    uint8_t high;
    uint8_t height; /* least call depth from here to the rule's end */
    uint32_t next;
    uint32_t other;
};

struct schema_part; /* schema.h */

struct grammar_rule {
    uint32_t entry;
    const struct schema_part *parts; /* of a value, while compiling; NULL: a rule of ours */
    uint32_t part_count;
    const struct lr_json *root; /* of the schema the parts are from */
};

/* Characters of a string. */
struct grammar_length {
    uint32_t min, max; /* max may be GRAMMAR_UNBOUNDED */
};

/* Names of an object that are not declared, or items that differ. */
struct grammar_key {
    const struct dfa *dfa;
    const struct lr_str *taken; /* sorted, as written between quotes: never allowed */
    uint32_t taken_count;
};

/* A property, as it is written between quotes, and the rule of its value; or all properties
 * that are not declared and share a rule. */
struct grammar_name {
    struct lr_str text;
    uint32_t hash;  /* grammar_name_hash's */
    uint32_t index; /* among the declared ones, or GRAMMAR_NO_INDEX */
    uint32_t rule;
    const struct dfa *dfa; /* the names of all those; NULL: it is one property */
};

#define GRAMMAR_NO_INDEX UINT32_MAX

/* The condition on the set of an object's names, or on the number of an array's items. */
struct grammar_check {
    uint32_t min, max;
    const struct grammar_name *names; /* that are in the set */
    uint32_t name_count;
    const struct grammar_name *absent; /* that is not; or NULL */
    /* Some of these is not in the set, and its value fits in; NULL: no matter. */
    const struct grammar_name *left;
    uint32_t left_count;
    uint32_t rule; /* a value that may have to come: for heights; or GRAMMAR_NO_RULE */
};

static inline uint32_t grammar_name_hash(struct lr_str text)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < text.len; i++)
        h = (h ^ (uint8_t)text.ptr[i]) * 16777619u;
    return h;
}

struct grammar_program {
    struct grammar_step *steps; /* owned */
    uint32_t count;
    uint32_t capacity;
    struct grammar_rule *rules; /* owned */
    uint32_t rule_count;
    uint32_t rule_capacity;
    const struct dfa **dfas; /* owned, as the three lists below; what they hold: arena's */
    struct grammar_length *lengths;
    struct grammar_key *keys;
    struct grammar_check *checks;
    uint32_t dfa_count, length_count, key_count, check_count;
    uint32_t dfa_capacity, length_capacity, key_capacity, check_capacity;
    struct lr_arena arena;
    uint32_t start;
    uint32_t thought;        /* the step of free reasoning, if there is a budget */
    uint32_t thought_end;    /* where the answer goes on after the budget's last token */
    uint32_t thought_budget; /* tokens; 0: no limit */
    uint32_t controls;       /* bit per enum grammar_control that is used */
    struct lr_str named[GRAMMAR_NAMED_MAX]; /* names of control tokens that a vocabulary may
                                               lack; arena */
    uint32_t named_count;
    struct grammar_mark marks[GRAMMAR_MARKS_MAX]; /* arena */
    uint32_t mark_count;
};

/* A program while it is built.  After the first failure all steps are 0. */
struct grammar_build {
    struct grammar_program *program;
    struct lr_arena arena;       /* dies with the build */
    uint32_t *work;              /* borrowed: what is left of the request's budget */
    uint32_t *rule_slots;        /* owned: rules by their parts, index + 1; 0 is free */
    uint32_t rule_slot_count;    /* a power of two, more than twice the rules; or 0 */
    const struct lr_json *root;  /* of the schema that is being compiled: where $ref looks */
    const struct lr_json *place; /* the part of it that is being compiled: for messages */
    uint32_t draft;              /* that the root is written in */
    struct lr_error *err;
    lr_code code;
    const char *subject;               /* "schema", ...: what is compiled, for messages */
    uint32_t checked_from, checked_to; /* steps known not to lead back to themselves */
    bool lenient;                      /* what is not supported is overlooked */
    bool strict;                       /* objects are closed unless they say otherwise */
    uint32_t fit_depth;                /* of values that are validated */
    struct built_dfa *dfas;
    const struct dfa *any_dfa;
    struct grammar_anchor *anchors; /* of the root, once they are wanted */
    uint32_t anchor_count;
    const struct lr_json *anchored; /* the root they are of */
    uint32_t rule_any;              /* rules of ours, once they are wanted */
    uint32_t rule_number;
    uint32_t rule_integer;
    uint32_t path_len;
    char path[160]; /* position in the schema, for messages */
};

lr_code grammar_fail(struct grammar_build *b, lr_code code, const char *fmt, ...)
    LR_PRINTF(3, 4);

/* ---- build.c ---- */
uint32_t grammar_step(struct grammar_build *b, enum grammar_op op, uint32_t next,
                      uint32_t other);
uint32_t grammar_byte(struct grammar_build *b, char low, char high, uint32_t next);
uint32_t grammar_literal(struct grammar_build *b, struct lr_str text, uint32_t next);
uint32_t grammar_fork(struct grammar_build *b, uint32_t one, uint32_t two);
uint32_t grammar_space(struct grammar_build *b, uint32_t next);
uint32_t grammar_token(struct grammar_build *b, enum grammar_control control, uint32_t next);
/* The same for a control token that the vocabulary may lack; then nothing comes this way. */
uint32_t grammar_token_if_any(struct grammar_build *b, enum grammar_control control,
                              uint32_t next);
/* The control token of this name; nothing comes this way where the vocabulary has none. */
uint32_t grammar_named(struct grammar_build *b, struct lr_str name, uint32_t next);
/* Any text, followed by `next`, up to the mark, followed by `found`.  An empty mark: up to the
 * byte `first`, which only blanks precede. */
uint32_t grammar_until(struct grammar_build *b, struct lr_str mark, char first, uint32_t next,
                       uint32_t found);
/* Sets a loop's branch, because the fork is made before its target. */
void grammar_patch(struct grammar_build *b, uint32_t fork, uint32_t one, uint32_t two);
uint32_t grammar_rule_add(struct grammar_build *b, const struct schema_part *parts,
                          uint32_t count);
uint32_t grammar_never(struct grammar_build *b);
uint32_t grammar_dfa(struct grammar_build *b, const struct dfa *dfa, enum dfa_spelling spelling,
                     uint32_t next);
uint32_t grammar_key(struct grammar_build *b, const struct dfa *dfa, const struct lr_str *taken,
                     uint32_t count, uint32_t next);
uint32_t grammar_check(struct grammar_build *b, const struct grammar_check *check,
                       uint32_t next);
uint32_t grammar_add(struct grammar_build *b, const struct grammar_name *name, uint32_t next);
uint32_t grammar_chars(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next);
/* Takes from the budget; false: it is used up, and the build has failed. */
bool grammar_charge(struct grammar_build *b, uint32_t work);
uint32_t grammar_call(struct grammar_build *b, uint32_t rule, uint32_t next);

/* One of several texts, each with its own next step.  Sorts the list. */
struct grammar_choice {
    struct lr_str text;
    uint32_t next;
};
uint32_t grammar_choose(struct grammar_build *b, struct grammar_choice *list, size_t count);

/* Computes heights and checks the whole program: every rule can end, and no rule begins with
 * itself. */
LR_MUST_USE lr_code grammar_finish(struct grammar_build *b);

/* ---- call_depth.c ---- */
/* Computes the height of every step; false: no memory. */
LR_MUST_USE bool grammar_measure(struct grammar_program *p);

/* ---- values.c: JSON without a schema ---- */
uint32_t grammar_string(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next);
uint32_t grammar_number(struct grammar_build *b, uint32_t next);
uint32_t grammar_integer(struct grammar_build *b, uint32_t next);
uint32_t grammar_any(struct grammar_build *b, uint32_t next);
uint32_t grammar_any_object(struct grammar_build *b, uint32_t next);
uint32_t grammar_any_rule(struct grammar_build *b);

/* ---- ranges.c: numbers within bounds ---- */
struct grammar_bounds {
    int64_t low, high;
    bool has_low, has_high;
    bool low_open, high_open; /* numbers only: the bound itself is excluded */
};
uint32_t grammar_integer_within(struct grammar_build *b, const struct grammar_bounds *bounds,
                                uint32_t next);
uint32_t grammar_number_within(struct grammar_build *b, const struct grammar_bounds *bounds,
                               uint32_t next);

/* ---- ref.c ---- */
/* The schema that a $ref (its value) names; NULL: nowhere, and the build has failed. */
const struct lr_json *grammar_resolve(struct grammar_build *b, const struct lr_json *ref);

/* ---- schema.c ---- */
/* A schema on its own, with all its rules.  object: of its values the objects. */
uint32_t grammar_schema_whole(struct grammar_build *b, const struct lr_json *schema,
                              bool object, uint32_t next);

/* A part of a schema, whose references lead into `root`. */
uint32_t grammar_schema_value(struct grammar_build *b, const struct lr_json *root,
                              const struct lr_json *schema, uint32_t next);

/* Appends one level to the path for messages; restoring path_len goes back. */
uint32_t grammar_enter(struct grammar_build *b, const char *word, struct lr_str name);
void grammar_leave(struct grammar_build *b, uint32_t mark);

#endif
