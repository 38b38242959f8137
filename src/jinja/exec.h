/* jinja/exec.h - the interpreter: statements, expressions, calls. */
#ifndef JINJA_EXEC_H
#define JINJA_EXEC_H

#include "jinja/ast.h"
#include "jinja/builtins.h"
#include "jinja/run.h"

enum flow {
    FLOW_ON,
    FLOW_FAIL,
    FLOW_BREAK,
    FLOW_CONTINUE,
};

/* Writes to the sink. */
enum flow jinja_exec(struct run *run, struct activation *act, const struct body *body);

struct value jinja_eval(struct run *run, struct activation *act, const struct node *n);
/* The same; faster for typical conditions. */
struct value jinja_eval_test(struct run *run, struct activation *act, const struct node *n);
/* Writes str() of the expression to the sink without creating a text first. */
bool jinja_emit(struct run *run, struct activation *act, const struct node *n);

/* Assigns to a name, a tuple of names, or an attribute of a namespace. */
bool jinja_assign(struct run *run, struct activation *act, const struct node *target,
                  struct value v);
bool jinja_enter_frame(struct run *run, struct activation *act, const struct frame_plan *plan);
struct activation *jinja_new_activation(struct run *run, struct activation *parent,
                                        uint32_t slot_count);

/* True when `item` passes the condition of this for loop. */
bool jinja_choose(struct run *run, struct activation *act, const struct node *loop,
                  struct value item, bool *out);

/* Renders a recursive loop over `items` and returns its text. */
struct value jinja_recurse(struct run *run, struct activation *scope, const struct node *loop,
                           struct value items, int64_t depth0);

/* ---- call.c ---- */
enum { SMALL_CALL = 8 };

struct call_room { /* memory for the arguments of an ordinary call */
    struct value positional[SMALL_CALL];
    struct value keyword[SMALL_CALL];
    struct text *names[SMALL_CALL];
};

/* `caller`, if given, is passed as an additional keyword. */
bool jinja_eval_args(struct run *run, struct activation *act, const struct args *args,
                     struct value caller, struct call_room *room, struct call *out);
/* Runs a macro; its output stays in the sink. */
bool jinja_run_macro(struct run *run, const struct macro *macro, const struct call *call);
struct value jinja_call_macro(struct run *run, const struct macro *macro,
                              const struct call *call);
bool jinja_run_block(struct run *run, const struct block_info *block);

/* ---- context.c ---- */
struct value jinja_resolve(struct run *run, const struct text *name); /* K_MISSING: not found */
bool jinja_load_context(struct run *run);

#endif
