/* jinja/text_ops.h - shared by filters and methods of text.  Spans of trust are kept. */
#ifndef JINJA_TEXT_OPS_H
#define JINJA_TEXT_OPS_H

#include "jinja/run.h"

enum {
    STRIP_LEFT = 1,
    STRIP_RIGHT = 2,
};

/* chars NULL: white space. */
struct text *jinja_strip(struct run *run, struct text *t, const struct text *chars,
                         unsigned sides);
/* At most `count` replacements; negative: all. */
struct text *jinja_replace(struct run *run, struct text *t, struct text *from, struct text *to,
                           int64_t count);
/* HTML-escaped, as markup; markup is not escaped again. */
struct text *jinja_escape(struct run *run, struct value v);

enum pad {
    PAD_LEFT_SIDE,
    PAD_RIGHT_SIDE,
    PAD_BOTH,
};
struct text *jinja_pad(struct run *run, struct text *t, int64_t width, enum pad pad,
                       struct lr_str fill);

/* Iterates over lines like str.splitlines; end excludes the line break, next is after it. */
struct line {
    size_t start, end, next;
};
bool jinja_next_line(const struct text *t, struct line *line);

#endif
