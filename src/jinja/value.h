/* jinja/value.h - the values of a template: Python's values, and the origin of text.
 *
 * A value has 16 bytes.  The memory it points to lives in the arena of the template (constants)
 * or of the run (everything else) and is freed with it.  All values except namespaces,
 * iterators, loops, cyclers and joiners are immutable, as in the sandbox; but a list that the
 * template made can be appended to, because published templates do so.
 *
 * Text is flat UTF-8.  It is trusted, untrusted, or mixed; a mixed text shares a struct
 * text_store with the borders.  A text at the end of its store is appended to in place, so that
 * building a prompt with `a = a + b` takes linear time.
 */
#ifndef JINJA_VALUE_H
#define JINJA_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"

struct run;
struct node;
struct activation;

enum kind {
    K_FAIL,    /* an error; its text is in the run */
    K_MISSING, /* no value: a missing argument, an unset name */
    K_UNDEFINED,
    K_NONE,
    K_BOOL,
    K_INT,
    K_BIG, /* an integer over 64 bits: its digits, which can only be printed */
    K_FLOAT,
    K_TEXT,
    K_LIST,
    K_TUPLE,
    K_DICT,
    K_VIEW, /* dict.keys(), values(), items() */
    K_RANGE,
    K_SLICE, /* only inside a subscript */
    K_NAMESPACE,
    K_ITERATOR,
    K_LOOP,
    K_MACRO,
    K_FUNCTION, /* a global such as range */
    K_METHOD,   /* bound to its object */
    K_CYCLER,
    K_JOINER,
    K_BLOCKS, /* `self`: integer 0; one of its blocks: the block's number + 1 */
};

enum trust {
    UNTRUSTED,
    TRUSTED,
    MIXED,
};

/* Where a run of one trust begins, relative to the store's first byte. */
struct span {
    size_t start;
    bool trusted;
};

struct text_store {
    char *data;
    size_t used, capacity;
    struct span *spans; /* none while all texts of the store have the same trust */
    size_t span_count, span_capacity;
};

struct text {
    const char *ptr;
    size_t len;
    size_t chars; /* code points; SIZE_MAX until counted */
    enum trust trust;
    bool markup;              /* marked `safe`: text added to it is HTML-escaped */
    uint32_t hash;            /* 0 until computed */
    struct text_store *store; /* NULL for a plain slice of one trust */
};

struct list_store;

struct value {
    uint8_t kind;
    bool untrusted; /* for everything except text: computed from untrusted data */
    uint8_t view;   /* K_VIEW: 'k', 'v' or 'i' */
    bool named;     /* K_TUPLE: a group, with .grouper and .list */
    uint32_t tag;   /* K_TEXT: length and first byte; texts with different tags differ */
    union {
        bool boolean;
        int64_t integer;
        double real;
        struct text *text; /* K_TEXT, K_BIG */
        struct list *list; /* K_LIST, K_TUPLE */
        struct dict *dict; /* K_DICT, K_VIEW, K_NAMESPACE */
        struct range *range;
        struct iterator *iterator;
        struct loop *loop;
        struct macro *macro;
        struct method *method;
        struct undefined *undefined; /* NULL: no details */
        struct cycler *cycler;
        const struct builtin_row *function;
    };
};

struct list {
    struct value *items;
    size_t count;
    struct list_store *store; /* NULL: cannot be appended to in place */
    bool is_given;            /* of the input, which never changes */
};

struct list_store {
    struct value *items;
    size_t used, capacity;
};

struct dict_entry {
    struct value key;
    struct value value;
};

/* Insertion order; long dictionaries have an index. */
struct dict {
    struct dict_entry *entries;
    size_t count, capacity;
    uint32_t *index; /* entry number + 1, open addressing; NULL while short */
    size_t index_size;
};

struct range {
    int64_t start, stop, step;
    int64_t count;
};

struct undefined {
    const char *hint;        /* the whole message, or NULL */
    const char *object_type; /* type without that attribute; NULL: a plain name */
    struct value name;
};

struct method {
    struct value self;
    const struct builtin_row *row;
};

struct cycler { /* also a joiner: items[0] is the separator */
    struct list items;
    size_t at;
};

struct macro {
    const struct node *node;
    struct activation *scope; /* of the definition */
};

static inline struct value value_of_kind(enum kind kind)
{
    return (struct value){.kind = (uint8_t)kind};
}

#define V_FAIL      value_of_kind(K_FAIL)
#define V_MISSING   value_of_kind(K_MISSING)
#define V_NONE      value_of_kind(K_NONE)
#define V_UNDEFINED value_of_kind(K_UNDEFINED)

static inline struct value value_bool(bool b)
{
    return (struct value){.kind = K_BOOL, .boolean = b};
}

static inline struct value value_int(int64_t i)
{
    return (struct value){.kind = K_INT, .integer = i};
}

static inline struct value value_float(double d)
{
    return (struct value){.kind = K_FLOAT, .real = d};
}

static inline struct value value_text(struct text *t)
{
    if (t == NULL)
        return V_FAIL;
    uint32_t first = t->len > 0 ? (unsigned char)t->ptr[0] : 0;
    return (struct value){.kind = K_TEXT,
                          .untrusted = t->trust != TRUSTED,
                          .tag = (uint32_t)t->len << 8 | first,
                          .text = t};
}

static inline struct value value_list(enum kind kind, struct list *list)
{
    if (list == NULL)
        return V_FAIL;
    return (struct value){.kind = (uint8_t)kind, .list = list};
}

static inline struct value value_dict(struct dict *dict)
{
    if (dict == NULL)
        return V_FAIL;
    return (struct value){.kind = K_DICT, .dict = dict};
}

static inline bool is_fail(struct value v)
{
    return v.kind == K_FAIL;
}

static inline bool is_given(struct value v)
{
    return v.kind != K_MISSING;
}

static inline bool is_integral(struct value v) /* includes bool, like Python */
{
    return v.kind == K_INT || v.kind == K_BOOL;
}

static inline bool is_number(struct value v)
{
    return is_integral(v) || v.kind == K_FLOAT;
}

static inline int64_t integer_of(struct value v)
{
    return v.kind == K_BOOL ? (int64_t)v.boolean : v.integer;
}

static inline double real_of(struct value v)
{
    return v.kind == K_FLOAT ? v.real : (double)integer_of(v);
}

static inline struct value tainted(struct value v, bool untrusted)
{
    v.untrusted = v.untrusted || untrusted;
    return v;
}

static inline struct lr_str text_str(const struct text *t)
{
    return lr_str(t->ptr, t->len);
}

/* ---- value.c ---- */
const char *jinja_type_name(struct value v); /* "str", "NoneType"... */
bool jinja_truth_of(struct value v);

static inline bool jinja_truth(struct value v)
{
    return v.kind == K_BOOL ? v.boolean : jinja_truth_of(v);
}

/* Python's ==.  *out is set; false when the run failed (depth, time). */
bool jinja_equal(struct run *run, struct value a, struct value b, bool *out);
/* Sets *out to -1, 0 or 1, or to 2 for NaN, which has no order; false with an error when the
 * two kinds cannot be compared. */
bool jinja_order(struct run *run, const char *op, struct value a, struct value b, int *out);
bool jinja_contains(struct run *run, struct value container, struct value item, bool *out);
/* len(); fails like Python. */
bool jinja_length(struct run *run, struct value v, size_t *out);

struct dict *jinja_dict_new(struct run *run, size_t expected);
/* False when the run failed: no memory, or an unhashable key. */
bool jinja_dict_set(struct run *run, struct dict *dict, struct value key, struct value value);
bool jinja_dict_get(struct run *run, const struct dict *dict, struct value key,
                    const struct value **out); /* *out NULL: absent */
const struct value *jinja_dict_find(const struct dict *dict, struct lr_str key);
/* The same for a text, whose hash is cached. */
const struct value *jinja_dict_find_text(const struct dict *dict, struct value key);

struct list *jinja_list_new(struct run *run, size_t capacity);
bool jinja_list_push(struct run *run, struct list *list, struct value v);
struct value jinja_list_concat(struct run *run, enum kind kind, const struct list *a,
                               const struct list *b);
struct value jinja_tuple2(struct run *run, struct value a, struct value b);

#endif
