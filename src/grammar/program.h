/* grammar/program.h - what a constraint is compiled into (internal).
 *
 * A program is a graph of steps.  Those that consume something name the step after it; forks
 * go both ways at once; calls run a rule and return, which is how values nest.  Programs are
 * built from their end: every function here takes the step that follows and gives the step to
 * begin with.
 */
#ifndef GRAMMAR_PROGRAM_H
#define GRAMMAR_PROGRAM_H

#include "base/arena.h"
#include "grammar/grammar.h"

enum grammar_op {
    GRAMMAR_BYTE,    /* a byte from low to high */
    GRAMMAR_TEXT,    /* any byte */
    GRAMMAR_CHAR,    /* a character of a JSON string; other: how many may come, with this one */
    GRAMMAR_SPACE,   /* nothing, one blank, or a line break and its indentation */
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
    GRAMMAR_STOP, /* whichever token ends an answer of this model */
    GRAMMAR_CONTROL_COUNT,
};

#define GRAMMAR_UNBOUNDED UINT32_MAX /* of GRAMMAR_CHAR, and of lengths */
#define GRAMMAR_NO_RULE   UINT32_MAX

struct grammar_step {
    uint8_t op;
    uint8_t low;
    uint8_t high;
    uint8_t height; /* least depth of calls from here to the rule's end */
    uint32_t next;
    uint32_t other;
};

struct grammar_rule {
    uint32_t entry;
    const struct lr_json *schema; /* borrowed while compiling; NULL: one of ours */
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

/* A program in the making.  The first failure sticks; steps are 0 from then on. */
struct grammar_build {
    struct grammar_program *program;
    uint32_t *work;             /* borrowed: what is left of the request's budget */
    uint32_t *rule_slots;       /* owned: rules by their schema, index + 1; 0 is free */
    const struct lr_json *root; /* of the schema that is being compiled: where $ref looks */
    struct lr_error *err;
    lr_code code;
    bool lenient;      /* overlook keywords that are not offered */
    uint32_t rule_any; /* rules of ours, once they are wanted */
    uint32_t rule_number;
    uint32_t rule_integer;
    uint32_t path_len;
    char path[160]; /* where in the schema we are, for messages */
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
/* A loop's fork is made before what it leads to. */
void grammar_patch(struct grammar_build *b, uint32_t fork, uint32_t one, uint32_t two);
uint32_t grammar_rule_add(struct grammar_build *b, const struct lr_json *schema);
/* The rule of a schema that several places refer to: made where there is none. */
uint32_t grammar_rule_of(struct grammar_build *b, const struct lr_json *schema);
/* Takes from the budget; false: it is used up, and the build has failed. */
bool grammar_charge(struct grammar_build *b, uint32_t work);
uint32_t grammar_call(struct grammar_build *b, uint32_t rule, uint32_t next);

/* One of several texts, each with a step of its own to follow.  Sorts the list. */
struct grammar_choice {
    struct lr_str text;
    uint32_t next;
};
uint32_t grammar_choose(struct grammar_build *b, struct grammar_choice *list, size_t count);

/* Heights, and the checks that need the whole program: every rule can end, and none begins
 * with itself. */
LR_MUST_USE lr_code grammar_finish(struct grammar_build *b);

/* ---- heights.c ---- */
/* The height of every step; false without memory. */
LR_MUST_USE bool grammar_measure(struct grammar_program *p);

/* ---- values.c: JSON without a schema ---- */
uint32_t grammar_string(struct grammar_build *b, uint32_t min, uint32_t max, uint32_t next);
uint32_t grammar_number(struct grammar_build *b, uint32_t next);
uint32_t grammar_integer(struct grammar_build *b, uint32_t next);
uint32_t grammar_any(struct grammar_build *b, uint32_t next);
uint32_t grammar_any_object(struct grammar_build *b, uint32_t next);
uint32_t grammar_any_array(struct grammar_build *b, uint32_t next);
/* "key": value, ... in braces; `value` is the rule of the values. */
uint32_t grammar_map(struct grammar_build *b, uint32_t value, uint32_t next);

/* ---- ranges.c: numbers within bounds ---- */
struct grammar_bounds {
    int64_t low, high;
    bool has_low, has_high;
    bool low_open, high_open; /* numbers only: the bound itself is left out */
};
uint32_t grammar_integer_within(struct grammar_build *b, const struct grammar_bounds *bounds,
                                uint32_t next);
uint32_t grammar_number_within(struct grammar_build *b, const struct grammar_bounds *bounds,
                               uint32_t next);

/* ---- formats.c ---- */
/* A string of a format that is known by this name; false: it is not. */
bool grammar_format(struct grammar_build *b, struct lr_str name, uint32_t next, uint32_t *out);

/* ---- ref.c ---- */
/* The schema a $ref names; NULL: nowhere, and the build has failed. */
const struct lr_json *grammar_resolve(struct grammar_build *b, struct lr_str ref);

/* ---- exclusive.c ---- */
/* Fails the build unless no value can fit two of the schemas, which is what "oneOf" demands. */
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
/* A value that fits the schema; rules it refers to are compiled by grammar_schema_whole. */
uint32_t grammar_schema(struct grammar_build *b, const struct lr_json *schema, uint32_t next);
/* A schema on its own: sets the root, and compiles what is left of its rules. */
uint32_t grammar_schema_whole(struct grammar_build *b, const struct lr_json *schema,
                              uint32_t next);
/* ---- object.c ---- */
uint32_t grammar_object(struct grammar_build *b, const struct lr_json *schema, uint32_t next);
uint32_t grammar_array(struct grammar_build *b, const struct lr_json *schema, uint32_t next);

/* Goes one level down in messages, and back up by restoring path_len. */
uint32_t grammar_enter(struct grammar_build *b, const char *word, struct lr_str name);
void grammar_leave(struct grammar_build *b, uint32_t mark);

#endif
