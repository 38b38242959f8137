/* tests/unit/jinja/row.h - a template, and what Jinja2 3.1.6 makes of it in the environment
 * that Hugging Face sets up.
 */
#ifndef JINJA_ROW_H
#define JINJA_ROW_H

#include <stddef.h>

struct row {
    const char *source;
    const char *expected; /* NULL: an error */
};

#endif
