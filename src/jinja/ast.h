/* jinja/ast.h - a compiled template.
 *
 * Built once by the parser and scope.c, then read-only.  Names are resolved to slots at compile
 * time, by the same rules as Jinja2's compiler, so that a lookup while rendering takes two
 * loads.
 */
#ifndef JINJA_AST_H
#define JINJA_AST_H

#include "base/arena.h"
#include "jinja/text.h"
#include "jinja/value.h"

enum node_kind {
    /* expressions */
    N_CONST, /* value */
    N_NAME,  /* name, ref */
    N_TUPLE, /* list */
    N_LIST,
    N_DICT, /* list: key, value, key, value... */
    N_NOT,
    N_NEG,
    N_POS,
    N_AND,
    N_OR,
    N_ADD,
    N_SUB,
    N_MUL,
    N_DIV,
    N_FLOORDIV,
    N_MOD,
    N_POW,
    N_CONCAT,  /* list */
    N_COMPARE, /* a, list of right sides, ops */
    N_COND,    /* a ? b : c, c may be NULL */
    N_ATTR,    /* a . name */
    N_ITEM,    /* a [ b ] */
    N_SLICE,   /* a, b, c: each may be NULL; only as b of N_ITEM */
    N_CALL,    /* a ( args ) */
    N_FILTER,  /* a | name ( args ); a NULL: the text of the block */
    N_TEST,    /* a is name ( args ) */
    N_NSREF,   /* target only: name.attribute */
    /* statements */
    N_DATA,         /* value */
    N_OUTPUT,       /* a */
    N_IF,           /* a, body, other */
    N_FOR,          /* a = target, b = iterable, c = condition, body, other */
    N_SET,          /* a = b */
    N_SET_BLOCK,    /* a, b = filter or NULL, body */
    N_MACRO,        /* name, ref, macro */
    N_CALL_BLOCK,   /* a = call, macro */
    N_FILTER_BLOCK, /* a = filter, body */
    N_WITH,         /* list: target, value..., body */
    N_SCOPE,        /* body */
    N_BLOCK,        /* name, body */
    N_BREAK,
    N_CONTINUE,
    N_REFUSED, /* include, import, extends: value = the error when it is reached */
};

enum compare_op {
    CMP_EQ,
    CMP_NE,
    CMP_LT,
    CMP_LE,
    CMP_GT,
    CMP_GE,
    CMP_IN,
    CMP_NOT_IN,
};

/* A variable: `up` activations outwards, slot `slot`. */
struct ref {
    uint32_t up;
    uint32_t slot;
};

struct body {
    struct node **items;
    size_t count;
};

struct args {
    struct node **positional;
    struct node **keyword;
    struct text **keyword_names;
    uint32_t positional_count, keyword_count;
    struct node *star, *double_star;
};

/* The initial value of a frame's variable. */
enum load_how {
    LOAD_PARAMETER, /* set by the code that enters the frame */
    LOAD_UNDEFINED,
    LOAD_ALIAS,   /* the outer variable's value */
    LOAD_RESOLVE, /* looked up in the context */
};

struct load {
    enum load_how how;
    uint32_t slot;
    struct ref outer;
    const struct text *name;
};

struct frame_plan {
    struct load *loads;
    size_t count;
};

/* The frames of a for loop; a recursive loop has its own activation. */
struct for_info {
    struct frame_plan body_frame, other_frame, test_frame;
    bool uses_loop, recursive;
    bool search; /* see search_loop.c */
    struct ref loop;
    uint32_t slot_count; /* of the activation, when recursive */
    struct node *test_target;
};

struct macro_info {
    struct text *name; /* NULL: the body of a call block */
    struct node **params;
    struct node **defaults; /* of the last default_count params */
    uint32_t param_count, default_count;
    struct body body;
    struct frame_plan frame;
    uint32_t slot_count;
    bool uses_caller, uses_kwargs, uses_varargs;
    bool has_caller_param; /* declared in the signature */
    uint32_t caller_slot, kwargs_slot, varargs_slot;
};

struct node {
    uint8_t kind;
    uint8_t op; /* N_COMPARE: its only operator, if count is 1 */
    bool plain; /* N_ATTR: no method or guarded name, so for a dict always the key */
    uint32_t line;
    struct ref ref;
    struct node *a, *b, *c;
    struct node **list;
    uint32_t count;
    struct value value;
    struct text *name;
    union {
        struct args *args;
        struct body body;
        const uint8_t *ops;
    };
    struct body other;
    union {
        struct for_info *loop;
        struct macro_info *macro;
        struct frame_plan *frame;
        const struct builtin_row *filter; /* NULL: unknown filter, an error when reached */
        const struct builtin_row *test;
    };
};

struct block_info {
    struct text *name;
    struct node *node;
    uint32_t slot_count;
    struct frame_plan frame;
};

/* A name that the template sets at its top level; visible in blocks. */
struct export
{
    const struct text *name;
    uint32_t slot;
};

struct jinja_template {
    struct lr_arena arena;   /* everything below */
    struct text_table names; /* names and short literals, shared with the data */
    struct body body;
    struct frame_plan frame;
    uint32_t slot_count;
    struct block_info *blocks;
    size_t block_count;
    struct export *exports;
    size_t export_count;
};

#endif
