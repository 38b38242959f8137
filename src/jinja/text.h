/* jinja/text.h - creating, slicing and building texts.
 *
 * All output goes through one stack of bytes in the run, the sink.  The template's output is at
 * the bottom.  Code that builds a text (a macro call, join, tojson) marks the top, writes, and
 * takes everything above the mark.  Marks nest.
 */
#ifndef JINJA_TEXT_H
#define JINJA_TEXT_H

#include "base/buf.h"
#include "jinja/value.h"

struct sink {
    struct lr_buf bytes;
    struct span *spans; /* owned; starts are offsets into bytes */
    size_t span_count, span_capacity;
};

struct mark {
    size_t bytes, spans;
};

/* NULL means the run failed. */
struct text *jinja_text_slice(struct run *run, struct lr_str s, bool trusted); /* borrows s */
struct text *jinja_text_copy(struct run *run, struct lr_str s, bool trusted);
struct text *jinja_text_z(struct run *run, const char *literal); /* trusted */
/* A part of t, bytes [from, to); the trust of each byte is kept. */
struct text *jinja_text_sub(struct run *run, const struct text *t, size_t from, size_t to);
struct text *jinja_text_concat(struct run *run, struct text *a, const struct text *b);
/* A text with or without the mark of `safe`; t itself if it already has or lacks the mark. */
struct text *jinja_with_markup(struct run *run, struct text *t, bool markup);
size_t jinja_text_chars(struct text *t);
uint32_t jinja_text_hash(struct text *t);
bool jinja_text_is_ascii(struct text *t);
static inline bool jinja_text_eq(const struct text *a, const struct text *b)
{
    return a->len == b->len && (a->ptr == b->ptr || memcmp(a->ptr, b->ptr, a->len) == 0);
}
/* Byte offset of code point `index` (0..chars). */
size_t jinja_text_offset(struct text *t, size_t index);

/* Finds in time linear in both texts; LR_STR_NONE when absent. */
size_t jinja_find(struct lr_str s, struct lr_str part);
/* Finds non-overlapping occurrences from right to left: *at starts at s.len and moves left.
 * False when there are no more, or the run failed. */
struct backwards {
    struct lr_str s, part;
    char *reversed; /* both texts reversed, for long parts; else NULL */
    size_t at;      /* everything from here on is done */
};
bool jinja_backwards(struct run *run, struct lr_str s, struct lr_str part,
                     struct backwards *out);
bool jinja_find_before(struct backwards *b); /* b->at is where it starts */

/* A cache of short texts that occur often: one text for each hash.  Two texts with the same
 * bytes at the same address are equal without comparing bytes. */
enum { TEXT_TABLE_SLOTS = 256, TEXT_TABLE_LONGEST = 24 };

struct text_table {
    struct text *slots[TEXT_TABLE_SLOTS];
};

/* The slot of a text with these bytes; NULL for a text that is too long. */
static inline struct text **text_table_slot(struct text_table *table, struct lr_str s)
{
    if (s.len == 0 || s.len > TEXT_TABLE_LONGEST)
        return NULL;
    uint32_t hash = (uint32_t)s.len * 31 + (unsigned char)s.ptr[0];
    hash = hash * 31 + (unsigned char)s.ptr[s.len / 2];
    hash = hash * 31 + (unsigned char)s.ptr[s.len - 1];
    return &table->slots[hash % TEXT_TABLE_SLOTS];
}

/* Calls visit for each run of equal trust in bytes [from, to) of t, in order. */
void jinja_text_runs(const struct text *t, size_t from, size_t to,
                     void (*visit)(void *ctx, struct lr_str part, bool trusted), void *ctx);

/* ---- writing to the sink ---- */
struct mark jinja_mark(const struct run *run);
struct text *jinja_take(struct run *run, struct mark mark);
/* The same, as one text that is trusted only if all its parts are. */
struct text *jinja_take_whole(struct run *run, struct mark mark);
void jinja_drop(struct run *run, struct mark mark);
void jinja_write(struct run *run, struct lr_str s, bool trusted);
void jinja_write_z(struct run *run, const char *literal, bool trusted);
void jinja_write_text(struct run *run, const struct text *t);
void jinja_write_part(struct run *run, const struct text *t, size_t from, size_t to);
/* str(v), written.  False when the run failed. */
bool jinja_write_value(struct run *run, struct value v);
bool jinja_write_repr(struct run *run, struct value v);

/* ---- print.c ---- */
struct text *jinja_str(struct run *run, struct value v); /* str(v): never markup */
/* The same, but a text is returned unchanged, markup or not. */
struct text *jinja_soft_str(struct run *run, struct value v);
struct text *jinja_repr(struct run *run, struct value v); /* repr(v) */
enum { JINJA_FLOAT_CHARS = 40 };
size_t jinja_float_repr(double d, char out[JINJA_FLOAT_CHARS]);

#endif
