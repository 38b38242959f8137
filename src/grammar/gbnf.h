/* grammar/gbnf.h - grammars in llama.cpp's notation GBNF, as trees (internal).
 *
 *   root ::= "[" (item ("," item)*)? "]"   # the answer
 *   item ::= [0-9]{1,3} | root
 *
 * gbnf.c reads the text, gbnf_check.c looks at all rules together, gbnf_compile.c makes steps
 * of them.  Parts of a grammar that do not recurse become automata (dfa.h), as the patterns of
 * strings do.  Only a rule that calls itself needs the matcher's calls.
 */
#ifndef GRAMMAR_GBNF_H
#define GRAMMAR_GBNF_H

#include "grammar/program.h"

enum {
    GBNF_NODES_MAX = 1 << 16,
    GBNF_DEPTH_MAX = 100, /* of parentheses */
    GBNF_FLAT_MAX = 1000, /* characters of a part that may become one automaton */
};

enum gbnf_op {
    GBNF_NONE,   /* node 0: there is no such node */
    GBNF_TEXT,   /* exactly this */
    GBNF_SET,    /* one character */
    GBNF_RULE,   /* what rule `rule` says */
    GBNF_ALL,    /* the nodes below, one after the other */
    GBNF_ANY,    /* one of the nodes below */
    GBNF_REPEAT, /* the node below, min to max times */
};

struct gbnf_node {
    uint8_t op;
    bool may_be_empty;
    bool is_left;   /* of GBNF_RULE: the rule around it may begin with it */
    bool is_flat;   /* without recursion, and of GBNF_FLAT_MAX characters at most */
    bool wants_dfa; /* it has a loop or a class of many characters */
    uint32_t above; /* the node around it; 0: the node is the whole rule */
    uint32_t below; /* the first of the nodes inside */
    uint32_t next;  /* the node after it, inside of the same node */
    uint32_t count; /* of nodes below */
    uint32_t min, max;
    uint32_t rule;  /* that it is a part of */
    uint32_t uses;  /* of GBNF_RULE: the rule that is meant */
    uint32_t again; /* of GBNF_RULE: another node that means the same rule; 0: none */
    uint32_t size;  /* characters, once it is flat */
    uint32_t at;    /* where in the text it is */
    union {
        struct lr_str text;   /* of GBNF_TEXT: UTF-8 */
        struct regex_set set; /* of GBNF_SET */
    };
    const struct regex *tree; /* of a flat node, once it is wanted */
};

struct gbnf_rule {
    struct lr_str name;
    uint32_t at;   /* where it is defined, or first used */
    uint32_t node; /* 0: it is not defined */
    uint32_t used; /* a node that means it; 0: none */
    bool is_called;
    uint32_t number; /* of the program's rule, once it is called */
    uint32_t entry;  /* the step that it begins with */
};

struct gbnf {
    struct grammar_build *b;
    struct lr_str text;
    struct gbnf_node *nodes; /* of the build's arena, as the others */
    uint32_t count, capacity;
    struct gbnf_rule *rules;
    uint32_t rule_count, rule_capacity;
    uint32_t *slots; /* of rules by name: index + 1 */
    uint32_t root;
    uint32_t over;   /* the step that ends a rule */
    uint32_t *calls; /* rules that are called, in the order of their first calls */
    uint32_t call_count;
};

/* Fails with the line and the column of a byte of the text. */
void grammar_gbnf_fail(struct gbnf *g, uint32_t at, lr_code code, const char *fmt, ...)
    LR_PRINTF(4, 5);

/* Reads the text into g->rules.  False: the build has failed. */
bool grammar_gbnf_parse(struct gbnf *g);

/* Finds out which nodes may be empty and which are flat; refuses left recursion. */
bool grammar_gbnf_check(struct gbnf *g);

#endif
