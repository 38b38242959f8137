/* The dialects by their names, for tests. */
#ifndef TESTS_UNIT_CHAT_DIALECTS_H
#define TESTS_UNIT_CHAT_DIALECTS_H

#include <stdlib.h>

#include "chat/dialect/dialect.h"

static inline struct chat_dialect dialect_of(enum grammar_format format)
{
    struct chat_dialect dialect;
    if (!chat_dialect_named(lr_str_z(grammar_format_name(format)), LR_STR_LIT("<think>"),
                            &dialect))
        abort();
    return dialect;
}

#endif
