/* jinja/text_case.h - kinds of change for jinja_change_case. */
#ifndef JINJA_TEXT_CASE_H
#define JINJA_TEXT_CASE_H

#include "jinja/run.h"

enum change {
    CHANGE_LOWER,
    CHANGE_UPPER,
    CHANGE_CAPITALIZE,
    CHANGE_TITLE,
    CHANGE_SWAP,
    CHANGE_FOLD,
};

/* Writes bytes [from, to) of t to the sink, changed. */
void jinja_write_case(struct run *run, const struct text *t, size_t from, size_t to,
                      uint8_t kind);

#endif
