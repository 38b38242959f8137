/* jinja/iter.h - iterating over values, and the lazy values that filters return. */
#ifndef JINJA_ITER_H
#define JINJA_ITER_H

#include "jinja/builtins.h"
#include "jinja/value.h"

enum iterator_kind {
    ITER_EMPTY,
    ITER_ITEMS, /* of a list or tuple */
    ITER_BACKWARDS,
    ITER_TEXT,
    ITER_DICT, /* keys, values or items, by source.view */
    ITER_RANGE,
    ITER_OTHER,    /* through `inner`, which keeps the position */
    ITER_MAP,      /* lazy->apply to each */
    ITER_SELECT,   /* those for which lazy->apply is true */
    ITER_DEFERRED, /* lazy->make is called at the first step and returns a list */
    ITER_CHOSEN,   /* those of a for loop that pass its condition */
};

struct lazy;

struct iterator {
    enum iterator_kind kind;
    size_t at;
    struct value source;
    struct iterator *inner;
    struct lazy *lazy;
};

/* The arguments of a lazy filter. */
struct lazy {
    struct value source;
    struct iterator inner;
    bool started;
    bool negated;
    struct value attribute; /* K_MISSING: the item itself */
    struct value fallback;
    struct value name; /* filter or test; K_MISSING: none */
    struct call call;
    struct value (*make)(struct run *run, struct lazy *lazy);
    struct value args[2];
    /* ITER_CHOSEN */
    const struct node *node;
    struct activation *scope;
};

/* False with a TypeError when v is not iterable. */
bool jinja_iterate(struct run *run, struct value v, struct iterator *out);
bool jinja_can_iterate(struct value v);
/* K_MISSING at the end. */
struct value jinja_next(struct run *run, struct iterator *it);
/* list(v) */
struct list *jinja_to_list(struct run *run, struct value v);
struct value jinja_lazy(struct run *run, enum iterator_kind kind, const struct lazy *lazy);

/* The `loop` of a for statement. */
struct loop {
    struct iterator it;
    struct value source;
    bool has_length;
    size_t length;
    int64_t index0;
    struct value after, current, before, changed;
    int64_t depth0;
    const struct node *node;  /* recursive loops: the loop to call */
    struct activation *scope; /* and its scope */
};

struct value jinja_loop_next(struct run *run, struct loop *loop);
bool jinja_loop_length(struct run *run, struct loop *loop, size_t *out);
struct value jinja_loop_attr(struct run *run, struct loop *loop, struct lr_str name);
void jinja_write_macro_name(struct run *run, const struct macro *macro);

#endif
