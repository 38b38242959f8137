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
#include "grammar/grammar.h"

enum grammar_op {
    GRAMMAR_BYTE,  /* a byte from low to high */
    GRAMMAR_TEXT,  /* any byte */
    GRAMMAR_CHAR,  /* a character of a JSON string; other: how many may come, this one included
                    */
    GRAMMAR_SPACE, /* nothing, one blank, or a line break and its indentation */
    GRAMMAR_CONTROL, /* the control token `low` */
    GRAMMAR_FORK,    /* next or other */
    GRAMMAR_CALL,    /* rule `other`, then next */
    GRAMMAR_RETURN,
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

#define GRAMMAR_UNBOUNDED UINT32_MAX /* of GRAMMAR_CHAR, and of lengths */
#define GRAMMAR_NO_RULE   UINT32_MAX

struct grammar_step {
    uint8_t op;
    uint8_t low;
    uint8_t high;
    uint8_t height; /* least call depth from here to the rule's end */
    uint32_t next;
    uint32_t other;
};

struct grammar_rule {
    uint32_t entry;
    const struct lr_json *schema; /* borrowed while compiling; NULL: a built-in rule */
};

struct grammar_program {
    struct grammar_step *steps; /* owned */
    uint32_t count;
    uint32_t capacity;
    struct grammar_rule *rules; /* owned */
    uint32_t rule_count;
    uint32_t rule_capacity;
    uint32_t start;
    uint32_t controls; /* bit per enum grammar_control that is used */
};

/* A program while it is built.  After the first failure all steps are 0. */
struct grammar_build {
    struct grammar_program *program;
    uint32_t *work;             /* borrowed: the rest of the request's budget */
    uint32_t *rule_slots;       /* owned: rules by their schema, index + 1; 0 is free */
    const struct lr_json *root; /* root of the current schema, for $ref */
    struct lr_error *err;
    lr_code code;
    bool lenient;      /* ignore keywords that are not supported */
    uint32_t rule_any; /* built-in rules, created on demand */
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
/* Sets a loop's branch, because the fork is made before its target. */
void grammar_patch(struct grammar_build *b, uint32_t fork, uint32_t one, uint32_t two);
uint32_t grammar_rule_add(struct grammar_build *b, const struct lr_json *schema);
/* The rule of a schema that several places refer to; created on the first call. */
uint32_t grammar_rule_of(struct grammar_build *b, const struct lr_json *schema);
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

/* ---- heights.c ---- */
/* Computes the height of every step; false: no memory. */
LR_MUST_USE bool grammar_measure(struct grammar_program *p);

/* ---- values.c: JSON without a schema ---- */
uint32_t grammar_string(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next);
uint32_t grammar_number(struct grammar_build *b, uint32_t next);
uint32_t grammar_integer(struct grammar_build *b, uint32_t next);
uint32_t grammar_any(struct grammar_build *b, uint32_t next);
uint32_t grammar_any_object(struct grammar_build *b, uint32_t next);
uint32_t grammar_any_array(struct grammar_build *b, uint32_t next);
/* { "key": value, ... }; `value` is the rule of the values. */
uint32_t grammar_map(struct grammar_build *b, uint32_t value, uint32_t next);

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

/* ---- formats.c ---- */
/* A string of a named format; false: unknown name. */
bool grammar_format(struct grammar_build *b, struct lr_str name, uint32_t next, uint32_t *out);

/* ---- ref.c ---- */
/* The schema that a $ref names; NULL: not found, and the build has failed. */
const struct lr_json *grammar_resolve(struct grammar_build *b, struct lr_str ref);

/* ---- exclusive.c ---- */
/* Fails the build if a value could match two of the schemas, which "oneOf" forbids. */
void grammar_check_exclusive(struct grammar_build *b, const struct lr_json *list);

/* ---- schema.c ---- */
enum { /* types, as bits */
       GRAMMAR_NULL = 1,
       GRAMMAR_BOOL = 2,
       GRAMMAR_INTEGER = 4,
       GRAMMAR_NUMBER = 8,
       GRAMMAR_STRING = 16,
       GRAMMAR_ARRAY = 32,
       GRAMMAR_OBJECT = 64,
       GRAMMAR_ANY = 127,
};
uint32_t grammar_types_of(struct grammar_build *b, const struct lr_json *schema);
/* A value that matches the schema; its rules are compiled by grammar_schema_whole. */
uint32_t grammar_schema(struct grammar_build *b, const struct lr_json *schema, uint32_t next);
/* A whole schema: sets the root and compiles the remaining rules. */
uint32_t grammar_schema_whole(struct grammar_build *b, const struct lr_json *schema,
                              uint32_t next);
/* ---- object.c ---- */
uint32_t grammar_object(struct grammar_build *b, const struct lr_json *schema, uint32_t next);
uint32_t grammar_array(struct grammar_build *b, const struct lr_json *schema, uint32_t next);

/* Appends one level to the path for messages; restoring path_len goes back. */
uint32_t grammar_enter(struct grammar_build *b, const char *word, struct lr_str name);
void grammar_leave(struct grammar_build *b, uint32_t mark);

#endif
