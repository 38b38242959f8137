/* jinja/parse.h - from tokens to the tree.
 *
 * Recursive descent; jinja_enter limits the depth.  After a failure every function returns NULL
 * (or false) at once, and the first message is kept.
 */
#ifndef JINJA_PARSE_H
#define JINJA_PARSE_H

#include "jinja/ast.h"
#include "jinja/lexer.h"

struct parser {
    struct run *run;
    struct text_table *names; /* the template's */
    struct lexer lexer;
    struct token current;
    struct token ahead;
    bool has_ahead;
    /* How often these names were read so far: a construct compares the numbers before and
     * after. */
    size_t loop_loads, loop_stores, caller_loads, kwargs_loads, varargs_loads;
    size_t loop_depth; /* of for bodies that contain this place, for break and continue */
    struct node **blocks;
    size_t block_count, block_capacity;
};

enum {
    MAX_NAMED_ARGS = 255, /* of one call or macro */
    MAX_BLOCKS = 255,
};

/* A growing list of nodes in the arena. */
struct node_list {
    struct node **items;
    size_t count, capacity;
};

bool jinja_push_node(struct parser *p, struct node_list *list, struct node *node);

bool jinja_parse_body(struct parser *p, struct body *out);

/* ---- shared helpers ---- */
void jinja_advance(struct parser *p);
struct token *jinja_look(struct parser *p);
bool jinja_at_name(const struct parser *p, const char *name);
bool jinja_skip_kind(struct parser *p, enum token_kind kind);
bool jinja_skip_name(struct parser *p, const char *name);
bool jinja_expect(struct parser *p, enum token_kind kind, const char *what);
struct node *jinja_node(struct parser *p, enum node_kind kind, uint32_t line);
struct node *jinja_syntax_error(struct parser *p, const char *what);
struct text *jinja_token_text(struct parser *p, struct lr_str s);

/* ---- parse_operand.c ---- */
/* NULL when either side is NULL. */
struct node *jinja_binary_node(struct parser *p, enum node_kind kind, struct node *a,
                               struct node *b, uint32_t line);
/* Parses an optional sign, an operand and its postfixes; with_filter: filters and tests too. */
struct node *jinja_parse_unary(struct parser *p, bool with_filter);

/* ---- parse_expr.c ---- */
struct node *jinja_parse_expression(struct parser *p, bool with_condition);
enum {
    TUPLE_TARGETS = 1,   /* names and literals only */
    TUPLE_NAMESPACE = 2, /* and name.attribute */
    TUPLE_NO_COND = 4,   /* no inline if */
    TUPLE_END_IN = 8,    /* `in` ends the tuple */
    TUPLE_END_RECURSIVE = 16,
    TUPLE_PARENTHESES = 32, /* may be empty */
};
struct node *jinja_parse_tuple(struct parser *p, unsigned flags);
struct node *jinja_parse_target(struct parser *p, unsigned flags);
struct node *jinja_parse_name_target(struct parser *p);
struct node *jinja_parse_filter(struct parser *p, struct node *node, bool start_inline);

#endif
