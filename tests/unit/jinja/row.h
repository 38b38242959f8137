/* tests/unit/jinja/row.h - a template, and its rendering by Jinja2 3.1.6 in the environment
 * that Hugging Face sets up. */
#ifndef JINJA_ROW_H
#define JINJA_ROW_H

#include <stddef.h>

struct row {
    const char *source;
    const char *expected; /* NULL: an error */
};

#endif
